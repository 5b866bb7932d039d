package engine

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// DryRun returns what the filters of a pod's cycle say of a node in a dry run, as a PostFilter plugin finds out about it. ok is false where
// the cycle has no filters to ask: the pod was rejected before, or a PreFilter plugin named other nodes.
func (e *Engine) DryRun(v state.View, pod *model.Pod, dryRun *state.Draft, slot int32) (all []reason.Rejection, ok bool) {
	c, rejection, err := e.preFilter(v, e.profiles[pod.SchedulerName], pod)
	if rejection != nil || err != nil || len(c.narrowed.by) > 0 {
		return nil, false
	}
	f := e.filtersIn(&c, dryRun.View(), filters{})
	return c.allObjections(&f, slot), true
}
