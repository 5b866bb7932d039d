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

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Outbox is the state of all pending writes: their order and their retries. It is a state
// machine that sends nothing and reads no clock, so a simulation can run it unchanged.
// The sender takes requests with Next and delivers responses with Done. After every call,
// Take returns the results. Only one goroutine at a time may use it.
type Outbox struct {
	config    OutboxConfig
	backlog   backlog
	reports   reports // statuses and events
	later     timeline
	bindings  map[types.UID]*binding  // unfinished, by pod
	evictions map[types.UID]*eviction // unfinished, by victim
	effects   map[effectKey]*effect   // unfinished
	// Invariant: latest has the effects whose writes are Latest, by object.
	latest    map[objectKey]*effect
	decided   uint64                // bindings, preemptions and effects so far.
	pods      map[types.UID]*writes // pods with a queued or in-flight status.
	series    map[eventKey]*event   // events that may repeat
	kept      list.List             // series without a pending write, longest idle first.
	lastEvent time.Time             // time of the last event
	// written has the last written status of pods whose watch event may be pending.
	written map[types.UID]written
	writes  lane[expiry]        // the same, oldest first
	opened  int                 // unfinished bindings with a request sent
	calls   map[uint64]*binding // bindings with a running call, by order
	// permits are the bindings at Permit or on their way there, as *AtPermit, by order.
	permits list.List
	delayed int   // statuses and events on the timeline
	stopped error // why no more bindings start
	// unknown: a write that ended with the process may still be stored.
	unknown bool
	ended   Ended
	stats   Stats
}

// OutboxConfig configures an Outbox.
type OutboxConfig struct {
	// Binder returns the Bind plugin of a scheduler name.
	Binder func(schedulerName string) *plugin.Bind
	// Budget limits the statuses and events that are sent.
	Budget Budget
	// MaxReports limits queued statuses, normal events and warnings, each; beyond it the
	// oldest are dropped. MaxSeries limits the series kept; beyond it the series that has
	// been idle longest ends.
	MaxReports, MaxSeries int
	// Pause is the pause of statuses and events after the API server could not be
	// reached.
	Pause time.Duration
	// Announce writes the chosen node as the pod's nominated node if plugins wait at
	// Permit or have work at PreBind.
	Announce bool
	// Jitter spreads waits, so that writes that failed together are not retried together.
	Jitter func(wait time.Duration) time.Duration
}

// Stats counts the work done. Questions are reads of a pod's node after an unanswered
// binding or for an eviction. Evicted are victims that were deleted, or whose binding was
// cancelled. EventsRepeated are repetitions counted in a series. StatusesDropped and
// EventsDropped were not written because too many waited or time ran out. Looked is the
// cost of finding the next request: comparisons of bindings and times, and entries
// visited one by one.
type Stats struct {
	Bound, BindingsFailed, Questions int64
	Evicted, EvictionsFailed         int64
	Statuses, StatusesFailed         int64
	StatusesDropped                  int64
	Events, EventsFailed             int64
	EventsRepeated, EventsDropped    int64
	Looked                           int64
}

// RequestKind is the purpose of a request.
type RequestKind uint8

// The kinds of request.
const (
	// Bind binds the pod to the node.
	Bind RequestKind = iota
	// Ask reads which node the pod is bound to.
	Ask
	// WriteStep sends the write of a step or a decision, UndoStep the write that undoes
	// it.
	WriteStep
	UndoStep
	// RunCall runs the call of a step, UndoCall the call that undoes it. Take returns
	// these, not Next.
	RunCall
	UndoCall
	// Mark writes the condition DisruptionTarget of a victim, Delete deletes the victim.
	Mark
	Delete
	// Patch writes the condition and the nomination.
	Patch
	// Record creates the event.
	Record
	// Repeat writes the count of a repeated event and the time of the last repetition.
	Repeat
	// Read reads the object of a write to find out its outcome, or whether IfAbsent
	// holds.
	Read
)

var requestNames = [...]string{"bind", "ask", "write", "undo", "call", "undo call", "mark", "delete", "patch", "record", "repeat", "read"}

// String returns the kind in a word.
func (k RequestKind) String() string { return requestNames[k] }

