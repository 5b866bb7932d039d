package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/report"
)

// binding is a placement that is carried out: its steps before the binding, the binding, its steps after it. It ends as bound, or as failed;
// and as failed only when the pod cannot be bound to the node any more, for its room is given to others then.
//
// This file is its way from the decision to its end, top to bottom; phase.go has the table of the moves that are allowed.
type binding struct {
	placement plan.Placement
	order     uint64 // of the decision
	phase     phase
	place     place
	steps     *progress // nil for a placement without steps

	attempt // at the request at hand

	sent      bool // something was sent for it
	nominated bool // the decision, or the binding, made its node the pod's nominated one
	position  int  // in the backlog while place is ready, on the timeline while it is pausing or waiting
	failure   failure
	// eviction waits until the binding has failed; nil if none does.
	eviction *eviction
	seen     *observation
}

// attempt is how far a request has come that is sent until it is known what became of it.
type attempt struct {
	tries     int // times it was sent, excluding those that were throttled
	throttled int
	questions int  // asked in a row without an answer
	asking    bool // the next request is a question
	// err is how the last try failed; open says whether one of them may have been stored all the same, and late until when one of
	// them may still be.
	err  error
	open bool
	late time.Time
}

// progress is how far a binding with steps has come.
type progress struct {
	began   time.Time // of the binding
	entered time.Time // of the phase
	step    int       // the present one; backwards while undoing
	written bool      // the present step's write is stored, or its call has succeeded
	// By step: allowed says that its wait is over, begun that its write may be stored, or its call was run.
	allowed, begun []bool
	seen           *observation // of the present step's write or call
	awaits         time.Time    // since when the present step at PreBind waits, zero if it does not
	waits          []WaitEnd    // of the phase
	late           time.Time    // until when a try of a write that is learned may still be stored, or of one that undoes it
	// interrupted is why the binding fails as soon as the request in flight is answered, or the call returns; nil if it goes on.
	interrupted *failure

	// handed says that a call binds the pod, or has tried to, and bindFailure how that failed; nil if it has not.
	handed      bool
	bindFailure *failure
	works       bool // a PreBind plugin from outside has something to do
	// announced means that the node's nomination was queued for the binding. announcement is the
	// nomination, once the binding sends it itself.
	announced    bool
	announcement *status
	prebound     bool // it cannot be cancelled at PreBind any more
	canceled     bool // it was, through PodInPreBind
	called       bool // a call was run, so there is a context
	calls        int  // that were run, those that undo included
	permit       *AtPermit
}

// preFlight is kube-scheduler's name of what is called at Reserve.
const preFlight = "PreBindPreFlight"

// failure is why a binding does not happen.
type failure struct {
	err error
	// rejected says that it is a plugin's "no" and nothing is broken. rejector is the plugin for which the pod is parked, if it is not tried again by itself.
	rejected bool
	rejector string
}

// startBinding takes in a placement.
func (o *Outbox) startBinding(now time.Time, placement *plan.Placement, nomination plan.Nomination) {
	o.decided++
	b := &binding{placement: *placement, order: o.decided, nominated: nomination.Mode == plan.Set}
	if o.stopped != nil {
		o.settleStopped(now, b)
		return
	}
	if len(placement.Steps) > 0 {
		n := len(placement.Steps)
		b.steps = &progress{began: now, entered: now, allowed: make([]bool, n), begun: make([]bool, n)}
	}
	o.bindings[placement.Pod.UID] = b
	if b.steps != nil {
		if err := checkSteps(placement.Steps); err != nil {
			o.refuseSteps(now, b, err)
			return
		}
		o.listPermit(b)
		if b.step().Stage != plan.Reserve {
			o.announce(now, b)
		}
	}
	o.advance(now, b)
}

