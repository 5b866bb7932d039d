package queue

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Brief is the short description of one waiting pod, for lists. Its cost does not depend
// on the number of waiting pods. The caller owns its slices.
type Brief struct {
	// Place, Attempts, Since, BackoffEnd, Rejectors and Pending are those of Description.
	Place              string
	Attempts           int
	Since, BackoffEnd  time.Time
	Rejectors, Pending []string
	// Leaving is the number of victims of its last attempt that are not gone yet.
	Leaving int
	// WaitsForEvent means that an event for one of the Rejectors can end the wait.
	WaitsForEvent bool
	// Group is the pod group or the tree that the pod waits with; empty for a single pod.
	Group model.GroupKey
	// Turn orders active pods; nil for other pods, and if an out-of-tree plugin orders
	// the queue.
	Turn *Turn
}

// Turn is the position of an active pod, or of its group, in the order of turns. Members
// of a group share it.
type Turn struct {
	priority int32
	yields   bool
	since    time.Time
	order    uint64
}

// Compare returns a negative number if a turn comes before another. It ignores the
// unknown cost of the next turns.
func (t *Turn) Compare(other *Turn) int {
	switch {
	case t.priority != other.priority:
		return cmp.Compare(other.priority, t.priority)
	case t.yields != other.yields:
		if t.yields {
			return 1
		}
		return -1
	}
	return cmp.Or(t.since.Compare(other.since), cmp.Compare(t.order, other.order))
}

// Brief describes a pod that waits or is being decided about. ok is false if the queue
// has no such pod with this UID. It changes nothing and calls no plugin.
func (q *Queue) Brief(now time.Time, key model.PodKey, uid types.UID) (b Brief, ok bool) {
	e := q.entries[key]
	if e == nil || e.pod.UID != uid || e.place == binding {
		return b, false
	}
	b, _ = q.brief(now, e)
	return b, true
}

// brief describes an entry. It also returns the entry that stands in line for it: the
// head of its group, or the entry itself.
func (q *Queue) brief(now time.Time, e *entry) (b Brief, line *entry) {
	b = Brief{
		Place: e.placeInWords(), Attempts: e.attempts, Since: e.since,
		WaitsForEvent: e.isRejected() || e.place == gated,
	}
	line = e
	if g := e.group; g != nil {
		b.Group, line = g.key, &g.head
	}
	b.Leaving = len(line.preempting.leaving)
	switch {
	case line.place == active:
		b.Turn = q.turnOf(line)
	case line.place != deciding && q.isBackingOff(line, now):
		b.BackoffEnd = line.until
	}
	if e.place == parked || e.place == gated || e.place == joined {
		b.Rejectors, b.Pending = slices.Clone(e.plugins), slices.Clone(e.pending)
	}
	return b, line
}

// turnOf returns the turn of an active entry.
func (q *Queue) turnOf(e *entry) *Turn {
	if q.config.Profiles[0].QueueSort.Name != ownSort {
		return nil
	}
	t := &Turn{priority: e.pod.Priority, since: e.since, order: e.order}
	t.yields = q.accounts.debtAt(t.priority) != nil && q.accountFor(e) != nil
	return t
}

// Events returns the names of the events that a plugin of a profile registered, sorted.
func (q *Queue) Events(profile, plugin string) []string {
	return eventNames(q.profiles[profile].registered[plugin])
}
