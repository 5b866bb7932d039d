// Package forms has functions of several forms, into which the tests of mutate put faults. Its own tests find all of them.
package forms

import "strings"

// Set is a set.
type Set[T comparable] map[T]bool

// Add adds elements, and returns how many were not there.
func (s Set[T]) Add(elements ...T) (added int) {
	for _, e := range elements {
		if !s[e] {
			s[e] = true
			added++
		}
	}
	return added
}

// Sign returns -1, 0 or 1.
func Sign[T ~int](n T) T {
	switch {
	case n < 0:
		return -1
	case n == 0:
		return 0
	default:
		return 1
	}
}

// Down counts down to 0, and returns how many steps that takes.
func Down(n int) (steps int) {
	for n > 0 {
		n--
		steps++
	}
	return steps
}

// Count counts. It cannot be called without the name of a type for its nameless parameter.
func Count[_ any](list ...int) int { return len(list) + 1 }

// joined is set by init.
var joined string

func init() { joined = strings.Join([]string{"a", "b"}, Between) }

// Between is between the parts of joined.
const Between = ", "
