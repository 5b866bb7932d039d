// Package model says what exists in a cluster, in the form the scheduler computes with.
//
// It takes nothing and does nothing by itself: it is the vocabulary of the pipeline. It gives Pod, Node, Resources,
// Change (what arrived) and Event (what it meant). It owns no state: every value is immutable once it has been handed
// on, so that it can be shared between goroutines without locks. It never talks to an API, reads a clock or decides.
package model
