package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// outcome is the part of a result on which engine and oracle must agree.
type outcome struct {
	Nodes   []plan.NodeAnswer
	Message string
	Error   string
	Makes   room
}

// room is the effect on other pods and nominations. Pods are written as namespace/name.
type room struct {
	Victims   []string // the most important first
	Nominated string   // the node, or ""
	Clears    []string // the pods that lose their nomination, by name
}

// Compare runs the engine for a compiled pod in a view and returns the differences from
// the oracle's result, engine (-) and oracle (+). Equal results return "".
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
		chosen = d.Placement.NodeName
	case plan.Unschedulable:
		got.Message = report.Message(d)
	default:
		got.Error = report.Message(d)
	}
	got.Makes = roomOf(d)
	candidate, message, ok := want.Outcome(got.Makes.Nominated)
	if d.Outcome == plan.Unschedulable && !ok {
		return fmt.Sprintf("nominated to %q, want one of %s; %s", got.Makes.Nominated, candidates(want), got.Message)
	}
	expected := expectedOf(want, pod.Object, candidate, message)
	if failsInParsing(got.Error, expected.Error) || failsInPreemption(got.Message, expected.Message) {
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

// failsElsewhere reports whether a filter fails on a node that a decision does not
// consider, because the pod's nominated node is feasible. Then the engine has no full
// answer.
func failsElsewhere(want oracle.Judgment) bool {
	return want.Nominated != "" && slices.ContainsFunc(want.Nodes, func(n oracle.NodeJudgment) bool { return !n.Feasible && len(n.Rejections) == 0 })
}

// failsInParsing reports whether both fail in the same plugin. Only the failure and its
// extension point are compared, and scores are missing then. The texts of parse errors
// are the library's. If filters fail on several nodes, or for several pods on one node,
// any of the errors is right.
func failsInParsing(got, want string) bool {
	start := pluginFailure(got)
	return start != "" && start == pluginFailure(want)
}

// pluginFailure returns the start of an error's text. An example is `running PreScore
// plugin "NodeAffinity":`.
func pluginFailure(text string) string {
	if start, _, found := strings.Cut(text, `": `); found && strings.HasPrefix(start, "running Pre") {
		return start
	}
	if strings.HasPrefix(text, `running "`) && strings.Contains(text, filterFailure) {
		return filterFailure // the node may be any
	}
	return ""
}

const filterFailure = `" filter plugin: `

// WithoutFailures drops the filters that fail on a node after another filter's rejection.
// The oracle does not run these, but the engine's answer has them.
func WithoutFailures(all []reason.Rejection) []reason.Rejection {
	return slices.DeleteFunc(slices.Clone(all), func(r reason.Rejection) bool { return len(r.Reasons) == 1 && pluginFailure(r.Reasons[0]) != "" })
}

// failsInPreemption reports whether preemption fails in both with the text of an error,
// after the same rejection.
func failsInPreemption(got, want string) bool {
	rejected, text, _ := strings.Cut(got, " preemption: ")
	alsoRejected, alsoText, _ := strings.Cut(want, " preemption: ")
	return rejected == alsoRejected && strings.Contains(text, filterFailure) && strings.Contains(alsoText, filterFailure)
}

func roomOf(d *plan.Decision) (r room) {
	for _, n := range d.Nominations {
		switch n.Mode {
		case plan.Set:
			r.Nominated = n.NodeName
		case plan.Clear:
			r.Clears = append(r.Clears, n.Pod.Key().String())
		}
	}
	slices.Sort(r.Clears)
	for _, e := range d.Evictions {
		r.Victims = append(r.Victims, e.Pod.Key().String())
		if e.NodeName != r.Nominated || e.NodeName != e.Pod.NodeName {
			r.Victims = append(r.Victims, fmt.Sprintf("is on %s, not on %s", e.Pod.NodeName, e.NodeName))
		}
	}
	return r
}

// candidates lists the outcomes that the oracle accepts.
func candidates(want oracle.Judgment) string {
	if want.Preemption == nil {
		return "none"
	}
	text := ""
	for _, c := range want.Preemption.Candidates {
		text += fmt.Sprintf("%s (victims %v, %d violations), ", c.Node, names(c.Victims), c.Violations)
	}
	return text + want.Preemption.Text
}

func names(pods []*v1.Pod) (all []string) {
	for _, p := range pods {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return all
}

// roomFor returns the effect that the oracle expects of a decision that takes the
// candidate.
func roomFor(want oracle.Judgment, pod *v1.Pod, c oracle.Candidate) room {
	r := room{Victims: names(c.Victims), Nominated: c.Node, Clears: names(c.Outranked)}
	fails := want.Err != nil || len(want.Nodes) == 0 || len(want.Best) == 0 && want.Preemption == nil
	if pod.Status.NominatedNodeName != "" && (fails || want.Preemption != nil && want.Preemption.Clears) {
		r.Clears = append(r.Clears, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(r.Clears)
	return r
}

func expectedOf(want oracle.Judgment, pod *v1.Pod, candidate oracle.Candidate, message string) outcome {
	o := outcome{Message: message, Makes: roomFor(want, pod, candidate)}
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
