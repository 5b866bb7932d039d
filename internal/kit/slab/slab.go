// Package slab allocates slices of one element, many at a time.
//
// It takes a value and returns a slice that holds only this value. It owns the array from
// which the next slices are cut. It never reuses memory: the garbage collector frees an
// array when none of its slices is in use.
package slab

// chunk is the number of slices in one allocation. A slice that is kept for long keeps
// its whole chunk, so chunks are small: about 10 KB for decisions.
const chunk = 64

// Slab allocates slices of one element. The work of one pod and a decision with one
// placement hold such slices. Separate allocations would cost every decision two more.
// The zero value is ready to use. One goroutine uses it.
type Slab[T any] struct{ free []T }

// One returns a new slice that holds only the item. Appending to it copies it.
func (s *Slab[T]) One(item T) []T {
	if len(s.free) == 0 {
		s.free = make([]T, chunk)
	}
	one := s.free[:1:1]
	s.free = s.free[1:]
	one[0] = item
	return one
}
