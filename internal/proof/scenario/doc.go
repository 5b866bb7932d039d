// Package scenario is a small test language: a cluster in a few lines, changes to it, and
// the decisions that the scheduler must make.
//
// It takes the text of a scenario (README.md explains the language). It returns the
// expectations that do not hold, each with its line. It owns only the cluster of a run,
// from internal/offline/simulate: the loop is the real one and the time is virtual. It
// never guesses: a word outside of the grammar's tables is an error that lists the
// allowed words.
package scenario
