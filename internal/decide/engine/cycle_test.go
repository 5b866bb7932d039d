package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// fit is a filter that passes nodes with at most a number of pods.
type fit struct {
	rule
	pods int
}

func (f *fit) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *fit) AppendText(text []byte) []byte           { return fmt.Append(text, f.name, f.pods) }
func (f *fit) Compile() *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: f, Failures: f, Request: &model.Resources{}}
}
func (f *fit) Filter(node state.Node) reason.Code {
	if node.PodCount() > f.pods {
		return 1
	}
	return reason.None
}

// TestPostFilterResults combines the results of several PostFilter plugins. The pod is
// nominated to a node that is gone.
func TestPostFilterResults(t *testing.T) {
	other := &model.Pod{Name: "other"}
	victim := plan.Eviction{Pod: &model.Pod{Name: "victim"}, NodeName: "a"}
	set := plugin.PostFilterResult{Nomination: plan.Set, NodeName: "a", Evictions: []plan.Eviction{victim}, Outranked: []*model.Pod{other}, Message: "found"}
	done := set
	done.Done, done.NodeName = true, "b"
	clears := plugin.PostFilterResult{Nomination: plan.Clear, Message: "none"}
	writes := plugin.PostFilterResult{Message: "freed", Writes: []plan.Write{{Name: "claim"}}}
	for name, test := range map[string]struct {
		results []plugin.PostFilterResult
		fails   int // position + 1 of the plugin that fails
		want    string
	}{
		"none":                        {nil, 0, ` clears [pod]`},
		"nothing to say":              {[]plugin.PostFilterResult{{}}, 0, ``},
		"it clears":                   {[]plugin.PostFilterResult{clears}, 0, `none clears [pod]`},
		"texts are joined":            {[]plugin.PostFilterResult{{Message: "a"}, {}, {Message: "b"}}, 0, `a, b`},
		"the last that says anything": {[]plugin.PostFilterResult{set, clears, {Message: "c"}}, 0, `found, none, c clears [pod]`},
		"set, then nothing":           {[]plugin.PostFilterResult{clears, set, {}}, 0, `none, found evicts [victim] sets a clears [other]`},
		"the one that is done":        {[]plugin.PostFilterResult{clears, done, set}, 0, `found evicts [victim] sets b clears [other]`},
		"writes, whatever others do":  {[]plugin.PostFilterResult{writes, set, writes}, 0, `freed, found, freed evicts [victim] writes [claim claim] sets a clears [other]`},
		"one is done, after writes":   {[]plugin.PostFilterResult{writes, done, writes}, 0, `found evicts [victim] writes [claim] sets b clears [other]`},
		"one fails, after writes":     {[]plugin.PostFilterResult{writes, writes}, 2, `error broken writes [claim]`},
		"one fails":                   {[]plugin.PostFilterResult{set, set}, 2, `error broken`},
		"one fails, but too late":     {[]plugin.PostFilterResult{done, set}, 2, `found evicts [victim] sets b clears [other]`},
	} {
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": 1}})}, "a")
		for i, result := range test.results {
			x.p.PostFilters = append(x.p.PostFilters, plugintest.PartsOf(&postFilter{"P", func(*postFilterCycle, *model.Pod) (plugin.PostFilterResult, error) {
				if test.fails == i+1 {
					return result, errBroken
				}
				return result, nil
			}}).PostFilter)
		}
		d := x.decide(x.pod(build.Named("pod"), build.NominatedNodeName("gone")))
		got := d.PostFilter
		if d.PostFilterErr != nil {
			got = "error " + got
		}
		if len(d.Evictions) > 0 {
			got += fmt.Sprintf(" evicts [%s]", d.Evictions[0].Pod.Name)
		}
		var names []string
		for i := range d.Writes {
			names = append(names, d.Writes[i].Name)
		}
		if len(names) > 0 {
			got += fmt.Sprintf(" writes %v", names)
		}
		for _, n := range d.Nominations {
			if n.Mode == plan.Set {
				got += " sets " + n.NodeName
			} else {
				got += fmt.Sprintf(" clears [%s]", n.Pod.Name)
			}
		}
		if d.Outcome != plan.Unschedulable || got != test.want {
			t.Errorf("%s: %s, %q, want %q", name, d.Outcome, got, test.want)
		}
	}
}

