package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// drainCluster has two pods of two cores on a node of a pool. Another node has room for
// only one pod.
const drainCluster = `
{apiVersion: v1, kind: Node, metadata: {name: a1, labels: {pool: old, topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, labels: {topology.kubernetes.io/zone: b}}, status: {allocatable: {cpu: "3", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}, spec: {nodeName: a1, containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}, spec: {nodeName: a1, containers: [{name: c, image: i, resources: {requests: {cpu: "2"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {nodeName: b1, containers: [{name: c, image: i}]}}
`

// onCluster runs a command on a file with a cluster.
func onCluster(t *testing.T, cluster, command string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"berth", command, "-f", file}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// TestDrainTable prints where pods go, and exits with 3 because a pod finds no node.
func TestDrainTable(t *testing.T) {
	code, out, stderr := onCluster(t, drainCluster, "drain", "-l", "pool=old")
	want := `NAMESPACE   POD     OWNER            FROM   TO       STATUS      MESSAGE
default     web-1   ReplicaSet/web   a1     b1       Scheduled
default     web-2   ReplicaSet/web   a1     <none>   Pending     0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.

NODE   STATUS    EVICTED   LEFT   MESSAGE
a1     Drained   2         0

Recreated pods: 2, 1 of them placed. Nodes: 2, 1 of them unschedulable.

ZONE   NODES   CPU              MEMORY     PODS
a      1       100% -> 0%       0% -> 0%   20% -> 0%
b      1       0% -> 66.7%      0% -> 0%   10% -> 20%
`
	if code != 3 || columns(out) != columns(want) {
		t.Errorf("exit code %d, output\n%s\nwant\n%s", code, out, want)
	}
	if !strings.Contains(stderr, "Error: 1 of 2 evicted pods would stay pending") {
		t.Errorf("standard error: %s", stderr)
	}
}

// columns is a table without the spaces that align it.
func columns(table string) string {
	var lines []string
	for line := range strings.SplitSeq(table, "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// TestDrainIgnored checks that pods of another scheduler are counted separately, and fail
// the command only on request.
func TestDrainIgnored(t *testing.T) {
	cluster := strings.Replace(drainCluster, "{name: web-2, ", "{name: web-2, ", 1)
	cluster = strings.Replace(cluster, `controller: true}]}, spec: {nodeName: a1, `, `controller: true}]}, spec: {schedulerName: other, nodeName: a1, `, 1)
	code, out, stderr := onCluster(t, cluster, "drain", "a1")
	if want := "Recreated pods: 2, 1 of them placed; pods of schedulers without a profile: 1. Nodes: 2"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, want 0, output\n%s\nwant %s\n%s", code, out, want, stderr)
	}
	code, _, stderr = onCluster(t, cluster, "drain", "a1", "--fail-on-ignored")
	if want := "Error: 1 of 2 evicted pods belong to schedulers without a profile\n"; code != 3 || !strings.HasSuffix(stderr, want) {
		t.Errorf("exit code %d, want 3, standard error %s", code, stderr)
	}
	// A pod without a node still fails the command.
	code, _, stderr = onCluster(t, strings.Replace(cluster, `cpu: "3"`, `cpu: "1"`, 1), "drain", "a1")
	if code != 3 || !strings.HasSuffix(stderr, "Error: 1 of 2 evicted pods would stay pending\n") {
		t.Errorf("exit code %d, want 3, standard error %s", code, stderr)
	}
}

// TestDrainJSON exits with 0 if every pod finds a node.
func TestDrainJSON(t *testing.T) {
	code, out, stderr := onCluster(t, drainCluster, "drain", "node/b1", "--force", "-o", "json")
	var result simulate.DrainResult
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 {
		t.Fatal(code, err, stderr)
	}
	if len(result.Pods) != 1 || result.Pods[0].Status != simulate.Gone || result.Nodes[0].Status != simulate.Drained {
		t.Errorf("got %s", out)
	}
}

// TestDrainMistakes expects exit code 2 and an error with the correct form.
func TestDrainMistakes(t *testing.T) {
	for _, test := range []struct {
		want string
		args []string
	}{
		{"no node is given: name nodes, or select them with -l", nil},
		{`--selector "pool=old" are both given`, []string{"a1", "-l", "pool=old"}},
		{`node "a2" not found; did you mean a1 or b1?`, []string{"a2"}},
		{`node "a1" is given twice`, []string{"a1", "node/a1"}},
		{`--selector "pool=new": selects none of the 2 nodes`, []string{"-l", "pool=new"}},
		{`--selector "pool in": must be a selector of labels, such as`, []string{"-l", "pool in"}},
		{`--pod-selector "a==,=,": must be`, []string{"a1", "--pod-selector", "a==,=,"}},
		{`--namespace "shop": not supported`, []string{"a1", "-n", "shop"}},
		{`--output "wide": must be one of table, json, yaml`, []string{"a1", "-o", "wide"}},
	} {
		if code, out, stderr := onCluster(t, drainCluster, "drain", test.args...); code != 2 || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit code %d, output %q, error %s, want 2 and %s", test.args, code, out, stderr, test.want)
		}
	}
}

// TestCompareTable compares a configuration that ignores resources with the default one.
func TestCompareTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blind.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}, {name: DefaultPreemption}]}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pending := strings.Replace(strings.Replace(drainCluster, "{name: bare}, spec: {nodeName: b1, ", "{name: wide}, spec: {", 1), "image: i}]}}", `image: i, resources: {requests: {cpu: "3500m"}}}]}}`, 1)
	code, out, stderr := onCluster(t, pending, "compare", "--config", file)
	if code != 0 || !strings.HasPrefix(out, "A is the default configuration, B is "+file+".\n") || !strings.Contains(columns(out), "default wide OnlyB Pending ") ||
		!strings.Contains(out, "Decisions: 1. The same: 0; on another node: 0; only A places: 0; only B places: 1; neither, but for different reasons: 0. Preempted: 0 by A, 0 by B.") {
		t.Errorf("exit code %d, output\n%s\n%s", code, out, stderr)
	}
	code, out, _ = onCluster(t, pending, "compare", "--config", file, "--config", file, "--owned", "-o", "json")
	var got struct {
		A, B string
		simulate.Comparison
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Decided != 3 || got.Same != 3 || got.A != file || len(got.Domains) != 2 {
		t.Errorf("exit code %d, %v, output\n%s", code, err, out)
	}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"--config: must be given once or twice, got []", nil},
		{"--config: must be given once or twice", []string{"--config", "a", "--config", "b", "--config", "c"}},
		{"no such file", []string{"--config", file + "x"}},
		{`--by "a b": must be the key of a label`, []string{"--config", file, "--by", "a b"}},
		{"takes no arguments", []string{"a.yaml", "b.yaml"}},
	} {
		if code, out, stderr := onCluster(t, pending, "compare", test.args...); code != 2 || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q: exit code %d, output %q, error %s, want 2 and %s", test.args, code, out, stderr, test.want)
		}
	}
}
