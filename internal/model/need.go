package model

import "unique"

// Need is the part of a pod that one plugin depends on, as a value that compares equal exactly when the plugin's result for every node must be
// equal. The zero Need means that the plugin does not apply to the pod.
//
// A Need is an interned canonical text: comparing, hashing and copying one costs as much as a pointer, and unused texts are garbage-collected.
type Need struct{ handle unique.Handle[string] }

// NeedOf interns the canonical text of a need. Its format is private to the plugin; it must not be empty.
func NeedOf(canonical string) Need { return Need{unique.Make(canonical)} }

// IsZero reports whether the plugin does not apply to the pod.
func (n Need) IsZero() bool { return n == Need{} }

// String returns the canonical text, for reports and tests.
func (n Need) String() string {
	if n.IsZero() {
		return ""
	}
	return n.handle.Value()
}

// Normalization is how a plugin's raw scores are scaled to the range 0..MaxScore over all feasible nodes.
type Normalization uint8

// The normalizations. With m the largest raw score, Largest gives ⌊100·raw/m⌋ and LargestReversed 100 − ⌊100·raw/m⌋. If m is 0, Largest does not
// change the scores and LargestReversed gives every node 100.
const (
	// AsIs does not change the scores; they are in range already.
	AsIs Normalization = iota
	Largest
	LargestReversed
)
