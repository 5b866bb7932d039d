package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// searchUnits is the price of a search, far above the price of the rest of a decision.
const searchUnits = 1_000_000

// searching is a filter that searches on each node, for searchUnits. On the nodes in
// later, the search continues for that number of further turns.
type searching struct {
	rule
	later map[string]int
}

func (f *searching) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f *searching) Compile() *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: f, Failures: f, Costly: true}
}
func (f *searching) Filter(node state.Node) reason.Code {
	node.Meter().Spend(price.Devices, searchUnits)
	if f.later[node.Name()] > 0 {
		f.later[node.Name()]--
		f.asked = append(f.asked, node.Name()+"...")
		return reason.Unasked
	}
	return f.rule.Filter(node)
}

// searchingScore is a Score plugin that searches.
type searchingScore struct {
	rating
	later map[string]int
	asked []string
}

func (s *searchingScore) ScoreNeed(*model.Pod) plugin.ScoreNeed { return s }
func (s *searchingScore) Compile() (plugin.NodeScores, error) {
	return plugin.NodeScores{RawScores: s, Costly: true}, nil
}
func (s *searchingScore) Score(node state.Node) int32 {
	node.Meter().Spend(price.Devices, searchUnits)
	s.asked = append(s.asked, node.Name())
	if s.later[node.Name()] > 0 {
		s.later[node.Name()]--
		return plugin.Unasked
	}
	return s.rating.Score(node)
}

// TestCostlyFilterIsAskedAboutFewNodes has a searching filter behind an ordinary filter
// and a count filter. The searching filter is called for the nodes that pass both, up to
// the first node that fails the turn. It is called again only for changed nodes.
func TestCostlyFilterIsAskedAboutFewNodes(t *testing.T) {
	const hard, failed = reason.Unresolvable, reason.Failed
	for name, test := range map[string]struct {
		codes map[string]reason.Code
		want  string
		asked string
	}{
		"some pass":               {map[string]reason.Code{"c": hard | 2}, "of 2 with 0", "c d e"},
		"none passes":             {map[string]reason.Code{"c": hard | 2, "d": hard | 2, "e": hard | 3}, "no: 1 C7, 1 F1, 1 S3, 2 S2 by [C F S]", "c d e"},
		"one fails":               {map[string]reason.Code{"d": failed | 1}, `error: running "S" filter plugin: S fails 1`, "c d"},
		"one fails on a node out": {map[string]reason.Code{"a": failed | 1, "b": failed | 2, "c": hard | 2, "d": hard | 2}, "e of 1 with 0", "c d e"},
	} {
		s := &searching{rule: rule{name: "S", codes: test.codes}}
		counts := &counted{name: "C", rule: plugin.CountRule{Domains: []int32{0, 1, 0, 0, 0}, Counts: []int32{0, 1}, Max: 0, Code: 7}}
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(&rule{name: "F", codes: map[string]reason.Code{"a": 1}}, counts, s)}, "a", "b", "c", "d", "e")
		for turn := range 3 {
			if got := decided(x.decide(x.pod())); !strings.HasSuffix(got, test.want) {
				t.Errorf("%s, turn %d: %s, want %s", name, turn, got, test.want)
			}
			if got := strings.Join(s.asked, " "); got != test.asked {
				t.Errorf("%s, turn %d: asked about %s, want %s", name, turn, got, test.asked)
			}
		}
	}
}

