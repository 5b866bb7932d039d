package queue

import (
	stdheap "container/heap"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/internal/audit"
)

// heap is a priority queue of things that know their position in it.
//
// What comes after everything else goes to the end of a run, which is in order anyway, and the rest into a binary heap. When an event wakes many
// pods, they come in the order of their turns, and so they are popped: at the end of a run that costs a comparison or two for each, in a large heap
// many, each of which reads two pods from memory.
type heap[T comparable] struct {
	entries []T // of the binary heap
	run     run[T]
	less    func(a, b T) bool
	// index is where a thing's position is kept: in entries if it is not negative, else the complement of its number in the run.
	index func(T) *int
}

// run is a list in order, from which anything can be taken.
type run[T comparable] struct {
	// list has the run from head on; what is taken out of its middle leaves a zero value, a hole.
	// Invariant: the first and the last are no holes, and there are at most as many holes as things.
	list        []T
	head, holes int
	zero        int // the number of what is, or would be, at position 0 of list; positions count on from there
}

func newHeap(less func(a, b *entry) bool) heap[*entry] {
	return heap[*entry]{less: less, index: func(e *entry) *int { return &e.index }}
}

// size is how many things the heap holds.
func (h *heap[T]) size() int { return len(h.entries) + h.run.size() }

// at returns the thing with an index, nothing if there is none.
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

// all returns all things, each with the index that it must have.
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

// before returns what the thing with an index must not come before: its parent in the binary heap, or its predecessor in the run.
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

// first returns what comes before all others, nothing if the heap is empty.
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

// lateMax is how many things at the end of the run make way for one that comes before them.
const lateMax = 64

// makeWay moves what comes after a thing from the end of the run into the binary heap: otherwise one late arrival would keep all that follows out of
// the run. It returns false if that is too much. Each thing makes way once at most.
func (h *heap[T]) makeWay(e T) bool {
	r := &h.run
	for moved := false; r.size() > 0; moved = true {
		last := r.list[len(r.list)-1]
		if !h.less(e, last) {
			break
		}
		if at := len(r.list) - 1 - lateMax; !moved && at >= r.head {
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

// fix restores the order after the thing's has changed.
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

// append adds a thing at the end and returns its number.
func (r *run[T]) append(e T) (number int) {
	if len(r.list) == cap(r.list) && r.head > len(r.list)/2 { // there is room at the front
		n := copy(r.list, r.list[r.head:])
		clear(r.list[n:])
		r.list, r.head, r.zero = r.list[:n], 0, r.zero+r.head
	}
	r.list = append(r.list, e)
	return r.zero + len(r.list) - 1
}

// emptyKept is up to how many positions the memory of an empty run is kept.
const emptyKept = 1024

// take takes out what is at a position. It reports whether what is left has moved up into the holes and must be numbered anew.
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
