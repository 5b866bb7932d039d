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

// OneGoroutine skips, under the race detector, a test that takes long there and has no second goroutine, so that the detector sees nothing that it does not see in other tests.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if Raced {
		t.Skip("it has one goroutine, and is run without the race detector: see make unit")
	}
}
