// Package model defines the objects of a cluster in the form that the scheduler computes
// with.
//
// It takes API objects and compiles them. It returns Pod, Node, Resources, Change (an
// update) and Event (the meaning of an update for waiting pods). It owns no state: a
// value that was passed on is immutable, so goroutines share it without locks. It never
// calls an API, reads a clock or decides.
package model
