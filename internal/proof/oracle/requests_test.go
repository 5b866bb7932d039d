package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The numbered rows come from design/rules/resources.md#requests-of-a-pod; cpu in
// thousandths, memory in Mi.
func TestPodRequests(t *testing.T) {
	pending := requestRules{podLevel: true}
	placed := requestRules{status: true, podLevel: true}
	two := []podPart{run("cpu=500m memory=256Mi"), run("cpu=1000m memory=512Mi")}
	with := func(parts ...podPart) []podPart { return append(two[:2:2], parts...) }
	spec4 := run("cpu=4000m")
	tests := []struct {
		row     string
		rules   requestRules
		parts   []podPart
		cpu, mi int64
	}{
		{"1", pending, two, 1500, 768},
		{"2", pending, with(initial("cpu=2000m memory=128Mi"), initial("cpu=250m memory=1024Mi")), 2000, 1024},
		{"3", pending, []podPart{run("cpu=1"), sidecar("cpu=1"), initial("cpu=2"), sidecar("cpu=500m")}, 3000, 0},
		{"4", pending, []podPart{run("cpu=1"), initial("cpu=2"), sidecar("cpu=1"), sidecar("cpu=500m")}, 2500, 0},
		{"5", pending, []podPart{run("cpu=500m memory=256Mi"), initial("cpu=2"), overhead("cpu=250m memory=120Mi")}, 2250, 376},
		{"6", pending, []podPart{run("cpu=1 memory=512Mi"), run("cpu=1 memory=512Mi"), podLevel("cpu=1500m"), overhead("cpu=100m")}, 1600, 1024},
		{"7", pending, []podPart{run("cpu=500m memory=256Mi"), podLevel("ephemeral-storage=1Gi")}, 500, 256},
		{"8", placed, []podPart{run("cpu=2"), run("cpu=1"), status(0, "cpu=1", "cpu=1"), status(1, "cpu=2", "cpu=2")}, 3000, 0},
		{"9 infeasible", placed, []podPart{spec4, status(0, "cpu=2", "cpu=2"), resize(v1.PodReasonInfeasible)}, 2000, 0},
		{"9 deferred", placed, []podPart{spec4, status(0, "cpu=2", "cpu=2"), resize(v1.PodReasonDeferred)}, 4000, 0},
		{"10", placed, []podPart{run("cpu=1"), status(0, "cpu=1", "cpu=2")}, 2000, 0},
		{"11", placed, []podPart{run("cpu=1"), status(0, "cpu=9", "cpu=1"), podStatus("cpu=1500m", "cpu=1200m")}, 1500, 0},
		{"12", placed, []podPart{run("cpu=500m"), podLevel("cpu=4"), podStatus("cpu=2", "cpu=1800m"), resize(v1.PodReasonInfeasible)}, 2000, 0},
		{"status is not for pending pods", pending, []podPart{run("cpu=1"), status(0, "cpu=2", "cpu=2")}, 1000, 0},
		{"infeasible without pod-wide status: pod level as it is", placed, []podPart{run("cpu=500m"), podLevel("cpu=4"), resize(v1.PodReasonInfeasible)}, 4000, 0},
		{"infeasible without any status", placed, []podPart{spec4, resize(v1.PodReasonInfeasible)}, 0, 0},
	}
	for _, tt := range tests {
		got := rounded(requests(pod(tt.parts...), tt.rules))
		if got[v1.ResourceCPU] != tt.cpu || got[v1.ResourceMemory] != tt.mi<<20 {
			t.Errorf("row %s: got %d, %d Mi, want %d, %d", tt.row, got[v1.ResourceCPU], got[v1.ResourceMemory]>>20, tt.cpu, tt.mi)
		}
	}
}

// The rows come from design/rules/resources.md#requests-for-scoring.
func TestNonZeroRequests(t *testing.T) {
	tests := []struct {
		row     string
		parts   []podPart
		cpu, mi int64
	}{
		{"1", []podPart{run("")}, 100, 200},
		{"2", []podPart{run("memory=100Mi"), run("")}, 200, 300},
		{"3", []podPart{run("cpu=0 memory=0")}, 0, 0},
		{"4", []podPart{run("cpu=50m memory=50Mi"), initial("")}, 100, 200},
		{"5", []podPart{run("cpu=500m memory=256Mi"), sidecar("")}, 600, 456},
		{"6", []podPart{run("memory=100Mi"), run(""), podLevel("cpu=1")}, 1000, 100},
		{"7", []podPart{run(""), run(""), podLevel("cpu=1")}, 1000, 400},
		{"8", []podPart{run(""), podLevel("cpu=1"), overhead("memory=64Mi")}, 1000, 64},
		{"9", []podPart{run(""), overhead("cpu=250m memory=120Mi")}, 350, 320},
	}
	for _, tt := range tests {
		got := rounded(nonZeroRequests(pod(tt.parts...)))
		if got[v1.ResourceCPU] != tt.cpu || got[v1.ResourceMemory] != tt.mi<<20 {
			t.Errorf("row %s: got %d, %d Mi, want %d, %d", tt.row, got[v1.ResourceCPU], got[v1.ResourceMemory]>>20, tt.cpu, tt.mi)
		}
	}
	scoredWhilePending := rounded(requests(pod(tests[6].parts...), requestRules{defaults: scoringDefaults}))
	if got := fmt.Sprint(scoredWhilePending[v1.ResourceCPU], scoredWhilePending[v1.ResourceMemory]>>20); got != "200 400" {
		t.Errorf("row 7 while pending: got %s, want 200 400", got)
	}
}

// Quantities are rounded up, once per pod, and some names do not count:
// design/rules/resources.md#names-and-rounding.
func TestRounding(t *testing.T) {
	tests := []struct {
		parts []podPart
		want  amounts
	}{
		{[]podPart{run("memory=1500m")}, amounts{"memory": 2}},
		{[]podPart{run("cpu=100500u")}, amounts{"cpu": 101}},
		{[]podPart{run("cpu=100500u"), run("cpu=100500u")}, amounts{"cpu": 201}},
		{[]podPart{run("pods=1 foo=1 storage=1 requests.x/y=1")}, amounts{}},
		{[]podPart{run("hugepages-2Mi=1 attachable-volumes-a=2 deviceclass.resource.kubernetes.io/c=3 x.io/y=4")},
			amounts{"hugepages-2Mi": 1, "attachable-volumes-a": 2, "deviceclass.resource.kubernetes.io/c": 3, "x.io/y": 4}},
	}
	for _, tt := range tests {
		if got := rounded(requests(pod(tt.parts...), requestRules{})); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("got %v, want %v", got, tt.want)
		}
	}
}
