//go:build !race

package simulate_test

// raced is set under the race detector.
const raced = false
