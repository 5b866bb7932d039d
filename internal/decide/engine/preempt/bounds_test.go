package preempt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// resident is a pod on a node, started at a second of 1970, or not started if start is 0.
func resident(name, node string, priority int32, requests string, start int64, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append(options, build.Named(name), build.NodeName(node), build.Container(requests))...)
	p.Spec.Priority = &priority
	if start != 0 {
		p.Status.StartTime = &metav1.Time{Time: time.Unix(start, 0)}
	}
	return p
}

func gone(s *state.State, pod string) {
	s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: pod}}})
}

func disruption(name, selector string, allowed int32) runtime.Object {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: build.Selector(selector)},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// freshly returns bounds that were computed for a state from nothing.
func freshly(s *state.State, priority int32, request *model.Resources) *bounds {
	b := &bounds{priority: priority, request: request, stale: -1}
	b.sync(s.View(), model.BudgetRules{}, new(state.Use))
	return b
}

func agree(t *testing.T, when string, got, want *bounds) {
	t.Helper()
	if !slices.Equal(got.states, want.states) || !slices.Equal(got.lacks, want.lacks) || !slices.Equal(got.sums, want.sums) || !slices.Equal(got.ranks, want.ranks) {
		t.Errorf("%s:\ngot  %v\n%v\n%+v\n%+v\nwant %v\n%v\n%+v\n%+v", when, got.states, got.lacks, got.sums, got.ranks, want.states, want.lacks, want.sums, want.ranks)
	}
}

