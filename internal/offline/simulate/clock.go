package simulate

import "time"

// epoch is when simulations begin. It is fixed, so that they can be repeated; that it is a whole second makes backoffs, which end
// with whole seconds, easy to read.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agenda is what will happen, by time and then in the order in which it was planned.
//
// Most of it happens at once, and a million pods may be shown at one instant. So what is planned for no earlier than everything in line goes to the end of a line, which
// is in order anyway, and only the rest into a heap.
type agenda struct {
	// Invariant: line is in order from head on, and has no effects before head.
	line    []effect
	head    int
	heap    []effect // a binary heap
	planned int64
}

// effect is one thing that will happen.
type effect struct {
	at    time.Time
	order int64
	// life is the life of the scheduler process that it is addressed to; 0 if it happens to the API server alone.
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

// first returns what happens next, nil if nothing does; inLine says where it is.
func (a *agenda) first() (next *effect, inLine bool) {
	if a.head < len(a.line) {
		next, inLine = &a.line[a.head], true
	}
	if len(a.heap) > 0 && (next == nil || a.heap[0].before(next)) {
		next, inLine = &a.heap[0], false
	}
	return next, inLine
}

// next returns when the next thing happens.
func (a *agenda) next() (at time.Time, ok bool) {
	next, _ := a.first()
	if next == nil {
		return time.Time{}, false
	}
	return next.at, true
}

// keptLine is up to how many effects the memory of an empty line is kept.
const keptLine = 1024

// due takes the next thing that happens until now off the agenda.
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