// TestUnfinishedTurnGoesOn has turns with a budget for three nodes, and nodes whose
// search takes several turns. Only the last turn decides, with the same result as a turn
// without a budget. No finished search is repeated. Unfinished turns run no PostFilter
// plugin, and their decisions are empty.
func TestUnfinishedTurnGoesOn(t *testing.T) {
	const hard = reason.Unresolvable
	nodes := strings.Fields("a b c d e f g")
	all := map[string]reason.Code{}
	for _, n := range nodes {
		all[n] = hard | 2
	}
	for name, test := range map[string]struct {
		codes map[string]reason.Code
		// further turns of the filter's search; rates has the score's
		later map[string]int
		rates map[string]int
		turns int
	}{
		// 7 verdicts and 6 scores, three a turn; a verdict and a score share a turn
		"ordinary":            {map[string]reason.Code{"a": hard | 1}, nil, nil, 5},
		"none passes":         {all, nil, nil, 3},
		"a long search":       {all, map[string]int{"a": 3, "d": 1}, nil, 7},
		"a long search rates": {map[string]reason.Code{"a": hard | 1}, nil, map[string]int{"c": 2}, 6},
		"one node is left":    {map[string]reason.Code{"a": hard | 1, "b": 2, "c": 2, "d": 2, "e": 2, "f": 2}, map[string]int{"g": 2}, nil, 5},
	} {
		s := &searching{rule: rule{name: "S", codes: test.codes}, later: test.later}
		scores := &searchingScore{rating: rating{name: "R", how: model.Largest, raw: map[string]int32{"b": 3, "c": 5, "g": 4}}, later: test.rates}
		runs := 0
		nothing := func(*postFilterCycle, *model.Pod) (plugin.PostFilterResult, error) {
			runs++
			return plugin.PostFilterResult{}, nil
		}
		x := newSmall(t, &plugin.Profile{Filters: plugintest.Filters(s), Scores: []plugin.Weighted{{Score: plugintest.PartsOf(scores).Score, Weight: 1}}, PostFilters: []*plugin.PostFilter{plugintest.PartsOf(&postFilter{name: "P", run: nothing}).PostFilter}}, nodes...)
		var last plan.Decision
		turns := 0
		for last.Outcome = plan.Unfinished; last.Outcome == plan.Unfinished && turns < 20; turns++ {
			if x.s.Meter().Begin(3 * searchUnits); runs > 0 {
				t.Errorf("%s: PostFilter plugins run in an unfinished turn", name)
			}
			last = x.decide(x.pod())
			bill := x.s.Meter().End()
			if devices := bill[price.Devices]; devices > 4*searchUnits {
				t.Errorf("%s: turn %d costs %d units", name, turns, devices)
			}
			if last.Outcome == plan.Unfinished && (last.Err != nil || last.Rejection != nil || last.Placement.Pod != nil || len(last.Nominations) > 0) {
				t.Errorf("%s: an unfinished turn decides %+v", name, last)
			}
		}
		y := newSmall(t, &plugin.Profile{
			Filters: plugintest.Filters(&rule{name: "S", codes: test.codes}), Scores: []plugin.Weighted{{Score: plugintest.PartsOf(&scores.rating).Score, Weight: 1}}, PostFilters: []*plugin.PostFilter{plugintest.PartsOf(&postFilter{name: "P", run: nothing}).PostFilter},
		}, nodes...)
		if got, want := decided(last), decided(y.decide(y.pod())); got != want || turns != test.turns {
			t.Errorf("%s: in %d turns %s, want in %d turns %s", name, turns, got, test.turns, want)
		}
		asked := slices.DeleteFunc(slices.Clone(s.asked), func(n string) bool { return strings.HasSuffix(n, "...") })
		if !slices.Equal(asked, nodes) {
			t.Errorf("%s: asked about %s", name, fmt.Sprint(s.asked))
		}
	}
}

// TestAnswerCompletesCostlyScores: the decision about a pod that returns to its nominated
// node scores no node. The answer has the scores of all feasible nodes.
func TestAnswerCompletesCostlyScores(t *testing.T) {
	scores := &searchingScore{rating: rating{name: "R", how: model.AsIs, raw: map[string]int32{"a": 1, "b": 3, "c": 5}}}
	x := newSmall(t, &plugin.Profile{Scores: []plugin.Weighted{{Score: plugintest.PartsOf(scores).Score, Weight: 1}}}, "a", "b", "c")
	answer, err := x.Answer(x.s.View(), x.pod(build.NominatedNodeName("b")))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 3, 5} {
		if node := answer.Nodes[i]; len(node.Scores) != 1 || node.Total != want {
			t.Errorf("node %s has the scores %v, want %d", node.Name, node.Scores, want)
		}
	}
}
