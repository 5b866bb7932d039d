package engine_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// scripted is an extender with scripted answers. Its names of nodes are short: 3 is
// node-00003.
type scripted struct {
	passes               func(name string) bool // nil: it does not filter
	failed, unresolvable map[string]string
	scores               map[string]int64 // nil: it does not prioritize
	bare, ignorable      bool
	bored                bool // not interested
	err                  error
	offered              [][]string
}

func (s *scripted) IsInterested(*v1.Pod) bool { return !s.bored }
func (s *scripted) Traits() plugin.ExtenderTraits {
	return plugin.ExtenderTraits{Name: "scripted", Ignorable: s.ignorable, Filters: s.passes != nil, Prioritizes: s.scores != nil}
}
func (s *scripted) Bind(*v1.Binding) error { return nil }
func long(short string) string             { return "node-0000" + short }
func named(all map[string]string) map[string]string {
	long := map[string]string{}
	for name, text := range all {
		long["node-0000"+name] = text
	}
	return long
}

func (s *scripted) Filter(_ *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	var offered []string
	said := plugin.ExtenderVerdicts{Failed: named(s.failed), Unresolvable: named(s.unresolvable), Bare: s.bare}
	for _, n := range nodes {
		offered = append(offered, n.Name[len(n.Name)-1:])
		if s.passes(n.Name[len(n.Name)-1:]) {
			said.Passed = append(said.Passed, n.Name)
		}
	}
	s.offered = append(s.offered, offered)
	return said, s.err
}

func (s *scripted) Prioritize(*v1.Pod, []*v1.Node) (map[string]int64, error) {
	scores := map[string]int64{}
	for name, score := range s.scores {
		scores[long(name)] = score
	}
	return scores, s.err
}

func (s *scripted) ProcessPreemption(*v1.Pod, map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	return nil, errors.New("not asked: it has no such verb")
}

func but(names ...string) func(string) bool {
	return func(name string) bool { return !slices.Contains(names, name) }
}

func only(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

func withExtenders(t *testing.T, nodes int, extenders ...*scripted) *bench {
	return withPlugins(t, nodes, func(p *plugin.Profile) {
		for _, x := range extenders {
			p.Extenders = append(p.Extenders, x)
		}
	})
}

// TestExtendersFilter has four nodes, all of which pass the built-in filters.
func TestExtendersFilter(t *testing.T) {
	broken := errors.New("no route to host")
	for name, test := range map[string]struct {
		extenders []*scripted
		nominated string
		offered   [][]string // to the last of them
		node      string     // empty without a feasible node
		says      string
		rejectors []string
	}{
		"the second sees what the first has left": {
			extenders: []*scripted{{passes: but("2")}, {passes: only("3")}},
			offered:   [][]string{{"0", "1", "3"}}, node: "3",
		},
		"one that manages nothing of the pod is not asked": {
			extenders: []*scripted{{passes: only(), bored: true}, {passes: only("1")}},
			offered:   [][]string{{"0", "1", "2", "3"}}, node: "1",
		},
		"reasons are counted, and what is in both lists is unresolvable": {
			extenders: []*scripted{{passes: but("0", "1"), failed: map[string]string{"0": "a", "1": "b"}, unresolvable: map[string]string{"1": "c"}},
				{passes: only(), failed: map[string]string{"2": "a", "3": "a"}}},
			offered: [][]string{{"2", "3"}}, says: "0/4 nodes are available: 1 c, 3 a.", rejectors: []string{"Extender"},
		},
		"a node without a reason counts for none": {
			extenders: []*scripted{{passes: only(), failed: map[string]string{"0": "a"}}},
			offered:   [][]string{{"0", "1", "2", "3"}}, says: "0/4 nodes are available: 1 a.", rejectors: []string{"Extender"},
		},
		"none is asked about no node": {
			extenders: []*scripted{{passes: only()}, {passes: only()}},
			says:      "0/4 nodes are available:", rejectors: []string{"Extender"},
		},
		"an error fails the turn":            {extenders: []*scripted{{passes: only("1"), err: broken}}, offered: [][]string{{"0", "1", "2", "3"}}, says: broken.Error()},
		"unless the extender may be ignored": {extenders: []*scripted{{passes: only("1"), err: broken, ignorable: true}, {passes: only("2")}}, offered: [][]string{{"0", "1", "2", "3"}}, node: "2"},
		"the nominated node alone":           {extenders: []*scripted{{passes: only("1", "2")}}, nominated: "2", offered: [][]string{{"2"}}, node: "2"},
		"or all, if that is rejected":        {extenders: []*scripted{{passes: only("1")}}, nominated: "2", offered: [][]string{{"2"}, {"0", "1", "2", "3"}}, node: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := withExtenders(t, 4, test.extenders...)
			p := benchPreemptor("pod", 0, 100)
			if test.nominated != "" {
				p.Status.NominatedNodeName = long(test.nominated)
			}
			d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(p)))
			if got := test.extenders[len(test.extenders)-1].offered; !reflect.DeepEqual(got, test.offered) {
				t.Errorf("the last extender was offered %v, want %v", got, test.offered)
			}
			switch {
			case test.node != "":
				if d.Outcome != plan.Placed || d.Placement.NodeName != long(test.node) {
					t.Errorf("%s: %s, want node %s", d.Outcome, report.Message(&d), test.node)
				}
			case test.rejectors == nil:
				if d.Outcome != plan.Failed || d.Err.Error() != test.says {
					t.Errorf("%s, error %v; want the error %s", d.Outcome, d.Err, test.says)
				}
			default:
				if got := d.Rejection; d.Outcome != plan.Unschedulable || got.Text(d.Nodes) != test.says || !slices.Equal(got.Plugins, test.rejectors) {
					t.Errorf("%s: %q by %v, want %q by %v", d.Outcome, report.Message(&d), got.Plugins, test.says, test.rejectors)
				}
			}
		})
	}
}

