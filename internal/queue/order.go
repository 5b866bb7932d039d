package queue

import (
	stdheap "container/heap"
	"time"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// inTurn is the order in which ready pods are popped. It asks the plugin once: of two pods, the one that arrived first goes first unless the plugin
// puts the other before it.
func inTurn(sort plugin.QueueSort) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		x, y := plugin.Queued{Pod: a.pod, Since: a.since}, plugin.Queued{Pod: b.pod, Since: b.since}
		if a.order < b.order {
			return !sort.Less(y, x)
		}
		return sort.Less(x, y)
	}
}

// byWindow orders by the end of the backoff.
func byWindow(a, b *entry) bool {
	if !a.until.Equal(b.until) {
		return a.until.Before(b.until)
	}
	return a.order < b.order
}

// byWindowThen orders by the end of the backoff, and pods of the same second by turn.
func byWindowThen(byTurn func(a, b *entry) bool) func(a, b *entry) bool {
	return func(a, b *entry) bool {
		if !a.until.Equal(b.until) {
			return a.until.Before(b.until)
		}
		return byTurn(a, b)
	}
}

// byIdleness orders parked and gated pods, the longest idle first.
func byIdleness(a, b *entry) bool {
	if x, y := a.idleSince(), b.idleSince(); !x.Equal(y) {
		return x.Before(y)
	}
	return a.order < b.order
}

// idleSince is when the pod last failed, or was last looked at because it was idle for long.
func (e *entry) idleSince() time.Time {
	if e.flushed.After(e.since) {
		return e.flushed
	}
	return e.since
}

// window is the grain of backoffs: they end with a whole second, so that pods that failed together are ordered by priority.
const window = time.Second

// backoffEnd returns the second after which the pod may be tried again: since + initial·2^(n-1), at most the maximum, where n
// counts errors in a row, or else rejections.
func (q *Queue) backoffEnd(e *entry) time.Time {
	n := e.errors
	if n == 0 {
		n = e.rejections
	}
	wait := q.config.BackoffInitial
	for ; n > 1 && wait < q.config.BackoffMax; n-- {
		wait *= 2
	}
	return e.since.Add(min(wait, q.config.BackoffMax)).Truncate(window)
}

// isBackingOff reports whether the pod's backoff has not ended; it includes the second in which it ends. A backoff that ends later than
// any backoff can was set before the clock was set back, and counts as ended.
func (q *Queue) isBackingOff(e *entry, now time.Time) bool {
	return !e.until.Before(now.Truncate(window)) && e.until.Sub(now) <= q.config.BackoffMax+window
}

// heap is a priority queue of things that know their position in it.
type heap[T any] struct {
	entries []T
	less    func(a, b T) bool
	index   func(T) *int
}

func newHeap(less func(a, b *entry) bool) heap[*entry] {
	return heap[*entry]{less: less, index: func(e *entry) *int { return &e.index }}
}

// first returns what comes before all others, nil if there is nothing.
func (h *heap[T]) first() (first T) {
	if len(h.entries) > 0 {
		first = h.entries[0]
	}
	return first
}

func (h *heap[T]) add(e T)    { stdheap.Push(h, e) }
func (h *heap[T]) remove(e T) { removeAt(h, *h.index(e)) }
func (h *heap[T]) fix(e T)    { stdheap.Fix(h, *h.index(e)) }

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (h *heap[T]) Len() int           { return len(h.entries) }
func (h *heap[T]) Less(i, j int) bool { return h.less(h.entries[i], h.entries[j]) }
func (h *heap[T]) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	*h.index(h.entries[i]), *h.index(h.entries[j]) = i, j
}

func (h *heap[T]) Push(x any) {
	e := x.(T)
	*h.index(e) = len(h.entries)
	h.entries = append(h.entries, e)
}

func (h *heap[T]) Pop() any {
	var none T
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries[last] = none
	h.entries = h.entries[:last]
	return e
}

// removeAt is container/heap's Remove with half as many comparisons where many entries are popped one after the other: the hole goes down to the end
// along the smaller children, and the last entry, which mostly belongs near the end, comes up from there.
func removeAt(h stdheap.Interface, i int) {
	last := h.Len() - 1
	for child := 2*i + 1; child < last; child = 2*i + 1 {
		if right := child + 1; right < last && h.Less(right, child) {
			child = right
		}
		h.Swap(i, child)
		i = child
	}
	if i != last {
		h.Swap(i, last)
	}
	h.Pop()
	if i < last {
		stdheap.Fix(h, i)
	}
}
