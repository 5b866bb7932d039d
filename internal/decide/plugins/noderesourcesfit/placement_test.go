package noderesourcesfit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestScorePlacements scores the nodes n0 and n1 together, for members that would go
// there. n2 alone is empty and takes the same members.
func TestScorePlacements(t *testing.T) {
	const (
		size = "cpu=4 memory=8Gi"
		gpu  = " example.com/gpu="
	)
	most := strategy(configv1.MostAllocated, "cpu=1 memory=1")
	for _, row := range []struct {
		name        string
		args        *configv1.NodeResourcesFitArgs
		nodes       [3]string
		used        [2]string
		members     []string
		both, third int64
	}{
		{"by all nodes together", most, [3]string{size, "cpu=2 memory=2Gi", size}, [2]string{"cpu=1 memory=1Gi", "cpu=1 memory=1Gi"}, []string{"cpu=1 memory=1Gi"}, (50 + 30) / 2, (25 + 12) / 2},
		{"whatever the strategy", strategy(configv1.LeastAllocated, "cpu=1 memory=1"), [3]string{size, size, size}, [2]string{"cpu=2 memory=1Gi", ""}, []string{"cpu=2 memory=1Gi"}, (51 + 13) / 2, (50 + 12) / 2},
		{"and its shape", strategy(configv1.RequestedToCapacityRatio, "cpu=1 memory=1", points(0, 10, 100, 0)...), [3]string{size, size, size}, [2]string{"cpu=2 memory=2Gi", "cpu=0 memory=0"}, []string{"cpu=2 memory=2Gi"}, (50 + 25) / 2, (50 + 25) / 2},
		{"members together", most, [3]string{size, size, size}, [2]string{"cpu=0 memory=0", "cpu=0 memory=0"}, []string{"cpu=1 memory=1Gi", "cpu=1 memory=1Gi", "cpu=500m memory=0"}, (31 + 12) / 2, (62 + 25) / 2},
		{"weights", strategy(configv1.MostAllocated, "cpu=3 memory=1"), [3]string{size, size, size}, [2]string{"cpu=0 memory=0", "cpu=0 memory=0"}, []string{"cpu=2 memory=2Gi"}, (3*25 + 12) / 4, (3*50 + 25) / 4},
		{"without requests, as scoring assumes", most, [3]string{"cpu=1 memory=400Mi", "cpu=1 memory=400Mi", "cpu=1 memory=400Mi"}, [2]string{"", ""}, []string{""}, (15 + 75) / 2, (10 + 50) / 2},
		{"more than there is", most, [3]string{"cpu=1", "cpu=1", "cpu=1"}, [2]string{"cpu=4 memory=0", "cpu=0 memory=0"}, []string{"cpu=1 memory=0"}, 100, 100},
		{"what no node has does not count", most, [3]string{"cpu=4", "cpu=4", "memory=1Gi"}, [2]string{"cpu=1 memory=0", "cpu=0 memory=0"}, []string{"cpu=1 memory=0"}, 25, 0},
		{"scalars", strategy(configv1.MostAllocated, "cpu=1"+gpu+"3"), [3]string{size + gpu + "4", size, size + gpu + "2"}, [2]string{"cpu=2" + gpu + "2", "cpu=0"}, []string{"cpu=2" + gpu + "1"}, (50 + 3*75) / 4, (50 + 3*50) / 4},
		{"a scalar that is not requested", strategy(configv1.MostAllocated, "cpu=1"+gpu+"3"), [3]string{size + gpu + "4", size, size + gpu + "2"}, [2]string{"cpu=2" + gpu + "4", "cpu=0"}, []string{"cpu=2"}, 50, 50},
		{"nothing that counts", strategy(configv1.MostAllocated, "cpu=1"), [3]string{"", "", ""}, [2]string{"", ""}, []string{"cpu=1"}, 0, 0},
	} {
		var nodes []*v1.Node
		for i, allocatable := range row.nodes {
			n := nodeOf(allocatable)
			n.Name = []string{"n0", "n1", "n2"}[i]
			nodes = append(nodes, n)
		}
		var pods []*v1.Pod
		for i, used := range row.used {
			p := podOf(used)
			p.Name, p.Spec.NodeName = nodes[i].Name, nodes[i].Name
			pods = append(pods, p)
		}
		s := plugintest.Cluster(nodes, pods...)
		proposals := []plugin.Proposal{
			{DomainPlacement: plugin.DomainPlacement{Nodes: state.RestrictTo([]int32{0, 1})}}, {DomainPlacement: plugin.DomainPlacement{Nodes: state.RestrictTo([]int32{2})}},
		}
		for _, requests := range row.members {
			for i := range proposals {
				proposals[i].Members = append(proposals[i].Members, model.NewPod(podOf(requests)))
			}
		}
		scores := make([]int64, 2)
		if err := newPlugin(t, row.args).ScorePlacements(s.View(), nil, proposals, scores); err != nil || scores[0] != row.both || scores[1] != row.third {
			t.Errorf("%s: %v, %v, want %d and %d", row.name, scores, err, row.both, row.third)
		}
	}
}

// TestScoreAllNodes: a proposal without nodes means all nodes.
func TestScoreAllNodes(t *testing.T) {
	one, two := nodeOf("cpu=2"), nodeOf("cpu=6")
	two.Name = "m"
	s := plugintest.Cluster([]*v1.Node{one, two})
	scores := make([]int64, 1)
	proposal := plugin.Proposal{Members: []*model.Pod{model.NewPod(podOf("cpu=2"))}}
	if err := newPlugin(t, strategy(configv1.MostAllocated, "cpu=1")).ScorePlacements(s.View(), nil, []plugin.Proposal{proposal}, scores); err != nil || scores[0] != 25 {
		t.Errorf("got %v, %v, want 25", scores, err)
	}
}
