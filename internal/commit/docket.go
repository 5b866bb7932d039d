package commit

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// Docket is everything that is to be written, in which order and when again. It is a state machine: it sends nothing and reads no
// clock, so a simulation runs it as it is. Who sends takes one Job after another and tells how each ended. One goroutine at a time
// uses it.
type Docket struct {
	config   DocketConfig
	bindings lane[*binding]
	statuses lane[types.UID]
	events   lane[*event]
	later    timeline
	pods     map[types.UID]*writes // pods with a status that waits or is being written
	said     map[saying]*event     // events that wait
	written  map[types.UID]written // what was written last, of pods that the watch may not have shown since
	writes   lane[rewritten]       // the same, oldest first
	opened   int                   // bindings that were sent and are not settled
	telling  int                   // statuses and events being written
	delayed  int                   // events on the timeline
	paused   time.Time             // until then neither statuses nor events are sent: the API server could not be reached
	doubted  bool                  // it has not answered a status or an event since: they are sent one by one
	probing  bool                  // that one is on its way
	stopped  error                 // why no binding is started any more
	stats    Stats
}

// DocketConfig is what a Docket needs to be built.
type DocketConfig struct {
	// EventsMax is how many events may wait before the oldest are dropped, ReportsInFlight how many statuses and events together are
	// written at the same time, those apart that are taken before everything else.
	EventsMax, ReportsInFlight int
	// Pause is how long statuses and events wait after the API server could not be reached.
	Pause time.Duration
	// Jitter spreads waits, so that writes that failed together are not tried again together.
	Jitter func(wait time.Duration) time.Duration
}

// Stats counts what was done. Questions are those for the node of a pod whose binding was not answered. EventsMerged are repetitions that
// were counted in an event that still waited, EventsDropped those that were not written because too many waited, or there was no time
// left.
type Stats struct {
	Bound, BindingsFailed, Questions int64
	Statuses, StatusesFailed         int64
	Events, EventsFailed             int64
	EventsMerged, EventsDropped      int64
}

// Errand says what a job is for.
type Errand uint8

// The errands.
const (
	// Bind binds the pod to the node.
	Bind Errand = iota
	// Ask asks which node the pod is bound to.
	Ask
	// Patch writes the condition and the nomination.
	Patch
	// Record writes the event, as often as it happened.
	Record
)

var errandNames = [...]string{"bind", "ask", "patch", "record"}

// String returns the errand in a word.
func (e Errand) String() string { return errandNames[e] }

// Job is one request to be sent.
type Job struct {
	Errand   Errand
	Pod      *model.Pod
	NodeName string
	// Condition may be nil.
	Condition  *v1.PodCondition
	Nomination plan.Nomination
	Event      report.Event
	// Times is how often the event happened.
	Times int

	binding *binding
	status  *status
	event   *event
	probe   bool // whether the API server answers again
}

// Answer is how a job ended.
type Answer struct {
	// NodeName is the answer to a question.
	NodeName string
	Err      error
}

// Settled is a binding whose end is known.
type Settled struct {
	Placement plan.Placement
	// Err is nil if the pod is bound.
	Err error

	seen *observation // nil if no request was sent
}

// Result is what the loop takes in of it.
func (s *Settled) Result() model.BindingResult {
	return model.BindingResult{Pod: s.Placement.Pod, NodeName: s.Placement.NodeName, Err: s.Err}
}

// NewDocket builds an empty docket.
func NewDocket(config DocketConfig) (*Docket, error) {
	switch {
	case config.EventsMax <= 0:
		return nil, fmt.Errorf("limit of waiting events is %d: must be greater than 0", config.EventsMax)
	case config.ReportsInFlight <= 0:
		return nil, fmt.Errorf("statuses and events in flight is %d: must be greater than 0", config.ReportsInFlight)
	case config.Pause <= 0:
		return nil, fmt.Errorf("pause of statuses and events is %v: must be greater than 0", config.Pause)
	case config.Jitter == nil:
		return nil, fmt.Errorf("jitter is missing")
	}
	return &Docket{config: config, pods: map[types.UID]*writes{}, said: map[saying]*event{}, written: map[types.UID]written{}}, nil
}

// Start takes in a decision. It returns the bindings that are settled at once because they come after the stop.
func (d *Docket) Start(decision *plan.Decision) (settled []*Settled) {
	for i := range decision.Placements {
		b := &binding{placement: decision.Placements[i]}
		if d.stopped != nil {
			settled = append(settled, d.settle(b, d.stopped))
			continue
		}
		d.startBinding(b)
	}
	if decision.Outcome != plan.Placed {
		for i := range decision.Pods {
			pod := decision.Pods[i].Pod
			d.tell(pod, report.Of(decision, pod))
		}
	}
	for _, nomination := range decision.Nominations {
		if decision.Outcome == plan.Placed || !decision.IsAbout(nomination.Pod) {
			d.tell(nomination.Pod, report.Report{Nomination: nomination})
		}
	}
	return settled
}

