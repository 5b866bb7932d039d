// Package model defines what exists in a cluster, in the form the scheduler computes with.
//
// It takes API objects, which it compiles. It gives Pod, Node, Resources, Change (an update) and Event (what the update means for waiting pods).
// It owns no state: every value is immutable once it has been passed on, so goroutines share it without locks. It never calls an API, reads a
// clock or decides.
package model
