package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// binding is the execution of a placement: the steps before the binding, the binding
// itself, and the steps after it. It ends as bound or failed. It fails only when the pod
// can no longer be bound to the node, because the loop then gives the node's resources to
// other pods.
//
// This file follows a binding from the decision to its end, top to bottom. The table of
// allowed phase changes is in phase.go.
type binding struct {
	queued    plan.QueuedPod
	placement plan.Placement
	order     uint64 // of the decision
	phase     phase
	place     place
	steps     *progress // nil for a placement without steps

	attempt // of the current request

	sent      bool // a request for the binding was sent
	nominated bool // the decision or the binding set the pod's nominated node
	position  int  // in the backlog while ready, on the timeline while pausing or waiting
	failure   failure
	// eviction waits until the binding has failed; nil if none.
	eviction *eviction
	seen     *observation
}

// attempt is the state of a request that is repeated until its outcome is known.
type attempt struct {
	tries     int // excluding throttled tries
	throttled int
	questions int  // consecutive reads without an answer
	asking    bool // the next request is a read
	// err is the error of the last try. open: a try may have been stored nevertheless; it
	// may still be stored until late.
	err  error
	open bool
	late time.Time
}

// progress is the state of a binding with steps.
type progress struct {
	began   time.Time // when the binding began
	entered time.Time // when the phase began
	step    int       // index of the current step; it decreases while undoing
	written bool      // the current step's write is stored, or its call succeeded
	// By step. allowed: its wait is over. begun: its write may be stored, or its call was
	// run.
	allowed, begun []bool
	seen           *observation // of the current step's write or call
	// awaits is when the wait of the current step at PreBind began; zero if it does not
	// wait.
	awaits time.Time
	waits  []WaitEnd // completed waits of the phase
	// plugin is the built-in plugin of the current step at PreBind, since then; "" if the
	// step belongs to no such plugin. plugins are those before it.
	plugin  string
	since   time.Time
	plugins []PluginEnd
	// late is until when a try of a learned write, or of a write that undoes it, may
	// still be stored.
	late time.Time
	// interrupted is the failure that takes effect once the request in flight is answered
	// or the call returns; nil if the binding continues.
	interrupted *failure

	// handed: a call binds the pod, or has tried to. bindFailure is the failure of that
	// call; nil if it has not failed.
	handed      bool
	bindFailure *failure
	works       bool // an out-of-tree PreBind plugin has work
	// announced: the node's nomination was queued for the binding. announcement is the
	// nomination, once the binding sends it itself.
	announced    bool
	announcement *status
	prebound     bool // the binding can no longer be cancelled at PreBind
	canceled     bool // cancelled through PodInPreBind
	called       bool // a call was run, so the binding has a context
	calls        int  // calls run so far, including undo calls
	permit       *AtPermit
}

// preFlight is the name in kube-scheduler of the extension point whose calls run at
// Reserve.
const preFlight = "PreBindPreFlight"

// failure is the reason why a binding does not happen.
type failure struct {
	err error
	// rejected: a plugin rejected the pod, which is not a fault. rejector is the plugin
	// whose events wake the pod; empty if the pod is retried after its backoff.
	rejected bool
	rejector string
}

// startBinding adds the placement of a decision.
func (o *Outbox) startBinding(now time.Time, decision *plan.Decision) {
	o.decided++
	placement := &decision.Placement
	b := &binding{queued: decision.QueuedPod, placement: *placement, order: o.decided, nominated: decision.NominationOf(decision.Pod).Mode == plan.Set}
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

// advance runs the steps of a binding up to the next request or wait. After the last step
// it sends the binding itself.
func (o *Outbox) advance(now time.Time, b *binding) {
	for b.stepsLeft() {
		step := b.step()
		if step.Stage == plan.PreBind && step.Call != nil && o.announces(b) {
			return
		}
		o.enter(now, b, phaseOf(step.Stage))
		b.turnTo(now, step)
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

// send queues the binding's next request in the backlog.
func (o *Outbox) send(b *binding) {
	b.place = ready
	o.backlog.push(b)
}

// pause queues the binding's next request at the given time.
func (o *Outbox) pause(b *binding, at time.Time) {
	b.place = pausing
	o.later.plan(entry{at: at, binding: b})
}

// await starts the wait of the current step. As in kube-scheduler, the timeouts of all
// Permit plugins begin when the binding begins.
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

// endWait records the end of the current step's wait at PreBind, if it has a wait. A wait
// that was allowed before it began took no time.
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

// firstTimeout returns the Permit step with the earliest timeout among the steps that are
// not yet allowed, and the time of that timeout.
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

// heldByStatus reports whether a status of the pod is being written; the binding is sent
// after that write. A queued status is dropped, because it describes a pod without a
// node.
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

// takeBinding returns the next request of a binding.
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
			b.steps.handed = false // the binding request is observed as a write
		}
	}
	return request
}

