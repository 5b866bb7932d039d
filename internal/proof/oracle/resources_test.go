package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The numbered rows come from design/rules/resources.md#fit-filter.
func TestFit(t *testing.T) {
	fpga, gpu := "example.com/fpga", "nvidia.com/gpu"
	ignore := func(names ...string) configv1.NodeResourcesFitArgs {
		return configv1.NodeResourcesFitArgs{IgnoredResources: names}
	}
	ignoreGroup := configv1.NodeResourcesFitArgs{IgnoredResourceGroups: []string{"nvidia.com"}}
	var none configv1.NodeResourcesFitArgs
	tests := []struct {
		row, change, request string
		args                 configv1.NodeResourcesFitArgs
		want                 string
	}{
		{"1", "", "cpu=1000m", none, "fits"},
		{"2", "", "cpu=1001m", none, "U Insufficient cpu"},
		{"3", "", "cpu=4001m", none, "UU Insufficient cpu"},
		{"4", "", "cpu=2000m memory=9Gi", none, "UU Insufficient cpu, Insufficient memory"},
		{"5", "pods=2", "", none, "U Too many pods"},
		{"6", "pods=2", "cpu=5000m", none, "UU Too many pods, Insufficient cpu"},
		{"7a", "", fpga + "=2", none, "U Insufficient " + fpga},
		{"7b", "", fpga + "=3", none, "UU Insufficient " + fpga},
		{"8", "", gpu + "=1", none, "UU Insufficient " + gpu},
		{"9a", "", gpu + "=1", ignore(gpu), "fits"},
		{"9b", "", gpu + "=1", ignoreGroup, "fits"},
		{"11", "", "hugepages-2Mi=64Mi", ignore("hugepages-2Mi"), "UU Insufficient hugepages-2Mi"},
		{"12a", "cpu=2000m", "memory=1Gi", none, "fits"},
		{"12b", "cpu=2000m", "cpu=1m", none, "U Insufficient cpu"},
		{"order", "", "z.io/z=1 a.io/a=1 ephemeral-storage=1 cpu=5", none, "UU Insufficient cpu, Insufficient ephemeral-storage, Insufficient a.io/a, Insufficient z.io/z"},
	}
	for _, tt := range tests {
		n := newNode("n", has("cpu=4000m memory=8Gi example.com/fpga=2"), has(tt.change))
		used := []*v1.Pod{pod(on("n"), run("cpu=3000m memory=2Gi example.com/fpga=1")), pod(on("n"), run("")), pod(on("n"), run("cpu=9"), phase(v1.PodFailed))}
		a := Judge(cluster(nodes(n), used...), pod(run(tt.request)), Profile{Fit: tt.args})
		if got := verdict(a.Nodes[0]); got != tt.want {
			t.Errorf("row %s: got %q, want %q", tt.row, got, tt.want)
		}
	}
}

// The numbered rows come from design/rules/resources.md#fit-score. The requests of a
// row belong to a pod on the node; the pending pod then requests an explicit 0.
func TestFitScore(t *testing.T) {
	least, most, ratio := configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio
	zero := pod(run("cpu=0 memory=0"))
	bare := pod(run(""))
	gpu := pod(run("cpu=0 memory=0 nvidia.com/gpu=1"))
	big := []podPart{run(""), podLevel("cpu=2000m memory=4Gi")}
	room := "cpu=4000m memory=8Gi"
	both := "cpu=1 memory=1"
	tests := []struct {
		row       string
		kind      configv1.ScoringStrategyType
		resources string // name=weight
		shape     []configv1.UtilizationShapePoint
		room      string
		used      *v1.Pod
		pod       *v1.Pod
		want      int64
	}{
		{"1", least, both, nil, room, nil, bare, 97},
		{"2", least, both, nil, room, pod(run("cpu=1500m memory=3Gi")), zero, 62},
		{"3", least, "cpu=3 memory=1", nil, room, pod(run("cpu=1500m memory=2Gi")), zero, 65},
		{"4", least, both, nil, room, pod(run("cpu=4100m memory=2Gi")), zero, 37},
		{"5", least, both, nil, "cpu=4000m memory=0", pod(run("cpu=1000m")), zero, 75},
		{"6", least, both + " ephemeral-storage=1", nil, room + " ephemeral-storage=100Gi", pod(run("cpu=1 memory=2Gi ephemeral-storage=10Gi")), zero, 80},
		{"7", least, both + " nvidia.com/gpu=5", nil, room + " nvidia.com/gpu=4", pod(run("cpu=1000m memory=2Gi")), zero, 75},
		{"8", least, both, nil, room, nil, pod(big...), 97},
		{"9", least, both, nil, room, pod(big...), bare, 47},
		{"10", most, both, nil, room, pod(run("cpu=1500m memory=3Gi")), zero, 37},
		{"11", most, both, nil, room, nil, bare, 2},
		{"12", most, both, nil, room, pod(run("cpu=4100m memory=2Gi")), zero, 62},
		{"13", most, "cpu=3 memory=1", nil, room, pod(run("cpu=1500m memory=2Gi")), zero, 34},
		{"14", most, both, nil, "cpu=0 memory=0", pod(run("cpu=1")), bare, 0},
		{"15", ratio, both, points(0, 0, 100, 10), room, pod(run("cpu=3 memory=2Gi")), zero, 50},
		{"16", ratio, both, points(0, 10, 100, 0), room, pod(run("cpu=3 memory=4Gi")), zero, 38},
		{"16 least", least, both, nil, room, pod(run("cpu=3 memory=4Gi")), zero, 37},
		{"17", ratio, both, points(0, 10, 100, 0), room, pod(run("cpu=4 memory=4Gi")), zero, 50},
		{"17 least", least, both, nil, room, pod(run("cpu=4 memory=4Gi")), zero, 25},
		{"18", ratio, both, points(0, 2, 40, 10, 100, 0), room, pod(run("cpu=1200m memory=6Gi")), zero, 61},
		{"19", ratio, both, points(10, 1, 90, 9), room, pod(run("cpu=200m memory=800Mi")), zero, 10},
		{"20", ratio, both, points(0, 10, 100, 3), room, pod(run("cpu=1320m memory=8Gi")), zero, 54},
		{"21", ratio, both + " nvidia.com/gpu=3", points(0, 0, 100, 10), room + " nvidia.com/gpu=8", pod(run("cpu=2 memory=2Gi nvidia.com/gpu=2")), gpu, 37},
		{"no strategy", "", "", nil, room, pod(run("cpu=1500m memory=3Gi")), zero, 62},
		{"weight 0 is 1", least, "cpu=3 memory=0", nil, room, pod(run("cpu=1500m memory=2Gi")), zero, 65},
		{"nothing counts", least, "pods=1 foo=1", nil, room, nil, bare, 0},
	}
	for _, tt := range tests {
		profile := Profile{}
		if tt.kind != "" {
			profile.Fit.ScoringStrategy = &configv1.ScoringStrategy{Type: tt.kind, Resources: specs(tt.resources)}
		}
		if tt.shape != nil {
			profile.Fit.ScoringStrategy.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: tt.shape}
		}
		got := scoreAll(t, fitScore, holding(newNode("n", has(tt.room)), tt.used), tt.pod, profile)
		if got[0] != tt.want {
			t.Errorf("row %s: got %d, want %d", tt.row, got[0], tt.want)
		}
	}
}

