package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// committer carries decisions out on the cluster's API objects. The real outbox
// determines the writes, their order and their retries. Requests and answers take virtual
// time, and none is processed during a round.
type committer struct {
	c        *Cluster
	life     int
	plugins  *process
	outbox   *commit.Outbox               // used under plugins.mu
	room     chan struct{}                // closed
	busy     [commit.DefaultInFlight]bool // by worker
	inFlight int
	wakes    time.Time // when the next pump is planned; in the past if none is
	ahead    bool      // the loop runs ahead: decided has the decisions of its present batch
	decided  []plan.Decision
	stopping bool                // the process ends once all writes are done
	calls    map[uint64]*running // by the order of their binding
	// contexts of the calls that are run, by the order of their binding
	contexts map[uint64]context.CancelCauseFunc
}

func newCommitter(c *Cluster, changes *ingest.Ingest) (*committer, error) {
	settings := commit.DefaultOutbox(c.config.Scheduler.Binder, c.chaos.jitter)
	settings.Announce = c.config.Scheduler.Announce
	outbox, err := commit.NewOutbox(settings)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	m := &committer{
		c: c, life: c.life, outbox: outbox, plugins: newProcess(c, changes, outbox), room: make(chan struct{}),
		calls: map[uint64]*running{}, contexts: map[uint64]context.CancelCauseFunc{},
	}
	close(m.room)
	return m, nil
}

// Room returns a closed channel: the loop never waits.
func (m *committer) Room() <-chan struct{} { return m.room }

// Start accepts a decision. Its requests are sent after the round.
func (m *committer) Start(d plan.Decision) {
	if m.ahead {
		m.decided = append(m.decided, d)
		return
	}
	m.c.round.Decided, m.c.round.Decisions = true, append(m.c.round.Decisions, d)
	m.start(&d)
}

// start passes a decision to the outbox.
func (m *committer) start(d *plan.Decision) {
	m.c.record(d)
	if m.c.config.External != nil && d.Outcome == plan.Placed {
		m.c.config.External(&d.Placement)
	}
	m.use(func(o *commit.Outbox) { o.Start(m.c.now, d) })
	m.answerLater()
}

// Allow ends the wait of a plugin for a pod.
func (m *committer) Allow(pod types.UID, plugin string) {
	m.use(func(o *commit.Outbox) { o.Allow(m.c.now, pod, plugin) })
	m.answerLater()
}

// Reject ends the wait of a plugin for a pod with a rejection.
func (m *committer) Reject(pod types.UID, plugin string, reason error) {
	m.use(func(o *commit.Outbox) { o.Reject(m.c.now, pod, plugin, reason) })
	m.answerLater()
}

// Cancel fails a binding that has not been sent, and reports whether it could. It never
// can while the loop runs ahead; there the API server refuses such bindings.
func (m *committer) Cancel(pod types.UID, reason error) (canceled bool) {
	if m.ahead { // the loop's goroutine must not use the outbox of the other one
		return false
	}
	m.use(func(o *commit.Outbox) { canceled = o.Cancel(m.c.now, pod, reason) })
	m.answerLater()
	return canceled
}

// pump sends the requests that are ready, and plans the next pump.
func (m *committer) pump() {
	for m.inFlight < commit.DefaultInFlight {
		worker := slices.Index(m.busy[:], false)
		var request commit.Request
		var ok bool
		m.use(func(o *commit.Outbox) {
			request, ok = o.Next(m.c.now, commit.ReportsFirst(worker, commit.DefaultInFlight))
		})
		m.answerLater() // of waits that have timed out
		if !ok {
			break
		}
		m.busy[worker] = true
		m.inFlight++
		delay := m.c.chaos.upTo(m.c.chaos.MaxBindDelay)
		if request.Kind == commit.Bind {
			delay = m.c.chaos.bindDelay(request.Pod.Key())
		}
		m.c.agenda.plan(m.c.now.Add(delay), 0, func() { m.arrive(worker, request) })
	}
	var at time.Time
	var ok bool
	m.use(func(o *commit.Outbox) { at, ok = o.Due() })
	if ok && m.inFlight < commit.DefaultInFlight && (!m.wakes.After(m.c.now) || at.Before(m.wakes)) {
		m.wakes = at
		m.c.agenda.plan(at, m.life, func() {}) // an empty effect: a step always pumps
	}
}

// arrive carries out a request as the API server would, and plans the answer.
func (m *committer) arrive(worker int, request commit.Request) {
	c := m.c
	fault := c.faultOf(request)
	response, wait := commit.Response{Err: fault.refusal(request)}, time.Duration(0)
	switch {
	case fault == Late:
		c.agenda.plan(c.now.Add(c.chaos.upTo(maxLate)), 0, func() { c.carryOut(request) })
	case fault == TimedOut:
		wait = commit.DefaultTimeout
		if c.chaos.chance(50) {
			c.carryOut(request)
		}
	case fault == Internal && c.chaos.chance(50), fault == Lost:
		c.carryOut(request)
	case fault == NoFault:
		response = c.carryOut(request)
	}
	c.count(request, fault, response.Err)
	c.agenda.plan(c.now.Add(wait+c.chaos.upTo(c.chaos.MaxBindDelay)), m.life, func() { m.done(worker, request, response) })
}

