package commit

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/report"
)

// Outbox is everything that is to be written, in which order and when again. It is a state machine: it sends nothing and reads no
// clock, so a simulation runs it as it is. The sender takes one Request after another with Next and hands in each Response with Done. After
// every call, Take returns what has ended. One goroutine at a time uses it.
type Outbox struct {
	config    OutboxConfig
	backlog   backlog
	reports   reports // statuses and events
	later     timeline
	bindings  map[types.UID]*binding  // that have not ended, by pod
	evictions map[types.UID]*eviction // that have not ended, by victim
	effects   map[effectKey]*effect   // that have not ended
	// Invariant: latest are those of effects whose writes are Latest, by object.
	latest    map[objectKey]*effect
	decided   uint64                // bindings and preemptions so far
	pods      map[types.UID]*writes // pods with a status that waits or is being written
	series    map[eventKey]*event   // events that may repeat
	kept      list.List             // those of them that nothing is to be written of, by how long they have been idle
	lastEvent time.Time             // when the last event happened
	written   map[types.UID]written // the last status written, of pods that the watch may not have shown since
	writes    lane[expiry]          // the same, oldest first
	opened    int                   // bindings that something was sent for and that have not ended
	calls     map[uint64]*binding   // those whose call runs, by order
	permits   list.List             // those that are at Permit, or on their way there, as *AtPermit, by order
	delayed   int                   // statuses and events on the timeline
	stopped   error                 // why no binding is started any more
	unknown   bool                  // a write has ended with the process that may still be stored
	ended     Ended
	stats     Stats
}

// OutboxConfig is what an Outbox needs to be built.
type OutboxConfig struct {
	// Binder returns the Bind plugin of a scheduler name.
	Binder func(schedulerName string) plugin.Bind
	// Budget bounds the statuses and events that are sent.
	Budget Budget
	// ReportsMax is how many statuses may wait, and how many normal events and how many warnings, before the oldest are dropped. SeriesMax is how
	// many events that may repeat are kept; when there are more, the one that has not repeated for the longest time ends.
	ReportsMax, SeriesMax int
	// Pause is how long statuses and events wait after the API server could not be reached.
	Pause time.Duration
	// Announce makes the chosen node the pod's nominated one in the API where plugins wait at Permit or have something to do at PreBind.
	Announce bool
	// Jitter spreads waits, so that writes that failed together are not tried again together.
	Jitter func(wait time.Duration) time.Duration
}

// Stats counts what was done. Questions are those for the node of a pod whose binding was not answered. Evicted are victims that were deleted, or whose
// binding was cancelled. EventsRepeated are repetitions that were
// counted in an event's series, StatusesDropped and EventsDropped those that were not written because too many waited, or there was no time left.
// Looked is how much there was to look at to find out what comes next: comparisons of bindings and of times, and bindings, statuses and events that
// were looked at one by one.
type Stats struct {
	Bound, BindingsFailed, Questions int64
	Evicted, EvictionsFailed         int64
	Statuses, StatusesFailed         int64
	StatusesDropped                  int64
	Events, EventsFailed             int64
	EventsRepeated, EventsDropped    int64
	Looked                           int64
}

// RequestKind says what a request is for.
type RequestKind uint8

// The kinds of request.
const (
	// Bind binds the pod to the node.
	Bind RequestKind = iota
	// Ask asks which node the pod is bound to.
	Ask
	// WriteStep sends the write of a step, or of a decision, UndoStep the write that undoes it.
	WriteStep
	UndoStep
	// RunCall runs the call of a step, UndoCall the call that undoes it. They do not come from Next: Take has them.
	RunCall
	UndoCall
	// Mark writes the condition that says of a victim that it is being preempted, Delete deletes it.
	Mark
	Delete
	// Patch writes the condition and the nomination.
	Patch
	// Record creates the event.
	Record
	// Repeat writes how often the event has happened, and when last.
	Repeat
	// Read reads the object that such a write is about, which was refused.
	Read
)

