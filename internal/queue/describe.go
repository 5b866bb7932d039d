package queue

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// Description is what the queue knows of one waiting pod. Its slices are the caller's.
type Description struct {
	Pod *model.Pod
	// Place is where it waits, in words; that of a member of a group is where the group waits, unless the member is held itself.
	Place string
	// Attempts counts its turns.
	Attempts int
	// Since is when it began to wait as it does.
	Since time.Time
	// BackoffEnd is the second after which it may be tried; zero if no backoff is left.
	BackoffEnd time.Time
	// Rejectors are the plugins that rejected it, or the PreEnqueue plugin that holds it, while it is parked or gated. Of these, Pending answered Pending.
	Rejectors, Pending []string
	// WaitsFor are the events that those plugins have registered for, if one can end the wait.
	WaitsFor []WaitedFor
	// WokenBy is what ended its last wait.
	WokenBy plan.Woken
	// Leaving are the victims of its last attempt that are not gone yet.
	Leaving []types.UID
	// Ahead says which pods have their turn before it; nil unless it is active, or if Unordered says that this is not worked out, because a plugin from outside orders the queue.
	Ahead     *Ahead
	Unordered bool
	// Cost is what its last turn, or its group's, cost in units of about a nanosecond; 0
	// if none was expensive. Yields says that it waits for others of its priority to have
	// had as much work as the expensive turns of its namespace.
	Cost   int64
	Yields bool
	// Group is its group; nil for a pod that waits alone.
	Group *GroupDescription
}

// WaitedFor is the events that a plugin has registered for, by kube-scheduler's names.
type WaitedFor struct {
	Plugin string
	Events []string
}

// Ahead is the pods, and groups, that have their turn before a pod, or before its group.
type Ahead struct {
	// Pods is how many there are; at least so many if AtLeast says that not all were looked at.
	Pods    int
	AtLeast bool
	// Next are the first of those that were looked at, in their order. A group is one.
	Next []model.PodKey
}

// GroupDescription is what holds up a pod group, or a tree of them.
type GroupDescription struct {
	Key model.GroupKey
	// Tree says that the key is that of a CompositePodGroup.
	Tree bool
	// Exists says that the PodGroup, or the CompositePodGroup, exists.
	Exists bool
	// MinCount is how many members must have a node, 0 for a tree; Waiting how many wait, Placed how many have a node.
	MinCount, Waiting, Placed int
	// Gate is the PreEnqueue plugin that holds the group.
	Gate string
	// HeldCount is how many members a PreEnqueue plugin holds, RejectedCount how many others plugins rejected in their last attempt; Held and Rejected name the first of them by
	// name.
	HeldCount, RejectedCount int
	Held, Rejected           []Member
}

// Member is a member of a group, with the plugins that reject it or hold it.
type Member struct {
	Key     model.PodKey
	Plugins []string
}

// The bounds of a description: how many pods of the line are looked at, and how many pods are named. Looking at one takes some 0.1 µs.
const (
	describedMax = 20_000
	namedMax     = 5
)

// ownSort is the name of the QueueSort plugin that is built in. Every other one is from outside, and its comparisons are calls of code of others, which may take long.
const ownSort = "PrioritySort"

// Describe returns what the queue knows of a pod; ok is false if it does not wait. It changes nothing and calls no plugin. It looks at describedMax pods of the line at most, and once at
// each member of the pod's group, as every turn of the group does too.
func (q *Queue) Describe(now time.Time, key model.PodKey) (d Description, ok bool) {
	e := q.entries[key]
	if e == nil {
		return d, false
	}
	d = Description{
		Pod: e.pod, Place: q.PlaceOf(key), Attempts: e.attempts, Since: e.since, WokenBy: e.woken,
		Leaving: slices.Clone(e.preempting.leaving),
	}
	line := e
	if g := e.group; g != nil {
		d.Group = q.describeGroup(g)
		line = &g.head
		d.WokenBy = g.head.woken
	}
	d.Cost, d.Yields = line.cost, q.yields(line)
	if line.place != active && line.place != deciding && q.isBackingOff(line, now) {
		d.BackoffEnd = line.until
	}
	if e.place == parked || e.place == gated || e.place == joined {
		d.Rejectors, d.Pending = slices.Clone(e.plugins), slices.Clone(e.pending)
	}
	if e.isRejected() || e.place == gated {
		registered := q.profiles[e.pod.SchedulerName].registered
		for _, name := range d.Rejectors {
			d.WaitsFor = append(d.WaitsFor, WaitedFor{name, eventNames(registered[name])})
		}
	}
	if line.place == active {
		if d.Unordered = q.config.Profiles[0].QueueSort.Name() != ownSort; !d.Unordered {
			d.Ahead = q.ahead(line)
		}
	}
	return d, true
}

// ahead finds what has its turn before an entry that is active.
func (q *Queue) ahead(e *entry) *Ahead {
	a, looked := &Ahead{}, 0
	var next []*entry
	less := q.inLine
	for other := range q.allActive() {
		if looked++; looked > describedMax {
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
		if len(next) == namedMax && !less(other, next[namedMax-1]) {
			continue
		}
		at, _ := slices.BinarySearchFunc(next, other, func(x, y *entry) int {
			if less(x, y) {
				return -1
			}
			return 1
		})
		if next = slices.Insert(next, at, other); len(next) > namedMax {
			next = next[:namedMax]
		}
	}
	for _, other := range next {
		a.Next = append(a.Next, other.pod.Key())
	}
	return a
}

// inLine reports whether an active entry has its turn before another, as far as that is
// known: what the next turns cost is not.
func (q *Queue) inLine(a, b *entry) bool {
	if a.pod.Priority == b.pod.Priority && q.accounts.debtAt(a.pod.Priority) != nil {
		if yields := q.accountFor(a) != nil; yields != (q.accountFor(b) != nil) {
			return !yields
		}
	}
	return q.active.less(a, b)
}

// allActive returns the entries that are active, those with accounts last.
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
	for key, e := range g.members { // all of them: which ones the map has first must not matter
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

// nameFew adds a member to a list of few, which is sorted by name. It keeps the first ones.
func nameFew(few []Member, key model.PodKey, e *entry) []Member {
	at, _ := slices.BinarySearchFunc(few, key, func(m Member, key model.PodKey) int {
		return cmp.Or(cmp.Compare(m.Key.Namespace, key.Namespace), cmp.Compare(m.Key.Name, key.Name))
	})
	if at == namedMax {
		return few
	}
	few = slices.Insert(few, at, Member{key, slices.Clone(e.plugins)})
	return few[:min(namedMax, len(few))]
}

// eventNames returns kube-scheduler's names of the events of registrations, sorted.
func eventNames(registered []model.EventToRegister) []string {
	var names []string
	for i := range registered {
		names = append(names, registered[i].Labels()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noteWoken notes what makes an entry ready, when it is about to go to another place. That a backoff is over, or that there is nothing else to do, ends no wait for an event.
func (e *entry) noteWoken(to place, why string) {
	switch {
	case to != active && to != backingOff && to != erring:
	case e.place == backingOff && (why == backoffOver || why == poppedEarly):
	default:
		e.woken = plan.Woken{Event: why, Plugin: e.wokenFor(why)}
	}
}

// wokenFor returns the plugin whose registration was met by the event that wakes a parked pod.
func (e *entry) wokenFor(why string) string {
	for i := range e.memberships {
		if c := e.memberships[i].cohort; c.woken && c.why == why {
			return c.bucket.index.plugin
		}
	}
	return ""
}
