package noderesourcesfit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// points parses pairs of utilization and score.
func points(pairs ...int32) []configv1.UtilizationShapePoint {
	shape := []configv1.UtilizationShapePoint{}
	for i := 0; i < len(pairs); i += 2 {
		shape = append(shape, configv1.UtilizationShapePoint{Utilization: pairs[i], Score: pairs[i+1]})
	}
	return shape
}

func scoreOf(t *testing.T, args *configv1.NodeResourcesFitArgs, pod *v1.Pod, node state.Node) int32 {
	t.Helper()
	s, err := plugintest.NodeScores(newPlugin(t, args), model.NewPod(pod))
	if err != nil {
		t.Fatal(err)
	}
	return s.Score(node)
}

// The numbered rows come from design/rules/resources.md#fit-score, where totals include
// the pod. Here a part of the total is in use on the node and the rest is the pod's.
func TestScore(t *testing.T) {
	const (
		least = configv1.LeastAllocated
		most  = configv1.MostAllocated
		ratio = configv1.RequestedToCapacityRatio
		same  = "cpu=1 memory=1"
		three = "cpu=3 memory=1"
		size  = "cpu=4 memory=8Gi"
		gpu   = " example.com/gpu="
	)
	for _, row := range []struct {
		name       string
		args       *configv1.NodeResourcesFitArgs
		node       string
		used, asks string
		want       int32
	}{
		{"1", nil, size, "", "", 97},
		{"2", nil, size, "cpu=1 memory=1Gi", "cpu=500m memory=2Gi", 62},
		{"3", strategy(least, three), size, "cpu=1 memory=1Gi", "cpu=500m memory=1Gi", 65},
		{"4", nil, size, "cpu=4 memory=1Gi", "cpu=100m memory=1Gi", 37},
		{"5", nil, "cpu=4", "", "cpu=1", 75},
		{"6", strategy(least, same+" ephemeral-storage=1"), size + " ephemeral-storage=100Gi", "cpu=500m memory=1Gi ephemeral-storage=10Gi", "cpu=500m memory=1Gi", 80},
		{"7", strategy(least, same+gpu+"5"), size + gpu + "4", "cpu=500m memory=1Gi" + gpu + "4", "cpu=500m memory=1Gi", 75},
		{"10", strategy(most, same), size, "cpu=1 memory=1Gi", "cpu=500m memory=2Gi", 37},
		{"11", strategy(most, same), size, "", "", 2},
		{"12", strategy(most, same), size, "cpu=4 memory=1Gi", "cpu=100m memory=1Gi", 62},
		{"13", strategy(most, three), size, "cpu=1 memory=1Gi", "cpu=500m memory=1Gi", 34},
		{"14", strategy(most, same), "pods=1", "cpu=1", "cpu=1", 0},
		{"15", strategy(ratio, same, points(0, 0, 100, 10)...), size, "cpu=1 memory=1Gi", "cpu=2 memory=1Gi", 50},
		{"16", strategy(ratio, same, points(0, 10, 100, 0)...), size, "cpu=1 memory=1Gi", "cpu=2 memory=3Gi", 38},
		{"16 least", nil, size, "cpu=1 memory=1Gi", "cpu=2 memory=3Gi", 37},
		{"17", strategy(ratio, same, points(0, 10, 100, 0)...), size, "cpu=1 memory=1Gi", "cpu=3 memory=3Gi", 50},
		{"17 least", nil, size, "cpu=1 memory=1Gi", "cpu=3 memory=3Gi", 25},
		{"18", strategy(ratio, same, points(0, 2, 40, 10, 100, 0)...), size, "cpu=200m memory=1Gi", "cpu=1 memory=5Gi", 61},
		{"19", strategy(ratio, same, points(10, 1, 90, 9)...), size, "cpu=100m memory=400Mi", "cpu=100m memory=400Mi", 10},
		{"20", strategy(ratio, same, points(0, 10, 100, 3)...), size, "cpu=320m memory=1Gi", "cpu=1 memory=7Gi", 54},
		{"21", strategy(ratio, same+gpu+"3", points(0, 0, 100, 10)...), size + gpu + "8", "cpu=1 memory=1Gi" + gpu + "2", "cpu=1 memory=1Gi" + gpu + "1", 37},
		{"gpu left out on nodes without", strategy(least, same+gpu+"5"), size, "", "cpu=1 memory=2Gi" + gpu + "1", 75},
		{"unknown names are left out", strategy(least, same+" foo=9 pods=9"), size + " foo=5 pods=5", "", "cpu=1 memory=2Gi foo=1", 75},
		{"nothing counts", strategy(least, "foo=9"), size, "", "cpu=1 memory=2Gi", 0},
		{"nothing counts to the shape", strategy(ratio, same, points(0, 0, 100, 10)...), size, "cpu=0 memory=0", "cpu=0 memory=0", 0},
		{"a name listed twice counts twice", strategy(least, "cpu=1 cpu=1 memory=1"), size, "", "cpu=4 memory=0", 33},
		{"weight 0 is 1", strategy(least, "cpu=0 memory=3"), size, "", "cpu=4 memory=0", 75},
		{"right of the last point", strategy(ratio, same, points(10, 1, 90, 9)...), size, "", "cpu=4 memory=8Gi", 90},
		{"more than all", strategy(ratio, same, points(0, 0, 100, 10)...), size, "cpu=4 memory=8Gi", "cpu=4 memory=8Gi", 100},
		{"one point", strategy(ratio, same, points(50, 7)...), size, "", "cpu=3 memory=1Gi", 70},
		{"the node's defaults count", nil, size, " ", "cpu=100m memory=200Mi", 95},
		{"overfull", nil, size, "cpu=9 memory=9Gi", "cpu=9 memory=9Gi", 0},
		{"an explicit zero is zero", nil, size, "", "cpu=0 memory=0", 100},
	} {
		var there []*v1.Pod
		if row.used != "" {
			there = append(there, podOf(row.used))
		}
		if got := scoreOf(t, row.args, podOf(row.asks), plugintest.Node(nodeOf(row.node), there...)); got != row.want {
			t.Errorf("%s: score %d, want %d", row.name, got, row.want)
		}
	}
}

