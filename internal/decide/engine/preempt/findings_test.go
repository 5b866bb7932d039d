package preempt_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestHopelessNodesAreTriedOnce has surplus replicas of an application with one pod on
// each node, next to pods of lower priority. Evicting these helps nowhere, which takes a
// dry run of each node. A second replica takes none, and after a change of a node one.
func TestHopelessNodesAreTriedOnce(t *testing.T) {
	const count = 60
	c := newCluster(t, 1)
	for i := range count {
		name := fmt.Sprint("n", i)
		for _, o := range nodes(name + "=") {
			plugintest.Set(c.state, o)
		}
		for _, o := range on(name, fmt.Sprintf("low%d(1,1)", i)) {
			plugintest.Set(c.state, o)
		}
		for _, o := range on(name, fmt.Sprintf("own%d(100,1)", i), build.Labels("app=x")) {
			plugintest.Set(c.state, o)
		}
	}
	surplus := 0
	const any = -1
	try := func(want string, tried int64) {
		t.Helper()
		surplus++
		before := c.engine.Counters().Tried
		d := c.decide(preemptor("1", build.Named(fmt.Sprint("surplus-", surplus)), build.Labels("app=x"),
			build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "app=x"))))
		if got := outcome(d); got != want {
			t.Errorf("replica %d:\ngot  %s\nwant %s", surplus, got, want)
		}
		if n := c.engine.Counters().Tried - before; tried != any && n != tried {
			t.Errorf("replica %d: %d nodes were tried, want %d", surplus, n, tried)
		}
		if err := c.engine.Audit(); err != nil {
			t.Error(err)
		}
	}
	const hopeless = "keep preemption: 0/60 nodes are available: 60 node(s) didn't match pod anti-affinity rules."
	try(hopeless, count)
	try(hopeless, 0)
	for _, o := range on("n7", "another(2,1)") {
		plugintest.Set(c.state, o)
	}
	try(hopeless, 1)
	// A replica of lower priority can be evicted; its arrival changes the counts.
	for _, o := range on("n9", "own-low(1,0)", build.Labels("app=x")) {
		plugintest.Set(c.state, o)
	}
	try(hopeless, count)
	c.state.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: "own9"}}})
	try("n9: own-low", any)
	try("n9: own-low", any)
}

func (c *cluster) set(objects []runtime.Object) {
	for _, o := range objects {
		plugintest.Set(c.state, o)
	}
}

// TestCandidatesAreTriedOnce has a pod request a host port that a pod of priority 2 uses
// on each node, next to a pod of priority 1. By sums alone, evicting the latter would be
// enough, so every node is tried. For the next such pod only changed nodes and the best
// are tried, even when budgets change.
func TestCandidatesAreTriedOnce(t *testing.T) {
	const count = 60
	c := newCluster(t, 1)
	for i := range count {
		name := fmt.Sprint("n", i)
		c.set(nodes(name + "="))
		c.set(on(name, fmt.Sprintf("low%d(1,1)", i)))
		c.set(on(name, fmt.Sprintf("ported%d(2,1)", i), hostPort(80), build.Labels(fmt.Sprint("app=", i)), started(10, i%50)))
	}
	asked := 0
	try := func(what, want string, tried int64) {
		t.Helper()
		asked++
		before := c.engine.Counters().Tried
		d := c.decide(preemptor("1", build.Named(fmt.Sprint("asked-", asked)), hostPort(80)))
		if got := outcome(d); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
		}
		if n := c.engine.Counters().Tried - before; n > tried {
			t.Errorf("%s: %d nodes were tried, want at most %d", what, n, tried)
		}
		if err := c.engine.Audit(); err != nil {
			t.Error(err)
		}
	}
	try("at first", "n49: ported49", count)
	try("again", "n49: ported49", 1)
	c.set(on("n7", "ported7(2,1)", hostPort(80), build.Labels("app=7"), started(11, 0)))
	try("after one has started anew", "n7: ported7", 2)
	c.set(budget("b7", "app=7", 0))
	try("after a budget for it", "n49: ported49", 2)
	c.set(budget("b49", "app=49", 1))
	try("after a budget that allows it", "n49: ported49", 1)
	c.set(budget("b49", "app=49", 0))
	try("after a budget that does not", "n48: ported48", 2)
	c.set(budget("b7", "app=7", 1))
	try("after the first allows it", "n7: ported7", 2)
}

// TestRanksFollowBudgets has pods that request only cpu. A rank found on a node stays
// valid until a budget for its pods changes.
func TestRanksFollowBudgets(t *testing.T) {
	const count = 60
	c := newCluster(t, 1)
	for i := range count {
		name := fmt.Sprint("n", i)
		c.set(nodes(name + "="))
		c.set(on(name, fmt.Sprintf("low%d(1,4)", i), build.Labels(fmt.Sprint("app=", i)), started(10, i%60)))
	}
	try := func(what, want string) {
		t.Helper()
		if got := outcome(c.decide(preemptor("4"))); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
		}
	}
	try("at first", "n59: low59")
	c.set(budget("b59", "app=59", 0))
	try("under a budget", "n58: low58")
	c.set(budget("b58", "app=58", 0))
	try("under two", "n57: low57")
	c.set(budget("b59", "app=59", 1))
	try("when the first allows it", "n59: low59")
}

// TestRanksOfOneKindBoundNoOther has a plain pod find that two pods must go from n1. A
// pod that also requests a host port needs only one victim: the pod with the port does
// not return, so the others have room.
func TestRanksOfOneKindBoundNoOther(t *testing.T) {
	world := func() *cluster {
		c := newCluster(t, 1)
		for _, o := range slices.Concat(
			nodes("n1= n2= n3="),
			on("n1", "a(10,2)", hostPort(80), started(12, 0)), on("n1", "b(10,1)", started(12, 1)), on("n1", "c(10,1)", started(12, 2)),
			on("n2", "d(10,2)", started(9, 0)), on("n2", "e(200,2)"),
			on("n3", "f(10,2)", started(8, 0)), on("n3", "g(200,2)"),
		) {
			plugintest.Set(c.state, o)
		}
		return c
	}
	used, fresh := world(), world()
	if got := outcome(used.decide(preemptor("2", build.Named("plain")))); got != "n2: d" {
		t.Errorf("the plain pod: %s", got)
	}
	ported := func(c *cluster) string { return outcome(c.decide(preemptor("2", build.Named("ported"), hostPort(80)))) }
	if got, want := ported(used), ported(fresh); got != want || got != "n1: a" {
		t.Errorf("the pod with a port: %s, without the plain one before it %s, want n1: a", got, want)
	}
}
