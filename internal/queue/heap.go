package queue

import (
	stdheap "container/heap"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

// heap is a priority queue whose elements store their position.
//
// An element that comes after all others is appended to a sorted run; all others go to a
// binary heap. When an event wakes many pods, they arrive and are popped in the order of
// their turns. A run then needs one or two comparisons for a pod. A large binary heap
// needs many, and each reads two pods from memory.
type heap[T comparable] struct {
	entries []T // the binary heap
	run     run[T]
	less    func(a, b T) bool
	// index returns where an element stores its position. A position in entries is not
	// negative; a number in the run is stored as its complement.
	index func(T) *int
}

// run is a sorted list from which any element can be removed.
type run[T comparable] struct {
	// list has the run from head on. Removal from the middle leaves a zero value, a hole.
	//
	// Invariant: the first and the last element are no holes, and holes do not outnumber
	// elements.
	list        []T
	head, holes int
	zero        int // the number of position 0 of list; later positions count on from it
}

func newHeap(less func(a, b *entry) bool) heap[*entry] {
	return heap[*entry]{less: less, index: func(e *entry) *int { return &e.index }}
}

// size returns the number of elements.
func (h *heap[T]) size() int { return len(h.entries) + h.run.size() }

// at returns the element with an index, the zero value if none exists.
func (h *heap[T]) at(index int) (e T) {
	list := h.entries
	if index < 0 {
		index, list = ^index-h.run.zero, h.run.list
	}
	if index >= 0 && index < len(list) {
		e = list[index]
	}
	return e
}

// all returns all elements with their correct indexes.
func (h *heap[T]) all() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		for i, e := range h.entries {
			if !yield(i, e) {
				return
			}
		}
		var hole T
		for at, e := range h.run.list {
			if e != hole && !yield(^(h.run.zero+at), e) {
				return
			}
		}
	}
}

// before returns the element that must not come after the element with an index: its
// parent in the binary heap, or its predecessor in the run.
func (h *heap[T]) before(index int) (before T, ok bool) {
	if index > 0 {
		return h.entries[(index-1)/2], true
	}
	var hole T
	for at := ^index - h.run.zero - 1; index < 0 && at >= h.run.head; at-- {
		if before = h.run.list[at]; before != hole {
			return before, true
		}
	}
	return before, false
}

// first returns the first element, the zero value if the heap is empty.
func (h *heap[T]) first() (first T) {
	if h.run.size() > 0 {
		first = h.run.list[h.run.head]
		if len(h.entries) == 0 || h.less(first, h.entries[0]) {
			return first
		}
	}
	if len(h.entries) > 0 {
		first = h.entries[0]
	}
	return first
}

func (h *heap[T]) add(e T) {
	if h.makeWay(e) {
		*h.index(e) = ^h.run.append(e)
	} else {
		stdheap.Push(h, e)
	}
}

// maxLate is the number of elements at the end of the run that make way for an earlier
// element.
const maxLate = 64

// makeWay moves the elements that come after e from the end of the run to the binary
// heap. Otherwise one late arrival would keep all later elements out of the run. It
// returns false if too many elements would move. Each element makes way at most once.
func (h *heap[T]) makeWay(e T) bool {
	r := &h.run
	for moved := false; r.size() > 0; moved = true {
		last := r.list[len(r.list)-1]
		if !h.less(e, last) {
			break
		}
		if at := len(r.list) - 1 - maxLate; !moved && at >= r.head {
			if x, hole := r.list[at], *new(T); x == hole || h.less(e, x) {
				return false
			}
		}
		h.remove(last)
		stdheap.Push(h, last)
	}
	return true
}

func (h *heap[T]) remove(e T) {
	i := *h.index(e)
	if i >= 0 {
		removeAt(h, i)
		return
	}
	if h.run.take(^i - h.run.zero) {
		for at, e := range h.run.list {
			*h.index(e) = ^(h.run.zero + at)
		}
	}
}

// fix restores the order after an element has changed.
func (h *heap[T]) fix(e T) {
	if i := *h.index(e); i >= 0 {
		stdheap.Fix(h, i)
		return
	}
	h.remove(e)
	h.add(e)
}

func (r *run[T]) size() int { return len(r.list) - r.head - r.holes }

func (r *run[T]) audit(v *audit.Violations, name string) {
	var hole T
	holes := 0
	for at, e := range r.list {
		if e == hole && at >= r.head {
			holes++
		} else if e != hole && at < r.head {
			v.Add("position %d of the run of the %s, which begins at %d, is taken", at, name, r.head)
		}
	}
	if n := len(r.list); holes != r.holes || holes > r.size() || r.head > 0 && r.head >= n || n > r.head && (r.list[r.head] == hole || r.list[n-1] == hole) {
		v.Add("the run of the %s has %d holes among %d positions from %d on, recounted %d", name, r.holes, n, r.head, holes)
	}
}

// append adds an element at the end and returns its number.
func (r *run[T]) append(e T) (number int) {
	if len(r.list) == cap(r.list) && r.head > len(r.list)/2 { // the front has free space
		n := copy(r.list, r.list[r.head:])
		clear(r.list[n:])
		r.list, r.head, r.zero = r.list[:n], 0, r.zero+r.head
	}
	r.list = append(r.list, e)
	return r.zero + len(r.list) - 1
}

// emptyKept is the largest capacity that an empty run keeps.
const emptyKept = 1024

// take removes the element at a position. It returns true if the remaining elements have
// moved into the holes and must be numbered again.
func (r *run[T]) take(at int) (moved bool) {
	var hole T
	r.list[at] = hole
	r.holes++
	for len(r.list) > r.head && r.list[len(r.list)-1] == hole {
		r.list = r.list[:len(r.list)-1]
		r.holes--
	}
	for r.head < len(r.list) && r.list[r.head] == hole {
		r.head++
		r.holes--
	}
	switch {
	case r.head == len(r.list):
		if r.list, r.head = r.list[:0], 0; cap(r.list) > emptyKept {
			r.list = nil
		}
	case r.holes > r.size():
		r.list = slices.DeleteFunc(r.list, func(e T) bool { return e == hole })
		r.head, r.holes = 0, 0
		return true
	}
	return false
}

// Len, Less, Swap, Push and Pop are for container/heap only.
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

// removeAt is container/heap's Remove with half the comparisons if many elements are
// popped in a row. The hole moves down to the end along the smaller children. Then the
// last element, which usually belongs near the end, moves up from there.
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
