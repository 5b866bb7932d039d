package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// answerText writes each node of an answer as "<name> <total>: <plugin> <weight>*<score>,
// …" or as "<name>: <status> of <plugin>: <reasons>; …".
func answerText(nodes []plan.NodeAnswer) string {
	var lines []string
	for _, n := range nodes {
		var parts []string
		for _, s := range n.Scores {
			parts = append(parts, fmt.Sprintf("%s %d*%d", s.Plugin, s.Weight, s.Score))
		}
		line := fmt.Sprintf("%s %d: %s", n.Name, n.Total, strings.Join(parts, ", "))
		if !n.Feasible {
			for _, r := range n.Rejections {
				parts = append(parts, fmt.Sprintf("%s of %s: %s", r.StatusCode(), r.Plugin, r.Message()))
			}
			line = fmt.Sprintf("%s: %s", n.Name, strings.Join(parts, "; "))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestAnswer requests the full answer for four nodes. Their slots are not in name order.
func TestAnswer(t *testing.T) {
	const (
		hard = reason.Unresolvable
		all  = "a 233: S 2*0, L 3*66, T 5*7\nb: UnschedulableAndUnresolvable of F: F1; Unschedulable of G: G2\n" +
			"c 314: S 2*7, L 3*100, T 5*0\nd: Unschedulable of G: G3"
	)
	for name, test := range map[string]struct {
		change func(x *small)
		pod    []build.PodOption
		want   string
		fails  string // the decision's error
	}{
		"scores, and the objections of all filters": {want: all},
		"a single feasible node is not scored": {
			change: func(x *small) { ruleOf(x.p.Filters[0]).codes["c"] = 4 },
			want:   "a 0: \nb: UnschedulableAndUnresolvable of F: F1; Unschedulable of G: G2\nc: Unschedulable of F: F4\nd: Unschedulable of G: G3",
		},
		"nodes outside of those that PreFilter names": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"d", "a", "c"}}}).PreFilter}
			},
			want: "a 233: S 2*0, L 3*66, T 5*7\nb: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [N]\nc 314: S 2*7, L 3*100, T 5*0\nd: Unschedulable of G: G3",
		},
		"PreFilter rejects the pod": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Rejection: "no"}}).PreFilter}
			},
			want: "a: UnschedulableAndUnresolvable of N: no\nb: UnschedulableAndUnresolvable of N: no\n" +
				"c: UnschedulableAndUnresolvable of N: no\nd: UnschedulableAndUnresolvable of N: no",
		},
		"PreFilter rejects the pod, and evicting pods may help": {
			change: func(x *small) {
				x.profiles[x.p.Name].External = &noted{}
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Rejection: "no", Resolvable: true}}).PreFilter}
			},
			want: "a: Unschedulable of N: no\nb: Unschedulable of N: no\nc: Unschedulable of N: no\nd: Unschedulable of N: no",
		},
		"PreFilter plugins that name no node in common": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{
					plugintest.PartsOf(&preFilter{"M", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"a"}}}).PreFilter, plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"c"}}}).PreFilter,
				}
				for _, gone := range []string{"b", "c", "d"} {
					x.s.Apply([]model.Change{{Kind: model.NodeGone, Name: gone}})
				}
			},
			want: "a: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [M N] simultaneously",
		},
		"PreFilter fails": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Err: errBroken}}).PreFilter}
			},
			fails: `running PreFilter plugin "N": broken`,
		},
		"a filter fails": {
			change: func(x *small) { ruleOf(x.p.Filters[0]).codes["c"] = reason.Failed | 5 },
			fails:  `running "F" filter plugin: F fails 5`,
		},
		"a filter fails behind a rejection": {
			change: func(x *small) { ruleOf(x.p.Filters[1]).codes["b"] = reason.Failed | 5 },
			want:   strings.Replace(all, "Unschedulable of G: G2", `Error of G: running "G" filter plugin: G fails 5`, 1),
		},
		"scores fail": {
			change: func(x *small) { x.p.Scores[1].Need(nil).(*rating).err = errBroken },
			want:   "a 0: \nb: UnschedulableAndUnresolvable of F: F1; Unschedulable of G: G2\nc 0: \nd: Unschedulable of G: G3",
			fails:  `running PreScore plugin "L": broken`,
		},
		"scores of all nodes together fail": {
			change: func(x *small) { x.p.Scores[2].Set(nil).(*setRating).err = errBroken },
			want:   "a 0: \nb: UnschedulableAndUnresolvable of F: F1; Unschedulable of G: G2\nc 0: \nd: Unschedulable of G: G3",
			fails:  `running PreScore plugin "T": broken`,
		},
		"scores that are skipped": {
			change: func(x *small) { x.p.Scores[2].Set(nil).(*setRating).skips = true },
			want: "a 198: S 2*0, L 3*66\nb: UnschedulableAndUnresolvable of F: F1; Unschedulable of G: G2\n" +
				"c 314: S 2*7, L 3*100\nd: Unschedulable of G: G3",
		},
		"room for a nominated pod": {
			change: func(x *small) {
				ruleOf(x.p.Filters[1]).reads, ruleOf(x.p.Filters[1]).codes = model.Usage, map[string]reason.Code{"a": 6, "c": 7}
				plugintest.Set(x.s, build.Pod(build.Named("other"), build.NominatedNodeName("c"), priority(1)))
			},
			want: "a 335: S 2*0, L 3*100, T 5*7\nb: UnschedulableAndUnresolvable of F: F1\nc: Unschedulable of G: G7\nd 25: S 2*0, L 3*0, T 5*5",
		},
		"nominated itself, to a node that is not named": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"a"}}}).PreFilter}
				ruleOf(x.p.Filters[0]).codes["c"] = 4
			},
			pod:  []build.PodOption{build.NominatedNodeName("c")},
			want: "a 0: \nb: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [F N]\nc: Unschedulable of F: F4\nd: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [F N]",
		},
		"nominated itself, to a node that fits and is not named": {
			change: func(x *small) {
				x.p.PreFilters = []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", plugin.PreFilterResult{Narrowed: true, Nodes: []string{"a"}}}).PreFilter}
			},
			pod: []build.PodOption{build.NominatedNodeName("c")},
			want: "a 233: S 2*0, L 3*66, T 5*7\nb: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [N]\n" +
				"c 314: S 2*7, L 3*100, T 5*0\nd: UnschedulableAndUnresolvable of : node(s) didn't satisfy plugin(s) [N]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSmall(t, &plugin.Profile{
				Filters: plugintest.Filters(
					&rule{name: "F", codes: map[string]reason.Code{"b": 1 | hard}},
					&rule{name: "G", codes: map[string]reason.Code{"b": 2, "d": 3}},
				),
				Scores: []plugin.Weighted{
					{Score: plugintest.PartsOf(&rating{name: "S", raw: map[string]int32{"b": 99, "c": 7}}).Score, Weight: 2},
					{Score: plugintest.PartsOf(&rating{name: "L", how: model.Largest, raw: map[string]int32{"a": 2, "c": 3, "b": 99}}).Score, Weight: 3},
					{Score: plugintest.PartsOf(&setRating{together: together{name: "T", scores: map[string]int64{"a": 7, "d": 5}}}).Score, Weight: 5},
				},
			}, "d", "b", "a", "c")
			if test.change != nil {
				test.change(x)
			}
			pod := x.pod(test.pod...)
			for _, what := range []string{"first", "again"} {
				answer, err := x.Answer(x.s.View(), pod)
				if err != nil || answer.Pod != pod || answer.Profile != v1.DefaultSchedulerName {
					t.Errorf("%s: %v; about %v, by %s", what, err, answer.Pod, answer.Profile)
				}
				if got := answerText(answer.Nodes); got != test.want {
					t.Errorf("%s: got\n%s\nwant\n%s", what, got, test.want)
				}
				if got := answer.Decision.Err; (got != nil) != (test.fails != "") || got != nil && got.Error() != test.fails {
					t.Errorf("%s: the decision's error is %v, want %q", what, got, test.fails)
				}
			}
		})
	}
}

