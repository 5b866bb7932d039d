package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// TestSeenNeedCostsWhatChanged measures the work of decisions. If the need has a column,
// placing a pod changes one node, and plugins are called only for that node, whatever the
// size of the cluster.
func TestSeenNeedCostsWhatChanged(t *testing.T) {
	for _, nodes := range []int{100, 3000} {
		b := newBench(t, nodes)
		b.place(t, b.pod(0, shapes["selective"]))
		before := b.engine.Counters()
		const pods = 50
		for i := range pods {
			b.place(t, b.pod(i+1, shapes["selective"]))
		}
		after := b.engine.Counters()
		// Fit filters; Fit and Balanced score. So three plugins read the change by a
		// placed pod.
		if asked := after.Asked - before.Asked; asked != 3*pods {
			t.Errorf("%d nodes: plugins were called %d times for %d pods, want %d", nodes, asked, pods, 3*pods)
		}
		if filled := after.Filled - before.Filled; filled != 0 {
			t.Errorf("%d nodes: %d columns were filled anew", nodes, filled)
		}
		// Seven more scans, the ranking that they have paid for, and the changes by each
		// pod.
		if visited := after.Visited - before.Visited; visited > int64(8*nodes+pods) {
			t.Errorf("%d nodes: %d slots were visited for %d pods", nodes, visited, pods)
		}
	}
}

// TestDecisionAllocatesNothingPerNode compares the allocations of a decision in a small
// and in a large cluster.
func TestDecisionAllocatesNothingPerNode(t *testing.T) {
	build.NotRaced(t)
	for shape, apply := range shapes {
		allocations := func(nodes int) float64 {
			b := newBench(t, nodes)
			pod := b.pod(0, apply)
			b.place(t, pod)
			again := b.pod(1, apply)
			work := plan.Alone(again)
			b.settle(work)
			return testing.AllocsPerRun(100, func() { b.engine.Decide(b.state.View(), work) })
		}
		if small, large := allocations(100), allocations(5000); small != 0 || large != 0 {
			t.Errorf("%s: a decision allocates %v times with 100 nodes, %v times with 5,000; want 0", shape, small, large)
		}
	}
}

// TestPinnedPodsNeedNoColumns places pods that name their node, as a DaemonSet's do. Each
// has its own need, for which no column may be filled.
func TestPinnedPodsNeedNoColumns(t *testing.T) {
	b := newBench(t, 1000)
	for i := range 100 {
		b.place(t, b.pod(i, pinnedTo(fmt.Sprintf("node-%05d", i*10))))
	}
	if c := b.engine.Counters(); c.Filled != 0 || c.Visited != 100 {
		t.Errorf("100 pinned pods filled %d columns and visited %d nodes; want 0 and 100", c.Filled, c.Visited)
	}
}

func pinnedTo(names ...string) func(*v1.Pod) {
	var terms []v1.NodeSelectorTerm
	for _, name := range names {
		terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}})
	}
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	}
}

// TestTiesAreBrokenEvenlyAndRepeatably places pods on equal nodes. The same seed chooses
// the same nodes, another seed others. No node is chosen much more often than the rest.
func TestTiesAreBrokenEvenlyAndRepeatably(t *testing.T) {
	build.NotRaced(t)
	const nodes, pods = 10, 2000
	choices := func(seed uint64) (chosen []string) {
		p := enginetest.Profile(t, oracle.NodeLocalProfile())
		e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		s := state.New()
		for i := range nodes {
			object := benchNode(0)
			object.Name = fmt.Sprintf("node-%d", i)
			s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(object)}})
		}
		b := &bench{state: s, engine: e, profile: p}
		for i := range pods {
			d := e.Decide(s.View(), plan.Alone(b.pod(i, shapes["plain"])))
			chosen = append(chosen, d.Placement.NodeName)
		}
		return chosen
	}
	one, again, other := choices(1), choices(1), choices(2)
	counts := map[string]int{}
	same := 0
	for i := range one {
		counts[one[i]]++
		if one[i] != again[i] {
			t.Fatalf("pod %d: the same seed chose %s and %s", i, one[i], again[i])
		}
		if one[i] == other[i] {
			same++
		}
	}
	for name, n := range counts {
		if n < pods/nodes/2 || n > pods/nodes*2 {
			t.Errorf("%s was chosen %d times of %d", name, n, pods)
		}
	}
	if len(counts) != nodes || same > pods/2 {
		t.Errorf("%d of %d nodes were chosen; two seeds agree on %d of %d pods", len(counts), nodes, same, pods)
	}
}

