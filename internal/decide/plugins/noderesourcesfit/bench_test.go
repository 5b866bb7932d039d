package noderesourcesfit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// benchNodes returns nodes with loads from a fixed random sequence. Neighbours differ, as
// in real clusters, and the processor cannot predict branches from a repeated load.
func benchNodes(count int) []state.Node {
	var nodes []*v1.Node
	var pods []*v1.Pod
	random := rand.New(rand.NewPCG(1, 2))
	for i := range count {
		n := nodeOf("cpu=16 memory=64Gi pods=110 ephemeral-storage=100Gi example.com/fpga=2")
		n.Name = fmt.Sprint("node-", i)
		nodes = append(nodes, n)
		for j := range random.IntN(8) {
			p := podOf(fmt.Sprintf("cpu=%dm memory=%dMi", 100+random.IntN(4000), 100+random.IntN(16000)))
			p.Name, p.Spec.NodeName = fmt.Sprint("pod-", i, "-", j), n.Name
			pods = append(pods, p)
		}
	}
	s := plugintest.Cluster(nodes, pods...)
	views := make([]state.Node, s.Slots())
	for slot := range views {
		views[slot] = s.Node(int32(slot))
	}
	return views
}

// Results are stored so that the compiler does not remove the measured calls.
var (
	verdict reason.Code
	score   int32
)

func perNode(b *testing.B, nodes []state.Node, ask func(state.Node)) {
	b.ReportAllocs()
	for b.Loop() {
		for _, node := range nodes {
			ask(node)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(nodes)), "ns/node")
}

func BenchmarkFilter(b *testing.B) {
	nodes := benchNodes(5000)
	for name, pod := range map[string]string{"cpu,memory": "cpu=4 memory=8Gi", "with scalar": "cpu=4 memory=8Gi example.com/fpga=1"} {
		b.Run(name, func(b *testing.B) {
			f := plugintest.Verdicts(newPlugin(b, nil), model.NewPod(podOf(pod)))
			perNode(b, nodes, func(node state.Node) { verdict = f.Filter(node) })
		})
	}
}

func BenchmarkScore(b *testing.B) {
	nodes := benchNodes(5000)
	shape := []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	for _, args := range []*configv1.NodeResourcesFitArgs{
		strategy(configv1.LeastAllocated, "cpu=1 memory=1"),
		strategy(configv1.MostAllocated, "cpu=1 memory=1"),
		strategy(configv1.RequestedToCapacityRatio, "cpu=1 memory=1", shape...),
	} {
		b.Run(string(args.ScoringStrategy.Type), func(b *testing.B) {
			s, err := plugintest.NodeScores(newPlugin(b, args), model.NewPod(podOf("cpu=4 memory=8Gi")))
			if err != nil {
				b.Fatal(err)
			}
			perNode(b, nodes, func(node state.Node) { score = s.Score(node) })
		})
	}
}
