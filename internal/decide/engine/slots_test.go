package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestColumnsFollowNodesThatMove removes most nodes of a large cluster and creates some
// again. Meanwhile the state moves nodes to other slots and cuts slots off. Decisions
// from old columns must equal those of a new engine.
func TestColumnsFollowNodesThatMove(t *testing.T) {
	build.NotRaced(t)
	const nodes, left = 4000, 60
	b := newBench(t, nodes)
	r := rand.New(rand.NewPCG(3, 4))
	words := func(d plan.Decision) (text string) {
		if p := d.Placement; d.Outcome == plan.Placed {
			text += fmt.Sprintf("%s with %d of %d feasible ", p.NodeName, p.Total, p.Feasible)
		}
		return text
	}
	compare := func(step int) {
		t.Helper()
		fresh, err := engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for name, shape := range shapes {
			pod := b.pod(step, shape)
			view := b.state.View()
			got, want := b.engine.Decide(view, plan.Alone(pod)), fresh.Decide(view, plan.Alone(pod))
			if got.Outcome != plan.Placed || words(got) != words(want) {
				t.Fatalf("step %d, shape %s, %d slots, %d nodes: %s %s, want %s", step, name, b.state.Slots(), b.state.Nodes(), got.Outcome, words(got), words(want))
			}
			if name == "plain" {
				assume(b.state, got)
			}
		}
	}
	compare(0)
	most := b.state.Slots()
	for step, i := range r.Perm(nodes)[left:] {
		b.state.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprintf("node-%05d", i)}})
		if step%50 == 0 {
			compare(1 + step)
		}
	}
	for step := 0; b.state.Slots() > 1024; step++ {
		b.state.Apply(nil)
		compare(2*nodes + step)
	}
	for i := range 2000 {
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(benchNode(i))}})
		if i%100 == 0 {
			compare(3*nodes + i)
		}
	}
	if fewest := b.state.Slots(); fewest >= most {
		t.Errorf("%d slots became %d", most, fewest)
	}
}
