package random

import (
	"fmt"
	"testing"
)

// EverySeed runs a test for each of the seeds 1 to seeds, or only for the given seed. For
// a failed seed it logs the command to repeat it. folder is the package's folder, as an
// argument of the go command.
func EverySeed(t *testing.T, folder string, seeds int, only uint64, run func(t *testing.T, seed uint64)) {
	t.Helper()
	first, last := uint64(1), uint64(seeds)
	if only != 0 {
		first, last = only, only
	}
	name := t.Name()
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("replay: go test %s -run '^%s$' -seed %d", folder, name, seed)
				}
			}()
			run(t, seed)
		})
	}
}
