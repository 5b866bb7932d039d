package queue

import "github.com/berth-scheduler/berth/internal/model"

// Counts is the number of waiting pods by place.
//
// Incomplete counts members of groups whose PodGroup does not exist. Other members count
// at the place of their group.
type Counts struct{ Active, BackingOff, Parked, Gated, Incomplete, Binding int }

// Counts returns the number of waiting pods by place.
func (q *Queue) Counts() Counts {
	return Counts{
		Active:     q.counts[active] + q.joined[active],
		BackingOff: q.counts[backingOff] + q.counts[errorBackoff] + q.joined[backingOff] + q.joined[errorBackoff],
		Parked:     q.counts[parked],
		Gated:      q.counts[gated] + q.joined[gated],
		Incomplete: q.joined[incomplete],
		Binding:    q.counts[binding],
	}
}

// EachUnschedulable calls yield with the number of pods that each plugin rejects or
// gates, in no particular order. Indexed members of groups count as parked.
func (q *Queue) EachUnschedulable(yield func(profile, plugin string, pods int)) {
	for key, in := range q.parked.byPlugin {
		if key.plugin != noPlugin && key.by != byGate { // gatedBy counts gated pods
			yield(key.profile, key.plugin, in.pods)
		}
	}
	for key, pods := range q.gatedBy {
		yield(key.profile, key.plugin, pods)
	}
}

// TakeMoves returns the moves since the last call. The slice is valid until the next use
// of the queue.
func (q *Queue) TakeMoves() []Move {
	moves := q.moves
	if n := len(moves); n < q.taken { // the memory must not hold pods that are gone
		clear(moves[n:q.taken])
	}
	q.taken = len(moves)
	q.moves = moves[:0]
	return moves
}

// HintsAsked returns the number of calls of hints.
func (q *Queue) HintsAsked() int64 { return q.parked.hintCalls }

// PlaceOf returns the place of a pod in words, empty for a pod that is not in the queue.
// A member of a group waits at the place of its group, unless the member itself is gated.
func (q *Queue) PlaceOf(key model.PodKey) string {
	if e := q.entries[key]; e != nil {
		return e.placeInWords()
	}
	return ""
}

// placeInWords returns where a pod waits. A joined member waits where its group does.
func (e *entry) placeInWords() string {
	if e.place != joined {
		return e.place.String()
	}
	if h := &e.group.head; h.place != errorBackoff || h.errors > 0 {
		return h.place.String()
	}
	return backingOff.String()
}