// onTimer handles the end of a pause, after which the next try is sent, or of a wait,
// which has timed out.
func (o *Outbox) onTimer(now time.Time, b *binding) {
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

// fail ends a binding that will not happen. Its steps are undone in reverse order, and
// then the loop gets the result.
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

// undo moves a failed binding back to the next step that must be undone.
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

// settle ends a binding and queues its result for the loop and the pod's status. After a
// successful binding, PostBind steps may follow.
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
	settled := Settled{QueuedPod: b.queued, Placement: b.placement, Err: f.err, Rejected: f.rejected, seen: b.seen}
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

// settleStopped ends a binding because the process stops.
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

// reportOf is the report about a failed binding. It also clears a nomination that the
// decision made, although the decided version of the pod does not show that nomination
// yet.
func (o *Outbox) reportOf(b *binding, f failure) report.Report {
	r := report.OfFailedBinding(&b.placement, f.err, f.rejected)
	if b.nominated {
		r.Nomination.Mode = plan.Clear
	}
	return r
}

// finish removes a completed binding.
func (o *Outbox) finish(b *binding) {
	b.move(over)
	o.unlistPermit(b)
	o.endContext(b, errOver)
	if o.bindings[b.placement.Pod.UID] == b {
		delete(o.bindings, b.placement.Pod.UID)
	}
}

// isBound continues after the API server has stored the binding: the loop gets the
// result, and the PostBind steps follow.
func (o *Outbox) isBound(now time.Time, b *binding) {
	o.settle(now, b, failure{})
	if b.steps == nil {
		o.finish(b)
		return
	}
	o.enter(now, b, postBinds)
	o.afterBinding(now, b)
}

// afterBinding sends the next write or runs the next call after the binding. Their
// results do not affect the pod.
func (o *Outbox) afterBinding(now time.Time, b *binding) {
	b.forgetRequest()
	for ; b.steps.step < len(b.placement.Steps); b.steps.step++ {
		switch step := b.step(); {
		// The remaining Bind plugins had no turn.
		case o.stopped != nil || step.Stage != plan.PostBind:
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

// stepsLeft reports whether steps remain before the binding.
func (b *binding) stepsLeft() bool {
	return b.steps != nil && b.steps.step < len(b.placement.Steps) && b.step().Stage < plan.Bind
}

// step returns the current step.
func (b *binding) step() *plan.Step { return &b.placement.Steps[b.steps.step] }

// write returns the current step's write, or the write that undoes the step; nil if none.
func (b *binding) write() *plan.Write {
	switch {
	case b.steps == nil || b.phase == binds || b.steps.step < 0 || b.steps.step >= len(b.placement.Steps):
		return nil
	case b.phase == undoes:
		return b.step().Undo
	}
	return b.step().Write
}

// mustLearn reports whether the binding must wait for the result of the current step's
// write. The write may have been stored, its object must reach the state before anything
// else (plan.Write.Learn), and the result is unknown. Until then the binding neither
// continues nor fails.
func (b *binding) mustLearn() bool {
	write := b.write()
	return write != nil && write.Learn && b.open
}

// broken is a failure of the current step, in kube-scheduler's words.
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

// rejection is a rejection by a plugin. kube-scheduler words it like the rejection of a
// single node.
func rejection(plugin, reason string) failure {
	return failure{err: errors.New(report.RejectionOf(reason)), rejected: true, rejector: plugin}
}

// forgetRequest resets the state for another request.
func (b *binding) forgetRequest() { b.attempt = attempt{} }

func (o *Outbox) binderOf(b *binding) *plugin.Bind {
	return o.config.Binder(b.placement.Pod.SchedulerName)
}

// checkSteps returns the first mistake in the steps of a placement, which is a fault of
// the plugin.
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
