package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// byPods is a filter with a code for each number of pods on a node, read as "usage" or as
// "ports" of pods.
type byPods struct {
	rule
	code []reason.Code
}

func (f *byPods) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *byPods) Compile() *plugin.Verdicts               { return failable(f) }
func (f *byPods) Filter(node state.Node) reason.Code {
	return f.code[min(node.PodCount(), len(f.code)-1)]
}

func numberedNodes(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	return names
}

// TestFewNodesNeedNoColumns: a pod that names up to fewNodes nodes is checked one by one,
// whether or not any exists.
func TestFewNodesNeedNoColumns(t *testing.T) {
	for _, row := range []struct{ nodes, filled int }{{1, 0}, {fewNodes - 1, 0}, {fewNodes, 0}, {fewNodes + 1, 1}, {0, 1}} {
		for _, rejects := range []bool{false, true} {
			names := numberedNodes(2 * fewNodes)
			f := &rule{name: "F", codes: map[string]reason.Code{}}
			x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f)}, names...)
			want := row.nodes
			if row.nodes > 0 {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: names[:row.nodes]}}).PreFilter}
			} else {
				want = len(names)
			}
			if rejects {
				for _, name := range names {
					f.codes[name] = 1
				}
			}
			d := x.decide(x.pod())
			c := x.Counters()
			if rejects && d.Rejection.Counts[len(d.Rejection.Counts)-1] != (reason.Count{Nodes: want, Reason: "F1"}) && d.Rejection.Counts[0] != (reason.Count{Nodes: want, Reason: "F1"}) {
				t.Errorf("%d nodes: %s", row.nodes, decided(d))
			}
			if !rejects && d.Feasible != want || int(c.Filled) != row.filled {
				t.Errorf("%d nodes are named, rejected: %t: %s, and %d columns were filled", row.nodes, rejects, decided(d), c.Filled)
			}
		}
	}
}

// TestFailuresBesideNominated has a pod nominated to node a, and another pod that must
// leave space for it. Filters run with the nominated pod first. A failure without it
// counts only if they pass the node with it.
func TestFailuresBesideNominated(t *testing.T) {
	const failed = reason.Failed
	for name, test := range map[string]struct {
		code    []reason.Code // without and with the nominated pod
		outside bool          // the filter is out-of-tree
		want    string
	}{
		"passes both ways":                {[]reason.Code{0, 0}, false, "a of 1 with 0"},
		"rejected with the pod":           {[]reason.Code{0, 1}, false, "no: 1 F1 by [F]"},
		"rejected without it":             {[]reason.Code{2, 0}, false, "no: 1 F2 by [F]"},
		"rejected both ways":              {[]reason.Code{2, 1}, false, "no: 1 F1 by [F]"},
		"fails without it":                {[]reason.Code{failed | 2, 0}, false, `error: running "F" filter plugin: F fails 2`},
		"fails with it":                   {[]reason.Code{0, failed | 1}, false, `error: running "F" filter plugin: F fails 1`},
		"rejected with it, fails without": {[]reason.Code{failed | 2, 1}, true, "no: 1 F1 by [F]"},
		"fails without it, one by one":    {[]reason.Code{failed | 2, 0}, true, `error: running "F" filter plugin: F fails 2`},
		"fails both ways, one by one":     {[]reason.Code{failed | 2, failed | 1}, true, `error: running "F" filter plugin: F fails 1`},
	} {
		// by numbers, and in a dry run
		for _, reads := range []model.Aspect{model.Usage, model.Usage | model.Ports} {
			x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&byPods{rule{name: "F", reads: reads}, test.code})}, "a")
			if test.outside {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"a"}}}).PreFilter}
			}
			plugintest.Set(x.s, build.Pod(build.Named("other"), build.NominatedNodeName("a"), priority(5)))
			got := strings.Replace(decided(x.decide(x.pod(build.Named("pod"), priority(1)))), "[F N]", "[F]", 1)
			if got != test.want {
				t.Errorf("%s, reading %b: %s, want %s", name, reads, got, test.want)
			}
			// A pod that outranks the nominated pod ignores it.
			own := &rejectionOrNode{code: test.code[0]}
			if got := decided(x.decide(x.pod(build.Named("pod"), priority(9)))); !strings.HasPrefix(got, own.prefix()) {
				t.Errorf("%s, reading %b, of higher priority: %s, want %s", name, reads, got, own.prefix())
			}
		}
	}
}

