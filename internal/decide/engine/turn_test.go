package engine

import (
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

// decided writes a decision: "<node> of <feasible> with <total>", "no: <reasons> by
// <plugins>, pending <plugins>" or "error: <text>".
func decided(d plan.Decision) string {
	switch d.Outcome {
	case plan.Placed:
		return fmt.Sprintf("%s of %d with %d", d.Placement.NodeName, d.Feasible, d.Placement.Total)
	case plan.Unschedulable:
		var counts []string
		for _, c := range d.Rejection.Counts {
			counts = append(counts, fmt.Sprint(c.Nodes, " ", c.Reason))
		}
		text := fmt.Sprintf("no: %s%s by %v", d.Rejection.PreFilter, strings.Join(counts, ", "), d.Rejection.Plugins)
		if len(d.Rejection.Pending) > 0 {
			text += fmt.Sprintf(", pending %v", d.Rejection.Pending)
		}
		return text
	case plan.Failed:
		return "error: " + d.Err.Error()
	}
	return d.Outcome.String()
}

// TestTurnFilters has out-of-tree filters behind and before a filter with columns. They
// get the nodes that this filter passes, each node once. They get other nodes only if
// none is feasible and they come first. A second decision with the same verdicts has the
// same result.
func TestTurnFilters(t *testing.T) {
	const hard, failed = reason.Unresolvable, reason.Failed
	for name, test := range map[string]struct {
		before, column, behind map[string]reason.Code
		skips                  bool
		err                    error
		want                   string
		atOnce                 string // the nodes that the last filter got in one call
	}{
		"all pass":                   {want: "d of 4 with 4", atOnce: "a b c d"},
		"what the column leaves":     {column: map[string]reason.Code{"b": 1, "d": 2}, want: "c of 2 with 3", atOnce: "a c"},
		"what the first leaves":      {before: map[string]reason.Code{"b": 1, "d": 2}, want: "c of 2 with 3", atOnce: "a c"},
		"what is left in the end":    {before: map[string]reason.Code{"d": 2}, column: map[string]reason.Code{"a": 2}, behind: map[string]reason.Code{"c": 9}, want: "b of 1 with 0", atOnce: "b c"},
		"skipped":                    {behind: map[string]reason.Code{"d": 1}, skips: true, want: "d of 4 with 4"},
		"it cannot be asked":         {err: errBroken, want: `error: running "Behind" filter plugin: broken`},
		"it fails for a node":        {behind: map[string]reason.Code{"c": failed | 3}, want: `error: running "Behind" filter plugin: Behind fails 3`, atOnce: "a b c d"},
		"not for a rejected node":    {column: map[string]reason.Code{"c": 1}, behind: map[string]reason.Code{"c": failed | 3}, want: "d of 3 with 4", atOnce: "a b d"},
		"nor for one that the first": {before: map[string]reason.Code{"c": 1}, behind: map[string]reason.Code{"c": failed | 3}, want: "d of 3 with 4", atOnce: "a b d"},
		"the first failure by slot": {
			behind: map[string]reason.Code{"b": failed | 4, "c": failed | 3}, want: `error: running "Behind" filter plugin: Behind fails 4`, atOnce: "a b c d",
		},
		"none is left, the first filter counts": {
			before: map[string]reason.Code{"a": 1, "b": 1}, column: map[string]reason.Code{"b": 2, "c": 2 | hard}, behind: map[string]reason.Code{"d": 9 | hard, "c": 3},
			want: "no: 1 Behind9, 1 Column2, 2 Before1 by [Before Behind Column], pending [Behind]", atOnce: "d",
		},
		"the column rejects all": {
			before: map[string]reason.Code{"a": 1}, column: map[string]reason.Code{"a": 2, "b": 2, "c": 2, "d": 3},
			want: "no: 1 Before1, 1 Column3, 2 Column2 by [Before Column]",
		},
		"the first fails where the column rejects all": {
			before: map[string]reason.Code{"b": failed | 6}, column: map[string]reason.Code{"a": 2, "b": 2, "c": 2, "d": 3},
			want: `error: running "Before" filter plugin: Before fails 6`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			behind := &turnRule{rule: rule{name: "Behind", codes: test.behind}, skips: test.skips, err: test.err}
			if test.err != nil {
				behind.skips = false
			}
			x := newSmall(t, &plugin.Profile{
				Filters: plugintest.Filters(&turnRule{rule: rule{name: "Before", codes: test.before}}, &rule{name: "Column", codes: test.column}, behind),
				Scores:  []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"a": 1, "b": 2, "c": 3, "d": 4}}).Score, Weight: 1}},
			}, "a", "b", "c", "d")
			x.profiles[x.p.Name].External = &noted{}
			for _, what := range []string{"first", "again"} {
				behind.atOnce, behind.rule.asked = nil, nil
				if got := decided(x.decide(x.pod())); got != test.want {
					t.Errorf("%s: %s, want %s", what, got, test.want)
				}
				if got := strings.Join(behind.atOnce, " "); got != test.atOnce {
					t.Errorf("%s: asked about %q together, want %q", what, got, test.atOnce)
				}
				if slices.ContainsFunc(behind.rule.asked, func(node string) bool { return slices.Contains(behind.atOnce, node) }) {
					t.Errorf("%s: asked about %v again, after %v", what, behind.rule.asked, behind.atOnce)
				}
				// the memory of verdicts suffices for another node
				plugintest.Set(x.s, build.Node("d", build.Allocatable("cpu=1")))
			}
		})
	}
}

