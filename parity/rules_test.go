package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/remote"
)

// seedsOfRule are enough for each rule to decide.
const seedsOfRule = 10

// TestRulesHaveShapes checks that each rule has a shape, and that the other release's
// answer fails on it: a rule that is always on differs from 1.37.
func TestRulesHaveShapes(t *testing.T) {
	shapes := cases.ReleaseShapes()
	var names []string
	for _, rule := range config.Rules() {
		names = append(names, rule.Name)
		pair := compare.InProcess()
		if failed := failures(t, shapes[rule.Name], pair); failed > 0 {
			t.Errorf("%s: %d comparisons with 1.37 fail", rule.Name, failed)
		}
		pair.Rule = rule.Name
		if failed := failures(t, shapes[rule.Name], pair); failed == 0 {
			t.Errorf("%s: no comparison with 1.37 fails if the rule is on", rule.Name)
		}
	}
	slices.Sort(names)
	if made := slices.Sorted(maps.Keys(shapes)); !slices.Equal(made, names) {
		t.Errorf("shapes of the rules %v, want %v", made, names)
	}
}

// TestRulesOf138 checks each rule against kube-scheduler 1.38. Its shape fails with the
// answers of 1.37. It passes with this rule alone, and with all of them.
func TestRulesOf138(t *testing.T) {
	client := startOther(t)
	pair := compare.Pair{Sends: true, New: func(config []byte) (compare.KubeScheduler, error) { return client.New(config) }}
	for _, rule := range config.Rules() {
		shape := cases.ReleaseShapes()[rule.Name]
		for _, tt := range []struct {
			release config.Release
			rule    string
			passes  bool
		}{
			{config.Release37, "", false}, {config.Release37, rule.Name, true}, {config.Release38, "", true},
		} {
			pair.Release, pair.Rule = tt.release, tt.rule
			if failed := failures(t, shape, pair); (failed == 0) != tt.passes {
				t.Errorf("%s: %d comparisons fail with Berth %s and the rule %q", rule.Name, failed, tt.release, tt.rule)
			}
		}
	}
}

// startOther starts kube-scheduler 1.38, or skips the test.
func startOther(t *testing.T) *remote.Client {
	t.Helper()
	program := os.Getenv("PARITY138")
	if program == "" {
		t.Skip("PARITY138 names no program; see make parity138-rules")
	}
	client, err := remote.Start(context.WithoutCancel(t.Context()), program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("kube-scheduler %s", client.Version)
	return client
}

// failures compares a few seeds of a shape, and returns the number of differences.
func failures(t *testing.T, s cases.Shape, pair compare.Pair) int {
	t.Helper()
	passed, failed := 0, 0
	for seed := range uint64(seedsOfRule) {
		r, err := pair.Case(s.Draw(seed + 1))
		if err != nil {
			t.Fatalf("%s, seed %d: %v", s.Name, seed+1, err)
		}
		passed, failed = passed+r.Passed, failed+r.Failed
	}
	if passed == 0 {
		t.Errorf("%s: nothing passes", s.Name)
	}
	return failed
}
