package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Shown is the cycle of PostFilter plugins, with the methods for preemption.
type Shown = postFilterCycle

// Facts returns the constants of the turn.
func (p *postFilterCycle) Facts() preempt.Facts { return p.facts() }

// DryRun returns the filters' verdicts on a node in a dry run, as a PostFilter plugin
// gets them. ok is false if the cycle has no filters to run: PreFilter rejected the pod
// or named other nodes.
func (e *Engine) DryRun(v state.View, pod *model.Pod, dryRun *state.Draft, slot int32) (all []reason.Rejection, ok bool) {
	c, rejection, err := e.preFilter(v, e.profiles[pod.SchedulerName], pod)
	if rejection != nil || err != nil || len(c.narrowed.by) > 0 {
		return nil, false
	}
	e.prepare(&c)
	f := e.filtersIn(&c, dryRun.View(), filters{})
	return c.allObjections(&f, slot), true
}

// Feasible returns the nodes that a decision about the pod would choose from. A PreFilter
// plugin that rejects the pod is an error of the test.
func (e *Engine) Feasible(v state.View, pod *model.Pod) ([]int32, error) {
	c, rejection, err := e.preFilter(v, e.profiles[pod.SchedulerName], pod)
	if rejection != nil {
		panic(rejection.PreFilter)
	}
	if err != nil {
		return nil, err
	}
	e.prepare(&c)
	slots, err := e.filter(&c)
	return slices.Clone(slots), err
}

// SetMostGroups bounds the groups of a table.
func (e *Engine) SetMostGroups(n int32) { e.maxGroups = n }

// ScanOnly makes every decision scan.
func (e *Engine) ScanOnly() { e.withoutRanking = true }

// AlwaysIndex decides by an index wherever it can, from the first pod on.
func (e *Engine) AlwaysIndex() { e.alwaysIndex = true }

// RankingKeys returns the number of known keys of rankings.
func (e *Engine) RankingKeys() int { return len(e.rankings.byKey) }
