// Package queue keeps the pods that wait for a node, and says whose turn it is.
//
// It takes state.Delta (pods that arrived, left or failed, and events that may help) and the engine's decisions; it gives
// plan.Work, one pod at a time. It owns every waiting pod: each is in exactly one place, and places change only along the
// table in place.go. It never looks at nodes, reads a clock (time is an argument) or talks to an API.
//
// The semantics are kube-scheduler's: order by priority and then by time of the last failure, exponential backoff in whole
// seconds, pods parked until an event that a rejecting plugin registered for.
package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// Rules are what the queue must know about a profile.
type Rules struct {
	// Gated returns why the pod must not be tried yet, and the plugin that says so; both empty if it may.
	Gated func(pod *model.Pod) (plugin, reason string)
	// Interests returns the registrations of the named plugin.
	Interests func(plugin string) []model.Interest
}

// Config is what a queue needs to be built.
type Config struct {
	// Rules by scheduler name.
	Rules map[string]Rules
	// BackoffInitial and BackoffMax bound the wait after a failed attempt.
	BackoffInitial, BackoffMax time.Duration
	// ParkedMax is how long a pod is parked before it is tried again although nothing happened.
	ParkedMax time.Duration
}

// Defaults of kube-scheduler.
const (
	DefaultBackoffInitial = time.Second
	DefaultBackoffMax     = 10 * time.Second
	DefaultParkedMax      = 5 * time.Minute
)

// parkedCheck is how often pods that are parked for too long are looked for.
const parkedCheck = 30 * time.Second

// Queue is the waiting pods. One goroutine uses it.
type Queue struct {
	config  Config
	entries map[model.PodKey]*entry
	active  heap
	backoff heap // rejected pods that back off; taken early when nothing else is there to do
	errored heap // pods whose attempt ended in an error; they always wait
	// parked holds the pods that each plugin rejected, so that an event finds those it can help.
	parked   map[string]map[*entry]struct{}
	counts   [places]int
	arrivals uint64
	checked  time.Time // when long-parked pods were last looked for
}

// entry is one waiting pod.
type entry struct {
	pod   *model.Pod
	place place
	index int    // in the heap of its place
	order uint64 // of arrival; tells pods of equal priority and time apart

	since      time.Time // of arrival, or of the last failed attempt
	ready      time.Time // when it first could be tried
	until      time.Time // end of the backoff
	flushed    time.Time // when it was last tried only because it was parked for long
	attempts   int
	rejections int // attempts that ended in a rejection
	errors     int // attempts in a row that ended in an error
	plugins    []string
}

// New builds a queue. Times and rules must make sense; config has checked what a person wrote.
func New(config Config) (*Queue, error) {
	switch {
	case config.BackoffInitial <= 0:
		return nil, fmt.Errorf("initial backoff %v: must be greater than 0", config.BackoffInitial)
	case config.BackoffMax < config.BackoffInitial:
		return nil, fmt.Errorf("maximal backoff %v: must not be less than the initial backoff %v", config.BackoffMax, config.BackoffInitial)
	case config.ParkedMax <= 0:
		return nil, fmt.Errorf("maximal time parked %v: must be greater than 0", config.ParkedMax)
	}
	return &Queue{
		config:  config,
		entries: map[model.PodKey]*entry{},
		active:  heap{less: byTurn},
		backoff: heap{less: byWindowThenTurn},
		errored: heap{less: byWindow},
		parked:  map[string]map[*entry]struct{}{},
	}, nil
}

// Wake takes in what happened: pods that came, went or failed to bind, and events that may help those that are parked.
func (q *Queue) Wake(now time.Time, delta state.Delta) {
	for _, f := range delta.Failed {
		q.fail(now, f.Pod)
	}
	for _, key := range delta.Left {
		if e := q.entries[key]; e != nil {
			q.drop(e)
		}
	}
	for _, pod := range delta.Arrived {
		q.arrive(now, pod)
	}
	for _, event := range delta.Events {
		q.wakeFor(now, event)
	}
}

// Pop returns the pod whose turn it is, if any is ready.
func (q *Queue) Pop(now time.Time) (plan.Work, bool) {
	q.flush(now)
	e := q.active.first()
	if e == nil {
		e = q.backoff.first()
	}
	if e == nil {
		return plan.Work{}, false
	}
	q.move(e, deciding)
	e.attempts++
	return plan.Work{Pod: e.pod, Attempt: e.attempts, Since: e.ready}, true
}

// Settle takes in the decision about the pod that was popped last.
func (q *Queue) Settle(now time.Time, d plan.Decision) {
	e := q.entries[d.Pod.Key()]
	if e == nil {
		return
	}
	switch {
	case d.Settled():
		q.move(e, binding)
	case d.Err == plan.ErrTerminating:
		q.drop(e)
	case d.Err != nil:
		q.fail(now, e.pod)
	default:
		e.since, e.errors = now, 0
		e.rejections++
		e.plugins = d.Rejection.Plugins
		e.until = q.backoffEnd(e)
		q.move(e, parked)
	}
}

// Next returns when the queue next has something to do without being told: the end of a backoff, or the check for pods
// parked too long. ok is false when nothing waits for a time.
func (q *Queue) Next() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if e := q.errored.first(); e != nil {
		earliest(e.until.Add(time.Second))
	}
	if q.counts[parked] > 0 {
		earliest(q.checked.Add(parkedCheck))
	}
	return at, ok
}

