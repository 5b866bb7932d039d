package engine

import (
	"errors"
	"fmt"
	"slices"
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

// TestPreFilterResults combines the results of several PreFilter plugins, state filters
// and count filters.
func TestPreFilterResults(t *testing.T) {
	no := func(name string) *plugin.PreFilter {
		return plugintest.PartsOf(&preFilter{name, plugin.PreFilterResult{Rejection: name + " says no"}}).PreFilter
	}
	names := func(name string, nodes ...string) *plugin.PreFilter {
		return plugintest.PartsOf(&preFilter{name, plugin.PreFilterResult{Narrowed: true, Nodes: nodes}}).PreFilter
	}
	fails := func(name string) *plugin.PreFilter {
		return plugintest.PartsOf(&preFilter{name, plugin.PreFilterResult{Err: errors.New(name)}}).PreFilter
	}
	count := func(rejection string, err error) []*plugin.Filter {
		return plugintest.Filters(&counted{name: "C", rejection: rejection, err: err, rule: passing()})
	}
	for name, test := range map[string]struct {
		before  []*plugin.PreFilter
		filters []*plugin.Filter
		want    string
	}{
		"none":                       {nil, nil, "a b c"},
		"one names nodes":            {[]*plugin.PreFilter{names("A", "c", "gone", "a", "c")}, nil, "a c by [A]"},
		"several do":                 {[]*plugin.PreFilter{names("B", "c", "b"), names("A", "a", "b")}, nil, "b by [A B]"},
		"none that exists":           {[]*plugin.PreFilter{names("A", "gone")}, nil, " by [A]"},
		"none in common":             {[]*plugin.PreFilter{names("B", "c"), names("A", "a"), no("D")}, nil, "node(s) didn't satisfy plugin(s) [A B] simultaneously from [A B]"},
		"none at all":                {[]*plugin.PreFilter{names("A"), no("D")}, nil, "node(s) didn't satisfy plugin A from [A]"},
		"a rejection":                {[]*plugin.PreFilter{names("A", "a"), no("B"), no("C")}, nil, "B says no from [B]"},
		"an error":                   {[]*plugin.PreFilter{fails("A"), no("B")}, nil, `running PreFilter plugin "A": A`},
		"an error behind":            {[]*plugin.PreFilter{no("B"), fails("A")}, nil, "B says no from [B]"},
		"counts reject":              {[]*plugin.PreFilter{names("A", "a")}, count("too many", nil), "too many from [C]"},
		"counts fail":                {nil, count("", errBroken), `running PreFilter plugin "C": broken`},
		"a rejection before counts":  {[]*plugin.PreFilter{no("B")}, count("too many", nil), "B says no from [B]"},
		"counts that are left alone": {nil, plugintest.Filters(&counted{name: "C", skips: true}), "a b c"},
	} {
		x := newSmall(t, &plugin.Profile{PreFilters: test.before, Filters: test.filters}, "c", "a", "b")
		pod := x.pod()
		c, rejection, err := x.preFilter(x.s.View(), x.profiles[x.p.Name], pod)
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case rejection != nil:
			got = fmt.Sprintf("%s from %v", rejection.PreFilter, rejection.Plugins)
		default:
			var nodes []string
			for _, slot := range x.slotsToCheck(&c) {
				nodes = append(nodes, x.s.Node(slot).Name())
			}
			slices.Sort(nodes)
			if got = strings.Join(nodes, " "); len(c.narrowed.by) > 0 {
				got += fmt.Sprintf(" by %v", c.narrowed.by)
			}
			if !slices.IsSorted(c.narrowed.slots) {
				t.Errorf("%s: slots %v", name, c.narrowed.slots)
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		// The pod skips the first plugin.
		if len(test.before) > 0 {
			pod.SkipsPreFilter = 1
			c, _, _ := x.preFilter(x.s.View(), x.profiles[x.p.Name], pod)
			if slices.Contains(c.narrowed.by, test.before[0].Name) {
				t.Errorf("%s: %v although the first is skipped", name, c.narrowed.by)
			}
		}
	}
}

// TestPreFilteredPlugins: the plugins that have run at PreFilter follow from their order
// and from the plugins that rejected the pod.
func TestPreFilteredPlugins(t *testing.T) {
	x := newSmall(t, &plugin.Profile{PreFilterOrder: []string{"A", "B", "C"}}, "a")
	for name, test := range map[string]struct {
		by       []string
		open     bool
		filtered bool // the pod was rejected by filters
		want     string
	}{
		"by filters":           {nil, false, true, "ABC"},
		"by the first":         {[]string{"A"}, false, false, "A"},
		"by the second":        {[]string{"B"}, false, false, "AB"},
		"by two of them":       {[]string{"A", "B"}, false, false, "AB"},
		"by two, sorted":       {[]string{"B", "A"}, false, false, "AB"},
		"by the last":          {[]string{"C"}, false, false, "ABC"},
		"by one not in order":  {[]string{"Z"}, false, false, "ABC"},
		"open, no chain ended": {[]string{"A"}, true, false, "ABC"},
	} {
		c := &postFilterCycle{engine: x.Engine, cycle: &cycle{profile: x.profiles[x.p.Name], open: test.open}, rejection: &plan.Rejection{Plugins: test.by}}
		if test.filtered {
			c.counts = &objectionCounts{}
		}
		got := ""
		for _, plugin := range []string{"A", "B", "C", "Z"} {
			if c.PreFiltered(plugin) {
				got += plugin
			}
		}
		if got != test.want {
			t.Errorf("%s: %s have run, want %s", name, got, test.want)
		}
	}
}

// TestRejectedBeforeFilters: the cycle of PostFilter plugins after a rejection at
// PreFilter, for good or open to preemption. Filters can run in dry runs if all plugins
// have run at PreFilter; they are compiled once.
func TestRejectedBeforeFilters(t *testing.T) {
	for _, open := range []bool{false, true} {
		compiled, ran := 0, false
		f := &compiles{byPods{rule{name: "F", reads: model.Usage}, []reason.Code{0, 1}}, &compiled}
		x := newSmall(t, &plugin.Profile{
			Filters: plugintest.Filters(f), PreFilters: []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Rejection: "no", Resolvable: open}}).PreFilter}, PreFilterOrder: []string{"N"},
			External: &noted{}, Extenders: []plugin.Extender{returnsWhole{}},
		}, "a", "b")
		on := build.Pod(build.Named("on"), build.NodeName("b"))
		plugintest.Set(x.s, on)
		x.p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, _ *model.Pod) (plugin.PostFilterResult, error) {
			ran = true
			if _, ok := c.Alike(); ok || c.onlyUsage() || c.request() != nil || c.onlyRequest() {
				t.Errorf("open %t: alike %t, only usage %t", open, ok, c.onlyUsage())
			}
			if n := len(c.Potential()); (n == 2) != open || c.potentialNodes() != n || c.Resolvable(1) != open {
				t.Errorf("open %t: %d nodes of which %d are potential, one is %t", open, c.potentialNodes(), n, c.Resolvable(1))
			}
			if r := c.Rejected(1); r.Unresolvable == open || r.Plugin != "N" || r.Message() != "no" {
				t.Errorf("open %t: %+v", open, r)
			}
			if x := c.facts().Extenders; len(x) != 1 || x[0] != (returnsWhole{}) {
				t.Errorf("extenders %v", x)
			}
			d := c.View().DryRun(new(state.Draft))
			for _, want := range []string{"F1", "F1"} {
				if r, err := c.RejectionIn(d, 1); err != nil || r.Message() != want || r.Plugin != "F" {
					t.Errorf("open %t: %+v, %v", open, r, err)
				}
			}
			d.Remove(model.NewPod(on).Key())
			if r, err := c.RejectionIn(d, 1); err != nil || r.Reasons != nil || r.Plugin != "" {
				t.Errorf("open %t, without the pod: %+v, %v", open, r, err)
			}
			return plugin.PostFilterResult{}, nil
		}}).PostFilter}
		d := x.decide(x.pod())
		if !ran || decided(d) != "no: no by [N]" || compiled != 1 {
			t.Errorf("open %t: %t, %s; filters were compiled %d times", open, ran, decided(d), compiled)
		}
	}
}

