package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// upgraded is a cluster where 1.38 places two pods elsewhere: one by an empty selector,
// and one because the first takes its room.
const upgraded = `
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: z1}}, status: {allocatable: {cpu: "4", memory: 4Gi, pods: "9"}, nodeInfo: {kubeletVersion: v1.37.2}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: z2}}, status: {allocatable: {cpu: "4", memory: 4Gi, pods: "1"}, nodeInfo: {kubeletVersion: v1.37.2}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old}, spec: {nodeName: a, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: spread}, spec: {priority: 9, containers: [{name: c, image: i}],
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}],
  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {nodeSelector: {topology.kubernetes.io/zone: z2}, containers: [{name: c, image: i}]}}
`

// TestCompareReleases rehearses an upgrade. The rule is named where it alone changes the
// outcome: the other pod has no node because the first one took it.
func TestCompareReleases(t *testing.T) {
	code, out, stderr := onCluster(t, upgraded, "compare", "--release", "1.37", "--release", "1.38", "-o", "json")
	var got struct {
		ReleaseA, ReleaseB string
		simulate.Comparison
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.ReleaseA != "1.37" || got.ReleaseB != "1.38" || len(got.Pods) != 2 {
		t.Fatalf("exit code %d, %v, output\n%s%s", code, err, out, stderr)
	}
	for _, pod := range got.Pods {
		if !slices.Equal(pod.Rules, []string{"spreadEmptySelector"}) {
			t.Errorf("%s has the rules %q", pod.Pod, pod.Rules)
		}
	}
	code, out, _ = onCluster(t, upgraded, "compare", "--release", "1.37", "--release", "1.38")
	if code != 0 || !strings.HasPrefix(out, "A is the default configuration in 1.37, B is the default configuration in 1.38.\n") ||
		!strings.Contains(columns(out), "default spread OtherNode spreadEmptySelector a b") {
		t.Errorf("exit code %d, output\n%s", code, out)
	}
	code, out, _ = onCluster(t, upgraded, "compare", "--release", "1.38", "--release", "1.38")
	if code != 0 || !strings.Contains(out, "The same: 2;") || strings.Contains(out, "RULE") {
		t.Errorf("the same release: exit code %d, output\n%s", code, out)
	}
	for want, args := range map[string][]string{
		`--release "1.36": must be 1.37 or 1.38`: {"--release", "1.36", "--release", "1.38"},
		"--release: must be given once or twice": {"--release", "1.37", "--release", "1.38", "--release", "1.38"},
		"--config: must be given once or twice":  {"--release", "1.38"},
	} {
		if code, _, stderr := onCluster(t, upgraded, "compare", args...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, error %s, want %s", args, code, stderr, want)
		}
	}
}

// TestReleaseOfFiles takes the release of the newest kubelet, unless a flag sets it.
func TestReleaseOfFiles(t *testing.T) {
	node := func(version string) *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{KubeletVersion: version}}}
	}
	for _, row := range []struct {
		versions []string
		want     config.Release
	}{
		{nil, config.Release37},
		{[]string{""}, config.Release37},
		{[]string{"v1.36.9", "v1.37.1"}, config.Release37},
		{[]string{"v1.37.1", "v1.38.0-beta.0", "v1.36.1"}, config.Release38},
		{[]string{"v1.38.2-gke.100+abc", "odd"}, config.Release38},
		{[]string{"v1.41.0"}, config.Release38},
	} {
		var nodes []*v1.Node
		for _, v := range row.versions {
			nodes = append(nodes, node(v))
		}
		if got := releaseOf(nodes); got != row.want {
			t.Errorf("%q: %v, want %v", row.versions, got, row.want)
		}
	}
	newer := strings.ReplaceAll(upgraded, "v1.37.2", "v1.38.0")
	for _, row := range []struct {
		cluster string
		args    []string
		want    string
	}{
		{upgraded, nil, "default spread a"},
		{upgraded, []string{"--release", "1.38"}, "default spread b"},
		{newer, nil, "default spread b"},
		{newer, []string{"--release", "1.37"}, "default spread a"},
	} {
		if code, out, stderr := onCluster(t, row.cluster, "simulate", row.args...); code != 0 || !strings.Contains(columns(out), row.want) {
			t.Errorf("%q: exit code %d, output\n%s%s, want %s", row.args, code, out, stderr, row.want)
		}
	}
}
