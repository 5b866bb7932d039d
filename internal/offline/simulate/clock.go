package simulate

import "time"

// epoch is the start of every simulation. It is fixed, so that simulations can be
// repeated, and a whole second, which makes backoffs easy to read.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agenda has the planned effects, by time and then in the order in which they were
// planned.
//
// Most effects are due at once, and a million pods may be shown at one instant. So an
// effect that is due no earlier than the last one in the line is appended to the line,
// which stays sorted. Only the rest goes into a heap.
type agenda struct {
	// Invariant: line is sorted from head on, and holds no effects before head.
	line    []effect
	head    int
	heap    []effect // a binary heap
	planned int64
}

// effect is one planned event.
type effect struct {
	at    time.Time
	order int64
	// life is the scheduler process that receives the effect, or 0 if it concerns the API
	// server alone.
	life int
	do   func()
}

func (e *effect) before(other *effect) bool {
	if !e.at.Equal(other.at) {
		return e.at.Before(other.at)
	}
	return e.order < other.order
}

func (a *agenda) plan(at time.Time, life int, do func()) {
	a.planned++
	e := effect{at: at, order: a.planned, life: life, do: do}
	if n := len(a.line); n > a.head && at.Before(a.line[n-1].at) {
		a.push(e)
		return
	}
	if a.head > len(a.line)/2 && len(a.line) == cap(a.line) { // there is room at the front
		n := copy(a.line, a.line[a.head:])
		clear(a.line[n:])
		a.line, a.head = a.line[:n], 0
	}
	a.line = append(a.line, e)
}

// first returns the next effect, or nil. inLine reports whether it is in the line or the
// heap.
func (a *agenda) first() (next *effect, inLine bool) {
	if a.head < len(a.line) {
		next, inLine = &a.line[a.head], true
	}
	if len(a.heap) > 0 && (next == nil || a.heap[0].before(next)) {
		next, inLine = &a.heap[0], false
	}
	return next, inLine
}

// next returns the time of the next effect.
func (a *agenda) next() (at time.Time, ok bool) {
	next, _ := a.first()
	if next == nil {
		return time.Time{}, false
	}
	return next.at, true
}

// keptLine is the largest capacity, in effects, that an empty line retains.
const keptLine = 1024

// due removes and returns the next effect that is due by now.
func (a *agenda) due(now time.Time) (effect, bool) {
	next, inLine := a.first()
	if next == nil || next.at.After(now) {
		return effect{}, false
	}
	e := *next
	if !inLine {
		a.pop()
		return e, true
	}
	*next = effect{}
	if a.head++; a.head == len(a.line) {
		if a.line, a.head = a.line[:0], 0; cap(a.line) > keptLine {
			a.line = nil
		}
	}
	return e, true
}

// push puts an effect into the heap.
func (a *agenda) push(e effect) {
	a.heap = append(a.heap, e)
	for i := len(a.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.heap[i].before(&a.heap[parent]) {
			break
		}
		a.heap[i], a.heap[parent] = a.heap[parent], a.heap[i]
		i = parent
	}
}

// pop takes the first effect out of the heap.
func (a *agenda) pop() {
	last := len(a.heap) - 1
	a.heap[0], a.heap[last] = a.heap[last], effect{}
	a.heap = a.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.heap[child].before(&a.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		a.heap[i], a.heap[least] = a.heap[least], a.heap[i]
		i = least
	}
}
