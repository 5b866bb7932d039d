package preempt

import (
	"fmt"
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// asking is a turn with only a view, a request and a memory.
type asking struct {
	turn
	state   *state.State
	request *model.Resources
	memory  Memory
}

func (c *asking) cycle() *cycle { return &cycle{c, Facts{View: c.state.View(), Request: c.request}} }

// begun returns the memory at the begin of a search.
func (c *asking) begun() *Memory {
	c.memory.begin(c.state, plugin.PreemptionRules{})
	return &c.memory
}

func asks(text string) *model.Resources { return &model.NewPod(build.Pod(build.Container(text))).Asks }

// victim is a pod of priority 0 on the node n.
func victim(name, requests string) *v1.Pod {
	zero := int32(0)
	p := build.Pod(build.Named(name), build.NodeName("n"), build.Container(requests))
	p.Spec.Priority = &zero
	return p
}

// edge returns one node with 10 of each resource. Its pods use 4, and two more pods have
// room.
func edge() *state.State {
	return plugintest.Cluster([]*v1.Node{build.Node("n", build.Allocatable("cpu=10m memory=10 ephemeral-storage=10 pods=3 example.com/a=10 example.com/b=10"))},
		victim("x", "cpu=4m memory=4 ephemeral-storage=4 example.com/a=4 example.com/b=4"))
}

// TestLacking has each resource at the edge: the free amount suffices, or is short by
// one.
func TestLacking(t *testing.T) {
	var use state.Use
	lacking := func(s *state.State, request *model.Resources) uint32 {
		use.Reset(s.Node(0))
		b := bounds{request: request}
		return b.lacking(s.Node(0), &use)
	}
	for _, row := range []struct {
		asks string
		want uint32
	}{
		{"", 0}, {"cpu=6m memory=6 ephemeral-storage=6 example.com/a=6 example.com/b=6", 0},
		{"cpu=7m", 1 << 1}, {"memory=7", 1 << 2}, {"ephemeral-storage=7", 1 << 3}, {"example.com/a=7", 1 << 4}, {"example.com/a=1 example.com/b=7", 1 << 5},
		{"cpu=7m memory=7 example.com/none=1", 1<<1 | 1<<2 | 1<<4},
	} {
		if got := lacking(edge(), asks(row.asks)); got != row.want {
			t.Errorf("%q lacks %b, want %b", row.asks, got, row.want)
		}
	}
	if got := lacking(edge(), nil); got != 0 {
		t.Errorf("an unknown request lacks %b", got)
	}
	full := edge()
	plugintest.Set(full, victim("y", ""), victim("z", ""))
	if got := lacking(full, asks("")); got != 1 {
		t.Errorf("beside three pods of three another lacks %b", got)
	}
	// A node that became smaller has a negative free amount. Resources outside the
	// request are not lacking.
	plugintest.Set(full, build.Node("n", build.Allocatable("cpu=1m memory=1 ephemeral-storage=1 pods=9")))
	if got := lacking(full, asks("")); got != 0 {
		t.Errorf("on a node with less than nothing free a pod without requests lacks %b", got)
	}
	if got := lacking(full, asks("cpu=1m")); got != 1<<1 {
		t.Errorf("on a node with less than nothing free a pod lacks %b", got)
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("example.com/d%02d=%d", i, 1))
	}
	if got, want := lacking(edge(), asks(strings.Join(many, " "))), uint32(math.MaxUint32-15); got != want {
		t.Errorf("40 kinds: %b, want %b", got, want)
	}
}