// TestRates has nodes of each kind, with the bounds for pods of priority 5 that request 4
// of 10.
func TestRates(t *testing.T) {
	var list []*v1.Node
	for i := range 7 {
		list = append(list, build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=10m pods=9")))
	}
	s := plugintest.Cluster(list,
		// n0 has no pod, n1 has one of the same priority, which stays.
		resident("equal", "n1", 5, "cpu=9m", 0),
		resident("stays", "n2", 5, "cpu=7m", 0), resident("goes", "n2", 4, "cpu=2m", 0),
		// Of n3 one pod of priority 3 must go, and of n4 two, the larger of which
		// requests 3.
		resident("a", "n3", 3, "cpu=4m", 30), resident("b", "n3", 3, "cpu=3m", 20),
		resident("c", "n4", 3, "cpu=3m", 30), resident("d", "n4", 3, "cpu=3m", 20), resident("e", "n4", 6, "cpu=4m", 10),
		// Of n5 all pods of priority 1 do not suffice: one of priority 2 must go, and
		// three in all.
		resident("f", "n5", 1, "cpu=1m", 10), resident("g", "n5", 1, "cpu=1m", 0), resident("h", "n5", 2, "cpu=2m", 70), resident("i", "n5", 2, "cpu=2m", 80),
		resident("j", "n5", 9, "cpu=4m", 0),
		// On n6 the request fits anyway.
		resident("k", "n6", -7, "cpu=1m", 50))
	b := freshly(s, 5, asks("cpu=4m"))
	none := rank{}
	for slot, want := range []struct {
		state boundState
		lacks uint32
		sum   rank
	}{
		{noLower, 0, none},
		{noLower, 0, none},
		{tooShort, 1 << 1, none},
		{rated, 0, rank{highest: 3, count: 1, sum: weightOf(3), start: 30}},
		{rated, 0, rank{highest: 3, count: 2, sum: 2 * weightOf(3), start: 20}},
		{rated, 0, rank{highest: 2, count: 2, sum: weightOf(2) + weightOf(1), start: 80}},
		{rated, 0, rank{highest: -7, count: 1, sum: weightOf(-7), start: 50}},
	} {
		if b.states[slot] != want.state || b.lacks[slot] != want.lacks || b.sums[slot] != want.sum || b.ranks[slot] != want.sum {
			t.Errorf("n%d: state %d, lacks %b, bound %+v, rank %+v, want %+v", slot, b.states[slot], b.lacks[slot], b.sums[slot], b.ranks[slot], want)
		}
	}
}

// TestWhatIsNotAskedForNeedsNobody has a node that became smaller. A shortage of
// resources outside the request does not matter.
func TestWhatIsNotAskedForNeedsNobody(t *testing.T) {
	s := plugintest.Cluster([]*v1.Node{build.Node("n", build.Allocatable("cpu=2m memory=20 pods=9"))},
		resident("a", "n", 1, "cpu=4m memory=5", 0), resident("b", "n", 1, "cpu=4m memory=5", 0), resident("c", "n", 1, "cpu=4m memory=5", 0))
	var use state.Use
	use.Reset(s.Node(0))
	b := bounds{request: asks("memory=9")}
	if got := b.atLeast(s.Node(0), &use, s.Node(0).Bands()); got != 1 {
		t.Errorf("%d pods must go for 4 of memory, want 1", got)
	}
}

// TestBoundsFollowTheCluster changes a cluster in every way, until most of it has gone.
// Bounds that follow the journal equal bounds computed from nothing.
func TestBoundsFollowTheCluster(t *testing.T) {
	build.NotRaced(t)
	request := asks("cpu=7m memory=3")
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := state.New()
		kept := &bounds{priority: 5, request: request, stale: -1}
		var use state.Use
		const nodes = 40
		node := func() string { return fmt.Sprint("n", r.IntN(nodes)) }
		for step := range 300 {
			for range r.IntN(4) {
				switch r.IntN(8) {
				case 0, 1:
					plugintest.Set(s, build.Node(node(), build.Allocatable(fmt.Sprintf("cpu=%dm memory=10 pods=%d", 5+r.IntN(9), 2+r.IntN(9))), build.NodeLabels(fmt.Sprint("a=", r.IntN(3)))))
				case 2, 3, 4:
					plugintest.Set(s, resident(fmt.Sprint("p", r.IntN(90)), node(), int32(r.IntN(8)), fmt.Sprintf("cpu=%dm memory=%d", r.IntN(6), r.IntN(4)), int64(r.IntN(4)),
						build.Labels(fmt.Sprint("app=", r.IntN(3)))))
				case 5:
					gone(s, fmt.Sprint("p", r.IntN(90)))
				case 6:
					plugintest.Set(s, build.Pod(build.Named(fmt.Sprint("q", r.IntN(9))), build.Container("cpu=2m"), build.NominatedNodeName(node())))
				default:
					s.Apply([]model.Change{{Kind: model.NodeGone, Name: node()}})
				}
			}
			if step == 200 {
				for i := range nodes - 3 {
					s.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprint("n", i)}})
				}
			}
			kept.sync(s.View(), model.BudgetRules{}, &use)
			agree(t, fmt.Sprintf("seed %d, step %d", seed, step), kept, freshly(s, 5, request))
			if t.Failed() {
				return
			}
		}
	}
}