// Request is one request to be sent. The kinds after a field are the kinds that set it.
type Request struct {
	Kind     RequestKind
	Pod      *model.Pod  // all but Record and Repeat; for an eviction, the victim
	NodeName string      // Bind, Ask, Mark, Delete, RunCall, UndoCall
	Binding  *v1.Binding // Bind
	Write    *plan.Write // WriteStep, UndoStep, Read
	Call     Call        // RunCall, UndoCall
	Plugin   string      // RunCall, UndoCall
	Stage    plan.Stage  // RunCall, UndoCall
	// Order identifies the binding, as in Canceled.
	Order uint64 // RunCall, UndoCall
	// Preemptor is the pod for which the victim was first to be evicted.
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
	probe    bool            // tests whether the API server answers again
	context  context.Context // of a call
	nth      int             // number of the call within the binding
}

// Key returns the namespace and name of the request's pod.
func (r *Request) Key() model.PodKey {
	if r.Pod == nil {
		return r.Series.Subject.Key()
	}
	return r.Pod.Key()
}

// Response is the result of a request.
type Response struct {
	// NodeName is the node that the pod is bound to, for Ask.
	NodeName string
	Err      error
	// Object is the object that Read, or a write with Learn, returned. The loop must get
	// it before the outbox gets the response.
	Object kinds.Object
	// Call is the result of a call; Err is nil then.
	Call CallResult
}

// Ended has the results since the last call of Take.
type Ended struct {
	// Settled are bindings whose result is known.
	Settled []Settled
	// Evicted are victims that are being evicted. Preempted are preemptions whose
	// evictions have ended.
	Evicted   []Evicted
	Preempted []Preempted
	// Written are completed writes of decisions that release an object.
	Written []model.WriteResult
	// Stages are extension points passed or failed, of placements with steps.
	Stages []StageEnd
	// GivenUp are writes, apart from bindings, that will not be retried.
	GivenUp []GivenUp
	// Dropped counts, by kind, writes dropped because too many wait.
	Dropped [WriteKinds]int
	// Calls are to be run now, each on a goroutine of its own. Canceled are the bindings
	// whose context is to be cancelled after that.
	Calls    []Request
	Canceled []Canceled
}

// Canceled is a binding whose calls should end soon, or a completed binding.
type Canceled struct {
	// Order is the Order of its calls' requests.
	Order uint64
	Err   error
}

func (e *Ended) nothing() bool {
	return len(e.Settled) == 0 && len(e.Evicted) == 0 && len(e.Preempted) == 0 && len(e.Written) == 0 && len(e.Stages) == 0 && len(e.GivenUp) == 0 && len(e.Calls) == 0 && len(e.Canceled) == 0 &&
		e.Dropped == [WriteKinds]int{}
}

// Settled is a binding whose result is known.
type Settled struct {
	// QueuedPod is the pod with its queueing history.
	plan.QueuedPod
	Placement plan.Placement
	// Err is nil if the pod is bound.
	Err error
	// Rejected means that Err is a plugin's rejection and not a fault. Rejectors are the
	// plugins that rejected the pod at Permit and whose events wake it.
	Rejected  bool
	Rejectors []string

	seen *observation // nil if nothing was sent
}

// Result converts the binding's result to the form that the loop applies.
func (s *Settled) Result() model.BindingResult {
	return model.BindingResult{Pod: s.Placement.Pod, NodeName: s.Placement.NodeName, Err: s.Err, Rejectors: s.Rejectors}
}

// Evicted is a victim that was deleted, or whose binding was cancelled.
type Evicted struct {
	Victim, Preemptor *model.Pod
	NodeName          string
	// InMemory means that the victim's binding was cancelled.
	InMemory bool
}

// Preempted is a preemption whose evictions have ended.
type Preempted struct {
	Preemptor *model.Pod
	// Group is the preemptor's group, if the evictions were for the group.
	Group *model.PodGroup
	// Tree is the tree that the group belongs to; nil if none.
	Tree     *model.GroupTree
	NodeName string
	// Victims were not being deleted already. Kept are the victims that stay.
	Victims, Kept []*model.Pod
	// InMemory means that the last victim had not been bound.
	InMemory bool
	Took     time.Duration
	// Err is nil if no victim stays.
	Err error
}

// Result converts the preemption's result to the form that the loop applies.
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
	// Rejected means that Err is a plugin's rejection.
	Rejected bool
	// Waits are the completed waits at PreBind.
	Waits []WaitEnd
	// Plugins are the built-in plugins with steps at PreBind.
	Plugins []PluginEnd
}

