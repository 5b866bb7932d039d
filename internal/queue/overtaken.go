package queue

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// Small pods can overtake a group or a tree that needs much space for ever, because each
// takes what becomes free. The queue records for how long a group has been rejected, and
// when the loop may reserve room for it.

// overtaken records for how long a group has been overtaken.
type overtaken struct {
	// since is the time of the first rejection after the group's last success; zero
	// without one.
	since time.Time
	// rests is the earliest time of the next reservation for the group.
	rests time.Time
	// kept counts reservations that expired unused. sought counts searches that found no
	// room.
	kept, sought int
}

// maxDoublings bounds the doublings of a reservation and of the pause after it.
const maxDoublings = 5

func doubled(d time.Duration, times int) time.Duration { return d << min(times, maxDoublings) }

// waiting returns the waiting group or tree; nil if no member waits.
func (q *Queue) waiting(root model.RootKey) *group {
	if root.Composite {
		return q.trees[root.Key]
	}
	if g := q.groups[root.Key]; g != nil && g.of == nil {
		return g
	}
	return nil
}

// IsOvertaken reports whether a group or a tree has been rejected for longer than its
// patience and is not pausing.
func (q *Queue) IsOvertaken(now time.Time, root model.RootKey) bool {
	g := q.waiting(root)
	if g == nil || q.config.GroupPatience <= 0 || g.overtaken.since.IsZero() {
		return false
	}
	return now.Sub(g.overtaken.since) >= q.config.GroupPatience && !now.Before(g.overtaken.rests)
}

// HoldTime returns the duration of the next reservation for a group: first, doubled for
// each reservation that expired unused. So in the end it outlasts the pods that have to
// end.
func (q *Queue) HoldTime(root model.RootKey, first time.Duration) time.Duration {
	if g := q.waiting(root); g != nil {
		return doubled(first, g.overtaken.kept)
	}
	return first
}

// ReservationFailed records that a reservation for a group expired unused. The pause
// before the next one is as long as the reservation. first is the duration of the group's
// first reservation.
func (q *Queue) ReservationFailed(now time.Time, root model.RootKey, first time.Duration) {
	if g := q.waiting(root); g != nil {
		g.overtaken.rests = now.Add(doubled(first, g.overtaken.kept))
		g.overtaken.kept++
	}
}

// NoReservation records that a group would not fit even without the pods that overtook
// it. The next search follows after the group's patience, and this pause doubles each
// time.
func (q *Queue) NoReservation(now time.Time, root model.RootKey) {
	if g := q.waiting(root); g != nil {
		g.overtaken.rests = now.Add(doubled(q.config.GroupPatience, g.overtaken.sought))
		g.overtaken.sought++
	}
}

// IsTried reports whether a group can be tried as it is: it is complete and no member is
// gated, or pods are being evicted for it.
func (q *Queue) IsTried(root model.RootKey) bool {
	g := q.waiting(root)
	if g == nil {
		return false
	}
	switch g.head.place {
	case active, backingOff, errorBackoff, deciding:
		return true
	case gated:
		return g.gate == preemptionPlugin
	}
	return false
}
