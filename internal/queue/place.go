package queue

import (
	"fmt"
	"slices"
)

// place is where a waiting pod is. A pod is always in exactly one place.
type place uint8

const (
	arriving place = iota
	active         // ready to be popped
	// rejected and woken; waits for the end of its backoff, or for an empty active queue
	backingOff
	errorBackoff // its last attempt ended in an error; waits for the end of its backoff
	parked       // rejected; waits for an event that can help
	gated        // must not be tried yet
	joined       // waits at the place of its group
	incomplete   // for groups: the PodGroup does not exist
	deciding     // popped
	binding      // has a node; the API server has not answered yet
	gone
	places
)

var placeNames = [places]string{"arriving", "active", "backing off", "backing off after an error", "parked", "gated", "in its group", "incomplete", "deciding", "binding", "gone"}

// String returns the place in words.
func (p place) String() string { return placeNames[p] }

// next lists the legal moves of a pod from each place. Any other move is a bug.
var next = [places][]place{
	arriving:     {active, gated, joined},
	active:       {deciding, gated, gone},
	backingOff:   {active, gone},
	errorBackoff: {active, gone},
	parked:       {active, backingOff, errorBackoff, gated, gone},
	gated:        {active, backingOff, errorBackoff, gated, joined, gone},
	joined:       {gated, deciding, gone},
	// active if its turn is unfinished
	deciding: {active, parked, errorBackoff, gated, joined, binding, gone},
	binding:  {parked, errorBackoff, gated, joined, gone},
}

// move moves a pod to another place. why is kube-scheduler's name of the event that
// caused the move; it is empty for moves out of the queue.
func (q *Queue) move(e *entry, to place, why string) {
	if !slices.Contains(next[e.place], to) {
		panic(fmt.Sprintf("queue: pod %s cannot go from %s to %s", e.pod, e.place, to))
	}
	goesOn := e.place == deciding && to == active
	if !goesOn {
		e.noteWoken(to, why)
	}
	q.leaveHeap(e)
	if e.place == parked {
		q.parked.remove(e)
	}
	q.unlist(e)
	if e.place == binding && e.permits {
		q.leavePermit(e)
	}
	if e.place == joined {
		e.group.joined--
		q.joined[e.group.head.place]--
	}
	q.counts[e.place]--
	e.place = to
	q.counts[to]++
	if to == gone {
		q.counts[gone] = 0
	}
	if line := to.line(); line != "" && !goesOn {
		q.moves = append(q.moves, Move{Queue: line, Event: why, Pods: 1, Pod: e.pod})
	}
	q.enterHeap(e)
	if to == joined {
		e.group.joined++
		q.joined[e.group.head.place]++
	}
	if to == binding && e.permits {
		q.enterPermit(e)
	}
	if to == parked {
		q.parked.add(e, q.profiles[e.pod.SchedulerName], q.config.State.View())
	}
}

// leaveHeap removes an entry from the heap of its place, if the place has one.
func (q *Queue) leaveHeap(e *entry) {
	if h := q.heapOf(e, e.place); h != nil {
		h.remove(e)
	}
	e.account = nil
}

// enterHeap adds an entry to the heap of its place, if the place has one.
func (q *Queue) enterHeap(e *entry) {
	if e.place == active {
		if a := q.accountFor(e); a != nil {
			a.join(e, q.accounts.served)
			return
		}
	}
	if h := q.heapOf(e, e.place); h != nil {
		h.add(e)
	}
}

// heapOf returns the heap of a place for an entry, nil if the place has none.
func (q *Queue) heapOf(e *entry, p place) *heap[*entry] {
	switch p {
	case active:
		if e.account != nil {
			return &e.account.active
		}
		return &q.active
	case backingOff:
		return &q.backoff
	case errorBackoff:
		return &q.errored
	case parked, gated:
		return &q.idle
	}
	return nil
}

// line returns kube-scheduler's name of the queue for a place, as used in metric labels;
// empty for places outside its queues.
func (p place) line() string {
	switch p {
	case active:
		return "active"
	case backingOff, errorBackoff:
		return "backoff"
	case parked, gated:
		return "unschedulable"
	}
	return ""
}
