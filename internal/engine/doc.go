// Package engine turns the state and a pod whose turn it is into a decision.
//
// It takes a state.State and plan.Work; it gives plan.Decision, or on request the full answer for every node. It owns the
// columns: each plugin's answers to each need, kept up to date from the state's journal. It never changes the state, reads
// a clock, draws random numbers or talks to anybody: the same state, seed and pod give the same decision.
package engine