var requestNames = [...]string{"bind", "ask", "write", "undo", "call", "undo call", "mark", "delete", "patch", "record", "repeat", "read"}

// String returns the kind in a word.
func (k RequestKind) String() string { return requestNames[k] }

// Request is one request to be sent. Exactly the fields that its kind names are set, and Pod except of events.
type Request struct {
	Kind     RequestKind
	Pod      *model.Pod  // all but Record and Repeat; of an eviction, the victim
	NodeName string      // Bind, Ask, Mark, Delete, RunCall, UndoCall
	Binding  *v1.Binding // Bind
	Write    *plan.Write // WriteStep, UndoStep, Read
	Call     Call        // RunCall, UndoCall
	Plugin   string      // RunCall, UndoCall
	Stage    plan.Stage  // RunCall, UndoCall
	// Order is the number of the binding, by which Canceled names it.
	Order uint64 // RunCall, UndoCall
	// Preemptor is the pod that the victim had to make room for first.
	Preemptor *model.Pod // Mark, Delete, and Ask about a victim
	// Condition may be nil.
	Condition  *v1.PodCondition // Patch, Mark
	Nomination plan.Nomination  // Patch
	Series     report.Series    // Record, Repeat

	binding  *binding
	eviction *eviction
	effect   *effect
	status   *status
	event    *event
	probe    bool            // it finds out whether the API server answers again
	context  context.Context // of a call
	nth      int             // call of the binding
}

// Key returns the namespace and name of the pod that the request is about.
func (r *Request) Key() model.PodKey {
	if r.Pod == nil {
		return r.Series.Subject.Key()
	}
	return r.Pod.Key()
}

// Response is how a request ended.
type Response struct {
	// NodeName is the answer to the question which node the pod is bound to.
	NodeName string
	Err      error
	// Object is the answer to a write that is to be learned, and to the question for the object of a write. The loop must have it before the outbox has the
	// response.
	Object kinds.Object
	// Call is how a call ended; Err is nil then.
	Call CallResult
}

// Ended is what has ended since Take was last called.
type Ended struct {
	// Settled are bindings whose end is known.
	Settled []Settled
	// Evicted are victims that are on their way out, Preempted the preemptions whose evictions have ended.
	Evicted   []Evicted
	Preempted []Preempted
	// Written are writes of decisions that gave something back and have ended.
	Written []model.WriteResult
	// Stages are extension points that were passed or failed at, of placements with steps.
	Stages []StageEnd
	// GivenUp says what will not be tried again, apart from bindings.
	GivenUp []GivenUp
	// Dropped counts the writes by kind that were dropped because too many wait.
	Dropped [WriteKinds]int
	// Calls are to be run now, each on a goroutine of its own. Canceled are the bindings whose context is to end after that.
	Calls    []Request
	Canceled []Canceled
}

// Canceled is a binding whose calls should end soon, or one that is over.
type Canceled struct {
	// Order is that of its calls' requests.
	Order uint64
	Err   error
}

func (e *Ended) nothing() bool {
	return len(e.Settled) == 0 && len(e.Evicted) == 0 && len(e.Preempted) == 0 && len(e.Written) == 0 && len(e.Stages) == 0 && len(e.GivenUp) == 0 && len(e.Calls) == 0 && len(e.Canceled) == 0 &&
		e.Dropped == [WriteKinds]int{}
}

// Settled is a binding whose end is known.
type Settled struct {
	Placement plan.Placement
	// Err is nil if the pod is bound.
	Err error
	// Rejected means that Err is a plugin's "no" and nothing is broken. Rejectors are the plugins that rejected the pod in Permit, for which it is parked.
	Rejected  bool
	Rejectors []string

	seen *observation // nil if nothing was sent
}

