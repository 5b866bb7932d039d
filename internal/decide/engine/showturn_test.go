package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestShowTurn shows the turns of pods with and without a feasible node, in the form that
// PostFilter plugins get: the plugins that have run at PreFilter, and the nodes where
// preemption may help. Turns that end before any plugin runs are not shown.
func TestShowTurn(t *testing.T) {
	const hard = reason.Unresolvable
	codes := map[string]reason.Code{"b": 1, "c": 2 | hard}
	answering := func(result plugin.PreFilterResult) *plugin.PreFilter {
		return plugintest.PartsOf(&preFilter{"N", result}).PreFilter
	}
	for name, test := range map[string]struct {
		nodes  []string
		change func(x *small)
		pod    func(*model.Pod)
		// "<whether N ran> <whether Z ran>: <slots>", empty if nothing is shown
		want  string
		fails string
	}{
		"a node is feasible":   {nodes: []string{"a", "b", "c"}, want: "true true: [1] 1"},
		"no node is feasible":  {nodes: []string{"c", "b"}, want: "true true: [1] 1"},
		"PreFilter rejects":    {nodes: []string{"a", "b"}, change: func(x *small) { x.p.PreFilters[0] = answering(plugin.PreFilterResult{Rejection: "no"}) }, want: "true false: [] 0"},
		"PreFilter fails":      {nodes: []string{"a"}, change: func(x *small) { x.p.PreFilters[0] = answering(plugin.PreFilterResult{Err: errBroken}) }, fails: `running PreFilter plugin "N": broken`},
		"no nodes":             {},
		"malformed":            {nodes: []string{"a"}, pod: func(p *model.Pod) { p.Malformed = "odd" }},
		"of another scheduler": {nodes: []string{"a"}, pod: func(p *model.Pod) { p.SchedulerName = "other" }, fails: `no profile for scheduler name "other"`},
		"rejected, and resolvable": {nodes: []string{"a", "b"}, change: func(x *small) {
			x.profiles[x.p.Name].External = &noted{}
			x.p.PreFilters[0] = answering(plugin.PreFilterResult{Rejection: "no", Resolvable: true})
		}, want: "true true: [0 1] 2"},
	} {
		x := newSmall(t, &plugin.Profile{
			PreFilterOrder: []string{"N", "Z"},
			PreFilters:     []*plugin.PreFilter{answering(plugin.PreFilterResult{})},
			Filters:        plugintest.Filters(&rule{name: "F", codes: codes}),
		}, test.nodes...)
		if test.change != nil {
			test.change(x)
		}
		pod := x.pod()
		if test.pod != nil {
			test.pod(pod)
		}
		shown := ""
		err := x.ShowTurn(x.s.View(), pod, func(cycle plugin.Cycle) {
			c := cycle.(*postFilterCycle)
			shown += fmt.Sprintf("%t %t: %v %d", c.PreFiltered("N"), c.PreFiltered("Z"), c.Potential(), c.potentialNodes())
		})
		if text := fmt.Sprint(err); shown != test.want || (err != nil) != (test.fails != "") || err != nil && text != test.fails {
			t.Errorf("%s: %q, %v; want %q, %q", name, shown, err, test.want, test.fails)
		}
	}
}

// TestResolvableBesideNominated has a filter object to nodes with pods on them. On a node
// with a nominated pod that goes first, the objection with that pod counts.
func TestResolvableBesideNominated(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "F", reads: model.Usage, codes: map[string]reason.Code{"a": 1 | reason.Unresolvable, "b": 2, "c": 1 | reason.Unresolvable}})}, "a", "b", "c")
	for _, node := range []string{"a", "b"} {
		plugintest.Set(x.s, build.Pod(build.Named("on-"+node), build.NominatedNodeName(node), priority(9)))
	}
	got := []bool{}
	if err := x.ShowTurn(x.s.View(), x.pod(build.Named("p")), func(shown plugin.Cycle) {
		c := shown.(*postFilterCycle)
		for slot := range int32(3) {
			got = append(got, c.Resolvable(slot))
		}
	}); err != nil || !slices.Equal(got, []bool{false, true, true}) {
		t.Errorf("%v, %v", got, err)
	}
}