// Next takes the next job, if there is one at this time: a binding or the question for one, else a status, else an event; events before
// everything else if the caller wants so, and then beyond the limit of what may be in flight: the caller has a worker set apart for them.
func (d *Docket) Next(now time.Time, eventsFirst bool) (Job, bool) {
	d.wakeUp(now)
	d.forget(now)
	mayTell := !now.Before(d.paused) && !(d.doubted && d.probing)
	switch {
	case eventsFirst && mayTell && d.events.len() > 0:
		return d.takeEvent(), true
	case d.bindings.len() > 0:
		return d.takeBinding(), true
	case !mayTell || d.telling >= d.config.ReportsInFlight:
		return Job{}, false
	}
	for d.statuses.len() > 0 {
		if s := d.takeStatus(d.statuses.pop()); s != nil {
			return d.sendReport(Job{Errand: Patch, Pod: s.pod, Condition: s.condition, Nomination: s.nomination, status: s}), true
		}
	}
	if d.events.len() > 0 {
		return d.takeEvent(), true
	}
	return Job{}, false
}

// Done takes in how a job ended. It returns the binding that is settled by that, if any, and why a status or event is given up.
func (d *Docket) Done(now time.Time, job Job, answer Answer) (settled *Settled, givenUp error) {
	switch job.Errand {
	case Bind:
		return d.bound(now, job.binding, answer.Err), nil
	case Ask:
		return d.answered(now, job.binding, answer), nil
	}
	d.endReport(job, answer.Err)
	if job.Errand == Patch {
		return nil, d.patched(now, job.status, answer.Err)
	}
	return nil, d.recorded(now, job.event, answer.Err)
}

// Due returns when the next job that waits for a time can be taken; ok is false if none waits for a time.
func (d *Docket) Due() (at time.Time, ok bool) {
	if len(d.later.entries) > 0 {
		at, ok = d.later.entries[0].at, true
	}
	if low := d.statuses.len() + d.events.len(); low > 0 && !d.paused.IsZero() && (!ok || d.paused.Before(at)) {
		at, ok = d.paused, true
	}
	return at, ok
}

// Waiting is how many bindings wait to be sent.
func (d *Docket) Waiting() int { return d.bindings.len() }

// Open is how many bindings have been sent and are not settled.
func (d *Docket) Open() int { return d.opened }

// more reports whether something waits for its turn and not for a time.
func (d *Docket) more() bool { return d.bindings.len()+d.statuses.len()+d.events.len() > 0 }

// Empty reports whether nothing waits, for its turn or for a time.
func (d *Docket) Empty() bool {
	return d.bindings.len()+d.statuses.len()+d.events.len()+len(d.later.entries) == 0
}

// Remembered is how many things are kept in memory, waiting or written of late.
func (d *Docket) Remembered() int {
	return d.bindings.len() + d.statuses.len() + d.events.len() + len(d.later.entries) + len(d.pods) + len(d.said) + len(d.written) +
		d.writes.len() + d.opened
}

// Stats returns the counts so far.
func (d *Docket) Stats() Stats { return d.stats }

// Stop lets no more bindings in and settles those that no request is under way for, in an order that is the same each time. Those in flight
// are settled by their next answer.
func (d *Docket) Stop(reason error) []*Settled {
	d.stopped = reason
	var settled []*Settled
	for d.bindings.len() > 0 {
		settled = append(settled, d.settle(d.bindings.pop(), reason))
	}
	for i := range d.later.entries {
		if b := d.later.entries[i].binding; b != nil {
			settled = append(settled, d.settle(b, reason))
		}
	}
	d.later.dropBindings()
	for _, uid := range slices.Sorted(maps.Keys(d.pods)) {
		if p := d.pods[uid]; p.held != nil {
			settled = append(settled, d.settle(p.held, reason))
			p.held = nil
		}
	}
	return settled
}

// abandon drops the events that wait; nothing will be written any more.
func (d *Docket) abandon() { d.stats.EventsDropped += int64(d.events.len()) }

// wakeUp gives what waited for a time its turn.
func (d *Docket) wakeUp(now time.Time) {
	if !d.paused.IsZero() && !now.Before(d.paused) {
		d.paused = time.Time{}
	}
	for len(d.later.entries) > 0 && !d.later.entries[0].at.After(now) {
		e := heap.Pop(&d.later).(entry)
		switch {
		case e.binding != nil:
			d.bindings.push(e.binding)
		case e.event != nil:
			d.delayed--
			d.startEvent(e.event)
		default:
			d.statuses.push(e.pod)
		}
	}
}

// timeline is what waits for a time: a binding, an event, or the status of a pod.
type timeline struct {
	entries []entry
	planned uint64
}

type entry struct {
	at      time.Time
	order   uint64
	binding *binding
	event   *event
	pod     types.UID // of a status
}

func (t *timeline) plan(e entry) {
	t.planned++
	e.order = t.planned
	heap.Push(t, e)
}

func (t *timeline) dropBindings() {
	kept := t.entries[:0]
	for _, e := range t.entries {
		if e.binding == nil {
			kept = append(kept, e)
		}
	}
	clear(t.entries[len(kept):])
	t.entries = kept
	heap.Init(t)
}

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (t *timeline) Len() int { return len(t.entries) }
func (t *timeline) Less(i, j int) bool {
	if a, b := t.entries[i], t.entries[j]; !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return t.entries[i].order < t.entries[j].order
}
func (t *timeline) Swap(i, j int) { t.entries[i], t.entries[j] = t.entries[j], t.entries[i] }
func (t *timeline) Push(x any)    { t.entries = append(t.entries, x.(entry)) }
func (t *timeline) Pop() any {
	last := len(t.entries) - 1
	e := t.entries[last]
	t.entries[last] = entry{}
	t.entries = t.entries[:last]
	return e
}