// Result is what the loop takes in of it.
func (s *Settled) Result() model.BindingResult {
	return model.BindingResult{Pod: s.Placement.Pod, NodeName: s.Placement.NodeName, Err: s.Err, Rejectors: s.Rejectors}
}

// Evicted is a victim that was deleted, or whose binding was cancelled.
type Evicted struct {
	Victim, Preemptor *model.Pod
	NodeName          string
	// InMemory says that the victim's binding was cancelled.
	InMemory bool
}

// Preempted is a preemption whose evictions have ended.
type Preempted struct {
	Preemptor *model.Pod
	// Group is the preemptor's, if the evictions were for the group.
	Group *model.PodGroup
	// Tree is that which the group belongs to; nil if there is none.
	Tree     *model.GroupTree
	NodeName string
	// Victims are those that were not being deleted already, Kept those that stay.
	Victims, Kept []*model.Pod
	// InMemory says that the last victim had not been bound.
	InMemory bool
	Took     time.Duration
	// Err is nil if no victim stays.
	Err error
}

// Result is what the loop takes in of it.
func (p *Preempted) Result() model.PreemptionResult {
	result := model.PreemptionResult{Preemptor: p.Preemptor, Victims: p.Victims, Kept: p.Kept, InMemory: p.InMemory, Err: p.Err}
	if p.Tree != nil {
		result.Tree = p.Tree.Key()
	}
	return result
}

// StageEnd is one extension point that a binding has passed, or at which it failed.
type StageEnd struct {
	Pod   *model.Pod
	Stage plan.Stage
	Took  time.Duration
	Err   error
	// Rejected says that Err is the "no" of a plugin.
	Rejected bool
	// Waits are the waits at PreBind that have ended.
	Waits []WaitEnd
}

// WaitEnd is how a wait ended: Err is why the binding has failed in it, nil if the plugin allowed it.
type WaitEnd struct {
	Wait *plan.Wait
	Took time.Duration
	Err  error
}

// GivenUp is a write that will not be tried again.
type GivenUp struct {
	Pod model.PodKey
	Err error
}

// NewOutbox builds an empty outbox.
func NewOutbox(config OutboxConfig) (*Outbox, error) {
	switch {
	case config.Binder == nil:
		return nil, fmt.Errorf("the Bind plugins are missing")
	case config.ReportsMax <= 0:
		return nil, fmt.Errorf("limit of waiting statuses and events is %d: must be greater than 0", config.ReportsMax)
	case config.SeriesMax <= 0:
		return nil, fmt.Errorf("limit of events that may repeat is %d: must be greater than 0", config.SeriesMax)
	case config.Budget.InFlight <= 0 || config.Budget.EachInFlight <= 0:
		return nil, fmt.Errorf("statuses and events in flight are %d, of each kind %d: must be greater than 0", config.Budget.InFlight, config.Budget.EachInFlight)
	case config.Budget.PerSecond <= 0:
		return nil, fmt.Errorf("statuses and events per second are %d: must be greater than 0", config.Budget.PerSecond)
	case config.Pause <= 0:
		return nil, fmt.Errorf("pause of statuses and events is %v: must be greater than 0", config.Pause)
	case config.Jitter == nil:
		return nil, fmt.Errorf("jitter is missing")
	}
	return &Outbox{
		config: config, reports: newReports(config.Budget), bindings: map[types.UID]*binding{},
		calls: map[uint64]*binding{}, evictions: map[types.UID]*eviction{}, effects: map[effectKey]*effect{}, latest: map[objectKey]*effect{}, pods: map[types.UID]*writes{}, series: map[eventKey]*event{}, written: map[types.UID]written{},
	}, nil
}

// Take returns what has ended since it was last called. The caller owns it.
func (o *Outbox) Take() Ended {
	ended := o.ended
	o.ended = Ended{}
	return ended
}