type compiles struct {
	byPods
	times *int
}

func (c *compiles) FilterNeed(*model.Pod) plugin.FilterNeed { return c }
func (c *compiles) Compile() *plugin.Verdicts               { *c.times++; return failable(c) }

// TestPreFilterErrors: between a built-in plugin's error and an out-of-tree rejection,
// the earlier plugin counts.
func TestPreFilterErrors(t *testing.T) {
	for name, test := range map[string]struct {
		order      []string
		resolvable bool
		err        error
		rejection  string
		want       string
	}{
		"an error behind":               {[]string{"N", "C"}, false, errBroken, "", "no: no by [N]"},
		"an error before":               {[]string{"C", "N"}, false, errBroken, "", `error: running PreFilter plugin "C": broken`},
		"an error behind an open one":   {[]string{"N", "C"}, true, errBroken, "", `error: running PreFilter plugin "C": broken`},
		"a rejection behind":            {[]string{"N", "C"}, false, nil, "too many", "no: no by [N]"},
		"a rejection before":            {[]string{"C", "N"}, false, nil, "too many", "no: too many by [C]"},
		"a rejection behind an open":    {[]string{"N", "C"}, true, nil, "too many", "no: too many by [C]"},
		"a rejection before one":        {[]string{"C", "N"}, true, nil, "too many", "no: too many by [C]"},
		"none but that from outside":    {[]string{"C", "N"}, true, nil, "", "no: no by [N]"},
		"neither is in the order":       {nil, false, nil, "too many", "no: no by [N]"},
		"the error is not in the order": {[]string{"N"}, false, errors.New("no"), "", "no: no by [N]"},
	} {
		x := newSmall(t, &plugin.Profile{
			Filters: plugintest.Filters(&counted{name: "C", rejection: test.rejection, err: test.err, rule: passing()}), PreFilterOrder: test.order, External: &noted{},
			PreFilters: []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Rejection: "no", Resolvable: test.resolvable}}).PreFilter},
		}, "a")
		if got := decided(x.decide(x.pod())); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestStateFilters has one state filter alone, and two, whose needs are found in
