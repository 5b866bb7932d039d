//go:build !race

package build

// Raced reports whether the race detector is on.
const Raced = false
