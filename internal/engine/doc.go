// Package engine decides where pods go.
//
// It takes a state.View and plan.Work; it gives a plan.Decision, or on request the full answer for every node. It owns the columns, which hold each
// plugin's results for each need and are updated from the state's journal, the compiled needs of plugins that read the state's counts instead, and
// the rejections that it remembers. It never changes the state, reads a clock, draws random numbers or does I/O: the same state, seed and pod give
// the same decision.
package engine