// TestAtLeast: the minimum number of victims follows from the largest pod.
func TestAtLeast(t *testing.T) {
	node := build.Node("n", build.Allocatable("cpu=12m memory=12 ephemeral-storage=12 pods=4"))
	s := plugintest.Cluster([]*v1.Node{node}, victim("x", "cpu=2m memory=3 ephemeral-storage=1"), victim("y", "cpu=3m memory=2 ephemeral-storage=1"),
		victim("z", "cpu=4m memory=4 ephemeral-storage=4"))
	var use state.Use
	for _, row := range []struct {
		// 3 cpu, 3 memory and 6 of ephemeral storage are free; the largest pods use 4 of
		// each
		asks string
		want int64
	}{
		{"cpu=3m", 1}, {"cpu=4m", 1}, {"cpu=7m", 1}, {"cpu=8m", 2}, {"cpu=11m", 2}, {"cpu=12m", 3}, {"cpu=99m", 3},
		{"memory=3", 1}, {"memory=7", 1}, {"memory=8", 2}, {"memory=11", 2}, {"memory=12", 3},
		{"ephemeral-storage=6", 1}, {"ephemeral-storage=10", 1}, {"ephemeral-storage=11", 2},
		{"cpu=4m memory=8", 2}, {"cpu=8m memory=4", 2},
	} {
		use.Reset(s.Node(0))
		b := bounds{request: asks(row.asks)}
		if got := b.atLeast(s.Node(0), &use, s.Node(0).Bands()); got != row.want {
			t.Errorf("%s: %d, want %d", row.asks, got, row.want)
		}
	}
	plugintest.Set(s, build.Node("n", build.Allocatable("cpu=99m memory=99 ephemeral-storage=99 pods=2")))
	use.Reset(s.Node(0))
	b := bounds{request: asks("")}
	if got := b.atLeast(s.Node(0), &use, s.Node(0).Bands()); got != 2 {
		t.Errorf("of three pods on a node for two, %d must go for another, want 2", got)
	}
	b.request = nil
	if got := b.atLeast(s.Node(0), &use, s.Node(0).Bands()); got != 1 {
		t.Errorf("without a request %d must go, want 1", got)
	}
}

// TestBoundsAreKeptByRequest gets the bounds of requests that differ in one field each.
// Bounds have a copy of the request, because the next cycle overwrites it.
func TestBoundsAreKeptByRequest(t *testing.T) {
	c := &asking{state: edge()}
	seen := map[*bounds]string{}
	requests := []string{"none", "", "cpu=1m", "memory=1", "ephemeral-storage=1", "example.com/a=1", "example.com/a=12", "example.com/b=1", "example.com/a=1 example.com/b=2",
		"example.com/a=2 example.com/b=1"}
	for again := range 2 {
		for _, text := range requests {
			for _, priority := range []int32{1, 2} {
				c.request = nil
				if text != "none" {
					c.request = asks(text)
				}
				b := c.begun().boundsFor(c.cycle(), priority)
				name := fmt.Sprint(text, " of priority ", priority)
				if of, known := seen[b]; known != (again > 0) || known && of != name {
					t.Errorf("%s has the bounds of %q", name, of)
				}
				seen[b] = name
				if c.request != nil {
					for i := range c.request.Scalars {
						c.request.Scalars[i].Value = 99
					}
				}
				if b.request != nil {
					for _, scalar := range b.request.Scalars {
						if scalar.Value == 99 {
							t.Errorf("%s: the bounds share the request", name)
						}
					}
				}
			}
		}
	}
}

// TestOldestBoundsAreForgotten: in a very large cluster few bounds are kept, the most
// recently used ones.
func TestOldestBoundsAreForgotten(t *testing.T) {
	build.NotRaced(t)
	const nodes = 10_000
	const most = boundBytes / (bytesPerSlot * nodes)
	list := make([]*v1.Node, nodes)
	for i := range list {
		list[i] = build.Node(fmt.Sprint("n", i))
	}
	c := &asking{state: plugintest.Cluster(list), request: asks("cpu=1")}
	m := c.begun()
	first := m.boundsFor(c.cycle(), 0)
	for priority := range int32(most + 5) {
		c.begun().boundsFor(c.cycle(), priority)
		c.begun().boundsFor(c.cycle(), 0)
	}
	if len(m.bounds) != most {
		t.Errorf("%d bounds are kept, want %d", len(m.bounds), most)
	}
	if c.begun().boundsFor(c.cycle(), 0) != first {
		t.Error("the bounds that were used between all others are forgotten")
	}
	for key := range m.bounds {
		if key.priority > 0 && key.priority < 6 {
			t.Errorf("the bounds of priority %d are kept", key.priority)
		}
	}
}

// TestChangedNodesAreRatedOnce: a node with several entries in the journal is rated once.
// A node with other aspects only is not rated.
func TestChangedNodesAreRatedOnce(t *testing.T) {
	s := edge()
	plugintest.Set(s, build.Node("m", build.Allocatable("cpu=10m pods=10")))
	c := &asking{state: s, request: asks("cpu=7m")}
	rated := func() int { return c.begun().boundsFor(c.cycle(), 1).rated }
	if got := rated(); got != 2 {
		t.Errorf("at first %d nodes are rated, want 2", got)
	}
	if got := rated(); got != 0 {
		t.Errorf("without a change %d nodes are rated", got)
	}
	for range 2 {
		plugintest.Set(s, victim("y", "cpu=1m"))
		s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: v1.NamespaceDefault, Name: "y"}}})
	}
	if got := rated(); got > 2 || got < 1 {
		t.Errorf("after changes of one node %d nodes are rated", got)
	}
	plugintest.Set(s, build.Node("m", build.Allocatable("cpu=10m pods=10"), build.NodeLabels("a=b")))
	if got := rated(); got != 0 {
		t.Errorf("after a change of labels %d nodes are rated", got)
	}
}