// TestExtendersAndFilters has nodes rejected by filters before extenders run. These are
// not offered and keep the filters' reasons. An extender's answer about them does not
// count.
func TestExtendersAndFilters(t *testing.T) {
	x := &scripted{passes: only(), failed: map[string]string{"0": "of a full node", "1": "too loud", "3": "too loud"}, unresolvable: map[string]string{"2": "of a full node"}}
	b := withExtenders(t, 4, x)
	for _, node := range []string{"0", "2"} {
		p := benchPreemptor("on-"+node, 0, 1_000_000) // more than a node has
		p.Spec.NodeName = long(node)
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 0, 100))))
	if want := [][]string{{"1", "3"}}; !reflect.DeepEqual(x.offered, want) {
		t.Errorf("offered %v, want %v", x.offered, want)
	}
	if want := "0/4 nodes are available: 2 Insufficient cpu, 2 too loud."; d.Outcome != plan.Unschedulable || d.Rejection.Text(d.Nodes) != want {
		t.Errorf("%s: %s, want %s", d.Outcome, report.Message(&d), want)
	}
}

// TestExtendersPrioritize adds the extenders' scores to the totals; a failed call adds
// nothing.
func TestExtendersPrioritize(t *testing.T) {
	total := func(extenders ...*scripted) (string, int64) {
		b := withExtenders(t, 4, extenders...)
		d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 0, 100))))
		if d.Outcome != plan.Placed {
			t.Fatalf("%s: %v", d.Outcome, report.Message(&d))
		}
		return d.Placement.NodeName, d.Placement.Total
	}
	_, without := total()
	node, got := total(&scripted{scores: map[string]int64{"1": 300, "2": 900}}, &scripted{scores: map[string]int64{"1": 1000}},
		&scripted{scores: map[string]int64{"2": 1_000_000}, err: errors.New("no")}, &scripted{scores: map[string]int64{"2": 1_000_000}, bored: true})
	if node != long("1") || got < 1300 || got > 1300+without {
		t.Errorf("%s with %d, want %s with 1,300 more than its own score, which is at most %d", node, got, long("1"), without)
	}
}