// TestNothingHelpsAgain: PostFilter plugins are skipped for a pod like an earlier one for
// which they found nothing to do.
func TestNothingHelpsAgain(t *testing.T) {
	var result plugin.PostFilterResult
	var err error
	ran := 0
	x := newSmall(t, &plugin.Profile{
		Filters: plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": 1}}),
		PostFilters: []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(*postFilterCycle, *model.Pod) (plugin.PostFilterResult, error) {
			ran++
			return result, err
		}}).PostFilter},
	}, "a")
	step := func(what string, pod *model.Pod, want int) {
		t.Helper()
		before := ran
		d := x.decide(pod)
		if want == 0 && d.PostFilter != "nothing" || ran-before != want || d.Outcome != plan.Unschedulable {
			t.Errorf("%s: PostFilter plugins ran %d times, want %d; they say %q", what, ran-before, want, d.PostFilter)
		}
	}
	never := func() *model.Pod {
		p := build.Pod(priority(1))
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
		pod := model.NewPod(p)
		x.p.Compile(pod)
		return pod
	}
	result = plugin.PostFilterResult{Message: "nothing"}
	step("the first", x.pod(priority(1)), 1)
	step("remembered", x.pod(priority(1)), 1)
	step("nothing was found", x.pod(priority(1)), 0)
	step("of higher priority", x.pod(priority(2)), 1)
	step("of the priority of the last", x.pod(priority(2)), 0)
	step("of lower priority", x.pod(priority(1)), 1)
	step("that must not preempt", never(), 1)
	step("that must not preempt either", never(), 0)
	result.Transient = true
	step("what holds in this turn alone", x.pod(priority(1)), 1)
	step("is not kept", x.pod(priority(1)), 1)
	result.Transient, err = false, errBroken
	step("a failure", x.pod(priority(1)), 1)
	step("is not kept", x.pod(priority(1)), 1)
	err, result.Evictions, result.Nomination = nil, []plan.Eviction{{}}, plan.Set
	step("an eviction", x.pod(priority(1)), 1)
	step("is not kept", x.pod(priority(1)), 1)
	result.Evictions = nil
	step("a nomination", x.pod(priority(1)), 1)
	step("is not kept", x.pod(priority(1)), 1)
	result.Nomination, result.Writes = plan.Keep, []plan.Write{{}}
	step("a write", x.pod(priority(1)), 1)
	step("is not kept", x.pod(priority(1)), 1)
	result.Writes = nil
	step("nothing", x.pod(priority(1)), 1)
	step("is kept", x.pod(priority(1)), 0)
	x.audits = true // audits run them anyway, and compare the results
	step("with audits", x.pod(priority(1)), 1)
	if auditErr := x.Audit(); auditErr != nil {
		t.Error(auditErr)
	}
	result.Message = "something else"
	step("with audits, and another text", x.pod(priority(1)), 1)
	if auditErr := x.Audit(); auditErr == nil || !strings.Contains(auditErr.Error(), `was remembered as "nothing"; now it is "something else"`) {
		t.Errorf("%v", auditErr)
	}
	result.Nomination, result.NodeName = plan.Set, "a"
	step("with audits, and a nomination", x.pod(priority(1)), 1)
	if auditErr := x.Audit(); auditErr == nil {
		t.Error("a nomination where nothing was found is not noticed")
	}
}