// Rows 8 and 9 of design/rules/resources.md#fit-score: pod-level requests do not count
// while the pod is scored, but do when it is placed.
func TestScorePodLevel(t *testing.T) {
	podLevel := podOf("")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu=2 memory=4Gi")}
	if got := scoreOf(t, nil, podLevel, plugintest.Node(nodeOf("cpu=4 memory=8Gi"))); got != 97 {
		t.Errorf("8: score %d, want 97", got)
	}
	if got := scoreOf(t, nil, podOf(""), plugintest.Node(nodeOf("cpu=4 memory=8Gi"), podLevel)); got != 47 {
		t.Errorf("9: score %d, want 47", got)
	}
}

func TestScoreNeeds(t *testing.T) {
	need := func(p *Plugin, pod *v1.Pod) model.Need { return plugintest.ScoreNeed(p, model.NewPod(pod)) }
	standard, gpus := newPlugin(t, nil), newPlugin(t, strategy(configv1.LeastAllocated, "cpu=1 example.com/gpu=1"))
	unknown := newPlugin(t, strategy(configv1.LeastAllocated, "foo=1"))
	podLevel := podOf("")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu=2 memory=4Gi")}
	for _, row := range []struct {
		name string
		a, b model.Need
		same bool
	}{
		{"best effort has a need", need(standard, podOf("")), model.Need{}, false},
		{"even where nothing counts", need(unknown, podOf("")), model.Need{}, false},
		{"other resources do not matter", need(standard, podOf("cpu=1 example.com/gpu=1 ephemeral-storage=1")), need(standard, podOf("cpu=1")), true},
		{"unless configured", need(gpus, podOf("cpu=1 example.com/gpu=1")), need(gpus, podOf("cpu=1")), false},
		{"memory does not matter then", need(gpus, podOf("cpu=1 memory=1Gi")), need(gpus, podOf("cpu=1")), true},
		{"zero and absent scalars are one", need(gpus, podOf("cpu=1 example.com/gpu=0")), need(gpus, podOf("cpu=1")), true},
		{"defaults are amounts", need(standard, podOf("")), need(standard, podOf("cpu=100m memory=200Mi")), true},
		{"for each container", need(standard, podOf("", "")), need(standard, podOf("cpu=200m memory=400Mi")), true},
		{"zero is not the default", need(standard, podOf("")), need(standard, podOf("cpu=0 memory=0")), false},
		{"pod level does not matter", need(standard, podLevel), need(standard, podOf("")), true},
		{"amounts matter", need(standard, podOf("cpu=1")), need(standard, podOf("cpu=2")), false},
		{"digits do not run together", need(standard, podOf("cpu=1m memory=11")), need(standard, podOf("cpu=11m memory=1")), false},
	} {
		if (row.a == row.b) != row.same {
			t.Errorf("%s: needs %q and %q, equal should be %v", row.name, row.a, row.b, row.same)
		}
	}
}
