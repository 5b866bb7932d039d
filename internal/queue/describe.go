package queue

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Description describes one waiting pod. The caller owns its slices.
type Description struct {
	Pod *model.Pod
	// Place is where the pod waits, in words. A member of a group waits at the place of
	// its group, unless the member itself is gated.
	Place string
	// Attempts counts its turns.
	Attempts int
	// Since is when its present wait began.
	Since time.Time
	// BackoffEnd is the second after which it may be tried; zero without a remaining
	// backoff.
	BackoffEnd time.Time
	// Rejectors are the plugins that rejected the pod, or the PreEnqueue plugin that
	// gates it. Pending are the Rejectors that answered Pending.
	Rejectors, Pending []string
	// WaitsFor has the events that the Rejectors registered, if an event can end the
	// wait.
	WaitsFor []WaitedFor
	// WokenBy is the end of its last wait.
	WokenBy plan.Woken
	// Leaving are the victims of its last attempt that are not gone yet.
	Leaving []types.UID
	// Ahead has the pods whose turn is before its own; nil unless the pod is active. It
	// is also nil if Unordered is set, because an out-of-tree plugin orders the queue.
	Ahead     *Ahead
	Unordered bool
	// Cost is the cost of its last turn, or of its group's, in units of about a
	// nanosecond; 0 if none was expensive. Yields means that other pods of its priority
	// go first, until they have had as much work as the expensive turns of its namespace.
	Cost   int64
	Yields bool
	// Group describes its group; nil for a single pod.
	Group *GroupDescription
}

// WaitedFor has the events that a plugin registered, by kube-scheduler's names.
type WaitedFor struct {
	Plugin string
	Events []string
}

// Ahead has the pods and groups whose turn is before a pod or its group.
type Ahead struct {
	// Pods is their number. If AtLeast is set, the search stopped at its limit and the
	// number may be higher.
	Pods    int
	AtLeast bool
	// Next are the first of the inspected pods, in order. A group counts as one.
	Next []model.PodKey
}

// GroupDescription describes the wait of a pod group or a tree.
type GroupDescription struct {
	Key model.GroupKey
	// Tree means that Key names a CompositePodGroup.
	Tree bool
	// Exists means that the PodGroup or the CompositePodGroup exists.
	Exists bool
	// MinCount is the number of members that must have a node, 0 for a tree. Waiting
	// counts the members that wait, Placed the members on nodes.
	MinCount, Waiting, Placed int
	// Gate is the PreEnqueue plugin that gates the group.
	Gate string
	// HeldCount counts the members that a PreEnqueue plugin gates. RejectedCount counts
	// the other members that plugins rejected in their last attempt. Held and Rejected
	// have the first of these, by name.
	HeldCount, RejectedCount int
	Held, Rejected           []Member
}

// Member is a member of a group, with the plugins that reject or gate it.
type Member struct {
	Key     model.PodKey
	Plugins []string
}

// The limits of a description: the number of inspected pods, at some 0.1 µs each, and the
// number of named pods.
const (
	maxDescribed = 20_000
	maxNamed     = 5
)

// ownSort is the name of the built-in QueueSort plugin. Any other is out-of-tree, and
// calls of its Less may be slow.
const ownSort = "PrioritySort"

// Describe describes a pod; ok is false if the pod does not wait. It changes nothing and
// calls no plugin. It inspects at most maxDescribed active pods, and each member of the
// pod's group once, as every turn of the group does.
func (q *Queue) Describe(now time.Time, key model.PodKey) (d Description, ok bool) {
	e := q.entries[key]
	if e == nil {
		return d, false
	}
	b, line := q.brief(now, e)
	d = Description{
		Pod: e.pod, Place: b.Place, Attempts: b.Attempts, Since: b.Since, BackoffEnd: b.BackoffEnd, Rejectors: b.Rejectors, Pending: b.Pending,
		WokenBy: line.woken, Leaving: slices.Clone(line.preempting.leaving),
	}
	if e.group != nil {
		d.Group = q.describeGroup(e.group)
	}
	d.Cost, d.Yields = line.cost, q.yields(line)
	if b.WaitsForEvent {
		for _, name := range d.Rejectors {
			d.WaitsFor = append(d.WaitsFor, WaitedFor{name, q.Events(e.pod.SchedulerName, name)})
		}
	}
	if line.place == active {
		if d.Unordered = b.Turn == nil; !d.Unordered {
			d.Ahead = q.ahead(line)
		}
	}
	return d, true
}