// Counts says how many pods wait, by place.
type Counts struct{ Active, BackingOff, Parked, Gated, Binding int }

// Counts returns how many pods wait where.
func (q *Queue) Counts() Counts {
	return Counts{
		Active:     q.counts[active],
		BackingOff: q.counts[backingOff] + q.counts[erring],
		Parked:     q.counts[parked],
		Gated:      q.counts[gated],
		Binding:    q.counts[binding],
	}
}

// PlaceOf says where a pod waits, in words; empty if it does not.
func (q *Queue) PlaceOf(key model.PodKey) string {
	if e := q.entries[key]; e != nil {
		return e.place.String()
	}
	return ""
}

func (q *Queue) arrive(now time.Time, pod *model.Pod) {
	e := q.entries[pod.Key()]
	if e != nil && e.pod.UID != pod.UID {
		q.drop(e)
		e = nil
	}
	if e != nil {
		q.update(now, e, pod)
		return
	}
	q.arrivals++
	e = &entry{pod: pod, since: now, order: q.arrivals}
	q.entries[pod.Key()] = e
	q.counts[arriving]++
	q.admit(now, e, active)
}

// update takes in a new version of a waiting pod. In a heap it keeps its time; parked, it is woken if the change may help.
func (q *Queue) update(now time.Time, e *entry, pod *model.Pod) {
	before := e.pod
	e.pod = pod
	switch e.place {
	case active, backingOff, erring:
		q.heapOf(e.place).fix(e)
	case gated:
		q.admit(now, e, active)
	case parked:
		for _, action := range model.PodUpdates(before, pod) {
			event := model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: before, Pod: pod}
			if q.helps(e, event) || before.Malformed != "" {
				q.wake(now, e)
				return
			}
		}
	}
}

// fail puts a pod back whose attempt ended in an error, be it in the decision or in the binding.
func (q *Queue) fail(now time.Time, pod *model.Pod) {
	e := q.entries[pod.Key()]
	if e == nil || e.pod.UID != pod.UID {
		return
	}
	e.pod = pod
	e.since, e.plugins = now, nil
	e.errors++
	e.until = q.backoffEnd(e)
	q.admit(now, e, erring)
}

// admit moves a pod to a place from which it can be popped, unless a gate holds it.
func (q *Queue) admit(now time.Time, e *entry, to place) {
	if plugin, _ := q.config.Rules[e.pod.SchedulerName].Gated(e.pod); plugin != "" {
		q.move(e, gated) // first: where it was parked is known by the plugins that rejected it
		e.plugins = []string{plugin}
		return
	}
	if to == active && e.ready.IsZero() {
		e.ready = now
	}
	q.move(e, to)
}

// wakeFor wakes the parked pods that the event can help: those that a plugin rejected which registered for it.
func (q *Queue) wakeFor(now time.Time, event model.Event) {
	if q.counts[parked] == 0 {
		return
	}
	var woken []*entry
	for plugin, waiting := range q.parked {
		if !q.concerns(plugin, event) {
			continue
		}
		for e := range waiting {
			if q.changesMind(plugin, e, event) {
				woken = append(woken, e)
			}
		}
	}
	// Where a pod goes does not depend on the others, so the order of waking cannot reach a decision.
	for _, e := range woken {
		if e.place == parked {
			q.wake(now, e)
		}
	}
}

// concerns reports whether the plugin registered for the event in any profile, before any pod is looked at.
func (q *Queue) concerns(plugin string, event model.Event) bool {
	for _, rules := range q.config.Rules {
		for _, i := range rules.Interests(plugin) {
			if i.Concerns(event) {
				return true
			}
		}
	}
	return false
}

// helps reports whether the event may change the mind of any plugin that rejected the pod.
func (q *Queue) helps(e *entry, event model.Event) bool {
	return slices.ContainsFunc(e.plugins, func(plugin string) bool { return q.changesMind(plugin, e, event) })
}

func (q *Queue) changesMind(plugin string, e *entry, event model.Event) bool {
	for _, i := range q.config.Rules[e.pod.SchedulerName].Interests(plugin) {
		if i.Helps(e.pod, event) {
			return true
		}
	}
	return false
}

// wake moves a parked pod to where it can be tried again, as soon as its backoff allows.
func (q *Queue) wake(now time.Time, e *entry) {
	if q.isBackingOff(e, now) {
		q.admit(now, e, backingOff)
		return
	}
	q.admit(now, e, active)
}

// flush moves pods whose backoff has ended, and those that have been parked for too long.
func (q *Queue) flush(now time.Time) {
	for _, h := range []*heap{&q.backoff, &q.errored} {
		for e := h.first(); e != nil && !q.isBackingOff(e, now); e = h.first() {
			q.move(e, active)
			if e.ready.IsZero() {
				e.ready = now
			}
		}
	}
	if now.Sub(q.checked) < parkedCheck {
		return
	}
	q.checked = now
	if q.counts[parked] == 0 {
		return
	}
	var late []*entry
	for _, waiting := range q.parked {
		for e := range waiting {
			if now.Sub(laterOf(e.since, e.flushed)) > q.config.ParkedMax {
				e.flushed = now // so that the next plugin that rejected the pod does not list it again
				late = append(late, e)
			}
		}
	}
	for _, e := range late {
		q.wake(now, e)
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// drop forgets a pod.
func (q *Queue) drop(e *entry) {
	q.move(e, gone)
	delete(q.entries, e.pod.Key())
}