// done passes a response to the outbox and the results to the loop. The loop receives the
// object of the response first.
func (m *committer) done(worker int, request commit.Request, response commit.Response) {
	m.busy[worker] = false
	m.inFlight--
	if response.Object != nil {
		m.c.happened["response: learned"]++
		m.c.deliver(Shown{Learned: response.Object})
	}
	m.use(func(o *commit.Outbox) { o.Done(m.c.now, request, response) })
	m.answer()
}

// stop ends the bindings without a request in flight. Statuses and events are still
// written for a while.
func (m *committer) stop(reason error) {
	m.stopping = true
	m.use(func(o *commit.Outbox) { o.Stop(m.c.now, reason) })
	m.answer()
}

// answerLater passes results to the loop before its next round, because none is processed
// during a round.
func (m *committer) answerLater() {
	if ended := m.take(); len(ended.Settled)+len(ended.Preempted)+len(ended.Written)+len(ended.Stages)+len(ended.Calls)+len(ended.Canceled) > 0 {
		m.c.agenda.plan(m.c.now, m.life, func() { m.hand(ended) })
	}
}

// answer passes results to the loop.
func (m *committer) answer() { m.hand(m.take()) }

// use locks the outbox for do, because plugins may use it concurrently.
func (m *committer) use(do func(o *commit.Outbox)) {
	m.plugins.mu.Lock()
	defer m.plugins.mu.Unlock()
	m.plugins.now = m.c.now
	do(m.outbox)
}

// take removes the results from the outbox.
func (m *committer) take() (ended commit.Ended) {
	m.use(func(o *commit.Outbox) { ended = o.Take() })
	return ended
}

func (m *committer) hand(ended commit.Ended) {
	for _, request := range ended.Calls {
		m.begin(request)
	}
	for _, canceled := range ended.Canceled {
		m.cancel(canceled)
	}
	for i := range ended.Settled {
		m.settle(&ended.Settled[i])
	}
	for i := range ended.Preempted {
		m.preempted(&ended.Preempted[i])
	}
	for i := range ended.Written {
		m.c.deliver(Shown{Written: &ended.Written[i]})
		m.c.happened["given back: ended"]++
	}
	for i := range ended.Stages {
		m.c.happened[fmt.Sprintf("%s: %s", ended.Stages[i].Stage, endOf(&ended.Stages[i]))]++
	}
}

// preempted passes the result of a preemption to the loop.
func (m *committer) preempted(p *commit.Preempted) {
	result := p.Result()
	m.c.deliver(Shown{Preempted: &result})
	switch {
	case p.Err != nil:
		m.c.happened["preemption: failed"]++
	case p.InMemory:
		m.c.happened["preemption: done, in memory"]++
	default:
		m.c.happened["preemption: done"]++
	}
}

func endOf(s *commit.StageEnd) string {
	switch {
	case s.Err == nil:
		return "passed"
	case s.Rejected:
		return "rejected"
	}
	return "failed"
}

// seriesEnd returns when the next series of events expires. ok is false if none will, or
// if all workers are busy.
func (m *committer) seriesEnd() (at time.Time, ok bool) {
	if m.inFlight == commit.DefaultInFlight {
		return time.Time{}, false
	}
	m.use(func(o *commit.Outbox) { at, ok = o.SeriesEnd() })
	return at, ok
}

// idle reports whether no request is in flight and no write is left.
func (m *committer) idle() bool {
	empty := false
	m.use(func(o *commit.Outbox) { empty = o.Empty() })
	return m.inFlight == 0 && empty
}

// settle passes the result of a binding to the loop.
func (m *committer) settle(settled *commit.Settled) {
	result := settled.Result()
	m.c.deliver(Shown{Bound: &result})
	if settled.Err != nil {
		m.c.recordFailure(settled)
	}
}

// record stores the decision about a pod.
func (c *Cluster) record(d *plan.Decision) {
	pod := d.Pod
	key := pod.Key()
	attempts := 1
	if before := c.verdictOf(key); before.UID == string(pod.UID) {
		attempts += before.Attempts
	}
	if c.config.Pods != nil && d.Outcome == plan.Placed {
		delete(c.verdicts, key)
		p := &d.Placement
		c.placed[key] = placedVerdict{uid: pod.UID, total: p.Total, nodes: p.Nodes, feasible: d.Feasible, attempts: attempts, changes: c.changes}
		return
	}
	verdict := Verdict{UID: string(pod.UID), Decision: *d, changes: c.changes, Attempts: attempts}
	if d.Outcome == plan.Placed {
		verdict.Placement = d.Placement
		verdict.Report = report.OfBinding(&verdict.Placement)
	} else {
		verdict.Report, verdict.message = report.Of(d), report.Message(d)
	}
	delete(c.placed, key)
	c.verdicts[key] = verdict
}

