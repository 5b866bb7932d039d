package noderesourcesfit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// randomAmounts returns amounts of the resources that every node has. Some are missing,
// and some are larger than floating point numbers hold exactly.
func randomAmounts(r *rand.Rand, most int64) (text string) {
	for _, name := range []string{"cpu", "memory", "ephemeral-storage"} {
		switch r.IntN(8) {
		case 0:
		case 1:
			text += fmt.Sprintf("%s=%d ", name, r.Int64N(1<<62))
		case 2:
			text += fmt.Sprintf("%s=%d ", name, 1<<44-3+r.Int64N(6))
		default:
			text += fmt.Sprintf("%s=%d ", name, r.Int64N(most))
		}
	}
	return text
}

// TestAmounts is a property test: for random nodes, verdicts and scores from amounts
// equal those of one call for each node.
func TestAmounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var nodes []*v1.Node
	var pods []*v1.Pod
	for i := range 200 {
		n := nodeOf(randomAmounts(r, 100) + fmt.Sprintf("pods=%d", r.IntN(4)))
		n.Name = fmt.Sprintf("n%d", i)
		nodes = append(nodes, n)
		for j := range r.IntN(3) {
			p := podOf(randomAmounts(r, 50))
			p.Name, p.Spec.NodeName = fmt.Sprintf("p%d-%d", i, j), n.Name
			pods = append(pods, p)
		}
	}
	s := plugintest.Cluster(nodes, pods...)
	for _, args := range []*configv1.NodeResourcesFitArgs{
		strategy(configv1.LeastAllocated, "cpu=1 memory=1"), strategy(configv1.LeastAllocated, "memory=5"),
		strategy(configv1.MostAllocated, "cpu=3 memory=7"), strategy(configv1.MostAllocated, "cpu=1"),
	} {
		p := newPlugin(t, args)
		for range 20 {
			pod := model.NewPod(podOf(randomAmounts(r, 50)))
			verdicts := plugintest.Verdicts(p, pod)
			scores, err := plugintest.NodeScores(p, pod)
			if err != nil {
				t.Fatal(err)
			}
			codes, values := make([]reason.Code, s.Slots()), make([]int32, s.Slots())
			if verdicts.Amounts == nil || scores.Amounts == nil {
				t.Fatal("cpu and memory are not enough")
			}
			verdicts.Amounts.FilterAmounts(s.NodeAmounts(), codes)
			scores.Amounts.ScoreAmounts(s.NodeAmounts(), values)
			for slot := range int32(s.Slots()) {
				node := s.Node(slot)
				if code, score := verdicts.Filter(node), scores.Score(node); codes[slot] != code || values[slot] != score {
					t.Fatalf("%v on %+v: got %x and %d, want %x and %d", pod.Object.Spec.Containers[0].Resources.Requests, s.NodeAmounts()[slot], codes[slot], values[slot], code, score)
				}
			}
		}
	}
}

// TestMoreThanAmounts has needs that amounts do not suffice for.
func TestMoreThanAmounts(t *testing.T) {
	p, pod := newPlugin(t, strategy(configv1.LeastAllocated, "cpu=1 example.com/a=1")), model.NewPod(podOf(many))
	scores, err := plugintest.NodeScores(p, pod)
	if err != nil {
		t.Fatal(err)
	}
	if plugintest.Verdicts(p, pod).Amounts != nil || scores.Amounts != nil {
		t.Error("a scalar is not among the amounts")
	}
}
