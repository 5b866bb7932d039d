package engine_test

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// work returns the work done since.
func (f *full) work(before engine.Counters) (recalled, rated, tried, asked int64) {
	now := f.engine.Counters()
	return now.Recalled - before.Recalled, now.Rated - before.Rated, now.Tried - before.Tried, now.Asked - before.Asked
}

// TestPreemptionWork bounds the work of a decision that preempts: the changed nodes, and
// a few more.
func TestPreemptionWork(t *testing.T) {
	const nodes, each, pods = 300, 8, 100
	f := newFull(t, nodes, each, 1)
	f.preempt(t, f.preemptor(0, 4000), true)
	f.preempt(t, f.preemptor(1, 4000), true) // remembers the rejection

	before := f.engine.Counters()
	for i := range pods {
		f.restart(i, 1)
		f.preempt(t, f.preemptor(2+i, 4000), true)
	}
	if recalled, rated, tried, asked := f.work(before); recalled < pods-2 || rated > pods || tried > 2*pods || asked > 40*pods {
		t.Errorf("%d decisions, each after a change of one node: %d recalled, %d nodes rated, %d tried, %d asked about", pods, recalled, rated, tried, asked)
	}

	// with nominated pods, other rejections are remembered
	f.state.Nominate(f.preempt(t, f.preemptor(200, 4000), true).Nominations...)
	f.preempt(t, f.preemptor(201, 4000), true)
	f.preempt(t, f.preemptor(202, 4000), true)
	before = f.engine.Counters()
	for i := range pods {
		f.state.Nominate(f.preempt(t, f.preemptor(300+i, 4000), true).Nominations...)
	}
	if recalled, rated, tried, asked := f.work(before); recalled < pods-2 || rated > 2*pods || tried > 2*pods || asked > 60*pods {
		t.Errorf("%d pods, nominated one after the other: %d recalled, %d nodes rated, %d tried, %d asked about", pods, recalled, rated, tried, asked)
	}

	f.budgets(0)
	// each node is tried once: all evictions violate a budget
	f.preempt(t, f.preemptor(500, 4000), true)
	before = f.engine.Counters()
	for i := range pods {
		f.restart(i, 1)
		f.preempt(t, f.preemptor(501+i, 4000), true)
	}
	if _, rated, tried, _ := f.work(before); rated > pods || tried > 3*pods {
		t.Errorf("%d decisions under budgets: %d nodes rated, %d tried", pods, rated, tried)
	}

	before = f.engine.Counters()
	// each budget is for the pods of 24 nodes, and each change concerns only these
	for i := range pods {
		f.state.Apply([]model.Change{budgetChange(i, int32(i/2%2))})
		f.preempt(t, f.preemptor(700+i, 4000), true)
	}
	if _, rated, tried, _ := f.work(before); rated > 0 || tried > 26*pods {
		t.Errorf("%d decisions, each after a change of a budget: %d nodes rated, %d tried", pods, rated, tried)
	}
}

// TestPreemptionInVain bounds the work of a decision without victims. No node is visited
// if all pods have the preemptor's priority. Each changed node is visited once if
// evicting the lower ones is not enough.
func TestPreemptionInVain(t *testing.T) {
	const nodes, each, pods = 300, 8, 100
	f := newFull(t, nodes, each, 100)
	before := f.engine.Counters()
	for i := range pods {
		f.restart(i, 100)
		f.preempt(t, f.preemptor(i, 4000), false)
	}
	if _, rated, tried, _ := f.work(before); rated > 0 || tried > 0 {
		t.Errorf("without pods of lower priority: %d nodes rated, %d tried", rated, tried)
	}
	for i := range nodes {
		p := benchPreemptor(benchNode(i).Name, 0, 0)
		p.Spec.NodeName = benchNode(i).Name
		f.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	f.preempt(t, f.preemptor(200, 4000), false)
	before = f.engine.Counters()
	for i := range pods {
		f.restart(i, 100)
		f.preempt(t, f.preemptor(201+i, 4000), false)
	}
	if _, rated, tried, _ := f.work(before); rated > pods || tried > 0 {
		t.Errorf("where pods of lower priority are not enough: %d nodes rated, %d tried", rated, tried)
	}
}

// TestPreemptionLooksAtWhatChanged: a search visits the changed nodes and the nodes that
// it tries, in a cluster of any size. This holds with and without victims, and whatever
// filters read of pods.
func TestPreemptionLooksAtWhatChanged(t *testing.T) {
	build.NotRaced(t)
	const pods = 50
	for _, row := range []struct {
		what  string
		found bool
		full  func(nodes int) *full
		pod   func(f *full, i int) *model.Pod
		next  func(f *full, i int)
	}{
		{"one victim", true, func(nodes int) *full { return newFull(t, nodes, 4, 1) }, func(f *full, i int) *model.Pod { return f.preemptor(i, 8000) }, func(f *full, i int) { f.restart(i, 1) }},
		{"ports", true, func(nodes int) *full { return newPorts(t, nodes) }, func(f *full, i int) *model.Pod { return f.shaped(i, 10, withHostPort) }, func(f *full, i int) { f.ported(i) }},
		{"none enough", false, func(nodes int) *full {
			f := newFull(t, nodes, 4, 100)
			for i := range nodes {
				p := benchPreemptor(benchNode(i).Name, 0, 0)
				p.Spec.NodeName = benchNode(i).Name
				f.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
			}
			return f
		}, func(f *full, i int) *model.Pod { return f.preemptor(i, 8000) }, func(f *full, i int) { f.restart(i, 100) }},
	} {
		for _, nodes := range []int{200, 2000} {
			f := row.full(nodes)
			for i := range 10 { // until the nodes are in order
				row.next(f, i)
				f.preempt(t, row.pod(f, i), row.found)
			}
			before := f.engine.Counters()
			for i := range pods {
				row.next(f, 20+i)
				f.preempt(t, row.pod(f, 20+i), row.found)
			}
			if looked := f.engine.Counters().Looked - before.Looked; looked > 8*pods {
				t.Errorf("%s: %d searches among %d nodes, each after a change of one: %d looks at nodes", row.what, pods, nodes, looked)
			}
		}
	}
}