// PluginEnd is the end of a plugin's steps, with its writes and waits. Err is the failure
// of the binding meanwhile, nil if the steps succeeded.
type PluginEnd struct {
	Plugin string
	Took   time.Duration
	Err    error
}

// WaitEnd is the end of a wait. Err is the failure of the binding during the wait, nil if
// the plugin allowed the pod.
type WaitEnd struct {
	Wait *plan.Wait
	Took time.Duration
	Err  error
}

// GivenUp is a write that will not be retried.
type GivenUp struct {
	Pod model.PodKey
	Err error
}

// NewOutbox builds an empty outbox.
func NewOutbox(config OutboxConfig) (*Outbox, error) {
	switch {
	case config.Binder == nil:
		return nil, fmt.Errorf("the Bind plugins are missing")
	case config.MaxReports <= 0:
		return nil, fmt.Errorf("limit of waiting statuses and events is %d: must be greater than 0", config.MaxReports)
	case config.MaxSeries <= 0:
		return nil, fmt.Errorf("limit of events that may repeat is %d: must be greater than 0", config.MaxSeries)
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

// Take returns the results since its last call. The caller owns them.
func (o *Outbox) Take() Ended {
	ended := o.ended
	o.ended = Ended{}
	return ended
}

// Start adds a decision. After Stop, its bindings and preemptions fail at once. A member
// that was not decided about has effects on other pods alone.
func (o *Outbox) Start(now time.Time, decision *plan.Decision) {
	pod, placed := decision.Pod, decision.Outcome == plan.Placed
	if placed {
		o.startBinding(now, decision)
	}
	o.startPreemption(now, decision)
	o.startEffects(decision)
	if decision.Deferral != nil {
		o.queueReport(now, pod, report.Deferred(pod, decision.Deferral))
	}
	reported := !placed && decision.Outcome != plan.Undecided
	if reported {
		o.queueReport(now, pod, report.Of(decision))
	}
	for _, nomination := range decision.Nominations {
		if !reported || nomination.Pod.UID != pod.UID {
			o.queueReport(now, nomination.Pod, report.Report{Nomination: nomination})
		}
	}
}

// Next takes the next request that can be sent now: of a binding, eviction or write of a
// decision, or else a status or event. With reportsFirst, statuses and events come first
// and the limit of all requests in flight does not apply: the caller has a worker
// reserved for them.
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

// Done delivers the response to a request.
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

// Due returns when the next delayed entry is due; ok is false if none is delayed.
func (o *Outbox) Due() (at time.Time, ok bool) {
	if len(o.later.entries) > 0 {
		at, ok = o.later.entries[0].at, true
	}
	if until, waits := o.reports.due(); waits && (!ok || until.Before(at)) {
		at, ok = until, true
	}
	return at, ok
}

// Waiting returns the number of bindings, evictions and writes of decisions in the
// backlog. Bindings that wait for something else are not counted.
func (o *Outbox) Waiting() int { return o.backlog.len() }

// Open returns the number of unfinished bindings with a request sent.
func (o *Outbox) Open() int { return o.opened }

// more reports whether a request waits for its turn and not for a time.
func (o *Outbox) more() bool { return o.backlog.len() > 0 || o.reports.waiting() > 0 }

// Empty reports whether nothing is queued or delayed and no call runs.
func (o *Outbox) Empty() bool {
	return len(o.calls) == 0 && !o.more() && len(o.later.entries) == 0
}

// Remembered returns the number of entries in memory, queued or recently written.
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

// Stop accepts no more bindings, evictions and writes of decisions. It ends those without
// a request in flight, in a deterministic order. Nothing is undone: time may be short,
// and the next process repeats the steps or finds them done. Requests in flight end with
// their next response, calls with their return.
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

// Unknown reports whether a write without a response at the stop may still be stored.
// Statuses and events do not count.
func (o *Outbox) Unknown() bool { return o.unknown }

// abandon drops the queued statuses and events and settles the bindings whose calls have
// not returned. Nothing is written afterwards.
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

// wakeUp queues the entries of the timeline that are due.
func (o *Outbox) wakeUp(now time.Time) {
	o.reports.wakeUp(now)
	for {
		e, ok := o.later.next(now)
		switch {
		case !ok:
			return
		case e.binding != nil:
			o.onTimer(now, e.binding)
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

// giveUp records a write that will not be retried.
func (o *Outbox) giveUp(pod model.PodKey, err error) {
	o.ended.GivenUp = append(o.ended.GivenUp, GivenUp{pod, err})
}
