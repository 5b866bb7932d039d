//go:build !race

package engine_test

// raced is set under the race detector.
const raced = false