// TestBareNodesAreScoredEmpty has an extender that returns whole nodes. As in
// kube-scheduler, the pods on them are then ignored by scores.
func TestBareNodesAreScoredEmpty(t *testing.T) {
	for _, bare := range []bool{false, true} {
		b := withExtenders(t, 2, &scripted{passes: but(), bare: bare})
		for i := range 20 {
			b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(onNode(benchPreemptor(string(rune('a'+i)), 0, 500), long("0")))}})
		}
		seen := map[string]bool{}
		for i := range 20 {
			d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor(string(rune('A'+i)), 0, 100))))
			seen[d.Placement.NodeName] = true
		}
		if len(seen) != map[bool]int{false: 1, true: 2}[bare] {
			t.Errorf("bare %v: pods go to %v", bare, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func onNode(p *v1.Pod, name string) *v1.Pod {
	p.Spec.NodeName = name
	return p
}

// says is a PreFilter plugin with a fixed result.
type says struct {
	name   string
	result plugin.PreFilterResult
}

func (s *says) Name() string                                            { return s.name }
func (s *says) PreFilter(state.View, *model.Pod) plugin.PreFilterResult { return s.result }

// asksPotential records the number of nodes on which preemption may help.
type asksPotential struct {
	nodes, potential int
	ran              bool // Claims has run at PreFilter
	leftOut          bool // a node that PreFilter plugins do not name
}

func (*asksPotential) Name() string { return "Asks" }
func (a *asksPotential) PostFilter(cycle plugin.Cycle, _ *model.Pod) (plugin.PostFilterResult, error) {
	c := cycle.(*engine.Shown)
	a.nodes, a.potential, a.ran = c.Facts().PotentialNodes, len(c.Potential()), c.PreFiltered("Claims")
	if a.potential > 0 {
		a.leftOut = c.ObjectionWith(0, &state.Use{}).Filter == preempt.LeftOut
	}
	return plugin.PostFilterResult{Message: c.Rejected(0).Plugin}, nil
}

// TestPreFilterFromOutside has PreFilter plugins that reject, open to preemption or not.
// A state filter stands between them. The configured order counts.
func TestPreFilterFromOutside(t *testing.T) {
	open := func(name string) *says {
		return &says{name, plugin.PreFilterResult{Rejection: name + " says no", Resolvable: true}}
	}
	final := func(name string) *says { return &says{name, plugin.PreFilterResult{Rejection: name + " says no"}} }
	narrows := func(name string, nodes ...string) *says {
		return &says{name, plugin.PreFilterResult{Narrowed: true, Nodes: nodes}}
	}
	for name, test := range map[string]struct {
		// Claims, which rejects every pod if claims is set, stands behind the first
		plugins   []*says
		claims    bool
		says      string
		rejectors []string
		potential int
	}{
		"an open one":                       {[]*says{open("A")}, false, "A says no", []string{"A"}, 4},
		"of two open ones the last":         {[]*says{open("A"), open("B")}, false, "B says no", []string{"B"}, 4},
		"a final one behind an open one":    {[]*says{open("A"), final("B"), open("C")}, false, "B says no", []string{"B"}, 0},
		"with those that narrow":            {[]*says{narrows("N", long("1")), open("A"), narrows("M", long("1"), long("2"))}, false, "A says no", []string{"A", "M", "N"}, 4},
		"named in order":                    {[]*says{open("Z"), narrows("N", long("1"))}, false, "Z says no", []string{"N", "Z"}, 4},
		"nothing left ends it":              {[]*says{open("A"), narrows("N")}, false, "node(s) didn't satisfy plugin N", []string{"N"}, 0},
		"a built-in one behind an open one": {[]*says{open("A")}, true, "no claim", []string{"Claims"}, 0},
		"a built-in one behind a final one": {[]*says{final("A")}, true, "A says no", []string{"A"}, 0},
		"a built-in one before a final one": {[]*says{narrows("N", long("1")), final("A")}, true, "no claim", []string{"Claims"}, 0},
		"a built-in one before an open one": {[]*says{narrows("N", long("1")), open("A")}, true, "no claim", []string{"Claims"}, 0},
		"an error":                          {[]*says{{"A", plugin.PreFilterResult{Err: errors.New("broken")}}}, false, `running PreFilter plugin "A": broken`, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asks := &asksPotential{}
			b := withPlugins(t, 4, func(p *plugin.Profile) {
				p.External = &turn{t: t}
				p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(asks).PostFilter}
				p.Filters = append(p.Filters, plugintest.Filters(&claims{})...)
				p.PreFilterOrder = nil
				for i, s := range test.plugins {
					p.PreFilters = append(p.PreFilters, plugintest.PartsOf(s).PreFilter)
					if p.PreFilterOrder = append(p.PreFilterOrder, s.name); i == 0 {
						p.PreFilterOrder = append(p.PreFilterOrder, "Claims")
					}
				}
			})
			if !test.claims {
				b.state.Apply([]model.Change{claimOf("bench", long("1"))})
			}
			d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 0, 100))))
			if test.rejectors == nil {
				if d.Outcome != plan.Failed || d.Err.Error() != test.says {
					t.Errorf("%s, %v; want %s", d.Outcome, d.Err, test.says)
				}
				return
			}
			if d.Outcome != plan.Unschedulable || d.Rejection.PreFilter != test.says || !slices.Equal(d.Rejection.Plugins, test.rejectors) {
				t.Errorf("%s: %q by %v, want %q by %v", d.Outcome, d.Rejection.PreFilter, d.Rejection.Plugins, test.says, test.rejectors)
			}
			if test.potential > 0 && (!asks.ran || asks.leftOut) {
				t.Errorf("Claims has run at PreFilter: %t, node 0 is left out: %t; an open rejection ends no chain and leaves no node out", asks.ran, asks.leftOut)
			}
			if asks.nodes != test.potential || asks.potential != test.potential {
				t.Errorf("evicting pods may help on %d nodes, of which %d are named; want %d", asks.nodes, asks.potential, test.potential)
			}
		})
	}
}

