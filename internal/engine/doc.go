// Package engine turns the state and a pod whose turn it is into a decision.
//
// It takes a state.State and plan.Work; it gives plan.Decision, or on request the full answer for every node. It owns the
// columns, which are each plugin's answers to each need, kept up to date from the state's journal, and the compiled needs of plugins that
// read the state's counts instead. It never changes the state, reads
// a clock, draws random numbers or talks to anybody: the same state, seed and pod give the same decision.
package engine
