package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// fitCluster has two nodes in zone a, a cordoned and a schedulable one, one node in zone
// b, and a pod that requests two cores.
const fitCluster = `
{apiVersion: v1, kind: Node, metadata: {name: a1, labels: {topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: "7", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: a2, labels: {topology.kubernetes.io/zone: a}}, spec: {unschedulable: true}, status: {allocatable: {cpu: "7", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, labels: {topology.kubernetes.io/zone: b}}, status: {allocatable: {cpu: "70", memory: 8Gi, pods: "2"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old}, spec: {nodeName: b1, containers: [{name: c, image: i}]}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}}
`

// fitted runs berth fit on a file with the cluster.
func fitted(t *testing.T, cluster string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"berth", "fit", "-f", file}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// TestFitTable counts three pods by cpu in zone a and one by the number of pods in zone
// b.
func TestFitTable(t *testing.T) {
	code, out, stderr := fitted(t, fitCluster)
	want := `Pods like default/probe that fit: 4
The next one: 0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) were unschedulable.

By topology.kubernetes.io/zone:

VALUE   NODES   FEASIBLE   FITS   RUNS OUT               NEVER FEASIBLE
a           2          1      3   Insufficient cpu (1)   node(s) were unschedulable (1)
b           1          1      1   Too many pods (1)      -
`
	if code != 0 || trimmed(out) != want {
		t.Errorf("exit code %d, output\n%s\nwant\n%s\n%s", code, out, want, stderr)
	}
}

// TestFitLimit ends the count early, and groups nodes by a label that none has.
func TestFitLimit(t *testing.T) {
	code, out, stderr := fitted(t, fitCluster, "--most", "2", "--by", "pool", "-o", "json")
	var fit explain.Fit
	if err := json.Unmarshal([]byte(out), &fit); err != nil || code != 0 {
		t.Fatal(code, err, stderr)
	}
	if fit.Fits != 2 || !fit.AtLeast || fit.Message != "" || len(fit.Domains) != 1 || fit.Domains[0].Name != "" || fit.Domains[0].Fits != 2 || fit.Domains[0].Feasible != 2 {
		t.Errorf("got %s", out)
	}
}

// TestFitBesidePendingPods reads the pod from a separate file, because a snapshot has
// pending pods, too.
func TestFitBesidePendingPods(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pod := func(name, cpu string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}}\n", name, cpu)
	}
	snapshot := write("snapshot.yaml", fitCluster+"---\n"+pod("waits", "1"))
	more, small, several := write("more.yaml", pod("more", "7")), write("small.yaml", pod("small", "7")), write("several.yaml", pod("left", "1")+"---\n"+pod("right", "1"))
	if err := os.Mkdir(filepath.Join(dir, "split"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("split/a-nodes.yaml", fitCluster)
	write("split/b-pods.yaml", pod("waits", "1")+"---\n"+pod("waits-2", "1"))
	for _, row := range []struct {
		files      []string
		pod, other string // the first line of the output, the end of the note; or only the error
	}{
		{[]string{snapshot, small}, "Pods like default/small that fit: 2\n", "small.yaml. Other pending pods are ignored: 2.\n"},
		{[]string{small, snapshot}, "Pods like default/small that fit: 2\n", "small.yaml. Other pending pods are ignored: 2.\n"},
		{[]string{snapshot, more, small}, "Pods like default/small that fit: 2\n", "Other pending pods are ignored: 3.\n"},
		{[]string{filepath.Join(dir, "split"), small}, "Pods like default/small that fit: 2\n", "Other pending pods are ignored: 3.\n"},
		{[]string{snapshot, several}, "", "must have exactly one such Pod; all files have 4: default/probe, default/waits, default/left, default/right"},
		{[]string{snapshot}, "", "must have exactly one such Pod; all files have 2: default/probe, default/waits"},
		{[]string{"../../examples/pool.yaml"}, "", "Error: -f: the files have no pending Pod to count: add a file with a Pod or a workload\n"},
	} {
		args := []string{"berth", "fit"}
		for _, file := range row.files {
			args = append(args, "-f", file)
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), args, &out, &errs)
		if code != 0 != (row.pod == "") || !strings.HasPrefix(out.String(), row.pod) || !strings.Contains(errs.String(), row.other) {
			t.Errorf("%q: exit code %d, output\n%s\n%s", row.files, code, out.String(), errs.String())
		}
	}
}

// TestFitMistakes expects exit code 2 and an error that names the correct form.
func TestFitMistakes(t *testing.T) {
	second := fitCluster + "---\n{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {containers: [{name: c, image: i}]}}\n"
	for _, test := range []struct {
		cluster, want string
		args          []string
	}{
		{second, "must have exactly one such Pod; all files have 2: default/probe, default/other", nil},
		{fitCluster, `--most 0: must be at least 1`, []string{"--most", "0"}},
		{fitCluster, `--by "a b": must be the key of a label`, []string{"--by", "a b"}},
		{fitCluster, `--output "wide": must be one of table, json, yaml`, []string{"-o", "wide"}},
		{fitCluster, "takes no arguments", []string{"pod"}},
		{fitCluster, `--namespace "shop": not supported for a cluster of files`, []string{"-n", "shop"}},
		{strings.Replace(fitCluster, "name: probe}, spec: {", "name: probe}, spec: {schedulerName: other, ", 1), `no profile has the scheduler name "other"`, nil},
	} {
		if code, out, stderr := fitted(t, test.cluster, test.args...); code != 2 || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("exit code %d, output %q, error %s, want 2 and %s", code, out, stderr, test.want)
		}
	}
}
