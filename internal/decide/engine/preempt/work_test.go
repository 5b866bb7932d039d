package preempt_test

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestRanksAreLearned has a node whose bound is better than its candidate: one pod uses
// the missing cpu, another the missing memory. The node is tried once. The next pod of
// the same priority and request goes where the candidate is.
func TestRanksAreLearned(t *testing.T) {
	c := newCluster(t, 1)
	for _, name := range []string{"n1", "n2"} {
		plugintest.Set(c.state, build.NodesInZones(name+"=z1", build.Allocatable("cpu=4 memory=4Gi pods=10"))[0])
	}
	victim := func(name, node, requests string, hour int) {
		plugintest.Set(c.state, build.Pod(build.Named(name), build.NodeName(node), build.Container(requests), priority(1), started(hour, 0)))
	}
	victim("a", "n1", "cpu=3", 9)
	victim("b", "n1", "memory=3Gi", 9)
	victim("c", "n2", "cpu=3 memory=3Gi", 8)
	for i, tried := range []int64{2, 1, 1} {
		before := c.engine.Counters().Tried
		p := build.Pod(build.Named(fmt.Sprint("p", i)), priority(10), build.Container("cpu=2 memory=2Gi"))
		if got := outcome(c.decide(p)); got != "n2: c" {
			t.Errorf("pod %d: %s", i, got)
		}
		if got := c.engine.Counters().Tried - before; got != tried {
			t.Errorf("pod %d: %d nodes were tried, want %d", i, got, tried)
		}
	}
}

// TestShortNodesAreNotTried: if nodes lack the same resource even without all their pods,
// one check gives the reason for all, and no node is tried.
func TestShortNodesAreNotTried(t *testing.T) {
	c := newCluster(t, 1)
	for i := range 6 {
		name := fmt.Sprint("n", i)
		size := []string{"cpu=2 memory=9Gi pods=10", "cpu=9 memory=2Gi pods=10"}[i%2]
		plugintest.Set(c.state, build.NodesInZones(name+"=z1", build.Allocatable(size))[0])
		// A pod that stays leaves too little of either; the pod that could go does not
		// help.
		plugintest.Set(c.state,
			build.Pod(build.Named("stays-"+name), build.NodeName(name), build.Container("cpu=1 memory=1Gi"), priority(100)),
			build.Pod(build.Named("goes-"+name), build.NodeName(name), build.Container("cpu=1m"), priority(1)))
	}
	p := build.Pod(build.Named("p"), priority(10), build.Container("cpu=2 memory=2Gi"))
	want := "clear preemption: 0/6 nodes are available: 3 Insufficient cpu, 3 Insufficient memory."
	d := c.decide(p)
	if d.PostFilter != want[len("clear "):] {
		t.Errorf("got %s, want %s", d.PostFilter, want)
	}
	if got := c.engine.Counters().Tried; got != 0 {
		t.Errorf("%d nodes were tried", got)
	}
}

// TestEqualsStay: pods of the preemptor's own priority stay, and count.
func TestEqualsStay(t *testing.T) {
	for _, row := range []struct{ asks, want string }{
		{"cpu=1", "placed <nil>"}, {"cpu=2", "n1: low"}, {"cpu=3", "n1: low"}, {"cpu=4", "keep preemption: 0/1 nodes are available: 1 Insufficient cpu."},
	} {
		c := newCluster(t, 1)
		plugintest.Set(c.state, build.NodesInZones("n1=z1", build.Allocatable("cpu=5 memory=4Gi pods=10"))[0],
			build.Pod(build.Named("equal"), build.NodeName("n1"), build.Container("cpu=2"), priority(10)),
			build.Pod(build.Named("low"), build.NodeName("n1"), build.Container("cpu=2"), priority(9)))
		if got := outcome(c.decide(build.Pod(build.Named("p"), priority(10), build.Container(row.asks)))); got != row.want {
			t.Errorf("%s: %s, want %s", row.asks, got, row.want)
		}
	}
}