// advance takes a binding through its steps to the next request or wait, and after the last step to the binding itself.
func (o *Outbox) advance(now time.Time, b *binding) {
	for b.stepsLeft() {
		step := b.step()
		if step.Stage == plan.PreBind && step.Call != nil && o.announces(b) {
			return
		}
		o.enter(now, b, phaseOf(step.Stage))
		switch {
		case b.steps.written:
		case step.Write != nil:
			o.send(b)
			return
		case step.Call != nil:
			o.call(b, RunCall)
			return
		}
		b.steps.begun[b.steps.step] = true
		if step.Wait != nil && !b.steps.allowed[b.steps.step] {
			if step.Wait.Event != nil {
				o.happen(now, b.placement.Pod, report.OfWait(step.Wait.Event))
			}
			o.await(now, b)
			return
		}
		b.endWait(now, nil)
		b.steps.step++
		b.steps.written = false
		if step.Stage == plan.Reserve && (!b.stepsLeft() || b.step().Stage != plan.Reserve) {
			o.announce(now, b)
		}
	}
	if b.phase < binds {
		o.enter(now, b, binds)
	}
	switch {
	case o.heldByStatus(b):
		b.place = held
	case b.callsBind():
		o.call(b, RunCall)
	case o.binderOf(b) == nil:
		o.fail(now, b, failure{err: o.nobodyBinds(b)})
	default:
		o.send(b)
	}
}

// send gives the binding's next request its turn.
func (o *Outbox) send(b *binding) {
	b.place = ready
	o.backlog.push(b)
}

// pause gives the binding's next request its turn at that time.
func (o *Outbox) pause(b *binding, at time.Time) {
	b.place = pausing
	o.later.plan(entry{at: at, binding: b})
}

// await lets the binding wait. All Permit plugins begin to wait when the binding starts, each with its own timeout, as in kube-scheduler.
func (o *Outbox) await(now time.Time, b *binding) {
	b.place = waiting
	until := now.Add(b.step().Wait.Timeout)
	if b.phase == permits {
		_, until = b.firstTimeout()
	}
	o.later.plan(entry{at: until, binding: b})
	if b.phase == preBinds {
		b.steps.awaits = now
	}
}

// endWait notes how the wait of the present step at PreBind has ended, if it has one. One that was allowed before it began took no time.
func (b *binding) endWait(now time.Time, err error) {
	step := b.step()
	if step.Wait == nil || step.Stage != plan.PreBind {
		return
	}
	end := WaitEnd{Wait: step.Wait, Err: err}
	if since := b.steps.awaits; !since.IsZero() {
		end.Took = now.Sub(since)
	}
	b.steps.awaits = time.Time{}
	b.steps.waits = append(b.steps.waits, end)
}

// firstTimeout returns the step at Permit whose timeout comes first, of those that are not allowed yet, and when it comes.
func (b *binding) firstTimeout() (first *plan.Step, at time.Time) {
	for i := b.steps.step; i < len(b.placement.Steps); i++ {
		step := &b.placement.Steps[i]
		if step.Stage != plan.Permit || step.Wait == nil || b.steps.allowed[i] {
			continue
		}
		if until := b.steps.began.Add(step.Wait.Timeout); first == nil || until.Before(at) {
			first, at = step, until
		}
	}
	return first, at
}

// heldByStatus reports whether a status of the pod is being written; the binding is sent when that has ended. A status that waits is dropped: it
// says that the pod has no node.
func (o *Outbox) heldByStatus(b *binding) bool {
	uid := b.placement.Pod.UID
	delete(o.written, uid)
	p := o.pods[uid]
	if p == nil {
		return false
	}
	p.latest = nil
	if p.writing == nil {
		return false
	}
	p.held = b
	return true
}

// takeBinding makes the request of the binding whose turn it is.
func (o *Outbox) takeBinding(b *binding) Request {
	b.place = sending
	if !b.sent {
		b.sent = true
		o.opened++
	}
	request := Request{Pod: b.placement.Pod, NodeName: b.placement.NodeName, binding: b}
	switch {
	case b.steps != nil && b.steps.announcement != nil:
		s := b.steps.announcement
		request.Kind, request.Condition, request.Nomination, request.status = Patch, s.condition, s.nomination, s
	case b.phase != binds && b.asking:
		request.Kind, request.Write = Read, b.write()
	case b.phase == undoes:
		request.Kind, request.Write = UndoStep, b.write()
	case b.phase != binds:
		request.Kind, request.Write = WriteStep, b.write()
	case b.asking:
		request.Kind = Ask
		o.stats.Questions++
	default:
		request.Kind, request.Binding = Bind, o.binderOf(b).Binding(b.placement.Pod, b.placement.NodeName)
		if b.steps != nil {
			b.steps.handed = false // what the binding takes is observed as a write
		}
	}
	return request
}