type rejectionOrNode struct{ code reason.Code }

func (r *rejectionOrNode) prefix() string {
	switch {
	case r.code.IsFailed():
		return "error: "
	case r.code != reason.None:
		return "no: "
	}
	return "a of 1"
}

// TestNominatedItself: a nominated pod goes to its node if it can, and no other node is
// considered then.
func TestNominatedItself(t *testing.T) {
	for name, test := range map[string]struct {
		// of the node, without and with another pod that is nominated to it
		code  []reason.Code
		other bool     // such a pod exists and is not outranked
		named []string // the nodes that PreFilter names
		want  string
	}{
		"it fits":                          {code: []reason.Code{0, 0}, want: "b of 1 with 0"},
		"it does not":                      {code: []reason.Code{1, 0}, want: "2 with 0"},
		"it fits beside another":           {code: []reason.Code{0, 0}, other: true, want: "b of 1 with 0"},
		"not beside another":               {code: []reason.Code{0, 1}, other: true, want: "2 with 0"},
		"not without another":              {code: []reason.Code{1, 0}, other: true, want: "2 with 0"},
		"it fails":                         {code: []reason.Code{reason.Failed | 1, 0}, want: `error: running "F" filter plugin: F fails 1`},
		"it fails beside another":          {code: []reason.Code{0, reason.Failed | 1}, other: true, want: `error: running "F" filter plugin: F fails 1`},
		"it fits where no plugin names it": {code: []reason.Code{0, 0}, named: []string{"c"}, want: "b of 1 with 0"},
		"it does not where none names it":  {code: []reason.Code{1, 0}, named: []string{"c"}, want: "c of 1 with 0"},
		"it fails where none names it":     {code: []reason.Code{reason.Failed | 1, 0}, named: []string{"c"}, want: "c of 1 with 0"},
	} {
		codes := &onB{byPods{rule{name: "F", reads: model.Usage}, test.code}}
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(codes)}, "a", "b", "c")
		if test.named != nil {
			x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: test.named}}).PreFilter}
		}
		if test.other {
			plugintest.Set(x.s, build.Pod(build.Named("other"), build.NominatedNodeName("b"), priority(5)))
		}
		if got := decided(x.decide(x.pod(build.Named("pod"), build.NominatedNodeName("b"), priority(1)))); !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// onB is byPods for the node b; it passes others.
type onB struct{ byPods }

func (f *onB) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *onB) Compile() *plugin.Verdicts               { return failable(f) }
func (f *onB) Filter(node state.Node) reason.Code {
	if node.Name() != "b" {
		return reason.None
	}
	return f.byPods.Filter(node)
}

// TestFollowedBesideNominated: a remembered rejection follows a node with a nominated
// pod, by numbers and in dry runs. The objection with that pod counts, or the one without
// it if none objects with it.
func TestFollowedBesideNominated(t *testing.T) {
	for _, reads := range []model.Aspect{model.Usage, model.Usage | model.Ports} {
		for _, row := range []struct {
			// with no pod, one, two and three. The node b has one, then two, and another
			// is nominated to it
			code []reason.Code
			want string
		}{
			{[]reason.Code{9, 1, 2, 3}, "no: 1 F3, 2 F9 by [F]"},
			{[]reason.Code{9, 1, 2, 0}, "no: 1 F2, 2 F9 by [F]"},
			{[]reason.Code{9, 1, 0, 3}, "no: 1 F3, 2 F9 by [F]"},
			{[]reason.Code{9, 0, 2, 0}, "no: 1 F2, 2 F9 by [F]"},
			{[]reason.Code{9, 1, 2, reason.Failed | 3}, "no: 1 F2, 2 F9 by [F]"},
			{[]reason.Code{9, 1, reason.Failed | 2, 3}, ""},
			{[]reason.Code{9, 1, 0, reason.Failed | 3}, ""},
		} {
			f := &byPods{rule{name: "F", reads: reads}, row.code}
			x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f)}, "a", "b", "c")
			plugintest.Set(x.s, build.Pod(build.Named("on"), build.NodeName("b")), build.Pod(build.Named("other"), build.NominatedNodeName("b"), priority(5)))
			pod := func() *model.Pod { return x.pod(build.Named("pod"), priority(1)) }
			first := decided(x.decide(pod()))
			plugintest.Set(x.s, build.Node("d"))
			x.s.Apply([]model.Change{{Kind: model.NodeGone, Name: "d"}})
			// the rejection follows the journal from here on
			if again := decided(x.decide(pod())); again != first {
				t.Errorf("%s, then %s", first, again)
			}
			before := x.Counters().Recalled
			plugintest.Set(x.s, build.Pod(build.Named("on-2"), build.NodeName("b")))
			got := decided(x.decide(pod()))
			// An engine that remembers nothing has the right result.
			fresh, err := New(Config{Profiles: []*plugin.Profile{x.p}, RejectionBytes: 1})
			if err != nil {
				t.Fatal(err)
			}
			if want := decided(fresh.Decide(x.s.View(), plan.Alone(pod()))); got != want || row.want != "" && got != row.want {
				t.Errorf("reading %b, codes %v: %s, decided anew %s, want %s", reads, row.code, got, want, row.want)
			}
			if recalled := x.Counters().Recalled - before; row.want != "" && recalled != 1 {
				t.Errorf("reading %b, codes %v: it was decided anew", reads, row.code)
			}
		}
	}
}

