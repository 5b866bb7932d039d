package build

import "testing"

// Sized returns the size of a benchmark, or a fiftieth of it with -short, when benchmarks
// only have to run.
func Sized(n int) int {
	if testing.Short() {
		return n / 50
	}
	return n
}

// UnlessRaced returns the number of tries without or with the race detector.
func UnlessRaced(times, withDetector int) int {
	if Raced {
		return withDetector
	}
	return times
}

// NotRaced skips a test under the race detector. It is for slow tests whose goroutines do
// not interact, or only in ways that other tests of the package cover.
func NotRaced(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("no goroutines meet in it that do not meet elsewhere: make unit runs it without the race detector")
	}
}
