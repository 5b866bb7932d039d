package main

import (
	"context"
	"os"
	"testing"
	"time"
)

// binEnv names the folder with the built binaries, as for the other integration tests.
const binEnv = "BERTH_E2E_BIN"

// TestReportsWithBerth plays all reports on a real API server: Berth is right in each.
func TestReportsWithBerth(t *testing.T) {
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Skipf("%s is not set: run `make e2e`", binEnv)
	}
	reports, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	outcomes, err := perform(ctx, bin, berth, reports)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if outcome := outcomes[r.Name]; outcome != isRight {
			t.Errorf("%s: %s; right: %s", r.Name, outcome, r.Right)
		}
	}
}
