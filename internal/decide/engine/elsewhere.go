package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Elsewhere returns the aspects of nodes outside the view's restriction that a decision
// about a pod reads. ok is false if the decision reads anything else outside: counts of
// pods, shared devices, or the input of out-of-tree plugins and extenders. The result is
// valid until the state's versions of affinity terms or default selectors change.
func (e *Engine) Elsewhere(v state.View, pod *model.Pod) (aspects model.Aspect, ok bool) {
	defer e.aside(v)()
	c, err := e.cycleOf(v, pod)
	if err != nil || c == nil || c.asksOutside() || c.counts() || slices.ContainsFunc(c.own, isOwn) {
		return 0, false
	}
	var some [1]int32 // any node
	for slot := range v.EachToChooseAmong(nil) {
		some[0] = slot
		break
	}
	for i := range c.profile.scorers {
		s := &c.profile.scorers[i]
		switch {
		case s.turn != nil:
			return 0, false
		case s.set != nil:
			if scores, err := e.setScores(c, i, some[:]); scores != nil || err != nil {
				return 0, false
			}
			continue
		}
		column, err := e.scoreColumn(c, i, s.column)
		switch {
		case err != nil || column != nil && column.following != nil:
			return 0, false
		case column != nil && column.scores.Classes != nil: // classes depend on all nodes
			aspects |= s.column.Reads | model.Presence
		}
	}
	return aspects, true
}

func isOwn(need plugin.FilterNeed) bool { return need != nil }
