// Package scenario is a small test language: a cluster in a few lines, what happens to it, and what the scheduler must decide.
//
// It takes the text of a scenario (README.md explains the language) and gives the list of expectations that do not hold, each with its
// line. It owns only the cluster of a run, which is one of internal/offline/simulate: the loop is the real one and the time is virtual. It never
// guesses: a word that is not in the grammar's tables is an error that lists the allowed words.
package scenario
