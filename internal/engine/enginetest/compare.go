package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/state"
)

// outcome is the part of a result on which engine and oracle must agree.
type outcome struct {
	Nodes   []plan.NodeAnswer
	Message string
	Error   string
}

// Compare runs the engine for a compiled pod in a view and returns the differences from the oracle's result, engine (-) and oracle (+); "" if
// there are none.
func Compare(v state.View, e *engine.Engine, pod *model.Pod, want oracle.Judgment) string {
	answer, err := e.Answer(v, pod)
	if err != nil {
		return err.Error()
	}
	d := &answer.Decision
	got := outcome{Nodes: answer.Nodes}
	for i := range got.Nodes {
		got.Nodes[i].Rejections = WithoutFailures(got.Nodes[i].Rejections)
	}
	chosen := ""
	switch d.Outcome {
	case plan.Placed:
		chosen = d.Placements[0].NodeName
	case plan.Unschedulable: // without what PostFilter plugins say
		got.Message = d.Rejection.Text(d.Nodes)
	default:
		got.Error = report.Message(d)
	}
	expected := expectedOf(want)
	if failsInParsing(got.Error, expected.Error) {
		return ""
	}
	if diff := cmp.Diff(got, expected); diff != "" && !(chosen != "" && failsElsewhere(want)) {
		return diff
	}
	if chosen != "" && !slices.Contains(want.Best, chosen) {
		return fmt.Sprintf("chosen: %s, best: %v", chosen, want.Best)
	}
	if (chosen != "") != (len(want.Best) > 0) {
		return fmt.Sprintf("chosen: %q, feasible: %d", chosen, want.Feasible)
	}
	return ""
}

// failsElsewhere reports whether the pod is nominated to a node that will do, so that nobody asks about the others, and a filter fails on one of
// these: there is no full answer then.
func failsElsewhere(want oracle.Judgment) bool {
	return want.Nominated != "" && slices.ContainsFunc(want.Nodes, func(n oracle.NodeJudgment) bool { return !n.Feasible && len(n.Rejections) == 0 })
}

// failsInParsing reports whether both fail in the same plugin. The texts of parse errors are the library's, and if filters fail on several nodes, or
// for several pods on one, any of the errors will do; so only the failure and its extension point are compared. There are no scores then.
func failsInParsing(got, want string) bool {
	start := pluginFailure(got)
	return start != "" && start == pluginFailure(want)
}

// pluginFailure returns the start of an error's text, such as `running PreScore plugin "NodeAffinity":`.
func pluginFailure(text string) string {
	if start, _, found := strings.Cut(text, `": `); found && strings.HasPrefix(start, "running Pre") {
		return start
	}
	if strings.HasPrefix(text, `running "`) && strings.Contains(text, filterFailure) {
		return filterFailure // of whichever node was looked at first
	}
	return ""
}

const filterFailure = `" filter plugin: `

// WithoutFailures leaves out the filters that fail on a node behind a rejection: the oracle does not ask them, while the engine's answer says so.
func WithoutFailures(all []reason.Rejection) []reason.Rejection {
	return slices.DeleteFunc(slices.Clone(all), func(r reason.Rejection) bool { return len(r.Reasons) == 1 && pluginFailure(r.Reasons[0]) != "" })
}

func expectedOf(want oracle.Judgment) outcome {
	o := outcome{Message: want.Message}
	switch {
	case want.Err != nil:
		o.Error = want.Err.Error()
	case len(want.Nodes) == 0:
		o.Error, o.Message = o.Message, ""
	}
	for _, n := range want.Nodes {
		node := plan.NodeAnswer{Name: n.Node, Feasible: n.Feasible}
		for _, r := range n.Rejections {
			node.Rejections = append(node.Rejections, reason.Rejection{Plugin: r.Plugin, Unresolvable: r.Unresolvable, Reasons: r.Reasons})
		}
		if want.Feasible > 1 { // a single feasible node is not scored
			node.Total = n.Total
			for _, s := range n.Scores {
				node.Scores = append(node.Scores, plan.Score{Plugin: s.Plugin, Weight: s.Weight, Score: s.Score})
			}
		}
		o.Nodes = append(o.Nodes, node)
	}
	return o
}