// Start takes in a decision. A binding or a preemption that comes after the stop is answered at once.
func (o *Outbox) Start(now time.Time, decision *plan.Decision) {
	for i := range decision.Placements {
		o.startBinding(now, &decision.Placements[i], decision.NominationOf(decision.Placements[i].Pod))
	}
	o.startPreemption(now, decision)
	o.startEffects(decision)
	if decision.Deferral != nil {
		pod := decision.Pods[0].Pod
		o.queueReport(now, pod, report.Deferred(pod, decision.Deferral))
	}
	if decision.Outcome != plan.Placed {
		for i := range decision.Pods {
			pod := decision.Pods[i].Pod
			o.queueReport(now, pod, report.Of(decision, pod))
		}
	}
	for _, nomination := range decision.Nominations {
		if decision.Outcome == plan.Placed || !decision.IsAbout(nomination.Pod) {
			o.queueReport(now, nomination.Pod, report.Report{Nomination: nomination})
		}
	}
}

// Next takes the next request, if there is one at this time: of a binding, an eviction or a write of a decision, else a status or an event. With reportsFirst, these come before
// everything else, and beyond the limit of what may be in flight: the caller has a worker reserved for them.
func (o *Outbox) Next(now time.Time, reportsFirst bool) (Request, bool) {
	o.wakeUp(now)
	o.forget(now)
	o.endSeries(now)
	if reportsFirst {
		if request, ok := o.nextReport(now, true); ok {
			return request, true
		}
	}
	if o.backlog.len() > 0 {
		j := o.backlog.pop()
		switch {
		case j.eviction != nil:
			return o.takeEviction(j.eviction), true
		case j.effect != nil:
			return o.takeEffect(j.effect), true
		}
		o.reports.bound = now
		return o.takeBinding(j.binding), true
	}
	return o.nextReport(now, false)
}

// Done takes in how a request ended.
func (o *Outbox) Done(now time.Time, request Request, response Response) {
	if request.eviction != nil {
		o.evictionAnswered(now, request.eviction, response)
		return
	}
	if request.effect != nil {
		o.effectAnswered(now, request.effect, response)
		return
	}
	switch request.Kind {
	case Bind:
		o.bound(now, request.binding, response.Err)
	case Ask:
		o.answered(now, request.binding, response)
	case WriteStep:
		o.stepWritten(now, request.binding, response)
	case UndoStep:
		o.stepUndone(now, request.binding, response)
	case Read:
		if request.binding.phase == undoes {
			o.stepUndone(now, request.binding, response)
		} else {
			o.stepWritten(now, request.binding, response)
		}
	case RunCall, UndoCall:
		o.returned(now, &request, response.Call)
	case Patch:
		if request.binding != nil {
			o.announced(now, request.binding, response.Err)
			return
		}
		o.endReport(&request, response.Err)
		o.patched(now, request.status, response.Err)
	case Record, Repeat:
		o.endReport(&request, response.Err)
		o.recorded(now, &request, response.Err)
	}
}

// Due returns when the next thing that is to be sent and waits for a time is due; ok is false if nothing does.
func (o *Outbox) Due() (at time.Time, ok bool) {
	if len(o.later.entries) > 0 {
		at, ok = o.later.entries[0].at, true
	}
	if until, waits := o.reports.due(); waits && (!ok || until.Before(at)) {
		at, ok = until, true
	}
	return at, ok
}

// Waiting is how many bindings, evictions and writes of decisions wait to be sent. Those that wait for something else to happen are not among them.
func (o *Outbox) Waiting() int { return o.backlog.len() }

// Open is how many bindings something has been sent for that have not ended.
func (o *Outbox) Open() int { return o.opened }

// more reports whether something waits for its turn and not for a time.
func (o *Outbox) more() bool { return o.backlog.len() > 0 || o.reports.waiting() > 0 }

// Empty reports whether nothing waits to be sent, for its turn or for a time, and no call runs.
func (o *Outbox) Empty() bool {
	return len(o.calls) == 0 && !o.more() && len(o.later.entries) == 0
}

