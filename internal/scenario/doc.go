// Package scenario is a small test language: a cluster in a few lines, what happens to it, and what the scheduler is to make of it.
//
// It takes the text of a scenario (README.md explains the language) and gives the list of expectations that do not hold, each with
// its line. It owns nothing but the cluster that a run lives in, which is internal/simulate's: the loop is the real one and the time
// is virtual. It never guesses: a word that the grammar's tables do not have is an error that names the words they have.
package scenario
