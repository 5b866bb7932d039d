package interpodaffinity_test

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestSeenNeedCostsWhatChanged measures the work of decisions. With a compiled need no
// tally is built, and a placed pod is added once to each tally that counts it, whatever
// the size of the cluster.
func TestSeenNeedCostsWhatChanged(t *testing.T) {
	shape := both(wearing("app=w"), near(term(zone, "app Exists")), apart(term(host, "app=x")), dislikes(5, term(zone, "app=w")), dislikes(7, term(host, "app=w")))
	const counting, pods = 3, 50 // app Exists by zone; app=w by zone and by host
	for _, nodes := range []int{100, 1000} {
		b := newBench(t, nodes)
		b.place(t, b.pending(shape))
		b.place(t, b.pending(shape))
		updates, built := b.state.TallyWork()
		for range pods {
			b.place(t, b.pending(shape))
		}
		moreUpdates, moreBuilt := b.state.TallyWork()
		if moreUpdates-updates != counting*pods || moreBuilt != built {
			t.Errorf("%d nodes: %d updates for %d pods, %d tallies built; want %d and 0", nodes, moreUpdates-updates, pods, moreBuilt-built, counting*pods)
		}
	}
}

// TestDecisionAllocatesNothing decides again for pods with compiled needs.
func TestDecisionAllocatesNothing(t *testing.T) {
	for _, shape := range shapes {
		b := newBench(t, 200)
		shape.fill(b)
		pending := b.pending(shape.pod)
		if shape.name == "required anti-affinity host, all hosts" {
			continue // the text of a rejection is allocated
		}
		b.place(t, pending)
		again := b.pending(shape.pod)
		work := plan.Alone(again)
		for range 12 { // until the nodes are ranked
			b.engine.Decide(b.state.View(), work)
		}
		if got := testing.AllocsPerRun(100, func() { b.engine.Decide(b.state.View(), work) }); got != 0 {
			t.Errorf("%s: a decision allocates %v times", shape.name, got)
		}
	}
}

// TestRulesAllocateNothing does the same for rules that reject every node.
func TestRulesAllocateNothing(t *testing.T) {
	b := newBench(t, 200)
	b.run(1, func(int) part { return repelsItself })
	l := plugintest.Counting(b.plugin, b.pending(repelsItself))
	to := plugintest.Rules(l, b.state, nil)
	if len(to) != 2 {
		t.Fatalf("%d rules, want 2", len(to))
	}
	if got := testing.AllocsPerRun(100, func() { to = plugintest.Rules(l, b.state, to[:0]) }); got != 0 {
		t.Errorf("rules allocate %v times", got)
	}
}