// TestSortedPodsAreKept: the pods of a node are sorted once, until one of them changes.
// The cache is bounded.
func TestSortedPodsAreKept(t *testing.T) {
	s := edge()
	m := (&asking{state: s}).begun()
	first := m.podsOn(s.View(), 0)
	if again := m.podsOn(s.View(), 0); len(first) != 1 || &again[0] != &first[0] {
		t.Error("the pods are sorted again")
	}
	plugintest.Set(s, victim("y", "cpu=1m"))
	if now := m.podsOn(s.View(), 0); len(now) != 2 || m.pods != 2 {
		t.Errorf("%d pods on the node, %d in all", len(now), m.pods)
	}
	// Exactly maxSorted pods stay, and one more does not.
	m.pods = maxSorted - 1
	plugintest.Set(s, victim("w", "cpu=1m"))
	if now := m.podsOn(s.View(), 0); len(now) != 3 || m.pods != maxSorted || len(m.sorted) != 1 {
		t.Errorf("at the most that are kept: %d pods on the node, %d in all, of %d nodes", len(now), m.pods, len(m.sorted))
	}
	plugintest.Set(s, build.Node("m"))
	m.sorted[1] = sortedPods{version: 1 << 60, pods: make([]*model.Pod, 5)}
	m.pods = maxSorted
	plugintest.Set(s, victim("z", "cpu=1m"))
	if now := m.podsOn(s.View(), 0); len(now) != 4 || m.pods != 4 || len(m.sorted) != 1 {
		t.Errorf("beyond the most that are kept: %d pods on the node, %d in all, of %d nodes", len(now), m.pods, len(m.sorted))
	}
}

// TestReasonsAreBounded: as many different reasons as fit into a byte are kept, and none
// beyond.
func TestReasonsAreBounded(t *testing.T) {
	f := findings{bySlot: make([]uint8, 300), positions: map[string]uint8{}}
	for slot := range int32(300) {
		f.learnReasons(slot, []string{fmt.Sprint("reason ", slot/2*2%280), "another"})
		at, known := f.reasons(slot)
		if want := slot/2 < int32(maxTexts); known != want && slot < 280 {
			t.Errorf("slot %d: known %t", slot, known)
		}
		if known && f.texts[at][0] != fmt.Sprint("reason ", slot/2*2%280) {
			t.Errorf("slot %d: %q", slot, f.texts[at])
		}
	}
	f.learn(7, rank{count: 3, tie: 9})
	if r := f.rankOf(7); r == nil || *r != (rank{count: 3}) || f.rankOf(8) != nil {
		t.Errorf("the rank is %+v", r)
	}
	if _, known := f.reasons(7); known {
		t.Error("there are reasons for a candidate")
	}
	f.forgetCandidate(7)
	f.forgetCandidate(8)
	if _, known := f.reasons(8); f.rankOf(7) != nil || !known {
		t.Error("not the candidate alone is forgotten")
	}
}

// TestStaleBoundIsRatedAgain: the bound of the last preemptor's own nominated node is
// computed again, on any slot.
func TestStaleBoundIsRatedAgain(t *testing.T) {
	s := edge()
	plugintest.Set(s, build.Node("m", build.Allocatable("cpu=10m pods=10")))
	c := &asking{state: s, request: asks("cpu=7m")}
	b := c.begun().boundsFor(c.cycle(), 1)
	for slot := range int32(2) {
		state, sum, rank := b.states[slot], b.sums[slot], b.ranks[slot]
		b.states[slot], b.ranks[slot], b.sums[slot], b.stale = rated, ideal, ideal, slot
		c.begun().boundsFor(c.cycle(), 1)
		if b.states[slot] != state || b.sums[slot] != sum || b.ranks[slot] != rank || b.rated != 1 || b.stale != -1 {
			t.Errorf("slot %d: state %d, bound %+v, rank %+v, %d nodes rated, stale %d", slot, b.states[slot], b.sums[slot], b.ranks[slot], b.rated, b.stale)
		}
	}
}
