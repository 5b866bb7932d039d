package preempt

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// liking is a cycle whose pod is of some kind.
type liking struct {
	asking
	alike Alike
}

func (c *liking) Alike() (Alike, bool) { return c.alike, c.alike.Kind != nil }

func (c *liking) cycle() *cycle {
	own := c.asking.cycle()
	own.turn = c
	return own
}

// numbered is a kind of pods.
type numbered int

func (numbered) IsKind() {}

// TestOldestFindingsAreForgotten: in a very large cluster the findings of few kinds are
// kept, the most recently used ones.
func TestOldestFindingsAreForgotten(t *testing.T) {
	const nodes = 20_000
	const most = findingBytes / (findingBytesPerSlot * nodes)
	list := make([]*v1.Node, nodes)
	for i := range list {
		list[i] = build.Node(fmt.Sprint("n", i))
	}
	c := &liking{asking: asking{state: plugintest.Cluster(list)}}
	of := func(kind int) *findings {
		c.alike.Kind = numbered(kind)
		return c.begun().findingsFor(c.cycle(), 0)
	}
	first := of(-1)
	for kind := range most + 5 {
		of(kind)
		of(-1)
	}
	m := c.begun()
	if len(m.findings) != most {
		t.Errorf("findings of %d kinds are kept, want %d", len(m.findings), most)
	}
	if of(-1) != first {
		t.Error("the findings that were used between all others are forgotten")
	}
	for kind := range 6 {
		if _, kept := m.findings[findingsKey{numbered(kind), 0}]; kept {
			t.Errorf("the findings of kind %d are kept", kind)
		}
	}
	if c.alike.Kind = nil; m.findingsFor(c.cycle(), 0) != nil {
		t.Error("there are findings for a pod that is like no other")
	}
}

// TestFindingsFollowTheCluster: a finding on a node is valid until the journal lists the
// node with an aspect that filters read, or has dropped entries.
func TestFindingsFollowTheCluster(t *testing.T) {
	const nodes = 8
	var list []*v1.Node
	for i := range nodes {
		list = append(list, build.Node(fmt.Sprint("n", i)))
	}
	s := plugintest.Cluster(list)
	c := &liking{asking{state: s}, Alike{Kind: numbered(1), Versions: []uint64{1, 2}, Reads: model.Taints}}
	var f *findings
	known := func() (n int) {
		f = c.begun().findingsFor(c.cycle(), 0)
		for slot := range s.Slots() {
			if _, known := f.reasons(int32(slot)); known || f.rankOf(int32(slot)) != nil {
				n++
			}
		}
		return n
	}
	check := func(what string, want int) {
		t.Helper()
		if got := known(); got != want {
			t.Errorf("%s: of %d nodes something is known, want %d", what, got, want)
		}
		for slot := range int32(s.Slots()) {
			if slot%2 == 0 {
				f.learn(slot, rank{count: 1})
			} else {
				f.learnReasons(slot, []string{"r"})
			}
		}
	}
	set := func(i int, options ...build.NodeOption) {
		plugintest.Set(s, build.Node(fmt.Sprint("n", i), options...))
	}
	check("at first", 0)
	check("nothing has changed", nodes)
	set(0, build.NodeLabels("a=b"))
	check("a label, which no filter reads", nodes)
	set(1, build.Taints("k=v:NoSchedule"))
	check("a taint, which a filter reads", nodes-1)
	plugintest.Set(s, resident("v", "n2", 1, "cpu=1m", 0))
	check("a pod", nodes-1)
	version := s.Version()
	for i := range nodes {
		set(3, build.Taints(fmt.Sprintf("k%d=v:NoSchedule", i)))
	}
	if n := s.Version() - version; n != nodes {
		t.Errorf("%d changes, want %d", n, nodes)
	}
	check("as many changes as nodes, of one", nodes-1)
	for i := range nodes + 1 {
		set(3, build.Taints(fmt.Sprintf("k%d=v:NoSchedule", i)))
	}
	check("more changes than nodes", 0)
	c.alike.Versions = []uint64{1, 3}
	check("other counts", 0)
	f.version = s.Version() + 1
	check("unknown changes", 0)
	check("nothing again", nodes)
	set(nodes)
	check("another node", nodes)
	check("and nothing more", nodes+1)
	if f.rankOf(nodes) == nil {
		t.Error("the rank on the new node is not known")
	}
	// When most nodes end, their slots and their journal entries are cut off.
	plugintest.Set(s, resident("w", "n8", 1, "cpu=1m", 0))
	for i := 2; i <= nodes; i++ {
		s.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprint("n", i)}})
	}
	known()

	single := plugintest.Cluster(list[:1])
	c = &liking{asking{state: single}, Alike{Kind: numbered(1)}}
	c.begun().findingsFor(c.cycle(), 0).learn(0, rank{count: 1})
	if c.begun().findingsFor(c.cycle(), 0).rankOf(0) == nil {
		t.Error("what was found on the only node is forgotten")
	}
}