// TestOneExtenderPrioritizes: the extender's scores are added to the totals.
func TestOneExtenderPrioritizes(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"a": 9}}).Score, Weight: 1}}, Extenders: []plugin.Extender{prefers{}}}, "a", "b")
	if got := decided(x.decide(x.pod())); got != "b of 2 with 10" {
		t.Error(got)
	}
}

// prefers is an extender that prefers the node b.
type prefers struct{ plugin.Extender }

func (prefers) IsInterested(*v1.Pod) bool     { return true }
func (prefers) Traits() plugin.ExtenderTraits { return plugin.ExtenderTraits{Prioritizes: true} }
func (prefers) Prioritize(*v1.Pod, []*v1.Node) (map[string]int64, error) {
	return map[string]int64{"b": 10}, nil
}

// TestBareScores has an extender that returns whole nodes. Plugins that read nothing of
// nodes, or their images, score each with 0. Others score the nodes without pods.
func TestBareScores(t *testing.T) {
	raw := map[string]int32{"a": 5, "b": 5}
	for reads, want := range map[model.Aspect]string{
		model.Usage: "2 with 5", model.Labels: "2 with 5", 0: "2 with 0", model.Images: "2 with 0", model.Images | model.Usage: "2 with 0",
	} {
		o := &noted{}
		x := newSmall(t, &plugin.Profile{
			External: o, Extenders: []plugin.Extender{returnsWhole{}}, Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", reads: reads, raw: raw}).Score, Weight: 1}},
		}, "a", "b")
		plugintest.Set(x.s, build.Pod(build.Named("on"), build.NodeName("a")))
		if got := decided(x.decide(x.pod())); !strings.HasSuffix(got, want) {
			t.Errorf("reading %b: %s, want %s", reads, got, want)
		}
		if calls := strings.Join(o.calls, " "); calls != "begin bare Reserve Bind PostBind end" {
			t.Errorf("reading %b: %s", reads, calls)
		}
		answer, err := x.Answer(x.s.View(), x.pod())
		if err != nil || len(answer.Nodes) != 2 || !strings.HasSuffix(want, fmt.Sprint(" ", answer.Nodes[0].Total)) || answer.Nodes[0].Total != answer.Nodes[1].Total {
			t.Errorf("reading %b: %v, %v; want %s", reads, err, answer.Nodes, want)
		}
	}
}

// returnsWhole is an extender that passes every node as a whole object.
type returnsWhole struct{ plugin.Extender }

func (returnsWhole) IsInterested(*v1.Pod) bool     { return true }
func (returnsWhole) Traits() plugin.ExtenderTraits { return plugin.ExtenderTraits{Filters: true} }
func (returnsWhole) Filter(_ *v1.Pod, nodes []*v1.Node) (verdicts plugin.ExtenderVerdicts, err error) {
	verdicts.Bare = true
	for _, n := range nodes {
		verdicts.Passed = append(verdicts.Passed, n.Name)
	}
	return verdicts, nil
}

