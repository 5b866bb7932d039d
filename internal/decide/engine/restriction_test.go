package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// among returns the view restricted to these nodes.
func (x *small) among(names string) state.View {
	slots := []int32{}
	for slot, alive := range x.s.Alive() {
		if alive && strings.Contains(" "+names+" ", " "+x.s.Node(int32(slot)).Name()+" ") {
			slots = append(slots, int32(slot))
		}
	}
	return x.s.View().Restricted(state.RestrictTo(slots))
}

// told writes a decision.
func (x *small) told(v state.View, pod *model.Pod) string {
	switch d := x.Decide(v, plan.Alone(pod)); d.Outcome {
	case plan.Placed:
		return fmt.Sprintf("%s of %d", d.Placement.NodeName, d.Placement.Feasible)
	case plan.Unschedulable:
		return d.Rejection.Text(d.Nodes)
	default:
		return fmt.Sprint(d.Outcome, " ", d.Err)
	}
}

// TestRestriction decides about nodes a to f, with only some of them to choose among.
func TestRestriction(t *testing.T) {
	const failed = reason.Failed | 1
	nominated := func(node string) []build.PodOption { return []build.PodOption{build.NominatedNodeName(node)} }
	narrow := func(nodes ...string) []*plugin.PreFilter {
		return []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"p", plugin.PreFilterResult{Narrowed: true, Nodes: nodes}}).PreFilter}
	}
	for _, row := range []struct {
		name   string
		codes  map[string]reason.Code
		narrow []*plugin.PreFilter
		pod    []build.PodOption
		among  string
		want   string
	}{
		{"all pass", nil, nil, nil, "b e", "e of 2"},
		{"one passes", map[string]reason.Code{"b": 1}, nil, nil, "b c", "c of 1"},
		{"none passes", map[string]reason.Code{"b": 1, "c": 2}, nil, nil, "b c", "0/2 nodes are available: 1 r1, 1 r2."},
		{"none is there", nil, nil, nil, "", "0/0 nodes are available:"},
		{"narrowed", nil, narrow("a", "c"), nil, "b c d", "c of 1"},
		{"narrowed to one that is rejected", map[string]reason.Code{"c": 1}, narrow("a", "c"), nil, "b c d", "0/3 nodes are available: 1 r1, 2 node(s) didn't satisfy plugin(s) [p]."},
		{"narrowed to others", nil, narrow("a"), nil, "b c", "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [p]."},
		{"nominated inside", nil, nil, nominated("b"), "b e", "b of 1"},
		{"nominated outside", nil, nil, nominated("a"), "b", "b of 1"},
		{"nominated outside, none passes", map[string]reason.Code{"b": 1}, nil, nominated("a"), "b", "0/1 nodes are available: 1 r1."},
		{"fails outside", map[string]reason.Code{"a": failed}, nil, nil, "b", "b of 1"},
		{"fails inside", map[string]reason.Code{"a": failed, "b": failed}, nil, nil, "b c", `failed running "r" filter plugin: r fails 1`},
	} {
		x := newSmall(t, &plugin.Profile{PreFilters: row.narrow, Filters: plugintest.Filters(&rule{name: "r", codes: row.codes})}, "a", "b", "c", "d", "e", "f")
		if got := x.told(x.among(row.among), x.pod(row.pod...)); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestRestrictionVisitsItsNodes counts work: nodes outside are not visited, and the
// column is filled once for all restrictions.
func TestRestrictionVisitsItsNodes(t *testing.T) {
	r := &rule{name: "r"}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(r)}, "a", "b", "c", "d", "e", "f")
	for _, names := range []string{"a b", "c d e", "f"} {
		before := x.Counters().Visited
		x.told(x.among(names), x.pod())
		if visited := x.Counters().Visited - before; visited != int64(len(strings.Fields(names))) {
			t.Errorf("%s: %d slots were visited", names, visited)
		}
	}
	if len(r.asked) != 6 || x.Counters().Filled != 1 {
		t.Errorf("the filter was asked about %v; %d columns were filled", r.asked, x.Counters().Filled)
	}
}

// TestRestrictionAndRemembering: a rejection by some nodes is not valid for another set
// of nodes.
func TestRestrictionAndRemembering(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "r", codes: map[string]reason.Code{"a": 1, "b": 2, "c": 3}})}, "a", "b", "c")
	for i, step := range []struct{ among, want string }{
		{"a", "0/1 nodes are available: 1 r1."},
		{"a b c", "0/3 nodes are available: 1 r1, 1 r2, 1 r3."},
		{"b", "0/1 nodes are available: 1 r2."},
		{"all", "0/3 nodes are available: 1 r1, 1 r2, 1 r3."},
		{"c", "0/1 nodes are available: 1 r3."},
		{"all", "0/3 nodes are available: 1 r1, 1 r2, 1 r3."},
	} {
		v := x.s.View()
		if step.among != "all" {
			v = x.among(step.among)
		}
		if got := x.told(v, x.pod()); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
	if recalled, _ := x.Rejections(); recalled != 1 || x.Counters().Recalled != 1 {
		t.Errorf("%d rejections are remembered, %d were recalled; want one of all nodes", recalled, x.Counters().Recalled)
	}
}

// TestTie: numbers differ between questions and between choices, and depend on the seed.
func TestTie(t *testing.T) {
	numbers := map[uint64]string{}
	for _, seed := range []uint64{1, 2} {
		e, err := New(Config{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "a"}, {"ab", ""}, {"", "ab"}} {
			n, name := e.Tie(pair[0], pair[1]), fmt.Sprint(seed, pair)
			if numbers[n] != "" || n != e.Tie(pair[0], pair[1]) {
				t.Errorf("%s and %s have the same number, or it changes", name, numbers[n])
			}
			numbers[n] = name
		}
	}
}