// TestTextsAreBounded: reasons beyond the limit are not kept. Earlier reasons are found
// by the position of their texts.
func TestTextsAreBounded(t *testing.T) {
	f := findings{bySlot: make([]uint8, 300), positions: map[string]uint8{}}
	for slot := range int32(300) {
		f.learnReasons(slot, []string{fmt.Sprint("reason ", slot)})
		at, known := f.reasons(slot)
		if want := slot < int32(maxTexts); known != want || known && at != int(slot) {
			t.Errorf("slot %d: known %t, at %d", slot, known, at)
		}
	}
	if len(f.texts) != int(maxTexts) {
		t.Errorf("%d texts are kept, want %d", len(f.texts), maxTexts)
	}
	f.learnReasons(299, []string{"reason 7"})
	if at, known := f.reasons(299); !known || at != 7 {
		t.Errorf("a known reason: known %t, at %d", known, at)
	}
}

// TestBudgetsAreMatchedOnce: the budgets of a label set are cached until selections
// change. Pods that need no matching are not cached.
func TestBudgetsAreMatchedOnce(t *testing.T) {
	s := state.New()
	plugintest.Set(s, disruption("x", "app=x", 1), disruption("both", "app In x,y", 1))
	pod := func(options ...build.PodOption) *model.Pod { return model.NewPod(build.Pod(options...)) }
	var b budgetsOf
	elsewhere := func(p *v1.Pod) { p.Namespace = "elsewhere" }
	if len(b.of(s.View(), pod(), model.BudgetRules{})) != 0 || len(b.of(s.View(), pod(build.Labels("app=x"), elsewhere), model.BudgetRules{})) != 0 || len(b.by) != 0 {
		t.Errorf("for pods without labels, and in a namespace without budgets: %v", b.by)
	}
	for i, row := range []struct {
		label string
		want  int
		kept  int
	}{{"app=x", 2, 1}, {"app=y", 1, 2}, {"app=x", 2, 2}} {
		if got := b.of(s.View(), pod(build.Labels(row.label)), model.BudgetRules{}); len(got) != row.want || len(b.by) != row.kept {
			t.Errorf("%d: %s: %d budgets, %d label sets are kept, want %+v", i, row.label, len(got), len(b.by), row)
		}
	}
	plugintest.Set(s, disruption("y", "app=y", 1))
	if got := b.of(s.View(), pod(build.Labels("app=y")), model.BudgetRules{}); len(got) != 2 || len(b.by) != 1 {
		t.Errorf("with another budget: %d budgets, %d label sets are kept", len(got), len(b.by))
	}
	for i := len(b.by); i < maxLabelSets; i++ {
		b.of(s.View(), pod(build.Labels(fmt.Sprint("app=z", i))), model.BudgetRules{})
	}
	if len(b.by) != maxLabelSets {
		t.Errorf("%d label sets are kept, want %d", len(b.by), maxLabelSets)
	}
	if b.of(s.View(), pod(build.Labels("app=another")), model.BudgetRules{}); len(b.by) != 1 {
		t.Errorf("beyond the most: %d label sets are kept", len(b.by))
	}
}

// TestRankOfAdvised: the first victim in the extender's order counts as the highest. The
// earliest start is among the victims of the highest priority.
func TestRankOfAdvised(t *testing.T) {
	four := plugintest.Cluster([]*v1.Node{build.Node("a"), build.Node("b"), build.Node("c"), build.Node("d")})
	s := search{cycle: *(&asking{state: four}).cycle()}
	for i, row := range []struct {
		victims [][2]int64 // priority and start
		start   int64
	}{
		{[][2]int64{{5, 30}}, 30},
		{[][2]int64{{5, 30}, {5, 20}, {5, 40}}, 20},
		{[][2]int64{{5, 30}, {4, 20}}, 30},
		{[][2]int64{{5, 30}, {7, 60}, {6, 10}, {5, 10}}, 60},
		{[][2]int64{{5, 30}, {7, 60}, {7, 50}}, 50},
		{[][2]int64{{5, 30}, {7, 20}, {5, 40}}, 20},
	} {
		c := &plugin.Candidate{Slot: 3, Violations: 2}
		want := rank{violations: 2, highest: 5, count: int32(len(row.victims)), start: row.start, tie: s.cycle.tie(3)}
		for j, v := range row.victims {
			c.Victims = append(c.Victims, model.NewPod(resident(fmt.Sprint("v", j), "n", int32(v[0]), "", v[1])))
			want.sum += weightOf(int32(v[0]))
		}
		if got := s.rankOfAdvised(c); got != want {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
}
