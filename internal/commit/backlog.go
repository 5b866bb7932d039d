package commit

import "container/heap"

// backlog is the bindings whose next request can be sent: those of pods of higher priority first, and among equals in the order in which they
// were decided.
type backlog struct {
	bindings []*binding
	compared int64 // how often two bindings were compared
}

func (l *backlog) len() int        { return len(l.bindings) }
func (l *backlog) push(b *binding) { heap.Push(l, b) }

// pop takes the first binding; there must be one.
func (l *backlog) pop() *binding { return heap.Pop(l).(*binding) }

// drop takes out a binding that is in the backlog.
func (l *backlog) drop(b *binding) { heap.Remove(l, b.position) }

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (l *backlog) Len() int { return len(l.bindings) }
func (l *backlog) Less(i, j int) bool {
	l.compared++
	a, b := l.bindings[i], l.bindings[j]
	if x, y := a.placement.Pod.Priority, b.placement.Pod.Priority; x != y {
		return x > y
	}
	return a.order < b.order
}
func (l *backlog) Swap(i, j int) {
	l.bindings[i], l.bindings[j] = l.bindings[j], l.bindings[i]
	l.bindings[i].position, l.bindings[j].position = i, j
}
func (l *backlog) Push(x any) {
	b := x.(*binding)
	b.position = len(l.bindings)
	l.bindings = append(l.bindings, b)
}
func (l *backlog) Pop() any {
	last := len(l.bindings) - 1
	b := l.bindings[last]
	l.bindings[last] = nil
	l.bindings = l.bindings[:last]
	return b
}
