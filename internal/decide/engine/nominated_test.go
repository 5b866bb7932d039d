package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// nominate nominates a pod of the priority and request to a node.
func (b *bench) nominate(node int, priority int32, cpuMilli int64) *model.Pod {
	p := benchPreemptor(fmt.Sprintf("nominated-%d", node), priority, cpuMilli)
	p.Status.NominatedNodeName = fmt.Sprintf("node-%05d", node)
	pod := model.NewPod(p)
	b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
	return pod
}

// TestRoomIsLeft nominates pods to some nodes or to nearly all. They fill the nodes or
// not, and the pod outranks them or not. The remaining nodes, in order, are those without
// nominated pods that matter, and those on which the pod fits together with them.
func TestRoomIsLeft(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for round := range 60 {
		b := newBench(t, 40)
		// by numbers, and in dry runs
		shape := []func(*v1.Pod){func(*v1.Pod) {}, withHostPort, apartByHost}[round%3]
		p := benchPreemptor("pod", 10, 2000)
		shape(p)
		pod := b.compiled(p)
		all, err := b.engine.Feasible(b.state.View(), pod)
		if err != nil || len(all) < 30 {
			t.Fatalf("%d nodes are feasible without nominated pods, error %v", len(all), err)
		}
		full := map[int32]bool{}
		for node := range 40 {
			if r.IntN(10) >= []int{1, 5, 10}[round/20] {
				continue
			}
			priority, cpuMilli := 9+r.Int32N(3), []int64{1000, 31_000}[r.IntN(2)]
			nominated := b.nominate(node, priority, cpuMilli)
			slot, _ := b.state.Slot(nominated.NominatedNode)
			full[slot] = priority >= 10 && cpuMilli == 31_000
		}
		want := slices.DeleteFunc(all, func(slot int32) bool { return full[slot] })
		if got, err := b.engine.Feasible(b.state.View(), pod); err != nil || !slices.Equal(got, want) {
			t.Fatalf("round %d: feasible are %v, error %v; want %v", round, got, err, want)
		}
	}
}

// failsWithPods is a node filter that fails for one node when pods are on it.
type failsWithPods struct{ failing }

func (f failsWithPods) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (failsWithPods) FilterReads() model.Aspect                 { return model.Usage }
func (f failsWithPods) Compile() *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: f, Failures: f}
}
func (f failsWithPods) Filter(node state.Node) reason.Code {
	if node.PodCount() == 0 {
		return reason.None
	}
	return f.failing.Filter(node)
}

// TestFailureBesideNominatedPods has a filter fail for a node with its nominated pods.
// The turn fails for any such node, unless the pod outranks the nominated ones. Of 20
// nodes one is tainted, so that fewer are feasible than have nominated pods.
func TestFailureBesideNominatedPods(t *testing.T) {
	for _, test := range []struct{ nodes, fails, feasible int }{{6, 0, 6}, {6, 3, 6}, {6, 5, 6}, {20, 0, 19}, {20, 19, 19}} {
		b := withPlugins(t, test.nodes, func(p *plugin.Profile) {
			p.Filters = append(p.Filters, plugintest.Filters(failsWithPods{failing(benchNode(test.fails).Name)})...)
		})
		for i := range test.nodes {
			b.nominate(i, 10, 1000)
		}
		for priority, fails := range map[int32]bool{10: true, 11: false} {
			slots, err := b.engine.Feasible(b.state.View(), b.compiled(benchPreemptor("pod", priority, 2000)))
			if fails != (err != nil) || !fails && len(slots) != test.feasible {
				t.Errorf("%+v, priority %d: %v are feasible, error %v", test, priority, slots, err)
			}
		}
	}
}

// BenchmarkRoomIsLeft decides about a pod while pods are nominated to 5,000 of 10,000
// nodes, which they fill.
func BenchmarkRoomIsLeft(b *testing.B) {
	c := newBench(b, build.Sized(10_000))
	for node := range build.Sized(5_000) {
		c.nominate(2*node, 10, 31_000)
	}
	pod := c.compiled(benchPreemptor("pod", 10, 2000))
	work := plan.Alone(pod)
	b.ReportAllocs()
	for b.Loop() {
		if d := c.engine.Decide(c.state.View(), work); d.Feasible == 0 {
			b.Fatalf("%+v", d)
		}
	}
}
