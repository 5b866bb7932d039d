//go:build race

package simulate_test

// raced is set under the race detector, which makes a simulation many times slower. What the seeds explore is the same with and without it, so a few are enough to
// find races there, and `make unit` runs all of them without it.
const raced = true