// TestSteps: the steps of a placement stand in the order of their stages. Steps of the
// External stand behind those of single plugins.
func TestSteps(t *testing.T) {
	s := &stepper{}
	x := newSmall(t, &plugin.Profile{
		External: &noted{}, Reserve: []*plugin.Reserve{plugintest.PartsOf(s).Reserve, plugintest.PartsOf(s).Reserve}, Permit: []*plugin.Permit{plugintest.PartsOf(s).Permit}, PreBind: []*plugin.PreBind{plugintest.PartsOf(s).PreBind}, BindSteps: []*plugin.BindSteps{{Name: s.Name(), Steps: s.BindSteps}}, PostBind: []*plugin.PostBind{plugintest.PartsOf(s).PostBind},
	}, "a")
	d := x.decide(x.pod())
	var steps []string
	for _, step := range d.Placement.Steps {
		steps = append(steps, step.Stage.String()+" "+step.Plugin)
	}
	want := []string{
		"Reserve outside", "Permit Steps", "Permit Steps", "PreBind Steps", "PreBind Steps", "Bind Steps", "Bind Steps", "Bind outside", "PostBind Steps", "PostBind Steps", "PostBind outside",
	}
	if !slices.Equal(steps, want) {
		t.Errorf("%q, want %q", steps, want)
	}
	if holds := d.Placement.Holds; len(holds) != 2 || holds[0].Object.Name != "p-0" || holds[1].Object.Name != "p-1" {
		t.Errorf("%+v", holds)
	}
}

// stepper is a plugin that adds two steps at each stage, and a hold each time it
// reserves.
type stepper struct{ reserved int }

func (*stepper) Name() string { return "Steps" }
func (s *stepper) Reserve(_ state.View, pod *model.Pod, slot int32) ([]plan.Hold, error) {
	s.reserved++
	return []plan.Hold{{Object: model.Ref{Name: fmt.Sprint(pod.Name, "-", s.reserved-1)}}}, nil
}
func (*stepper) Permit(state.View, *plan.Placement) ([]plan.Step, error) {
	return make([]plan.Step, 2), nil
}
func (*stepper) PreBind(state.View, *plan.Placement) ([]plan.Step, error) {
	return make([]plan.Step, 2), nil
}
func (*stepper) BindSteps(state.View, *plan.Placement) ([]plan.Step, error) {
	return make([]plan.Step, 2), nil
}
func (*stepper) PostBind(state.View, *plan.Placement) ([]plan.Step, error) {
	return make([]plan.Step, 2), nil
}

// TestTiesTellPodsApart: the choice among equal nodes depends on the pod's namespace and
// name, and on the seed.
func TestTiesTellPodsApart(t *testing.T) {
	x := newSmall(t, &plugin.Profile{}, numberedNodes(50)...)
	chosen := func(namespace, name string) string {
		return x.decide(x.pod(build.Named(name), build.InNamespace(namespace))).Placement.NodeName
	}
	var choices [4]string
	for i := range 10 {
		name := fmt.Sprint("pod-", i)
		x.seed = 0
		choices[0] += chosen("one", name)
		choices[1] += chosen("two", name)
		choices[2] += chosen("one", name+"-x")
		x.seed = 1
		choices[3] += chosen("one", name)
	}
	for i, a := range choices {
		if slices.Contains(choices[i+1:], a) {
			t.Errorf("pods that differ, or the same with other seeds, choose alike: %q", choices)
		}
	}
}

// TestErrorsAreNotLost: a filter's error ends the turn even with extenders behind it, or
// if nominated pods leave no space.
func TestErrorsAreNotLost(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": reason.Failed | 1}}), Extenders: []plugin.Extender{refuses{}}}, "a", "b")
	if got := decided(x.decide(x.pod())); got != `error: running "F" filter plugin: F fails 1` {
		t.Error(got)
	}
	// Extenders run even with nominated pods, and behind them.
	x = newSmall(t, &plugin.Profile{Extenders: []plugin.Extender{refuses{}}}, "a", "b")
	plugintest.Set(x.s, build.Pod(build.Named("other"), build.NominatedNodeName("a"), priority(5)))
	if got := decided(x.decide(x.pod(build.Named("pod")))); got != "no:  by [Extender]" {
		t.Error(got)
	}
}

// TestExtendersSeeNodesWithRoom: extenders run last, with nodes that leave space for
// their nominated pods.
func TestExtendersSeeNodesWithRoom(t *testing.T) {
	o := &offered{}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}), Extenders: []plugin.Extender{o}}, "a", "b", "c")
	plugintest.Set(x.s, build.Pod(build.Named("other"), build.NominatedNodeName("b"), priority(5)))
	if got := decided(x.decide(x.pod(build.Named("pod")))); !strings.HasSuffix(got, "of 2 with 0") || strings.Join(o.nodes, " ") != "a c" {
		t.Errorf("%s; offered %v", got, o.nodes)
	}
}

