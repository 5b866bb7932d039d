package queue

import "github.com/berth-scheduler/berth/internal/model"

// Counts is the number of waiting pods by place.
//
// Incomplete are members of groups whose PodGroup does not exist. Other members count where their group waits.
type Counts struct{ Active, BackingOff, Parked, Gated, Incomplete, Binding int }

// Counts returns the number of waiting pods by place.
func (q *Queue) Counts() Counts {
	return Counts{
		Active:     q.counts[active] + q.joined[active],
		BackingOff: q.counts[backingOff] + q.counts[erring] + q.joined[backingOff] + q.joined[erring],
		Parked:     q.counts[parked],
		Gated:      q.counts[gated] + q.joined[gated],
		Incomplete: q.joined[incomplete],
		Binding:    q.counts[binding],
	}
}

// EachUnschedulable calls yield with how many parked and gated pods each plugin keeps from being scheduled, in no particular order. Listed members of groups count as parked.
func (q *Queue) EachUnschedulable(yield func(profile, plugin string, pods int)) {
	for key, in := range q.parked.byPlugin {
		if key.plugin != noPlugin && key.by != byGate { // those are counted in gatedBy
			yield(key.profile, key.plugin, in.pods)
		}
	}
	for key, pods := range q.gatedBy {
		yield(key.profile, key.plugin, pods)
	}
}

// TakeMoves returns the moves since it was last called. The slice is valid until the queue is next used.
func (q *Queue) TakeMoves() []Move {
	moves := q.moves
	q.moves = q.moves[:0]
	return moves
}

// HintsAsked returns how often a hint was called.
func (q *Queue) HintsAsked() int64 { return q.parked.hintCalls }

// PlaceOf returns the place where a pod waits, in words; empty if the queue does not hold it. That of a member of a group is where the group waits, unless it
// is held itself.
func (q *Queue) PlaceOf(key model.PodKey) string {
	if e := q.entries[key]; e != nil {
		if e.place == joined {
			if h := &e.group.head; h.place != erring || h.errors > 0 {
				return h.place.String()
			}
			return backingOff.String()
		}
		return e.place.String()
	}
	return ""
}
