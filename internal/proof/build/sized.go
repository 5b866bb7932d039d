package build

import "testing"

// Sized is the size of a benchmark, or a fiftieth of it with -short, where benchmarks only have to run.
func Sized(n int) int {
	if testing.Short() {
		return n / 50
	}
	return n
}

// UnlessRaced is how often to try something without the race detector, and with it.
func UnlessRaced(times, withDetector int) int {
	if Raced {
		return withDetector
	}
	return times
}

// NotRaced skips, under the race detector, a test that takes long there and in which no goroutines meet, or only those that meet in other tests of its package, too.
func NotRaced(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("no goroutines meet in it that do not meet elsewhere: make unit runs it without the race detector")
	}
}