// TestAnswersWithoutCycle: a pod of another scheduler has no answer, and a malformed pod
// is rejected on all nodes.
func TestAnswersWithoutCycle(t *testing.T) {
	x := newSmall(t, &plugin.Profile{}, "a", "b")
	pod := x.pod()
	pod.SchedulerName = "other"
	if answer, err := x.Answer(x.s.View(), pod); err == nil || err.Error() != `no profile for scheduler name "other"` || answer.Pod != nil {
		t.Errorf("%v, %+v", err, answer)
	}
	pod = x.pod()
	pod.Malformed, pod.Needs = "odd", nil
	answer, err := x.Answer(x.s.View(), pod)
	if got, want := answerText(answer.Nodes), "a: UnschedulableAndUnresolvable of : odd\nb: UnschedulableAndUnresolvable of : odd"; err != nil || got != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	pod.Terminating = true // a terminating pod is not decided
	if answer, err = x.Answer(x.s.View(), pod); err != nil || answer.Nodes != nil || answer.Decision.Outcome != plan.Terminating {
		t.Errorf("%v, %+v", err, answer)
	}
}

// TestAnswerEndsItsTurns: out-of-tree plugins see the end of each turn, whatever its
// result: the decision's turn and the answer's.
func TestAnswerEndsItsTurns(t *testing.T) {
	for name, result := range map[string]plugin.PreFilterResult{"passes": {}, "rejects": {Rejection: "no"}, "fails": {Err: errors.New("no")}} {
		o := &noted{}
		x := newSmall(t, &plugin.Profile{External: o, PreFilters: []*plugin.PreFilter{plugintest.PartsOf(&preFilter{"N", result}).PreFilter}}, "a")
		if _, err := x.Answer(x.s.View(), x.pod()); err != nil {
			t.Error(err)
		}
		got := strings.Join(o.calls, " ")
		if name == "passes" {
			got = strings.Replace(got, " Reserve Bind PostBind", "", 1)
		}
		if got != "begin end begin end" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
