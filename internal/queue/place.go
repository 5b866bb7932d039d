package queue

import (
	"fmt"
	"slices"
)

// place is where a waiting pod is. A pod is always in exactly one.
type place uint8

const (
	arriving   place = iota
	active           // ready to be popped
	backingOff       // rejected and woken; waits out its backoff unless there is nothing else to do
	erring           // its last attempt ended in an error; waits out its backoff
	parked           // rejected; waits for an event that can help
	gated            // must not be tried yet
	deciding         // popped
	binding          // has a node; the API server has not answered yet
	gone
	places
)

var placeNames = [places]string{"arriving", "active", "backing off", "backing off after an error", "parked", "gated", "deciding", "binding", "gone"}

// String returns the place in words.
func (p place) String() string { return placeNames[p] }

// next says where a pod may go from where it is. A move that is not here is a bug.
var next = [places][]place{
	arriving:   {active, gated},
	active:     {deciding, gone},
	backingOff: {active, deciding, gone},
	erring:     {active, gone},
	parked:     {active, backingOff, gated, gone},
	gated:      {active, gated, gone},
	deciding:   {parked, erring, gated, binding, gone},
	binding:    {erring, gated, gone},
}

// move takes a pod from its place to another.
func (q *Queue) move(e *entry, to place) {
	if !slices.Contains(next[e.place], to) {
		panic(fmt.Sprintf("queue: pod %s cannot go from %s to %s", e.pod, e.place, to))
	}
	if h := q.heapOf(e.place); h != nil {
		h.remove(e)
	}
	if e.place == parked {
		q.unpark(e)
	}
	q.counts[e.place]--
	e.place = to
	q.counts[to]++
	if to == gone {
		q.counts[gone] = 0
	}
	if h := q.heapOf(to); h != nil {
		h.add(e)
	}
	if to == parked {
		q.park(e)
	}
}

func (q *Queue) heapOf(p place) *heap {
	switch p {
	case active:
		return &q.active
	case backingOff:
		return &q.backoff
	case erring:
		return &q.errored
	}
	return nil
}

// nobody stands for the plugin of pods that no plugin rejected, such as malformed ones.
const nobody = ""

func (q *Queue) park(e *entry) {
	for _, plugin := range causes(e) {
		if q.parked[plugin] == nil {
			q.parked[plugin] = map[*entry]struct{}{}
		}
		q.parked[plugin][e] = struct{}{}
	}
}

func (q *Queue) unpark(e *entry) {
	for _, plugin := range causes(e) {
		if delete(q.parked[plugin], e); len(q.parked[plugin]) == 0 {
			delete(q.parked, plugin)
		}
	}
}

func causes(e *entry) []string {
	if len(e.plugins) == 0 {
		return []string{nobody}
	}
	return e.plugins
}