// TestFewNodesAreRated counts rated nodes. A change is read once, even if others follow.
// If changes are more than nodes, or have been dropped from the journal, all nodes are
// rated.
func TestFewNodesAreRated(t *testing.T) {
	const nodes = 6
	node := func(i int, label string) *v1.Node {
		return build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=10m pods=9"), build.NodeLabels("a="+label))
	}
	var list []*v1.Node
	for i := range nodes {
		list = append(list, node(i, "x"))
	}
	s := plugintest.Cluster(list, resident("v", "n0", 1, "cpu=4m", 0))
	b := freshly(s, 5, asks("cpu=7m"))
	size := 4
	resize := func() { // an entry of the journal that matters
		size = 9 - size
		plugintest.Set(s, resident("v", "n0", 1, fmt.Sprintf("cpu=%dm", size), 0))
	}
	entries := func() int {
		entries, ok := s.Since(b.version)
		if !ok {
			t.Fatal("the journal does not have the last changes")
		}
		return len(entries)
	}
	check := func(what string, changes, rated int) {
		t.Helper()
		if n := entries(); n != changes {
			t.Errorf("%s: %d changes, want %d", what, n, changes)
		}
		if b.sync(s.View(), model.BudgetRules{}, new(state.Use)); b.rated != rated {
			t.Errorf("%s: %d nodes are rated, want %d", what, b.rated, rated)
		}
		agree(t, what, b, freshly(s, 5, asks("cpu=7m")))
	}
	check("nothing", 0, 0)
	plugintest.Set(s, node(0, "y"))
	check("a label", 1, 0)
	resize()
	plugintest.Set(s, node(0, "z"))
	check("a pod, then a label", 2, 1)
	resize()
	resize()
	check("a pod twice", 2, 1)
	for entries() < nodes {
		resize()
	}
	check("as many changes as nodes", nodes, 1)
	for entries() < nodes+1 {
		resize()
	}
	check("more changes than nodes", nodes+1, nodes)

	// The journal may have dropped such old changes. A version from the future has the
	// same effect.
	b.version, b.sums[3], b.ranks[3] = s.Version()+1, ideal, ideal
	if b.sync(s.View(), model.BudgetRules{}, new(state.Use)); b.rated != nodes {
		t.Errorf("after unknown changes %d nodes are rated, want %d", b.rated, nodes)
	}
	agree(t, "after unknown changes", b, freshly(s, 5, asks("cpu=7m")))
	s.Apply([]model.Change{{Kind: model.NodeGone, Name: "n0"}, {Kind: model.NodeGone, Name: "n2"}})
	b.version = s.Version() + 1
	b.sync(s.View(), model.BudgetRules{}, new(state.Use))
	agree(t, "after unknown changes, of which two nodes are gone", b, freshly(s, 5, asks("cpu=7m")))

	// A stale slot may have been cut off.
	b.stale = int32(s.Slots())
	if b.sync(s.View(), model.BudgetRules{}, new(state.Use)); b.stale != -1 || b.rated != 0 {
		t.Errorf("a slot that is no more: %d nodes are rated, stale is %d", b.rated, b.stale)
	}

	single := plugintest.Cluster(list[:1])
	b = freshly(single, 5, asks("cpu=7m"))
	if b.sync(single.View(), model.BudgetRules{}, new(state.Use)); b.rated != 0 {
		t.Errorf("the only node is rated again without a change")
	}
}

// TestRanksHoldForBudgets: a rank found on a node is dropped when a budget for its pods
// changes. All ranks are dropped when too many budgets change to find their nodes.
func TestRanksHoldForBudgets(t *testing.T) {
	s := plugintest.Cluster([]*v1.Node{build.Node("n0"), build.Node("n1"), build.Node("n2")},
		resident("a", "n0", 1, "cpu=1m", 0, build.Labels("app=a")), resident("b", "n1", 1, "cpu=1m", 0, build.Labels("app=b")),
		resident("c", "n2", 1, "cpu=1m", 0, build.Labels("app=c")))
	plugintest.Set(s, disruption("b", "app=b", 1))
	b := freshly(s, 5, asks(""))
	learned := rank{violations: 1, highest: 1, count: 7}
	learn := func() {
		for slot := range int32(3) {
			b.learn(slot, rank{violations: 1, highest: 1, count: 7, tie: 9})
		}
	}
	learn()
	if !b.learned || b.ranks[1] != learned || b.sums[1] == learned {
		t.Errorf("learned %t: %+v, and the sum %+v", b.learned, b.ranks[1], b.sums[1])
	}
	check := func(what string, still bool, ranks ...rank) {
		t.Helper()
		b.sync(s.View(), model.BudgetRules{}, new(state.Use))
		if b.learned != still || !slices.Equal(b.ranks, ranks) || b.rated != 0 {
			t.Errorf("%s: learned %t, %d nodes are rated, ranks %+v", what, b.learned, b.rated, b.ranks)
		}
	}
	check("nothing", true, learned, learned, learned)
	plugintest.Set(s, disruption("b", "app=b", 0))
	check("a budget", true, learned, b.sums[1], learned)
	learn()
	b.budgets -= 1 << 20
	check("an unknown number of budgets", false, b.sums...)
	learn()
	check("nothing again", true, learned, learned, learned)
}