// timeCame takes in that what the binding paused or waited for has come: its next try, or the end of its patience.
func (o *Outbox) timeCame(now time.Time, b *binding) {
	if b.place == pausing {
		o.send(b)
		return
	}
	step := b.step()
	if b.phase == permits {
		step, _ = b.firstTimeout()
		o.fail(now, b, rejection(step.Plugin, fmt.Sprintf("rejected due to timeout after waiting %v at plugin %v", step.Wait.Timeout, step.Plugin)))
		return
	}
	err := step.Wait.Err
	if err == nil {
		err = fmt.Errorf("timed out after waiting %v", step.Wait.Timeout)
	}
	o.fail(now, b, b.broken(err))
}

// fail ends a binding that will not happen: what its steps have done is undone, the last first, and then the loop is answered.
func (o *Outbox) fail(now time.Time, b *binding, f failure) {
	b.failure = f
	if b.steps == nil {
		o.settle(now, b, f)
		return
	}
	b.steps.announcement = nil
	b.steps.step = min(b.steps.step, len(b.placement.Steps)-1)
	if !b.steps.awaits.IsZero() {
		b.endWait(now, f.err)
	}
	o.enter(now, b, undoes)
	o.undo(now, b)
}

// undo takes a binding that has failed back to the next step that has something to undo.
func (o *Outbox) undo(now time.Time, b *binding) {
	b.forgetRequest()
	for ; b.steps.step >= 0; b.steps.step-- {
		switch step := b.step(); {
		case !b.steps.begun[b.steps.step]:
		case step.Undo != nil:
			o.send(b)
			return
		case step.UndoCall != nil:
			o.call(b, UndoCall)
			return
		}
	}
	o.settle(now, b, b.failure)
}

// settle ends a binding: it answers the loop and the pod's owner. After a binding that succeeded there may be steps left.
func (o *Outbox) settle(now time.Time, b *binding, f failure) {
	if b.phase == postBinds { // answered before
		o.finish(b)
		return
	}
	if b.sent {
		o.opened--
	}
	if o.stopped != nil && (b.open && now.Before(b.late) || b.steps != nil && now.Before(b.steps.late)) {
		o.unknown = true
	}
	settled := Settled{Placement: b.placement, Err: f.err, Rejected: f.rejected, seen: b.seen}
	if f.rejector != "" {
		settled.Rejectors = []string{f.rejector}
	}
	o.ended.Settled = append(o.ended.Settled, settled)
	if f.err != nil {
		o.stats.BindingsFailed++
		if o.stopped == nil {
			o.queueReport(now, b.placement.Pod, o.reportOf(b, f))
		}
		o.finish(b)
		o.bindingEnded(now, b)
		return
	}
	o.stats.Bound++
	o.queueReport(now, b.placement.Pod, report.OfBinding(&b.placement))
}

// settleStopped ends a binding because the process ends.
func (o *Outbox) settleStopped(now time.Time, b *binding) {
	switch {
	case b.phase == undoes:
		o.settle(now, b, b.failure)
	case b.stepsLeft():
		o.settle(now, b, b.broken(o.stopped))
	default:
		o.settle(now, b, o.bindError(b, o.stopped))
	}
}

// reportOf is the report about a binding that failed. A nomination that the decision made ends with it, although the pod as it was
// decided about does not show it yet.
func (o *Outbox) reportOf(b *binding, f failure) report.Report {
	r := report.OfFailedBinding(&b.placement, f.err, f.rejected)
	if b.nominated {
		r.Nomination.Mode = plan.Clear
	}
	return r
}

// finish forgets a binding that is over.
func (o *Outbox) finish(b *binding) {
	b.move(over)
	o.unlistPermit(b)
	o.endContext(b, errOver)
	if o.bindings[b.placement.Pod.UID] == b {
		delete(o.bindings, b.placement.Pod.UID)
	}
}

// isBound goes on after the API server has stored the binding: the loop is answered, and the steps after it are made.
func (o *Outbox) isBound(now time.Time, b *binding) {
	o.settle(now, b, failure{})
	if b.steps == nil {
		o.finish(b)
		return
	}
	o.enter(now, b, postBinds)
	o.afterBinding(now, b)
}

