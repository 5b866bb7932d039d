package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestNodeAmounts is a property test: after random changes of nodes and pods, the amounts
// that follow the journal equal those read anew.
func TestNodeAmounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := New()
	for step := range 3000 {
		node := fmt.Sprintf("n%d", r.IntN(40))
		if step > 1500 {
			node = fmt.Sprintf("n%d", 1000+r.IntN(3)) // so that slots are cut off
		}
		pod := model.NewPod(build.Pod(build.Named(fmt.Sprintf("p%d", r.IntN(60))), build.NodeName(node), build.Container(fmt.Sprintf("cpu=%d", r.IntN(5)))))
		change := model.Change{Kind: model.PodSet, Pod: pod}
		switch r.IntN(4) {
		case 0:
			change = model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(node, build.Allocatable(fmt.Sprintf("cpu=%d memory=7 pods=9", r.IntN(9)))))}
		case 1:
			change = model.Change{Kind: model.NodeGone, Name: node}
			if step > 1500 {
				change.Name = fmt.Sprintf("n%d", r.IntN(40))
			}
		case 2:
			change = model.Change{Kind: model.PodGone, Key: pod.Key()}
		}
		s.Apply([]model.Change{change})
		if r.IntN(3) > 0 {
			continue
		}
		amounts := s.NodeAmounts()
		if len(amounts) != s.Slots() {
			t.Fatalf("step %d: %d amounts of %d slots", step, len(amounts), s.Slots())
		}
		for slot := range amounts {
			if want := s.amountsOf(int32(slot)); amounts[slot] != want {
				t.Fatalf("step %d, slot %d: got %+v, want %+v", step, slot, amounts[slot], want)
			}
		}
	}
}