// TestTurnFiltersOfMoreNodes: the memory of verdicts grows with the cluster, and a reused
// slot is evaluated again.
func TestTurnFiltersOfMoreNodes(t *testing.T) {
	f := &turnRule{rule: rule{name: "F", codes: map[string]reason.Code{"a": 1}}}
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(f), External: &noted{}}, "a")
	if got := decided(x.decide(x.pod())); got != "no: 1 F1 by [F]" {
		t.Errorf("one node: %s", got)
	}
	plugintest.Set(x.s, build.Node("b"))
	if got := decided(x.decide(x.pod())); got != "b of 1 with 0" {
		t.Errorf("two nodes: %s", got)
	}
	x.s.Apply([]model.Change{{Kind: model.NodeGone, Name: "a"}})
	plugintest.Set(x.s, build.Node("c"))
	if got := x.decide(x.pod()); got.Feasible != 2 {
		t.Errorf("with another node in a slot: %s", decided(got))
	}
	// the rejection reuses the verdict on the first node
	if asked := x.Counters().Asked; asked != 1+2+2 {
		t.Errorf("asked about %d nodes", asked)
	}
}

// TestScores: the totals of plugins of each kind, with their weights, and the errors that
// fail the turn. Two of three nodes are feasible.
func TestScores(t *testing.T) {
	classes := &classRating{rating: rating{name: "C", raw: map[string]int32{"b": 2, "c": 1}}, classes: []int32{0, 30, 70}}
	for name, test := range map[string]struct {
		scores []plugin.Weighted
		bare   bool
		want   string
	}{
		"none":                         {nil, false, "2 with 0"},
		"as it is":                     {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"b": 5, "c": 9}}).Score, Weight: 3}}, false, "c of 2 with 27"},
		"the largest is 100":           {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.Largest, raw: map[string]int32{"a": 900, "b": 300, "c": 200}}).Score, Weight: 2}}, false, "b of 2 with 200"},
		"the largest is 0":             {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.LargestReversed, raw: map[string]int32{"a": 900, "b": 300, "c": 200}}).Score, Weight: 2}}, false, "c of 2 with 68"},
		"small ones, by a table":       {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.LargestReversed, raw: map[string]int32{"a": 1, "b": 2, "c": 1}}).Score, Weight: 2}}, false, "c of 2 with 100"},
		"nothing is 0":                 {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.Largest}).Score, Weight: 2}}, false, "2 with 0"},
		"nothing, reversed, is 100":    {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.LargestReversed}).Score, Weight: 2}}, false, "2 with 200"},
		"nothing where it is feasible": {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.LargestReversed, raw: map[string]int32{"a": 9}}).Score, Weight: 2}}, false, "2 with 200"},
		"classes":                      {[]plugin.Weighted{{Score: plugintest.PartsOf(classes).Score, Weight: 3}}, false, "b of 2 with 210"},
		"classes, normalised": {
			[]plugin.Weighted{{Score: plugintest.PartsOf(&classRating{rating{name: "C", how: model.Largest, raw: map[string]int32{"b": 2, "c": 1}}, []int32{0, 30, 60}}).Score, Weight: 3}}, false, "b of 2 with 300",
		},
		"several": {[]plugin.Weighted{
			{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"b": 5, "c": 9}}).Score, Weight: 3}, {Score: plugintest.PartsOf(&setRating{together: together{name: "T", scores: map[string]int64{"b": 40}}}).Score, Weight: 2},
			{Score: plugintest.PartsOf(&turnRating{together{name: "U", scores: map[string]int64{"b": 1, "c": 2}}}).Score, Weight: 7}, {Score: plugintest.PartsOf(&rating{name: "V", how: model.LargestReversed}).Score, Weight: 1},
		}, false, "b of 2 with 202"},
		"two sets, of which one is skipped": {[]plugin.Weighted{
			{Score: plugintest.PartsOf(&setRating{together: together{name: "T", scores: map[string]int64{"b": 40}, skips: true}}).Score, Weight: 2},
			{Score: plugintest.PartsOf(&setRating{together: together{name: "U", scores: map[string]int64{"c": 10}}}).Score, Weight: 2},
		}, false, "c of 2 with 20"},
		"a turn's that is skipped": {[]plugin.Weighted{
			{Score: plugintest.PartsOf(&turnRating{together{name: "T", scores: map[string]int64{"b": 40}, skips: true}}).Score, Weight: 2},
			{Score: plugintest.PartsOf(&turnRating{together{name: "U", scores: map[string]int64{"c": 10}}}).Score, Weight: 2},
		}, false, "c of 2 with 20"},
		"compiling fails":       {[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", err: errBroken}).Score, Weight: 1}}, false, `error: running PreScore plugin "S": broken`},
		"compiling a set fails": {[]plugin.Weighted{{Score: plugintest.PartsOf(&setRating{together: together{name: "T"}, compileErr: errBroken}).Score, Weight: 1}}, false, `error: running PreScore plugin "T": broken`},
		"a set fails":           {[]plugin.Weighted{{Score: plugintest.PartsOf(&setRating{together: together{name: "T", err: errBroken}}).Score, Weight: 1}}, false, `error: running PreScore plugin "T": broken`},
		"a turn's fails":        {[]plugin.Weighted{{Score: plugintest.PartsOf(&turnRating{together{name: "T", err: errBroken}}).Score, Weight: 1}}, false, `error: broken`},
		"out of range": {
			[]plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.Largest, raw: map[string]int32{"b": -1, "c": 9}}).Score, Weight: 1}}, false,
			`error: applying score defaultWeights on Score plugins: plugin "S" returns an invalid score -1, it should in the range of [0, 100] after normalizing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": 1}}), Scores: test.scores}, "a", "b", "c")
			for _, what := range []string{"first", "again"} {
				if got := decided(x.decide(x.pod())); !strings.HasSuffix(got, test.want) {
					t.Errorf("%s: %s, want %s", what, got, test.want)
				}
			}
			for _, s := range test.scores {
				if s.Set != nil {
					if s, ok := s.Set(nil).(*setRating); ok && s.compileErr == nil && s.err == nil && s.compiled != 1 {
						t.Errorf("%s was compiled %d times", s.name, s.compiled)
					}
				}
				if s.Need != nil {
					if s, ok := s.Need(nil).(*rating); ok && s.err == nil && s.compiled != 1 {
						t.Errorf("%s was compiled %d times", s.name, s.compiled)
					}
				}
			}
		})
	}
}

// classRating is a rating whose values are classes.
type classRating struct {
	rating
	classes []int32
}

func (r *classRating) ScoreNeed(*model.Pod) plugin.ScoreNeed { return r }
func (r *classRating) Compile() (plugin.NodeScores, error) {
	return plugin.NodeScores{RawScores: r, Classes: r}, nil
}
func (r *classRating) Classes(state.View) []int32 { return r.classes }

// TestAskedIsCounted: the calls of each plugin are counted by nodes, on every path.
func TestAskedIsCounted(t *testing.T) {
	all := []int32{0, 1, 2, 3}
	x := newSmall(t, &plugin.Profile{
		Filters: plugintest.Filters(
			&rule{name: "F", codes: map[string]reason.Code{"a": 1}},
			&counted{name: "K", rule: plugin.CountRule{Domains: all, Counts: []int32{0, 5, 0, 0}, Max: 1, Code: 1}},
			&turnRule{rule: rule{name: "T"}},
		),
		Scores: []plugin.Weighted{
			{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"c": 1}}).Score, Weight: 1}, {Score: plugintest.PartsOf(&setRating{together: together{name: "U"}}).Score, Weight: 1},
			{Score: plugintest.PartsOf(&turnRating{together{name: "V"}}).Score, Weight: 1},
		},
	}, "a", "b", "c", "d")
	other := &plugin.Profile{Name: "other", Filters: plugintest.Filters(&rule{name: "G"}), Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "R"}).Score, Weight: 1}}}
	e, err := New(Config{Profiles: []*plugin.Profile{x.p, other}})
	if err != nil {
		t.Fatal(err)
	}
	var phases []Phase
	e.onPhase = func(p Phase) { phases = append(phases, p) }
	if d := e.Decide(x.s.View(), plan.Alone(x.pod())); decided(d) != "c of 2 with 1" {
		t.Errorf("%s", decided(d))
	}
	want := map[string]int64{
		"default-scheduler F 1": 4, "default-scheduler K 1": 3, "default-scheduler T 1": 2, "default-scheduler S 2": 4, "default-scheduler U 2": 2, "default-scheduler V 2": 2,
		"other G 1": 0, "other R 2": 0,
	}
	seen := 0
	e.EachAsked(func(profile, plugin string, phase Phase, asked int64) {
		if n, ok := want[fmt.Sprint(profile, " ", plugin, " ", phase)]; !ok || n != asked {
			t.Errorf("%s of %s in phase %d was called for %d nodes, want %d", plugin, profile, phase, asked, n)
		}
		seen++
	})
	if seen != len(want) {
		t.Errorf("%d plugins, want %d", seen, len(want))
	}
	if c := e.Counters(); c.Decisions != 1 || c.Visited != 4 || c.Filled != 2 || c.Found != 0 || c.Asked != 4+2+4 || e.Columns() != 2 || e.Compiled() != 2 ||
		e.ColumnBytes(10) != 2*(columnBytes+valueBytes*10) {
		t.Errorf("%+v; %d columns of %d bytes, %d compiled", c, e.Columns(), e.ColumnBytes(10), e.Compiled())
	}
	e.Decide(x.s.View(), plan.Alone(x.pod()))
	if c := e.Counters(); c.Decisions != 2 || c.Visited != 8 || c.Filled != 2 || c.Found != 2 || c.Asked != 4+2+4+2 {
		t.Errorf("%+v", c)
	}
	x.s.Apply([]model.Change{{Kind: model.NodeGone, Name: "c"}, {Kind: model.NodeGone, Name: "d"}})
	e.Decide(x.s.View(), plan.Alone(x.pod()))
	if want := []Phase{PreFilter, Filter, Score, PreFilter, Filter, Score, PreFilter, Filter}; !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
	// to find that none is feasible, and again for the reasons
	if c := e.Counters(); c.Visited != 8+2+2 {
		t.Errorf("%+v", c)
	}
}

// preScore is a PreScore plugin that records the number of nodes.
type preScore struct {
	err   error
	asked []int
}

func (*preScore) Name() string { return "Pre" }
func (p *preScore) PreScore(_ state.View, slots []int32) error {
	p.asked = append(p.asked, len(slots))
	return p.err
}

// TestPreScore: PreScore runs before scores if at least two nodes are feasible; an error
// fails the turn.
func TestPreScore(t *testing.T) {
	for name, test := range map[string]struct {
		codes map[string]reason.Code
		err   error
		asked string
		want  string
	}{
		"three":    {nil, nil, "[3 3 3]", "c of 3 with 4"},
		"two":      {map[string]reason.Code{"a": 1}, nil, "[2 2 2]", "c of 2 with 4"},
		"one":      {map[string]reason.Code{"a": 1, "c": 1}, nil, "[]", "b of 1 with 0"},
		"an error": {nil, errBroken, "[3 3 3]", `error: running PreScore plugin "Pre": broken`},
	} {
		p := &preScore{err: test.err}
		x := newSmall(t, &plugin.Profile{
			Filters: plugintest.Filters(&rule{name: "F", codes: test.codes}), PreScores: []*plugin.PreScore{plugintest.PartsOf(p).PreScore},
			Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"c": 4}}).Score, Weight: 1}},
		}, "a", "b", "c")
		if got := decided(x.decide(x.pod())); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		answer, err := x.Answer(x.s.View(), x.pod()) // decides, and then scores all nodes
		if asked := fmt.Sprint(p.asked); err != nil || asked != test.asked || len(answer.Nodes) != 3 || test.err != nil && answer.Nodes[2].Scores != nil {
			t.Errorf("%s: %v; asked about %v nodes, want %s; %v", name, err, asked, test.asked, answer.Nodes)
		}
	}
}

// TestFitsWithIsCounted: nodes checked by numbers count as calls.
func TestFitsWithIsCounted(t *testing.T) {
	x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&fit{rule{name: "F", reads: model.Usage}, 0}, &fit{rule{name: "G", reads: model.Usage}, 1})}, "a")
	plugintest.Set(x.s, build.Pod(build.Named("on"), build.NodeName("a")))
	ran := false
	x.p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(&postFilter{"P", func(c *postFilterCycle, _ *model.Pod) (plugin.PostFilterResult, error) {
		var use state.Use
		for pods, want := range map[int]int64{0: 2, 1: 1} {
			use.Reset(c.View().Node(0))
			if pods == 0 {
				use.Add(model.NewPod(build.Pod()), -1)
			}
			before := x.Counters().Asked
			if fits := c.FitsWith(0, &use); fits != (pods == 0) || x.Counters().Asked-before != want {
				t.Errorf("%d pods: fits %t, %d were asked, want %d", pods, fits, x.Counters().Asked-before, want)
			}
		}
		ran = true
		return plugin.PostFilterResult{}, nil
	}}).PostFilter}
	if x.decide(x.pod()); !ran {
		t.Error("PostFilter was not run")
	}
}

// TestOneTurnFilterFails: the filter fails for a node that it gets only because none is
// feasible.
func TestOneTurnFilterFails(t *testing.T) {
	x := newSmall(t, &plugin.Profile{External: &noted{}, Filters: plugintest.Filters(
		&turnRule{rule: rule{name: "T", codes: map[string]reason.Code{"b": reason.Failed | 6}}}, &rule{name: "F", codes: map[string]reason.Code{"a": 1, "b": 1}},
	)}, "a", "b")
	if got := decided(x.decide(x.pod())); got != `error: running "T" filter plugin: T fails 6` {
		t.Error(got)
	}
}

// TestAskedOneByOne: calls of filters for few nodes count, calls of extenders do not.
func TestAskedOneByOne(t *testing.T) {
	x := newSmall(t, &plugin.Profile{
		Filters:    plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": 1}}, &rule{name: "G"}),
		PreFilters: []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"a", "b"}}}).PreFilter}, Extenders: []plugin.Extender{refuses{}},
	}, "a", "b", "c")
	if got := decided(x.decide(x.pod())); !strings.HasPrefix(got, "no: 1 F1, 2 node(s) didn't satisfy plugin(s) [N] by") {
		t.Error(got)
	}
	// two nodes, and again for the reasons
	x.EachAsked(func(_, plugin string, _ Phase, asked int64) {
		if want := map[string]int64{"F": 4, "G": 2}[plugin]; asked != want {
			t.Errorf("%s was asked about %d nodes, want %d", plugin, asked, want)
		}
	})
}

// TestDecisionsAllocateNothing: a decision about a pod whose needs have columns reuses
// memory, whatever plugins the profile has.
func TestDecisionsAllocateNothing(t *testing.T) {
	quiet := func(name string) *silentRule { return &silentRule{rule{name: name, reads: model.Labels}} }
	inTurn := &inState{rule: rule{name: "A"}, need: quiet("A")}
	for name, p := range map[string]*plugin.Profile{
		"a filter":         {Filters: plugintest.Filters(quiet("F"))},
		"a state filter":   {Filters: plugintest.Filters(quiet("F"), inTurn)},
		"a count filter":   {Filters: plugintest.Filters(quiet("F"), &counted{name: "C", rule: plugin.CountRule{Domains: make([]int32, 9), Max: 9}})},
		"a score":          {Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&rating{name: "S", how: model.Largest, raw: map[string]int32{"a": 3}}).Score, Weight: 1}}},
		"a score of a set": {Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&setRating{together: together{name: "S"}}).Score, Weight: 1}}},
	} {
		x := newSmall(t, p, "a", "b", "c", "d", "e")
		work := plan.Alone(x.pod())
		for range 600 { // until the memory of placements has grown
			x.Decide(x.s.View(), work)
		}
		if n := testing.AllocsPerRun(50, func() { x.Decide(x.s.View(), work) }); n >= 1 {
			t.Errorf("%s: a decision allocates %v times", name, n)
		}
	}
}

// silentRule is a rule that records nothing.
type silentRule struct{ rule }

func (r *silentRule) FilterNeed(*model.Pod) plugin.FilterNeed { return r }
func (r *silentRule) Compile() *plugin.Verdicts               { return failable(r) }
func (r *silentRule) Filter(state.Node) reason.Code           { return reason.None }
