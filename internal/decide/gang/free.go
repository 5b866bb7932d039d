package gang

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// free gives back what a plugin finds in the way of a group that was rejected. What it looks at are the turns of the members, which are taken once more for that if any of them has
// such objects. As in kube-scheduler nothing is given back for a tree, nor for a group that is placed in one domain of a topology key.
func (a *attempt) free(p plugin.GroupFreeing) (plugin.GroupFreed, error) {
	v := a.state.View()
	if a.tree != nil || a.profile.Placements != nil && a.Group.Object.Spec.SchedulingConstraints != nil {
		return plugin.GroupFreed{}, nil
	}
	var notes []any
	if a.hopeless { // no member had a turn
		notes = []any{}
	} else if slices.ContainsFunc(a.tried, func(i int) bool { return p.ConcernsGroup(v, a.Members[i].Pods[0].Pod) }) {
		notes = a.notesOf(p)
	}
	first := &a.Members[a.tried[0]]
	freed, err := p.FreeForGroup(v, a.Group, first.Pods[0].Pod, notes)
	first.Writes = append(first.Writes, freed.Writes...)
	return freed, err
}

// notesOf repeats the pass over the members that was in vain, and returns what the plugin notes of each turn. Of a turn that fails it notes nothing.
func (a *attempt) notesOf(p plugin.GroupFreeing) []any {
	b := a.again()
	notes := []any{}
	b.shows = func(v state.View, member *model.Pod) {
		_ = a.engine.ShowTurn(v, member, func(c plugin.Cycle) {
			if note := p.Member(c, member); note != nil {
				notes = append(notes, note)
			}
		})
	}
	_, _ = b.tryOn(a.within) // it ends as it did before
	b.takeBack()
	return notes
}
