package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/outside"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// outsideCase compares the verdicts, up to Permit, on every pending pod of a case with
// external plugins or extenders.
func (p Pair) outsideCase(tc cases.Case) (Result, error) {
	served := outside.Serve(tc.Nodes, tc.Pods)
	defer served.Close()
	tc.Config = served.Config(tc.Config)
	theirs, err := p.load(tc.Clone())
	if err != nil {
		return Result{}, err
	}
	defer theirs.Close()
	// Explanations and decisions use separate plugins, because a runtime belongs to one
	// engine.
	explains, err := p.newHosted(tc.Config)
	if err != nil {
		return Result{}, err
	}
	defer explains.close()
	ours, err := newSnapshot(explains.scheduler, tc.Clone())
	if err != nil {
		return Result{}, err
	}
	hosted, err := p.newHosted(tc.Config)
	if err != nil {
		return Result{}, err
	}
	defer hosted.close()
	decides, err := newDecider(hosted.scheduler, tc.Clone())
	if err != nil {
		return Result{}, err
	}
	objects := map[string]*v1.Pod{}
	for _, p := range tc.Pods {
		objects[p.Namespace+"/"+p.Name] = p
	}
	total := Result{missing: hosted.scheduler.Missing}
	for _, pod := range ours.Pending() {
		if pod.Terminating {
			continue // it would not be tried
		}
		verdict, err := theirs.Explain(objects[pod.String()].DeepCopy())
		if err != nil {
			return Result{}, err
		}
		a, err := ours.Tried(pod)
		if err != nil {
			return Result{}, err
		}
		hosted.plugins.Calls()
		d := decides.decide(pod)
		calls := hosted.plugins.Calls()
		if n := len(verdict.Errs); n > 0 && n == verdict.Behind && (d.Err == nil || scoring(d.Err.Error())) {
			continue // Berth did not call the plugin for a node that built-in filters reject
		}
		c := comparison{pod: a.Pod, missing: total.missing}
		c.outside(theirs, verdict, &d, calls)
		if verdict.Preemption != nil {
			if verdict.Preemption.Mode == upstream.Set {
				total.Preempted++
			}
			if own := report.Message(&d); withoutNodes(own) == withoutNodes(verdict.Message) {
				verdict.Message = own
			}
			c.preemption(&d, pod, verdict)
		}
		alike(a, verdict, len(calls) > 0 && d.Err != nil)
		total.nodes(&c, a, verdict)
	}
	return total, nil
}

// outside compares a decision with kube-scheduler's, except for the part from preemption.
// calls are the calls of Berth's plugins from Reserve on. kube-scheduler's plugins run
// for the node that Berth has chosen.
func (c *comparison) outside(theirs KubeScheduler, verdict *upstream.Verdict, d *plan.Decision, calls []string) {
	chosen := outside.NodeOf(calls)
	var total int64
	var waits []string
	if d.Outcome == plan.Placed {
		p := &d.Placement
		chosen, total, waits = p.NodeName, p.Total, waitsOf(p)
	}
	if chosen != "" || len(verdict.Best) > 0 {
		if !slices.Contains(verdict.Best, chosen) {
			c.differ("", "chosen node", fmt.Sprintf("one of %v, error %v", verdict.Best, verdict.Err), fmt.Sprintf("%q, %s %q", chosen, d.Outcome, report.Message(d)))
			return
		}
		at := slices.IndexFunc(verdict.Nodes, func(n upstream.Node) bool { return n.Name == chosen })
		if d.Outcome == plan.Placed && d.Feasible > 1 {
			c.differ(chosen, "total", fmt.Sprint(verdict.Nodes[at].Total+verdict.Nodes[at].Extended), fmt.Sprint(total))
		}
		after, theirCalls, theirWaits := theirs.Commit(chosen)
		*verdict = *after
		c.differ("", "calls", strings.Join(theirCalls, ", "), strings.Join(calls, ", "))
		c.differ("", "waits", fmt.Sprint(theirWaits), fmt.Sprint(waits))
	}
	var failure, message, by string
	switch d.Outcome {
	case plan.Failed:
		failure = d.Err.Error()
	case plan.Unschedulable:
		message, by = d.Rejection.Text(d.Nodes), fmt.Sprint(d.Rejection.Plugins, d.Rejection.Pending)
	case plan.NoNodes:
		message = report.Message(d)
	}
	theirFailure, theirMessage := theirTexts(verdict, failure)
	// kube-scheduler names any of several plugins that fail there
	if scoring(theirFailure) && scoring(failure) {
		failure = theirFailure
	}
	c.differ("", "error", quoted(theirFailure), quoted(failure))
	c.differ("", "message", quoted(theirMessage), quoted(message))
	if theirMessage != "" && verdict.Err == nil {
		c.differ("", "rejected by, pending", fmt.Sprint(verdict.Plugins, verdict.Pending), by)
	}
}

var emptied = regexp.MustCompile(`expected at least one victim pod on node "[^"]*"`)

// scoring reports whether an error is from Score or NormalizeScore.
func scoring(text string) bool {
	return strings.HasPrefix(text, "running Score plugins") || strings.HasPrefix(text, "running Normalize") || strings.HasPrefix(text, "applying score")
}

// withoutNodes removes the names of nodes without victims after an extender's answer,
// because kube-scheduler names any of them.
func withoutNodes(text string) string {
	return emptied.ReplaceAllString(text, "expected at least one victim pod")
}

// alike removes the parts that explanations lack: the scores of a pod that fails at
// Reserve or Permit, and, for a rejection at PreFilter, the plugins and their reasons, as
// all nodes have the same text.
func alike(a *explain.Explanation, verdict *upstream.Verdict, failed bool) {
	if len(verdict.Errs) > 0 { // the turn has ended after only some of the nodes
		verdict.Nodes = nil
	}
	for i := range verdict.Nodes {
		theirs := &verdict.Nodes[i]
		if failed {
			theirs.Scores = nil
		}
		if theirs.First == nil || theirs.All != nil || i >= len(a.Nodes) || len(a.Nodes[i].Rejections) != 1 {
			continue
		}
		own := &a.Nodes[i].Rejections[0]
		if first := theirs.First; own.Plugin == "" || len(own.Reasons) == 1 {
			first.Reasons = []string{strings.Join(first.Reasons, ", ")}
			if own.Plugin == "" {
				first.Plugin = ""
			}
		}
	}
}

// waitsOf returns the plugins for which the placement waits at Permit, with their
// timeouts.
func waitsOf(p *plan.Placement) []string {
	var all []string
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Stage == plan.Permit {
			all = append(all, fmt.Sprintf("%s %v", s.Plugin, s.Wait.Timeout))
		}
	}
	slices.Sort(all)
	return all
}
