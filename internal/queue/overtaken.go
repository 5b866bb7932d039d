package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// A group, or a tree of them, that needs much room at once can be overtaken for ever by pods that take what becomes free bit by bit. The queue measures for how long it has been
// rejected, and when room may be kept for it.

// overtaken is what the queue knows of a group's being overtaken.
type overtaken struct {
	// since is when the first of its attempts was rejected, all after which were; zero if there is none.
	since time.Time
	// rests is until when no room is kept for the group.
	rests time.Time
	// kept and sought are how often room was kept, or looked for, in vain.
	kept, sought int
}

// mostDoublings is how often times are doubled: that for which room is kept for a group, and that for which it then gives way.
const mostDoublings = 5

func doubled(d time.Duration, times int) time.Duration { return d << min(times, mostDoublings) }

// waiting returns the members of a group or a tree that wait; nil if there are none.
func (q *Queue) waiting(root model.RootKey) *group {
	if root.Composite {
		return q.trees[root.Key]
	}
	if g := q.groups[root.Key]; g != nil && g.of == nil {
		return g
	}
	return nil
}

// IsOvertaken reports whether a group or a tree has been rejected for longer than it has patience, and is not to give way now.
func (q *Queue) IsOvertaken(now time.Time, root model.RootKey) bool {
	g := q.waiting(root)
	if g == nil || q.config.GroupPatience <= 0 || g.overtaken.since.IsZero() {
		return false
	}
	return now.Sub(g.overtaken.since) >= q.config.GroupPatience && !now.Before(g.overtaken.rests)
}

// KeepsFor returns for how long room is to be kept for a group: so long at first, and twice as long each time after it was kept in vain, so that in the end it is
// kept for as long as those take that have to end.
func (q *Queue) KeepsFor(root model.RootKey, first time.Duration) time.Duration {
	if g := q.waiting(root); g != nil {
		return doubled(first, g.overtaken.kept)
	}
	return first
}

// KeptInVain notes that room was kept for a group, first so long and now for longer, and it did not start. It gives way for as long.
func (q *Queue) KeptInVain(now time.Time, root model.RootKey, first time.Duration) {
	if g := q.waiting(root); g != nil {
		g.overtaken.rests = now.Add(doubled(first, g.overtaken.kept))
		g.overtaken.kept++
	}
}

// SoughtInVain notes that a group would have no room even if it had not been overtaken. It is looked for again after its patience, twice that the next time, and so on.
func (q *Queue) SoughtInVain(now time.Time, root model.RootKey) {
	if g := q.waiting(root); g != nil {
		g.overtaken.rests = now.Add(doubled(q.config.GroupPatience, g.overtaken.sought))
		g.overtaken.sought++
	}
}

// IsTried reports whether a group is tried as it is: it is complete and none of its members is held, or pods are being evicted for it.
func (q *Queue) IsTried(root model.RootKey) bool {
	g := q.waiting(root)
	if g == nil {
		return false
	}
	switch g.head.place {
	case active, backingOff, erring, deciding:
		return true
	case gated:
		return g.gate == preemptionPlugin
	}
	return false
}
