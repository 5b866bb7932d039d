// Package slab allocates slices of one element, many at a time.
//
// It takes a value and gives a slice that holds it alone. It owns the array that the next slices are cut from. It never reuses
// memory: the garbage collector frees an array when none of its slices is in use.
package slab

// chunk is how many slices share one allocation. A slice that is kept for long keeps its whole chunk, so chunks are small: those of
// decisions take about 10 KB.
const chunk = 64

// Slab allocates slices of one element. A work of one pod and a decision with one placement hold such slices, and allocating each by itself
// would cost every decision two allocations. The zero value is ready. One goroutine uses it.
type Slab[T any] struct{ free []T }

// One returns a new slice that holds the item alone. Appending to it copies it.
func (s *Slab[T]) One(item T) []T {
	if len(s.free) == 0 {
		s.free = make([]T, chunk)
	}
	one := s.free[:1:1]
	s.free = s.free[1:]
	one[0] = item
	return one
}
