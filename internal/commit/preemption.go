package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// preemption is the set of evictions of one decision. All victims but the last are
// evicted in parallel, and then the last: the pods that its end wakes must not find the
// other victims still present. If an eviction fails, the last victim is not evicted.
//
// This file follows a preemption from the decision to its end, top to bottom, and each
// victim within it; eviction.go sends the requests.
type preemption struct {
	preemptor *model.Pod
	// group is the preemptor's, if the evictions are for the group.
	group    *model.PodGroup
	tree     *model.GroupTree // that the group belongs to
	nodeName string
	order    uint64 // of the decision
	began    time.Time
	victims  []plan.Eviction
	open     int  // unfinished evictions among those begun or about to begin
	last     bool // the eviction of the last victim has begun
	// kept are victims that stay.
	kept     []*model.Pod
	inMemory bool // the last victim was not bound yet
	err      error
}

// eviction is the removal of one victim from its node. Several preemptions may share it:
// the pod is evicted once, and each preemption gets the result.
type eviction struct {
	victim   *model.Pod
	nodeName string
	// preemptor is the pod for which the victim was first to be evicted.
	preemptor *model.Pod
	group     *model.PodGroup  // if the eviction was for the preemptor's group
	tree      *model.GroupTree // that the group belongs to
	priority  int32            // the highest of all preemptors
	order     uint64           // of the first decision
	preempts  []*preemption
	phase     evictionPhase
	// place is ready, sending or pausing; nowhere while the victim's binding is being
	// cancelled.
	place    place
	position int  // in the backlog while ready
	canceled bool // the victim's binding was cancelled for the eviction

	// tries and throttled belong to the current request.
	tries, throttled int
	conflicts        int
	open             bool // an unanswered deletion may have happened
	seen             *observation
}

// evictionPhase is the progress of an eviction.
type evictionPhase uint8

const (
	begins  evictionPhase = iota
	cancels               // waits until the victim's unsent binding has ended
	asks                  // reads whether the victim exists and is bound
	marks                 // writes its condition
	deletes
	evicted
	evictionPhases
)

var evictionNames = [evictionPhases]string{"begins", "cancels", "asks", "marks", "deletes", "evicted"}

// String returns the phase in words.
func (p evictionPhase) String() string { return evictionNames[p] }

// evictionMoves are the allowed moves of an eviction. Any other move is a bug.
var evictionMoves = [evictionPhases][]evictionPhase{
	begins:  {cancels, asks, marks, deletes, evicted},
	cancels: {evicted},
	asks:    {marks, deletes, evicted},
	marks:   {asks, deletes, evicted},
	deletes: {asks, evicted},
}

func (e *eviction) move(to evictionPhase) {
	if !slices.Contains(evictionMoves[e.phase], to) {
		panic(fmt.Sprintf("commit: eviction of pod %s cannot go from %s to %s", e.victim, e.phase, to))
	}
	e.phase = to
}

// startPreemption adds the evictions of a decision. Pods that are being deleted already
// are skipped.
func (o *Outbox) startPreemption(now time.Time, decision *plan.Decision) {
	p := &preemption{began: now}
	for _, e := range decision.Evictions {
		if !e.Pod.Terminating {
			p.victims = append(p.victims, e)
		}
	}
	if len(p.victims) == 0 {
		return
	}
	o.decided++
	p.preemptor, p.group, p.tree, p.nodeName, p.order = decision.Pod, decision.Group, decision.Tree, p.victims[0].NodeName, o.decided
	others := p.victims[:len(p.victims)-1]
	p.open = len(others)
	for i := range others {
		o.evict(now, p, &others[i])
	}
	if len(others) == 0 {
		o.evictLast(now, p)
	}
}

// evictLast continues when the evictions of all victims but the last have ended.
func (o *Outbox) evictLast(now time.Time, p *preemption) {
	last := &p.victims[len(p.victims)-1]
	if p.err != nil {
		p.kept = append(p.kept, last.Pod)
		o.endPreemption(now, p)
		return
	}
	p.last, p.open = true, 1
	o.evict(now, p, last)
}

// evict begins the eviction of a victim, or joins a running one. If the API server cannot
// have our binding, the binding is cancelled; a pod that is bound, or may be, is deleted.
func (o *Outbox) evict(now time.Time, p *preemption, victim *plan.Eviction) {
	uid := victim.Pod.UID
	if e := o.evictions[uid]; e != nil {
		e.preempts = append(e.preempts, p)
		o.raise(e, p.preemptor.Priority)
		return
	}
	e := &eviction{
		victim: victim.Pod, nodeName: victim.NodeName, preemptor: p.preemptor, group: p.group, tree: p.tree, priority: p.preemptor.Priority, order: p.order, preempts: []*preemption{p},
	}
	o.evictions[uid] = e
	if o.stopped != nil {
		o.endEviction(now, e, o.stopped)
		return
	}
	switch b := o.bindings[uid]; {
	case o.unsentOf(uid) != nil:
		e.move(cancels)
		e.canceled, b.eviction = true, e
		o.interrupt(now, b, preempted(b))
	case b != nil && b.phase == undoes: // already failed, ends without help
		e.move(cancels)
		b.eviction = e
	case b == nil && victim.Pod.Object.Spec.NodeName == "":
		// Its binding has ended with a result that the decision did not have and the
		// watch has not shown.
		o.request(e, asks)
	default:
		o.mark(e)
	}
}