// TestColumnsStayWithinTheirBudget decides for many needs with an engine that may keep
// few columns.
func TestColumnsStayWithinTheirBudget(t *testing.T) {
	p := enginetest.Profile(t, oracle.NodeLocalProfile())
	const nodes, budget = 200, 40
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, ColumnBytes: budget * nodes * 4})
	if err != nil {
		t.Fatal(err)
	}
	full := newBench(t, nodes)
	b := &bench{state: full.state, engine: e, profile: p}
	for i := range 500 {
		pod := b.pod(i, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(i), resource.DecimalSI)
		})
		if d := e.Decide(b.state.View(), plan.Alone(pod)); d.Outcome != plan.Placed {
			t.Fatalf("pod %d: %+v", i, d)
		}
		if columns := e.Columns(); columns > budget {
			t.Fatalf("after %d needs the engine keeps %d columns, more than its budget of %d", i+1, columns, budget)
		}
	}
}

// TestNominationEnds decides about a pod nominated to a node that does not exist. An
// attempt that fails with an error removes the nomination; a rejection keeps it.
func TestNominationEnds(t *testing.T) {
	b := newBench(t, 3)
	nominated := func(change func(*model.Pod)) *model.Pod {
		pod := b.pod(1, shapes["plain"])
		pod.NominatedNode = "gone"
		change(pod)
		return pod
	}
	for _, row := range []struct {
		name  string
		state *state.State
		pod   *model.Pod
		want  plan.Outcome
		mode  plan.NominationMode
	}{
		{"an empty cluster", state.New(), nominated(func(*model.Pod) {}), plan.NoNodes, plan.Clear},
		{"an error", b.state, nominated(func(p *model.Pod) { p.SchedulerName = "nobody" }), plan.Failed, plan.Clear},
		{"a rejection", b.state, nominated(func(p *model.Pod) { p.Malformed = "malformed" }), plan.Unschedulable, plan.Keep},
		{"a node", b.state, nominated(func(*model.Pod) {}), plan.Placed, plan.Keep},
		{"a pod that is being deleted", b.state, nominated(func(p *model.Pod) { p.Terminating = true }), plan.Terminating, plan.Keep},
	} {
		d := b.engine.Decide(row.state.View(), plan.Alone(row.pod))
		if mode := d.NominationOf(row.pod).Mode; d.Outcome != row.want || mode != row.mode {
			t.Errorf("%s: %s, nomination %d; want %s, %d", row.name, d.Outcome, mode, row.want, row.mode)
		}
	}
}

// TestImagesCostWhatChanged changes the images of nodes, and the number of nodes, which
// changes the score of every node with an image. Plugins are called again only for the
// nodes that changed themselves.
func TestImagesCostWhatChanged(t *testing.T) {
	b := newBench(t, 2000)
	work := plan.Alone(b.pod(0, func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.example/base:1" }))
	b.engine.Decide(b.state.View(), work)
	for change, columns := range map[string]int64{"other-image": 1, "own-image-on-many-nodes": 1, "node": 5} {
		before := b.engine.Counters()
		const changes = 20
		for i := range changes {
			b.state.Apply(changesOf(change, "registry.example/base:1", 2000)[i%2])
			b.engine.Decide(b.state.View(), work)
		}
		after := b.engine.Counters()
		if asked := after.Asked - before.Asked; asked > columns*changes || after.Filled != before.Filled {
			t.Errorf("%s: plugins were asked about %d nodes after %d changes of one, and %d columns were filled", change, asked, changes, after.Filled-before.Filled)
		}
	}
}

// TestStaleClassesAreDropped changes the images of one node until it has had every set of
// the pod's images. The column does not keep a class for each.
func TestStaleClassesAreDropped(t *testing.T) {
	b := newBench(t, 3)
	var names []string
	pod := b.pod(0, func(p *v1.Pod) {
		for i := range 10 {
			names = append(names, fmt.Sprintf("registry.example/part:%d", i))
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: names[i], Image: names[i]})
		}
	})
	filled := b.engine.Counters().Filled
	for set := range 1 << len(names) {
		object := benchNode(0)
		for i, name := range names {
			if set&(1<<i) != 0 {
				object.Status.Images = append(object.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: 300 << 20})
			}
		}
		b.state.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(object)}})
		b.engine.Decide(b.state.View(), plan.Alone(pod))
	}
	if filled := b.engine.Counters().Filled - filled; filled < 10 || filled > 40 {
		t.Errorf("columns were filled %d times; the column of images should have been filled again every 70 sets", filled)
	}
}
