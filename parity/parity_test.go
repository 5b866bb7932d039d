package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// enough is the minimum number of comparisons.
const enough = 20_000

// TestParity runs part of "make parity": every shape and sequence, with fewer seeds.
func TestParity(t *testing.T) {
	o, err := parseOptions([]string{"-seeds", "1..20", "-sequence-seeds", "1", "-pods", "250"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	end, err := o.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := run(t.Context(), o, t.Output())
	if err = errors.Join(err, end()); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.print(&text, "table"); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	if r.Failed > 0 {
		t.Errorf("%d comparisons failed", r.Failed)
	}
	if r.Passed < enough {
		t.Errorf("%d comparisons, want %d at least", r.Passed, enough)
	}
	rejected, scored := 0, 0 // of groups
	for _, l := range r.Lines {
		if l.Rejected+l.Scored == 0 {
			t.Errorf("%s: nothing was compared", l.Name)
		}
		// one seed may have no groups; TestGroupsEvictAndShare has seeds with some
		if strings.HasPrefix(l.Name, "seq-gang-") || strings.HasPrefix(l.Name, "seq-tree-") {
			rejected, scored = rejected+l.Rejected, scored+l.Scored
			continue
		}
		onlyVictims := l.Name == "preempt-choice" || l.Name == "release-victims" // no node is feasible
		if l.Rejected == 0 || l.Scored == 0 && !onlyVictims {
			t.Errorf("%s: %d rejected, %d scored; it must have some of both", l.Name, l.Rejected, l.Scored)
		}
		if strings.Contains(l.Name, "preempt") && l.Preempted == 0 {
			t.Errorf("%s: kube-scheduler has found no pods to evict", l.Name)
		}
	}
	if rejected == 0 || scored == 0 {
		t.Errorf("groups: %d rejected, %d scored; they must have some of both", rejected, scored)
	}
}

func TestMisuse(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"-seeds x", `-seeds must be a number or FIRST..LAST with FIRST not above LAST, got "x"`},
		{"-seeds 3..2", `-seeds must be a number or FIRST..LAST with FIRST not above LAST, got "3..2"`},
		{"-sequence-seeds -1", `-sequence-seeds must be a number or FIRST..LAST with FIRST not above LAST, got "-1"`},
		{"-shapes nothing", `-shapes: there is no shape or sequence "nothing"; -help lists them`},
		{"-release 1.36", `-release "1.36": must be 1.37 or 1.38`},
		{"-pods 0", "-pods must be at least 1, got 0"},
		{"-o csv", `-o must be table, json or yaml, got "csv"`},
		{"mixed", `there are no arguments, got ["mixed"]: name shapes with -shapes`},
	} {
		var stdout, stderr bytes.Buffer
		if code := parity(t.Context(), strings.Fields(tt.args), &stdout, &stderr); code != misused || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", tt.args, code, stdout.String(), stderr.String())
		}
	}
}

// TestReportOfDifferences checks that a difference comes with the command that reproduces
// it.
func TestReportOfDifferences(t *testing.T) {
	o, err := parseOptions([]string{"-shapes", "ports,seq-mixed", "-seeds", "1..2", "-pods", "77", "-differences", "2"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r, tasks := plan(o)
	d := compare.Difference{Pod: "default/web", Node: "n", What: "scores", KubeScheduler: "1", Berth: "2"}
	r.add(o, &tasks[0], &outcome{passed: 5})
	r.add(o, &tasks[1], &outcome{passed: 1000, failed: 3, differences: []compare.Difference{d, d, d}})
	r.add(o, &tasks[2], &outcome{failed: 1, differences: []compare.Difference{{Pod: "default/db", What: "chosen node", KubeScheduler: "a", Berth: "b"}}})
	var text bytes.Buffer
	if err := r.print(&text, "table"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1,005 passed, 3 failed", "0 passed, 1 failed", "1,005 passed, 4 failed",
		"ports: differences with 1 seed, the first are:\n" +
			"  pod default/web on n: scores: kube-scheduler 1, Berth 2\n  pod default/web on n: scores: kube-scheduler 1, Berth 2\n" +
			"  again: make parity PARITY_FLAGS='-shapes ports -seed 2'\n",
		"  pod default/db: chosen node: kube-scheduler a, Berth b\n  again: make parity PARITY_FLAGS='-shapes seq-mixed -seed 1 -pods 77'\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// TestWrite checks that "berth explain" reads the written files, and that they hold the
// same cluster.
func TestWrite(t *testing.T) {
	w := cases.Shapes()[0].Draw(1)
	folder, err := write(filepath.Join(t.TempDir(), "resources-1"), w)
	if err != nil {
		t.Fatal(err)
	}
	read, err := manifest.Read([]string{filepath.Join(folder, "cluster.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Nodes) != len(w.Nodes) || len(read.Pods) != len(w.Pods) {
		t.Errorf("%d nodes and %d pods were written, %d and %d read", len(w.Nodes), len(w.Pods), len(read.Nodes), len(read.Pods))
	}
	if _, err := write(filepath.Join(folder, "cluster.yaml", "x"), w); !errors.Is(err, syscall.ENOTDIR) || !strings.HasPrefix(err.Error(), "write a cluster down: mkdir ") {
		t.Errorf("to a folder that is a file: %v", err)
	}
}
