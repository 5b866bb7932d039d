package commit

import (
	"container/heap"
	"slices"
)

// backlog is the bindings whose next request can be sent: those of pods of higher priority first, and among equals in the order in which they
// were decided.
type backlog struct{ bindings []*binding }

func (l *backlog) len() int        { return len(l.bindings) }
func (l *backlog) push(b *binding) { heap.Push(l, b) }

// pop takes the first binding; there must be one.
func (l *backlog) pop() *binding { return heap.Pop(l).(*binding) }

// drop takes out a binding that is in the backlog. It searches for it: that is rare, and the backlog is bounded.
func (l *backlog) drop(b *binding) { heap.Remove(l, slices.Index(l.bindings, b)) }

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (l *backlog) Len() int { return len(l.bindings) }
func (l *backlog) Less(i, j int) bool {
	a, b := l.bindings[i], l.bindings[j]
	if x, y := a.placement.Pod.Priority, b.placement.Pod.Priority; x != y {
		return x > y
	}
	return a.order < b.order
}
func (l *backlog) Swap(i, j int) { l.bindings[i], l.bindings[j] = l.bindings[j], l.bindings[i] }
func (l *backlog) Push(x any)    { l.bindings = append(l.bindings, x.(*binding)) }
func (l *backlog) Pop() any {
	last := len(l.bindings) - 1
	b := l.bindings[last]
	l.bindings[last] = nil
	l.bindings = l.bindings[:last]
	return b
}