// the order of PreFilter.
func TestStateFilters(t *testing.T) {
	need := func(name string, codes map[string]reason.Code) *rule { return &rule{name: name, codes: codes} }
	rejects := func(name string) *inState { return &inState{rule: rule{name: name}, rejection: name + " says no"} }
	for name, test := range map[string]struct {
		filters []*plugin.Filter
		order   []string
		want    string
	}{
		"one":                    {plugintest.Filters(&inState{rule: rule{name: "A"}, need: need("A", map[string]reason.Code{"a": 1})}), nil, "b of 1 with 0"},
		"one without a need":     {plugintest.Filters(&inState{rule: rule{name: "A"}}), nil, "of 2 with 0"},
		"one rejects":            {plugintest.Filters(rejects("A")), nil, "no: A says no by [A]"},
		"one fails":              {plugintest.Filters(&inState{rule: rule{name: "A"}, err: errBroken}), nil, `error: running PreFilter plugin "A": broken`},
		"the first of two":       {plugintest.Filters(rejects("A"), rejects("B")), nil, "no: A says no by [A]"},
		"the first in the order": {plugintest.Filters(rejects("A"), rejects("B")), []string{"B", "A"}, "no: B says no by [B]"},
		"one behind another filter": {
			plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"b": 2}}, &inState{rule: rule{name: "A"}, need: need("A", map[string]reason.Code{"a": 1})}), nil,
			"no: 1 A1, 1 F2 by [A F]",
		},
	} {
		x := newSmall(t, &plugin.Profile{Filters: test.filters, PreFilterOrder: test.order}, "a", "b")
		for range 2 {
			if got := decided(x.decide(x.pod())); !strings.HasSuffix(got, test.want) {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
		}
	}
}

// slow is a filter whose first call for each node fails.
type slow struct {
	rule
	tried map[string]bool
}

func (f *slow) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *slow) Compile() *plugin.Verdicts               { return failable(f) }
func (f *slow) Filter(node state.Node) reason.Code {
	if !f.tried[node.Name()] {
		f.tried[node.Name()] = true
		return reason.Failed | 1
	}
	return reason.None
}

// TestErrorsAreRemembered: an error of a filter fails the turn and is cached. The next
// turn fails with the same error, although a second call of the filter would pass.
func TestErrorsAreRemembered(t *testing.T) {
	f := &slow{rule{name: "Slow"}, map[string]bool{}}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f)}, "a", "b")
	const want = `running "Slow" filter plugin: Slow fails 1`
	for turn := range 2 {
		if d := x.Decide(x.s.View(), plan.Alone(x.pod())); d.Outcome != plan.Failed || d.Err.Error() != want {
			t.Errorf("turn %d: %v, %v", turn, d.Outcome, d.Err)
		}
	}
}