// TestCycleOfPostFilters has four nodes: full, unresolvable, full with its nominated pod,
// and left out by PreFilter. The test checks each of them in the cycle of PostFilter
// plugins.
func TestCycleOfPostFilters(t *testing.T) {
	f, hopeless := &fit{rule{name: "Fit", reads: model.Usage}, 0}, &rule{name: "H", codes: map[string]reason.Code{"hopeless": 2 | reason.Unresolvable, "out": 3}}
	x := newSmall(t, &plugin.Profile{
		Filters:    plugintest.Filters(hopeless, f, &rule{name: "Z", reads: model.Labels}),
		PreFilters: []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"full", "hopeless", "promised"}}}).PreFilter},
	}, "full", "hopeless", "promised", "out")
	const full, without, promised, out = 0, 1, 2, 3
	on := build.Pod(build.Named("on"), build.NodeName("full"))
	plugintest.Set(x.s, on, build.Pod(build.Named("nominated"), build.NominatedNodeName("promised"), priority(5)))
	ran := false
	x.p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, pod *model.Pod) (plugin.PostFilterResult, error) {
		ran = true
		if got := c.Potential(); !slices.Equal(got, []int32{full, promised}) || c.potentialNodes() != 2 {
			t.Errorf("potential are %v, %d", got, c.potentialNodes())
		}
		for slot, want := range []bool{true, false, true, false} {
			if got := c.Resolvable(int32(slot)); got != want {
				t.Errorf("slot %d is resolvable: %t", slot, got)
			}
		}
		draft := c.View().DryRun(new(state.Draft))
		objections := func(want ...preempt.Objection) {
			t.Helper()
			for slot, want := range want {
				if got := c.Objection(draft, int32(slot)); got != want {
					t.Errorf("slot %d: %+v, want %+v", slot, got, want)
				}
			}
		}
		hope, fit, left := preempt.Objection{Filter: 0, Code: 2 | reason.Unresolvable}, preempt.Objection{Filter: 1, Code: 1}, preempt.Objection{Filter: preempt.LeftOut}
		objections(fit, hope, fit, left)
		draft.Remove(model.NewPod(on).Key())
		objections(preempt.Objection{}, hope, fit, left)
		var use state.Use
		for slot, want := range map[int32]preempt.Objection{full: fit, without: hope, promised: fit, out: left} {
			use.Reset(c.View().Node(slot))
			if got := c.ObjectionWith(slot, &use); got != want {
				t.Errorf("slot %d with its use: %+v, want %+v", slot, got, want)
			}
		}
		use.Reset(c.View().Node(full))
		use.Add(model.NewPod(on), -1)
		if got := c.ObjectionWith(full, &use); !got.IsNone() || !c.FitsWith(full, &use) {
			t.Errorf("slot %d without its pod: %+v, fits: %t", full, got, c.FitsWith(full, &use))
		}
		use.Add(model.NewPod(on), +1)
		if c.FitsWith(full, &use) {
			t.Errorf("slot %d fits with its pod", full)
		}
		if texts, err := c.Reasons(hope); err != nil || !slices.Equal(texts, []string{"H2"}) {
			t.Errorf("%q, %v", texts, err)
		}
		if texts, err := c.Reasons(left); err != nil || !slices.Equal(texts, []string{"node(s) didn't satisfy plugin(s) [N]"}) {
			t.Errorf("%q, %v", texts, err)
		}
		if texts, err := c.Reasons(preempt.Objection{Filter: 0, Code: reason.Failed | 4}); err == nil || err.Error() != `running "H" filter plugin: H fails 4` || texts != nil {
			t.Errorf("%q, %v", texts, err)
		}
		if !c.onlyUsage() || c.request() == nil || !c.onlyRequest() || !c.PreFiltered("N") || c.PreFiltered("M") || c.facts().Extenders != nil {
			t.Errorf("only usage %t, request %v, only that %t; prefiltered %t, %t", c.onlyUsage(), c.request(), c.onlyRequest(), c.PreFiltered("N"), c.PreFiltered("M"))
		}
		if _, ok := c.Alike(); ok {
			t.Error("pods are alike beyond nodes that PreFilter names")
		}
		x.preempted(preempt.Work{Looked: 5, Rated: 3, Tried: 4})
		return plugin.PostFilterResult{}, nil
	}}).PostFilter}
	x.p.PreFilterOrder = []string{"N"}
	if d := x.decide(x.pod(build.Named("pod"), priority(1))); !ran || decided(d) != "no: 1 H2, 1 node(s) didn't satisfy plugin(s) [N], 2 Fit1 by [Fit H N]" {
		t.Errorf("%t, %s", ran, decided(d))
	}
	if c := x.Counters(); c.Looked != 5 || c.Rated != 3 || c.Tried != 4 {
		t.Errorf("%+v", c)
	}
}

