package simulate

import (
	"container/heap"
	"time"
)

// epoch is when simulations begin. It is fixed, so that they can be repeated; that it is a whole second makes backoffs, which end
// with whole seconds, easy to read.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// agenda is what will happen, by time and then in the order in which it was planned.
type agenda struct {
	effects effects
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

func (a *agenda) plan(at time.Time, life int, do func()) {
	a.planned++
	heap.Push(&a.effects, effect{at: at, order: a.planned, life: life, do: do})
}

// next returns when the next thing happens.
func (a *agenda) next() (at time.Time, ok bool) {
	if len(a.effects) == 0 {
		return time.Time{}, false
	}
	return a.effects[0].at, true
}

// due takes the next thing that happens until now off the agenda.
func (a *agenda) due(now time.Time) (effect, bool) {
	if at, ok := a.next(); !ok || at.After(now) {
		return effect{}, false
	}
	return heap.Pop(&a.effects).(effect), true
}

// effects is a heap for container/heap alone.
type effects []effect

func (e effects) Len() int { return len(e) }
func (e effects) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].order < e[j].order
}
func (e effects) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *effects) Push(x any)   { *e = append(*e, x.(effect)) }
func (e *effects) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = effect{}
	*e = (*e)[:last]
	return x
}