// ahead finds the entries whose turn is before an active entry.
func (q *Queue) ahead(e *entry) *Ahead {
	a, looked := &Ahead{}, 0
	var next []*entry
	less := q.inLine
	for other := range q.allActive() {
		if looked++; looked > maxDescribed {
			a.AtLeast = true
			break
		}
		if other == e || !less(other, e) {
			continue
		}
		if other.heads != nil {
			a.Pods += len(other.heads.members)
		} else {
			a.Pods++
		}
		if len(next) == maxNamed && !less(other, next[maxNamed-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(next, other, func(x, y *entry) int {
			if less(x, y) {
				return -1
			}
			return 1
		})
		if next = slices.Insert(next, at, other); len(next) > maxNamed {
			next = next[:maxNamed]
		}
	}
	for _, other := range next {
		a.Next = append(a.Next, other.pod.Key())
	}
	return a
}

// inLine reports whether an active entry has its turn before another. It ignores the
// unknown cost of the next turns.
func (q *Queue) inLine(a, b *entry) bool {
	if a.pod.Priority == b.pod.Priority && q.accounts.debtAt(a.pod.Priority) != nil {
		if yields := q.accountFor(a) != nil; yields != (q.accountFor(b) != nil) {
			return !yields
		}
	}
	return q.active.less(a, b)
}

// allActive returns the active entries; entries with accounts come last.
func (q *Queue) allActive() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range q.active.all() {
			if !yield(e) {
				return
			}
		}
		for _, a := range q.accounts.open {
			for _, e := range a.active.all() {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func (q *Queue) describeGroup(g *group) *GroupDescription {
	d := &GroupDescription{Key: g.key, Tree: g.of != nil, Waiting: len(g.members), Gate: g.gate, HeldCount: g.held}
	v := q.config.State.View()
	_, _, d.Exists = q.objectOf(g)
	if object := v.Group(g.key); g.of == nil && object != nil {
		d.MinCount = object.MinCount
	}
	if g.of == nil {
		d.Placed = v.GroupPlaced(g.key)
	} else {
		for key := range g.of {
			d.Placed += v.GroupPlaced(key)
		}
	}
	// all of them, because the order of the map must not matter
	for key, e := range g.members {
		switch {
		case e.place == gated:
			d.Held = nameFew(d.Held, key, e)
		case e.rejections > 0 && len(e.plugins) > 0:
			d.RejectedCount++
			d.Rejected = nameFew(d.Rejected, key, e)
		}
	}
	return d
}

// nameFew adds a member to a short list that is sorted by name. It keeps the first names.
func nameFew(few []Member, key model.PodKey, e *entry) []Member {
	at, _ := slices.BinarySearchFunc(few, key, func(m Member, key model.PodKey) int {
		return cmp.Or(cmp.Compare(m.Key.Namespace, key.Namespace), cmp.Compare(m.Key.Name, key.Name))
	})
	if at == maxNamed {
		return few
	}
	few = slices.Insert(few, at, Member{key, slices.Clone(e.plugins)})
	return few[:min(maxNamed, len(few))]
}

// eventNames returns kube-scheduler's names of the registered events, sorted.
func eventNames(registered []model.EventToRegister) []string {
	var names []string
	for i := range registered {
		names = append(names, registered[i].Labels()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noteWoken records the cause that makes an entry ready, just before its move. The end of
// a backoff, or an early pop from the backoff queue, does not end a wait for an event.
func (e *entry) noteWoken(to place, why string) {
	switch {
	case to != active && to != backingOff && to != errorBackoff:
	case e.place == backingOff && (why == backoffOver || why == poppedEarly):
	default:
		e.woken = plan.Woken{Event: why, Plugin: e.wokenFor(why)}
	}
}

// wokenFor returns the plugin whose registration matched the event that wakes a parked
// pod.
func (e *entry) wokenFor(why string) string {
	for i := range e.memberships {
		if c := e.memberships[i].cohort; c.woken && c.why == why {
			return c.bucket.index.plugin
		}
	}
	return ""
}