// TestOnlyUsage: the aspects that filters read decide whether sums can stand for the pods
// on a node, and whether only the requests matter.
func TestOnlyUsage(t *testing.T) {
	rejects := map[string]reason.Code{"a": 1}
	on := build.Pod(build.Named("on"), build.NodeName("a"))
	for name, test := range map[string]struct {
		filters        []*plugin.Filter
		extends        bool
		usage, request bool
		requests       bool // the pod has requests
	}{
		"nothing is read":            {plugintest.Filters(&rule{name: "F", codes: rejects}), false, true, false, false},
		"the request":                {plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}), false, true, true, true},
		"the request and labels":     {plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}, &rule{name: "L", reads: model.Labels}), false, true, true, true},
		"usage without a request":    {plugintest.Filters(&rule{name: "F", reads: model.Usage, codes: rejects}), false, true, false, false},
		"usage besides the request":  {plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}, &rule{name: "L", reads: model.Usage}), false, true, false, true},
		"usage before the request":   {plugintest.Filters(&rule{name: "L", reads: model.Usage}, &fit{rule{name: "F", reads: model.Usage}, 0}), false, true, false, true},
		"another filter rejects":     {plugintest.Filters(&rule{name: "L", codes: rejects}, &fit{rule{name: "F", reads: model.Usage}, 0}), false, true, false, true},
		"another rejects for good":   {plugintest.Filters(&rule{name: "L", codes: map[string]reason.Code{"a": reason.Unresolvable}}, &fit{rule{name: "F", reads: model.Usage}, 0}), false, true, true, true},
		"ports":                      {plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}, &rule{name: "L", reads: model.Ports}), false, false, false, true},
		"volumes":                    {plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}, &rule{name: "L", reads: model.Volumes}), false, false, false, true},
		"counts":                     {plugintest.Filters(&rule{name: "F", codes: rejects}, &counted{name: "C", rule: passing()}), false, false, false, false},
		"counts of nothing":          {plugintest.Filters(&rule{name: "F", codes: rejects}, &counted{name: "C", skips: true}), false, true, false, false},
		"a filter from outside":      {plugintest.Filters(&rule{name: "F", codes: rejects}, &turnRule{rule: rule{name: "T"}}), false, false, false, false},
		"one that is skipped":        {plugintest.Filters(&rule{name: "F", codes: rejects}, &turnRule{rule: rule{name: "T"}, skips: true}), false, true, false, false},
		"an extender that was asked": {plugintest.Filters(&rule{name: "F"}), true, false, false, false},
	} {
		ran := false
		x := newSmall(t, &plugin.Profile{Filters: test.filters, PostFilters: []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, _ *model.Pod) (plugin.PostFilterResult, error) {
			ran = true
			if c.onlyUsage() != test.usage || c.onlyRequest() != test.request || (c.request() != nil) != test.requests {
				t.Errorf("%s: only usage %t, only the request %t of %v", name, c.onlyUsage(), c.onlyRequest(), c.request())
			}
			return plugin.PostFilterResult{}, nil
		}}).PostFilter}}, "a")
		if test.extends {
			x.p.Extenders = []plugin.Extender{refuses{}}
		}
		plugintest.Set(x.s, on)
		if d := x.decide(x.pod()); !ran {
			t.Errorf("%s: %s", name, decided(d))
		}
	}
}

func passing() plugin.CountRule {
	return plugin.CountRule{Domains: []int32{0, 0, 0, 0}, Max: 9}
}

// refuses is an extender that passes no node.
type refuses struct{ plugin.Extender }

func (refuses) IsInterested(*v1.Pod) bool     { return true }
func (refuses) Traits() plugin.ExtenderTraits { return plugin.ExtenderTraits{Filters: true} }
func (refuses) Filter(*v1.Pod, []*v1.Node) (plugin.ExtenderVerdicts, error) {
	return plugin.ExtenderVerdicts{}, nil
}
