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

// TestRejectionWithOtherObjections: a rejection with a column is decided again with too
// many different objections for a column. It must drop the old column.
func TestRejectionWithOtherObjections(t *testing.T) {
	const nodes = maxObjections + 20
	f := &byLabel{rule{name: "F", reads: model.Labels}}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f)})
	set := func(each func(i int) int) {
		for i := range nodes {
			plugintest.Set(x.s, digit(i, each(i)))
		}
	}
	expect := func(what string, reasons, first int, recalled int64) {
		t.Helper()
		before := x.Counters().Recalled
		d := x.decide(x.pod())
		if len(d.Rejection.Counts) != reasons || d.Rejection.Counts[0].Nodes != first || x.Counters().Recalled-before != recalled {
			t.Errorf("%s: %d reasons, the first of %d nodes; want %d, %d; %d recalled", what, len(d.Rejection.Counts), d.Rejection.Counts[0].Nodes, reasons, first, x.Counters().Recalled-before)
		}
		if err := x.Audit(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	set(func(int) int { return 1 })
	expect("all alike", 1, nodes, 0)
	set(func(int) int { return 2 })
	expect("again, with a column", 1, nodes, 0)
	plugintest.Set(x.s, digit(0, 3))
	expect("followed", 2, 1, 1)
	set(func(i int) int { return 1 + i })
	expect("all different", nodes, 1, 0)
	plugintest.Set(x.s, digit(0, 2))
	expect("one like another", nodes-1, 1, 0)
	set(func(int) int { return 2 })
	expect("all alike again", 1, nodes, 0)
	// Of two changes of a node only the first matters to the filter.
	labelled := digit(4, 5)
	plugintest.Set(x.s, labelled, build.Pod(build.Named("on"), build.NodeName("n4")))
	expect("another label, and then a pod", 2, 1, 1)
	plugintest.Set(x.s, build.Pod(build.Named("on-2"), build.NodeName("n4")), digit(4, 6), digit(4, 7))
	expect("a pod, and then two labels", 2, 1, 1)
}

// byLabel objects to each node with the number in its label.
type byLabel struct{ rule }

func (f *byLabel) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *byLabel) Compile() *plugin.Verdicts               { return failable(f) }
func (f *byLabel) Filter(node state.Node) (code reason.Code) {
	_, _ = fmt.Sscan(node.Object().Labels["v"], &code)
	return code
}

// TestRejectionsHaveTheirOwnColumns: rejections of two shapes follow the same changes,
// and do not share memory. PostFilter plugins find the nodes where preemption may help
// without visiting them again.
func TestRejectionsHaveTheirOwnColumns(t *testing.T) {
	f, g := &byLabel{rule{name: "F", reads: model.Labels}}, &bySelector{rule{name: "G"}}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(g, f)})
	x.p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, pod *model.Pod) (plugin.PostFilterResult, error) {
		before := x.Counters().Visited
		if n := len(c.Potential()); n != 4 || x.Counters().Visited != before {
			t.Errorf("%d nodes are potential, %d were visited", n, x.Counters().Visited-before)
		}
		return plugin.PostFilterResult{Transient: true}, nil
	}}).PostFilter}
	plugintest.Set(x.s, digit(0, 1), digit(1, 2), digit(2, 3), digit(3, 4))
	for step, want := range []string{"1 F1, 1 F2, 1 F3, 1 F4", "1 F2, 1 F3, 1 F4, 1 F5", "1 F2, 1 F3, 1 F4, 1 F6", "1 F2, 1 F3, 1 F4, 1 F7"} {
		if step > 0 {
			plugintest.Set(x.s, digit(0, 4+step))
		}
		for _, own := range []string{"", "n1", "n2"} {
			want := want
			if at := map[string]string{"n1": "1 F2", "n2": "1 F3"}[own]; at != "" {
				want = strings.TrimSuffix(strings.Replace(want+", ", at+", ", "", 1), ", ") + ", 1 G1"
			}
			if got := decided(x.decide(x.pod(build.Labels("at=" + own)))); !strings.HasPrefix(got, "no: "+want+" by") {
				t.Errorf("step %d, a pod of %q: %s, want %s", step, own, got, want)
			}
			if err := x.Audit(); err != nil {
				t.Errorf("step %d: %v", step, err)
			}
		}
	}
	if recalled := x.Counters().Recalled; recalled != 6 {
		t.Errorf("%d rejections were remembered, want 6", recalled)
	}
}

// bySelector objects to the node that the pod's label names.
type bySelector struct{ rule }

func (f *bySelector) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	if pod.Labels["at"] == "" {
		return nil
	}
	return &rule{name: "G", codes: map[string]reason.Code{pod.Labels["at"]: 1}, text: pod.Labels["at"]}
}