// flaky fails at its first call.
type flaky struct {
	scripted
	asked int
}

func (f *flaky) Filter(p *v1.Pod, nodes []*v1.Node) (plugin.ExtenderVerdicts, error) {
	if f.asked++; f.asked == 1 {
		return plugin.ExtenderVerdicts{}, errors.New("timeout")
	}
	return f.scripted.Filter(p, nodes)
}

func TestExtenderFailsAboutTheNominatedNode(t *testing.T) {
	f := &flaky{scripted: scripted{passes: only("1", "2")}}
	b := withPlugins(t, 4, func(p *plugin.Profile) { p.Extenders = []plugin.Extender{f} })
	p := benchPreemptor("pod", 0, 100)
	p.Status.NominatedNodeName = long("2")
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(p)))
	if d.Outcome != plan.Placed {
		t.Errorf("%s, %v, nominations %+v; kube-scheduler logs the error and evaluates all nodes", d.Outcome, d.Err, d.Nominations)
	}
}

func TestNumbersAreNotUsedBesideExtenders(t *testing.T) {
	for _, nominated := range []bool{false, true} {
		a := &onlyUsageAsks{}
		b := withPlugins(t, 4, func(p *plugin.Profile) {
			p.Extenders = []plugin.Extender{&scripted{passes: only(), failed: map[string]string{"0": "x", "1": "x", "2": "x", "3": "x"}}}
			p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(a).PostFilter}
		})
		if nominated {
			q := benchPreemptor("other", 1000, 100)
			q.Status.NominatedNodeName = long("2")
			b.state.Nominate(plan.Nomination{Pod: b.compiled(q), Mode: plan.Set, NodeName: long("2")})
		}
		b.engine.Decide(b.state.View(), plan.Alone(b.compiled(benchPreemptor("pod", 0, 100))))
		if a.only {
			t.Errorf("nominated %v: OnlyUsage although an extender was asked", nominated)
		}
	}
}

type onlyUsageAsks struct{ only bool }

func (*onlyUsageAsks) Name() string { return "Asks" }

func (a *onlyUsageAsks) PostFilter(cycle plugin.Cycle, _ *model.Pod) (plugin.PostFilterResult, error) {
	a.only = cycle.(*engine.Shown).Facts().OnlyUsage
	return plugin.PostFilterResult{}, nil
}

func TestExtenderFailsAboutANominatedNodeThatPreFilterLeftOut(t *testing.T) {
	// always fails, and is not ignorable
	f := &scripted{passes: only("1", "2"), err: errors.New("timeout")}
	b := withPlugins(t, 4, func(p *plugin.Profile) {
		p.Extenders = []plugin.Extender{f}
		p.PreFilters = append(p.PreFilters, plugintest.PartsOf(&says{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{long("1")}}}).PreFilter)
		p.PreFilterOrder = append(p.PreFilterOrder, "N")
	})
	p := benchPreemptor("pod", 0, 100)
	p.Status.NominatedNodeName = long("2")
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compiled(p)))
	if d.Outcome == plan.Placed {
		t.Errorf("placed on %s, which PreFilter left out and about which the extender failed; offered %v", d.Placement.NodeName, f.offered)
	}
}
