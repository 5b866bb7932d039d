package engine

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Timing measures the built-in plugins of sampled decisions. The engine has no clock and
// never reads a time: it only reports when the code of a plugin begins and ends. Plugins
// are called alike in sampled and in other decisions.
//
// Filter and Score are not reported node by node, but with all nodes of a column at once.
// A result that is cached takes no time of the plugin and is not reported.
type Timing interface {
	// Sample is called when a decision begins. It reports whether the plugins of this
	// decision are measured.
	Sample() bool
	// Begin is called before the code of a plugin runs, End after it. A second End
	// measures from the first.
	Begin()
	End(point, plugin string, status Status)
}

// Status is the result of a plugin at an extension point, in the order of severity.
type Status uint8

// The statuses.
const (
	Success Status = iota
	Skip
	Unschedulable
	Unresolvable
	Failed
	Statuses
)

// The extension points that Timing gets, by kube-scheduler's names.
const (
	preFilterPoint  = "PreFilter"
	filterPoint     = plan.FilterPoint
	postFilterPoint = "PostFilter"
	preScorePoint   = "PreScore"
	scorePoint      = "Score"
	reservePoint    = "Reserve"
)

// begin reports that the code of a plugin begins. Outside of sampled decisions, begin and
// end cost one branch.
func (e *Engine) begin() {
	if e.sampled {
		e.timing.Begin()
	}
}

// end reports that the code of a plugin has ended.
func (e *Engine) end(point, name string, status Status) {
	if e.sampled {
		e.timing.End(point, name, status)
	}
}

// endAt is end for a filter of the profile.
func (e *Engine) endAt(point string, p *profile, filter int, status Status) {
	if e.sampled {
		e.timing.End(point, p.nameOf(filter), status)
	}
}

// failedIf returns Failed for an error, and Success otherwise.
func failedIf(err error) Status {
	if err != nil {
		return Failed
	}
	return Success
}

// statusOf returns the status of a PreFilter plugin without nodes of its own.
func statusOf(skips bool, rejection string, err error) Status {
	switch {
	case err != nil:
		return Failed
	case rejection != "":
		return Unresolvable
	case skips:
		return Skip
	}
	return Success
}

// runPreFilter calls a PreFilter plugin. What the engine does for it is part of its time.
func (e *Engine) runPreFilter(f *plugin.PreFilter, v state.View, pod *model.Pod) plugin.PreFilterResult {
	if !e.sampled {
		return f.Run(v, pod)
	}
	e.timing.Begin()
	e.sampled = false
	result := f.Run(v, pod)
	if e.sampled = true; f.Measured {
		return result
	}
	status := statusOf(false, result.Rejection, result.Err)
	if status == Unresolvable && result.Resolvable {
		status = Unschedulable
	}
	e.timing.End(preFilterPoint, f.Name, status)
	return result
}

// runPostFilter calls a PostFilter plugin. The filters of its dry runs are part of its
// time.
func (e *Engine) runPostFilter(p *plugin.PostFilter, c *postFilterCycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	if !e.sampled {
		return p.Run(c, pod)
	}
	e.timing.Begin()
	e.sampled = false
	result, err := p.Run(c, pod)
	if e.sampled = true; p.Measured {
		return result, err
	}
	status := Unschedulable
	switch {
	case err != nil:
		status = Failed
	case result.Nomination == plan.Set:
		status = Success
	}
	e.timing.End(postFilterPoint, p.Name, status)
	return result, err
}

// endFilter is end for the verdict of a filter on a node.
func (e *Engine) endFilter(c *cycle, i int, code reason.Code) {
	if i >= len(c.profile.Filters) || c.profile.Filters[i].Turn != nil { // extenders, and out-of-tree plugins
		return
	}
	status := Success
	if code.IsFailed() {
		status = Failed
	}
	e.timing.End(filterPoint, c.profile.nameOf(i), status)
}

// timedAmounts measures the scores of an index in a sampled decision.
type timedAmounts struct {
	plugin.AmountScores
	engine *Engine
	name   string
}

// ScoreAmounts measures the plugin's ScoreAmounts.
func (t *timedAmounts) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) {
	t.engine.begin()
	t.AmountScores.ScoreAmounts(nodes, scores)
	t.engine.end(scorePoint, t.name, Success)
}

// BoundAmounts measures the plugin's BoundAmounts.
func (t *timedAmounts) BoundAmounts(box *plugin.AmountBox) int32 {
	t.engine.begin()
	bound := t.AmountScores.BoundAmounts(box)
	t.engine.end(scorePoint, t.name, Success)
	return bound
}
