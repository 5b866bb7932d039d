package model

import "unique"

// Need is what one plugin wants to know about a pod, reduced to a value that compares equal exactly when the plugin's
// answer about every node must be equal. The zero Need means that the plugin has nothing to say about the pod.
//
// A Need is an interned canonical text; comparing, hashing and copying one costs as much as a pointer, and texts nobody
// holds any more are collected.
type Need struct{ handle unique.Handle[string] }

// NeedOf interns the canonical text of a need. The text is the plugin's own business; it must not be empty.
func NeedOf(canonical string) Need { return Need{unique.Make(canonical)} }

// IsZero reports whether there is nothing to ask.
func (n Need) IsZero() bool { return n == Need{} }

// String returns the canonical text, for reports and tests.
func (n Need) String() string {
	if n.IsZero() {
		return ""
	}
	return n.handle.Value()
}

// Normalization is how a plugin's raw scores are brought to the range 0..MaxScore over all feasible nodes.
type Normalization uint8

// The ways of normalising. With m the largest raw score, Largest gives ⌊100·raw/m⌋ and LargestReversed 100 − ⌊100·raw/m⌋. Where m
// is 0, Largest leaves the scores alone and LargestReversed gives every node 100.
const (
	// AsIs leaves scores alone; they are in range already.
	AsIs Normalization = iota
	Largest
	LargestReversed
)
