//go:build !race

package build

// Raced is set under the race detector.
const Raced = false