// TestAuditOfRemembered: an audited engine decides again. It reports a node that became
// feasible without a change that the filter reads.
func TestAuditOfRemembered(t *testing.T) {
	f := &rule{name: "F", codes: map[string]reason.Code{"a": 1}}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f)}, "a")
	x.audits = true
	x.decide(x.pod())
	if x.decide(x.pod()); x.Counters().Recalled != 1 || x.Audit() != nil {
		t.Errorf("%+v", x.Counters())
	}
	x.columns.filters.dropIf(func(*filterColumn) bool { return true })
	f.codes = nil
	x.decide(x.pod())
	if err := x.Audit(); err == nil || !strings.Contains(err.Error(), "deciding again finds 1 feasible nodes, error <nil>") {
		t.Errorf("%v", err)
	}
}

// TestCompiledAreUsed: compiled needs without a column are as old as their last use.
func TestCompiledAreUsed(t *testing.T) {
	x := newSmall(t, &plugin.Profile{
		Filters: plugintest.Filters(&counted{name: "C", rule: passing()}), Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&setRating{together: together{name: "S"}}).Score, Weight: 1}},
	}, "a", "b")
	for range 3 {
		x.decide(x.pod())
		for _, c := range x.columns.counting.all {
			if c.used != x.columns.clock {
				t.Errorf("counts were last used at %d, not at %d", c.used, x.columns.clock)
			}
		}
		for _, s := range x.columns.sets.all {
			if s.used != x.columns.clock {
				t.Errorf("scores were last used at %d, not at %d", s.used, x.columns.clock)
			}
		}
	}
}

// TestVersionsOfRejections: a remembered rejection with rules about counts depends on
// more than nodes: the versions of its tallies, and the state's versions of terms and
// namespaces. Without such rules the latter do not matter.
func TestVersionsOfRejections(t *testing.T) {
	full := plugin.CountRule{Domains: []int32{0, 0}, Counts: []int32{5}, Max: 1, Code: 1}
	for name, test := range map[string]struct {
		filter  interface{ Name() string }
		decides bool // anew after a change of a namespace
	}{
		"a rule":         {&counted{name: "C", rule: full}, true},
		"without a rule": {&rule{name: "F", codes: map[string]reason.Code{"a": 1, "b": 1}}, false},
	} {
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(test.filter)}, "a", "b")
		expect := func(what string, recalled int64) {
			t.Helper()
			before := x.Counters().Recalled
			if d := x.decide(x.pod()); d.Outcome != plan.Unschedulable || x.Counters().Recalled-before != recalled {
				t.Errorf("%s, %s: %s, %d recalled, want %d", name, what, decided(d), x.Counters().Recalled-before, recalled)
			}
		}
		labels := 0
		relabel := func() {
			labels++
			plugintest.Set(x.s, build.Namespace("default", fmt.Sprint("v=", labels)))
		}
		cpus := 0
		node := func() {
			cpus++
			plugintest.Set(x.s, build.Node("a", build.Allocatable(fmt.Sprint("cpu=", cpus))))
		}
		expect("first", 0)
		expect("again", 1)
		node()
		expect("after a change of a node", 0) // the first has no column
		relabel()
		node()
		expect("of which it has a column", map[bool]int64{true: 0, false: 1}[test.decides])
		relabel()
		node()
		expect("with another namespace and node", map[bool]int64{true: 0, false: 1}[test.decides])
		relabel()
		expect("with another namespace", map[bool]int64{true: 0, false: 1}[test.decides])
		expect("and again", 1)
		if c, ok := test.filter.(*counted); ok {
			node()
			expect("with a node", 1)
			c.version++
			node()
			expect("with other counts", 0)
		}
	}
}

// TestMostFilters: rejections are remembered for profiles with up to maxFilters filters,
// and no more.
func TestMostFilters(t *testing.T) {
	for filters, want := range map[int]int64{maxFilters - 1: 1, maxFilters: 1, maxFilters + 1: 0} {
		p := &plugin.Profile{}
		for i := range filters {
			p.Filters = append(p.Filters, plugintest.Filters(&rule{name: fmt.Sprint("F", i)})...)
		}
		ruleOf(p.Filters[filters-1]).codes = map[string]reason.Code{"a": 1}
		x := newSmall(t, p, "a")
		x.decide(x.pod())
		if d := x.decide(x.pod()); d.Outcome != plan.Unschedulable || x.Counters().Recalled != want {
			t.Errorf("%d filters: %s, %d recalled, want %d", filters, decided(d), x.Counters().Recalled, want)
		}
	}
}