// verdictOf returns the last decision about a pod of that name, or the zero value.
func (c *Cluster) verdictOf(key model.PodKey) Verdict {
	if verdict, ok := c.verdicts[key]; ok {
		return verdict
	}
	if placed, ok := c.placed[key]; ok {
		return placed.verdict()
	}
	return Verdict{}
}

func (c *Cluster) recordFailure(s *commit.Settled) {
	key := s.Placement.Pod.Key()
	if verdict := c.verdictOf(key); verdict.UID == string(s.Placement.Pod.UID) {
		verdict.Report, verdict.message = report.OfFailedBinding(&s.Placement, s.Err, s.Rejected), s.Err.Error()
		verdict.Decision.Outcome, verdict.Decision.Err, verdict.Placement = plan.Failed, s.Err, plan.Placement{}
		if len(s.Rejectors) > 0 {
			verdict.Decision.Outcome, verdict.Decision.Err = plan.Unschedulable, nil
			verdict.Decision.Rejection = &plan.Rejection{Plugins: s.Rejectors}
		}
		delete(c.placed, key)
		c.verdicts[key] = verdict
	}
}

// carryOut executes a request as the API server does when nothing fails.
func (c *Cluster) carryOut(request commit.Request) commit.Response {
	switch request.Kind {
	case commit.Record:
		return commit.Response{Err: c.store.createEvent(&request.Series, c.now)}
	case commit.Repeat:
		return commit.Response{Err: c.store.patchEvent(&request.Series, c.now)}
	case commit.Bind:
		return c.bindPod(request)
	case commit.WriteStep, commit.UndoStep:
		return c.write(request.Write)
	case commit.Read:
		stored := c.store.about(request.Write)
		if stored == nil {
			return commit.Response{Err: apierrors.NewNotFound(request.Write.Resource.GroupResource(), request.Write.Name)}
		}
		return commit.Response{Object: c.answered(stored)}
	case commit.Ask:
		pod := c.store.pods[request.Key()]
		if pod == nil || pod.UID != request.Pod.UID {
			return podNotFound(request)
		}
		return commit.Response{NodeName: pod.Spec.NodeName}
	case commit.Delete:
		return c.deletePod(request)
	case commit.Patch, commit.Mark:
		return c.patchStatus(request)
	}
	return commit.Response{}
}

func podNotFound(request commit.Request) commit.Response {
	return commit.Response{Err: apierrors.NewNotFound(v1.Resource("pods"), request.Key().Name)}
}

// bindPod stores a binding.
func (c *Cluster) bindPod(request commit.Request) commit.Response {
	bound, err := c.store.bind(request.Key(), request.Binding.UID, request.Binding.Target.Name)
	if err != nil {
		return commit.Response{Err: err}
	}
	c.changes++
	if c.config.Pods == nil {
		c.round.Stored = append(c.round.Stored, bound)
	}
	c.show(bound)
	return commit.Response{}
}

// write executes the write of a plugin's step.
func (c *Cluster) write(w *plan.Write) commit.Response {
	c.volume.interfere(w)
	if w.Delete {
		ref, err := c.store.deletable(w)
		if err == nil {
			c.DeleteObject(ref)
		}
		return commit.Response{Err: err}
	}
	patched, err := c.store.patch(w)
	if err != nil {
		return commit.Response{Err: err}
	}
	if patched != nil {
		c.changes++
		c.show(patched)
	}
	if patched != nil && isOver(patched) {
		c.remove(refOf(patched))
		return commit.Response{}
	}
	if w.Learn {
		return commit.Response{Object: c.answered(c.store.about(w))}
	}
	return commit.Response{}
}

// patchStatus stores a pod's condition and nomination.
func (c *Cluster) patchStatus(request commit.Request) commit.Response {
	key := request.Key()
	if c.store.pods[key] == nil {
		return podNotFound(request)
	}
	condition := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse}
	if request.Condition != nil {
		condition = *request.Condition
	} else if have := report.ScheduledCondition(request.Pod.Object); have != nil {
		condition = *have
	}
	pod, ok := c.store.setCondition(key, request.Pod.UID, condition, request.Nomination)
	if !ok {
		return commit.Response{Err: apierrors.NewConflict(v1.Resource("pods"), key.Name, fmt.Errorf("the UID is another pod's"))}
	}
	c.show(pod)
	return commit.Response{}
}

// answered returns the scheduler's version of an object in an answer: a copy, trimmed as
// in watches.
func (c *Cluster) answered(stored kinds.Object) kinds.Object {
	object := stored.DeepCopyObject()
	if c.config.Trim {
		_, err := c.trim(object)
		must(err)
	}
	return object.(kinds.Object)
}