// afterBinding sends the next write of the steps after the binding, or runs the next call. What becomes of them changes nothing for the pod.
func (o *Outbox) afterBinding(now time.Time, b *binding) {
	b.forgetRequest()
	for ; b.steps.step < len(b.placement.Steps); b.steps.step++ {
		switch step := b.step(); {
		case o.stopped != nil || step.Stage != plan.PostBind: // other Bind plugins, which had no turn
		case step.Write != nil:
			o.send(b)
			return
		case step.Call != nil:
			o.call(b, RunCall)
			return
		}
	}
	o.endStage(now, b, failure{})
	o.finish(b)
}

// stepsLeft reports whether there are steps to make before the binding.
func (b *binding) stepsLeft() bool {
	return b.steps != nil && b.steps.step < len(b.placement.Steps) && b.step().Stage < plan.Bind
}

// step is the present one.
func (b *binding) step() *plan.Step { return &b.placement.Steps[b.steps.step] }

// write is the one that is sent in the present step, or that undoes it; nil if there is none.
func (b *binding) write() *plan.Write {
	switch {
	case b.steps == nil || b.phase == binds || b.steps.step < 0 || b.steps.step >= len(b.placement.Steps):
		return nil
	case b.phase == undoes:
		return b.step().Undo
	}
	return b.step().Write
}

// mustLearn reports whether what the present step has written, or may have, is to be learned and is not known yet. Until then the binding neither goes on
// nor fails.
func (b *binding) mustLearn() bool {
	write := b.write()
	return write != nil && write.Learn && b.open
}

// broken is a failure of the present step, in kube-scheduler's words.
func (b *binding) broken(err error) failure {
	step := b.step()
	if b.place == waiting && step.Stage == plan.Permit {
		return failure{err: fmt.Errorf("waiting on permit for pod: %w", err)}
	}
	if step.Stage == plan.Reserve {
		return failure{err: &plan.PluginError{Point: preFlight, Plugin: step.Plugin, Err: err}}
	}
	return failure{err: &plan.PluginError{Point: step.Stage.String(), Plugin: step.Plugin, Err: err}}
}

// rejection is a failure that is a plugin's "no". kube-scheduler words it like the rejection of the one node in question.
func rejection(plugin, reason string) failure {
	return failure{err: errors.New(report.RejectionOf(reason)), rejected: true, rejector: plugin}
}

// forgetRequest makes the binding ready for another request.
func (b *binding) forgetRequest() { b.attempt = attempt{} }

func (o *Outbox) binderOf(b *binding) plugin.Bind {
	return o.config.Binder(b.placement.Pod.SchedulerName)
}

// checkSteps returns what is wrong with the steps of a placement: a plugin that made them is broken.
func checkSteps(steps []plan.Step) error {
	var waiters []string
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Stage == plan.Bind && s.Call == nil:
			return fmt.Errorf("plugin %q makes a step at Bind that is not a call; writes there belong to the Bind plugin", s.Plugin)
		case s.Stage == plan.Reserve && (s.Write != nil || s.Wait != nil):
			return fmt.Errorf("plugin %q writes or waits at Reserve, where only calls are run", s.Plugin)
		case s.Call != nil && s.Write != nil || s.UndoCall != nil && s.Undo != nil:
			return fmt.Errorf("plugin %q makes a step at %s with a call and a write: must have one of them", s.Plugin, s.Stage)
		case !isCall(s.Call) || !isCall(s.UndoCall):
			return fmt.Errorf("plugin %q makes a step at %s with calls of the types %T and %T: must be a commit.Call", s.Plugin, s.Stage, s.Call, s.UndoCall)
		case i > 0 && s.Stage < steps[i-1].Stage:
			return fmt.Errorf("plugin %q makes a step at %s after one at %s", s.Plugin, s.Stage, steps[i-1].Stage)
		case s.Wait == nil:
		case s.Stage > plan.Bind:
			return fmt.Errorf("plugin %q waits after the binding", s.Plugin)
		case s.Stage == plan.Bind:
			return fmt.Errorf("plugin %q waits at Bind: must do so in its call", s.Plugin)
		case s.Wait.Timeout <= 0:
			return fmt.Errorf("plugin %q waits for %v: must be greater than 0", s.Plugin, s.Wait.Timeout)
		case slices.Contains(waiters, s.Plugin):
			return fmt.Errorf("plugin %q waits twice", s.Plugin)
		default:
			waiters = append(waiters, s.Plugin)
		}
	}
	return nil
}
