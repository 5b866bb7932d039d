// Package hints adds to FailedScheduling events the least change of the pod that would
// help.
//
// It takes decisions without a feasible node, and returns a sentence about the first of
// package advice's suggestions that changes the pod alone. It owns the suggestions found
// lately, by kind of pod. It never changes a decision, engine or state, and never delays
// an event: a suggestion that is not found yet is left out. The flag is
// --berth-event-hints.
//
// A change of the pod needs no second copy of the cluster. The changed pod is compiled,
// and the loop's engine returns whether it fits (Engine.FitsOn: the same columns, no
// scores). So no other goroutine reads the state. A search (advice.Search) is resumed
// between rounds and after rejections, one decision at a time, within a hundredth of the
// loop's time, saved up to 5 ms. The simulation has no clock and counts work instead, so
// results are deterministic.
//
// Pods of one shape (Engine.ShapeOf) share suggestions. Example: 10,000 replicas of one
// Deployment are rejected. One search runs; every replica costs a map lookup.
//
// The outbox merges repetitions into one event whose note cannot change. It also decides
// when a new suggestion justifies a new event (saysMore in package commit).
package hints
