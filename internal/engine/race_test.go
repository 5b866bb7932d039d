//go:build race

package engine_test

// raced is set under the race detector, which makes random clusters many times slower. An engine is used by one goroutine, and what the seeds explore is the
// same with and without it, so a few are enough to find races there, and `make unit` runs all of them without it.
const raced = true