// The rows come from design/rules/resources.md#balanced-allocation.
func TestBalancedAllocation(t *testing.T) {
	room := "cpu=4000m memory=8Gi"
	three := specs("cpu=1 memory=1 nvidia.com/gpu=1")
	tests := []struct {
		row, room, used, pod string
		resources            []configv1.ResourceSpec
		want                 string
	}{
		{"1", room, "", "cpu=1 memory=2Gi", nil, "[75]"},
		{"2", room, "", "cpu=2 memory=1Gi", nil, "[65]"},
		{"3", room, "cpu=3", "memory=6Gi", nil, "[94]"},
		{"4", room, "", "cpu=1", nil, "[68]"},
		{"5", room, "cpu=4 memory=2Gi", "cpu=1 memory=2Gi", nil, "[81]"},
		{"6", room, "", "cpu=4", nil, "[50]"},
		{"7", room, "cpu=4", "memory=8Gi", nil, "[100]"},
		{"8", "cpu=4 memory=0", "cpu=1", "cpu=1 memory=1Gi", nil, "[75]"},
		{"9", room + " nvidia.com/gpu=4", "cpu=1 memory=2Gi", "nvidia.com/gpu=4", three, "[63]"},
		{"10", "cpu=1 memory=1000", "", "cpu=680m", nil, "[57]"},
		{"11", room, "cpu=1", "", nil, "[]"},
		{"12", room, "cpu=1", "nvidia.com/gpu=1", nil, "[]"},
	}
	for _, tt := range tests {
		profile := Profile{Balanced: configv1.NodeResourcesBalancedAllocationArgs{Resources: tt.resources}}
		got := scoreAll(t, balancedScore, holding(newNode("n", has(tt.room)), pod(run(tt.used))), pod(run(tt.pod)), profile)
		if fmt.Sprint(got) != tt.want {
			t.Errorf("row %s: got %v, want %s", tt.row, got, tt.want)
		}
	}
	if got := []int64{balance([]float64{0.68, 0}), balance([]float64{0.35, 0.53})}; fmt.Sprint(got) != "[65 90]" {
		t.Errorf("truncation: got %v, want [65 90]", got)
	}
}

// holding returns a cluster of one node and at most one pod on it.
func holding(n *v1.Node, used *v1.Pod) Cluster {
	if used == nil {
		return cluster(nodes(n))
	}
	used = used.DeepCopy()
	used.Spec.NodeName = n.Name
	return cluster(nodes(n), used)
}

func points(flat ...int32) []configv1.UtilizationShapePoint {
	var shape []configv1.UtilizationShapePoint
	for i := 0; i < len(flat); i += 2 {
		shape = append(shape, configv1.UtilizationShapePoint{Utilization: flat[i], Score: flat[i+1]})
	}
	return shape
}

// specs reads "cpu=3 memory=1", in the order cpu, memory, then the others by name.
func specs(s string) []configv1.ResourceSpec {
	var all []configv1.ResourceSpec
	weights := list(s)
	for _, name := range fitOrder(amounts{"nvidia.com/gpu": 1, "pods": 1, "foo": 1}) {
		if q, ok := weights[name]; ok {
			all = append(all, configv1.ResourceSpec{Name: string(name), Weight: q.Value()})
		}
	}
	return all
}