// offered is an extender that records the offered nodes.
type offered struct {
	returnsWhole
	nodes []string
}

func (o *offered) Filter(pod *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	for _, n := range nodes {
		o.nodes = append(o.nodes, n.Name)
	}
	return o.returnsWhole.Filter(pod, nodes)
}

// TestRefusedPlacement: one node was considered, and it is infeasible. Out-of-tree
// reservations are released, whether a plugin refuses or fails.
func TestRefusedPlacement(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"refuses": {&plugin.Refusal{Plugin: "R", Reasons: []string{"x", "y", "x"}, Pending: true}, "no: 1 y, 2 x by [R], pending [R]"},
		"fails":   {errBroken, `error: running Reserve plugin "Refuses": broken`},
	} {
		o := &noted{}
		x := newSmall(t, &plugin.Profile{External: o, Reserve: []*plugin.Reserve{plugintest.PartsOf(refusesReserve{test.err}).Reserve}}, "a", "b", "c")
		d := x.decide(x.pod(build.NominatedNodeName("b")))
		if got := decided(d); got != test.want || d.Placement.Pod != nil || len(d.Nominations) != 1 || d.Nominations[0].Mode != plan.Clear {
			t.Errorf("%s: %s, want %s; nominations %v", name, got, test.want, d.Nominations)
		}
		if d.Outcome == plan.Unschedulable && (d.Nodes != 1 || d.Feasible != 0) {
			t.Errorf("%s: %d of %d nodes", name, d.Feasible, d.Nodes)
		}
		if calls := strings.Join(o.calls, " "); calls != "begin unreserve end" {
			t.Errorf("%s: %s", name, calls)
		}
	}
}

type refusesReserve struct{ err error }

func (refusesReserve) Name() string { return "Refuses" }
func (r refusesReserve) Reserve(state.View, *model.Pod, int32) ([]plan.Hold, error) {
	return nil, r.err
}

// TestTiesAndNominatedNodes: pods have different ties. A node is unresolvable if it
// passes with its nominated pods and is rejected for good without them.
func TestTiesAndNominatedNodes(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&byPods{rule{name: "F", reads: model.Usage}, []reason.Code{reason.Unresolvable | 1, 0, 2}})}, "a", "b", "c")
	plugintest.Set(x.s, build.Pod(build.Named("on"), build.NodeName("b")), build.Pod(build.Named("other"), build.NominatedNodeName("a"), priority(5)),
		build.Pod(build.Named("another"), build.NominatedNodeName("b"), priority(5)))
	ties := map[uint64]bool{}
	x.p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, _ *model.Pod) (plugin.PostFilterResult, error) {
		for slot, want := range []bool{false, true, false} {
			if got := c.Resolvable(int32(slot)); got != want {
				t.Errorf("slot %d is resolvable: %t", slot, got)
			}
			ties[rank.Tie(c.facts().Salt, uint64(slot))] = true
		}
		return plugin.PostFilterResult{}, nil
	}}).PostFilter}
	for _, name := range []string{"p", "q"} {
		if got := decided(x.decide(x.pod(build.Named(name)))); got != "no: 1 F2, 2 F1 by [F]" {
			t.Error(got)
		}
	}
	if len(ties) != 6 {
		t.Errorf("two pods have %d different ties on three nodes", len(ties))
	}
}

// TestExtendersForgetTheNominatedNode: an extender's first answer, about the pod's
// nominated node alone, is dropped before the call for all nodes.
func TestExtendersForgetTheNominatedNode(t *testing.T) {
	o := &refusesEach{}
	x := newSmall(t, &plugin.Profile{Extenders: []plugin.Extender{o}}, "a", "b")
	if got := decided(x.decide(x.pod(build.NominatedNodeName("b")))); got != "no: 1 a in call 2, 1 b in call 2 by [Extender]" {
		t.Error(got)
	}
}

// refusesEach is an extender that refuses each node with a reason of its own.
type refusesEach struct {
	plugin.Extender
	calls int
}

func (*refusesEach) IsInterested(*v1.Pod) bool     { return true }
func (*refusesEach) Traits() plugin.ExtenderTraits { return plugin.ExtenderTraits{Filters: true} }
func (o *refusesEach) Filter(_ *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	o.calls++
	failed := map[string]string{}
	for _, n := range nodes {
		failed[n.Name] = fmt.Sprint(n.Name, " in call ", o.calls)
	}
	return plugin.ExtenderVerdicts{Failed: failed}, nil
}
