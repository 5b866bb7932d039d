package noderesourcesbalancedallocation

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestAmounts is a property test: for random nodes, scores from amounts equal the scores
// from one call for each node.
func TestAmounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	amounts := func(most int64) (text string) {
		for _, name := range []string{"cpu", "memory"} {
			if r.IntN(6) > 0 {
				text += fmt.Sprintf("%s=%d ", name, r.Int64N(most))
			}
		}
		return text
	}
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 300 {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, nodeOf(name, amounts(100)))
		for j := range r.IntN(3) {
			p := podOf(fmt.Sprintf("p%d-%d", i, j), amounts(50))
			p.Spec.NodeName = name
			pods = append(pods, p)
		}
	}
	s, p := plugintest.Cluster(nodes, pods...), newPlugin(t)
	for range 30 {
		scores := compile(t, p, podOf("p", amounts(50)+"cpu=1"))
		values := make([]int32, s.Slots())
		if scores.Amounts == nil {
			t.Fatal("cpu and memory are not enough")
		}
		scores.Amounts.ScoreAmounts(s.NodeAmounts(), values)
		for slot := range int32(s.Slots()) {
			if want := scores.Score(s.Node(slot)); values[slot] != want {
				t.Fatalf("%+v: got %d, want %d", s.NodeAmounts()[slot], values[slot], want)
			}
		}
	}
	if compile(t, newPlugin(t, gpu...), podOf("p", "cpu=1 example.com/gpu=1")).Amounts != nil {
		t.Error("a device is not among the amounts")
	}
}