// Remembered is how many things are kept in memory, waiting or written of late.
func (o *Outbox) Remembered() int {
	return len(o.calls) + o.permits.Len() + o.backlog.len() + o.reports.waiting() + len(o.later.entries) + len(o.pods) + len(o.series) + len(o.written) +
		o.writes.len() + o.opened + len(o.bindings) + len(o.evictions) + len(o.effects) + len(o.ended.Settled) + len(o.ended.Evicted) + len(o.ended.Preempted) + len(o.ended.Written) +
		len(o.ended.Stages) + len(o.ended.GivenUp) + len(o.ended.Calls) + len(o.ended.Canceled)
}

// Stats returns the counts so far.
func (o *Outbox) Stats() Stats {
	stats := o.stats
	stats.Looked += o.backlog.compared + o.later.compared
	return stats
}

// Stop lets no more bindings, evictions and writes of decisions in and ends those that no request is under way for, in an order that is the same each time. Nothing is undone:
// there may be no time for it, and the next process makes the same steps again or finds them made. Those in flight end with
// their next answer, and those whose call runs when it has returned.
func (o *Outbox) Stop(now time.Time, reason error) {
	o.stopped = reason
	for o.backlog.len() > 0 {
		switch j := o.backlog.pop(); {
		case j.eviction != nil:
			o.endEviction(now, j.eviction, reason)
		case j.effect != nil:
			o.endEffect(j.effect, nil, false)
		default:
			o.settleStopped(now, j.binding)
		}
	}
	kept := timeline{planned: o.later.planned, compared: o.later.compared}
	for _, e := range o.later.entries {
		switch {
		case e.binding != nil:
			o.settleStopped(now, e.binding)
		case e.eviction != nil:
			o.endEviction(now, e.eviction, reason)
		case e.effect != nil:
			o.endEffect(e.effect, nil, false)
		default:
			kept.plan(e)
		}
	}
	o.later = kept
	for _, uid := range slices.Sorted(maps.Keys(o.pods)) {
		if p := o.pods[uid]; p.held != nil {
			o.settleStopped(now, p.held)
			p.held = nil
		}
	}
	o.stopCalls()
}

// Unknown reports whether a write that had no answer when the process stopped may still
// be stored, apart from statuses and events.
func (o *Outbox) Unknown() bool { return o.unknown }

// abandon drops the statuses and events that wait, and ends the bindings whose call has not returned; nothing will be written any more.
func (o *Outbox) abandon(now time.Time) {
	o.unknown = o.unknown || len(o.calls) > 0
	o.abandonCalls(now)
	o.stats.StatusesDropped += int64(o.reports.statuses.len())
	o.stats.EventsDropped += int64(o.reports.normal.len() + o.reports.warnings.len() + o.reports.repeats.len())
	for _, e := range o.later.entries {
		switch p := o.pods[e.pod]; {
		case e.event != nil:
			o.stats.EventsDropped++
		case p != nil && p.latest != nil:
			o.stats.StatusesDropped++
		}
	}
}

// wakeUp gives what waited for a time its turn.
func (o *Outbox) wakeUp(now time.Time) {
	o.reports.wakeUp(now)
	for {
		e, ok := o.later.next(now)
		switch {
		case !ok:
			return
		case e.binding != nil:
			o.timeCame(now, e.binding)
		case e.eviction != nil:
			o.sendEviction(e.eviction)
		case e.effect != nil:
			o.sendEffect(e.effect)
		case e.event != nil:
			o.delayed--
			o.queueEvent(e.event)
		default:
			o.delayed--
			o.pushStatus(e.pod)
		}
	}
}

// giveUp notes a write that will not be tried again.
func (o *Outbox) giveUp(pod model.PodKey, err error) {
	o.ended.GivenUp = append(o.ended.GivenUp, GivenUp{pod, err})
}