// preempted is the failure of an unsent binding whose pod is preempted, in
// kube-scheduler's words.
func preempted(b *binding) failure {
	why := errors.New("preempted by DefaultPreemption")
	switch {
	case b.stepsLeft() && b.step().Stage == plan.Permit:
		why = errors.New("waiting on permit for pod: preempted")
	case b.stepsLeft() && b.step().Stage != plan.Reserve:
		why = &plan.PluginError{Point: b.step().Stage.String(), Plugin: b.step().Plugin, Err: why}
	}
	return failure{err: why}
}

// bindingEnded continues an eviction that waited for the failure of a binding.
func (o *Outbox) bindingEnded(now time.Time, b *binding) {
	e := b.eviction
	if e == nil {
		return
	}
	b.eviction = nil
	o.leftMemory(now, e)
}

// leftMemory ends the eviction of a pod that was not bound.
func (o *Outbox) leftMemory(now time.Time, e *eviction) {
	for _, p := range e.preempts {
		if p.last {
			p.inMemory = true
		}
	}
	if e.canceled {
		o.preemptedEvent(now, e, true)
	}
	o.endEviction(now, e, nil)
}

// deleted ends the eviction of a pod that is being deleted for it.
func (o *Outbox) deleted(now time.Time, e *eviction) {
	o.preemptedEvent(now, e, false)
	o.endEviction(now, e, nil)
}

// preemptedEvent emits the victim's event. As in kube-scheduler, the preemptor's
// scheduler is the source.
func (o *Outbox) preemptedEvent(now time.Time, e *eviction, inMemory bool) {
	o.stats.Evicted++
	o.ended.Evicted = append(o.ended.Evicted, Evicted{Victim: e.victim, Preemptor: e.preemptor, NodeName: e.nodeName, InMemory: inMemory})
	subject := report.SubjectOf(e.victim)
	subject.SchedulerName = e.preemptor.SchedulerName
	what := report.OfEviction(e.preemptor, e.nodeName, inMemory)
	if e.group != nil {
		what = report.OfEvictionForGroup(e.group, e.tree, inMemory)
	}
	o.happenTo(now, subject, what)
}

// endEviction reports the result to the preemptions that wait for the victim.
func (o *Outbox) endEviction(now time.Time, e *eviction, err error) {
	e.move(evicted)
	e.place = nowhere
	o.unknown = o.unknown || o.stopped != nil && e.open && err != nil
	delete(o.evictions, e.victim.UID)
	if err != nil {
		o.stats.EvictionsFailed++
		err = fmt.Errorf("evict %s: %w", e.victim, err)
	}
	for _, p := range e.preempts {
		if err != nil {
			p.kept = append(p.kept, e.victim)
			if p.err == nil {
				p.err = err
			}
		}
		switch p.open--; {
		case p.open > 0:
		case p.last:
			o.endPreemption(now, p)
		default:
			o.evictLast(now, p)
		}
	}
}

// endPreemption queues the result for the loop.
func (o *Outbox) endPreemption(now time.Time, p *preemption) {
	ended := Preempted{
		Preemptor: p.preemptor, Group: p.group, Tree: p.tree, NodeName: p.nodeName, Kept: p.kept, InMemory: p.inMemory && p.err == nil, Took: now.Sub(p.began), Err: p.err,
	}
	for i := range p.victims {
		ended.Victims = append(ended.Victims, p.victims[i].Pod)
	}
	o.ended.Preempted = append(o.ended.Preempted, ended)
}

// disruption is the victim's condition with the reason for its deletion.
func (e *eviction) disruption() *v1.PodCondition {
	preemptor := "pod"
	if e.group != nil {
		preemptor = report.PreemptorOf(e.tree)
	}
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message:            e.preemptor.SchedulerName + ": preempting to accommodate a higher priority " + preemptor,
		ObservedGeneration: e.victim.Object.Generation,
	}
}

// isMarked reports whether the victim has that condition already.
func (e *eviction) isMarked() bool {
	want := e.disruption()
	return slices.ContainsFunc(e.victim.Object.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == want.Type && c.Status == want.Status && c.Reason == want.Reason && c.Message == want.Message &&
			c.ObservedGeneration == want.ObservedGeneration
	})
}
