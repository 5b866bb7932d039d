package gang

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// free runs a plugin that releases resources, such as claims, which block a rejected
// group. The plugin inspects the decision about each member, so these are repeated if a
// member has such resources. As in kube-scheduler, nothing is released for a tree, nor
// for a group that must be placed in one domain of a topology key.
func (a *attempt) free(p *plugin.GroupFreeing) (plugin.GroupFreed, error) {
	v := a.state.View()
	if a.tree != nil || a.profile.Placements != nil && a.Group.Object.Spec.SchedulingConstraints != nil {
		return plugin.GroupFreed{}, nil
	}
	var notes []plugin.GroupNote
	if a.hopeless { // no member had a turn
		notes = []plugin.GroupNote{}
	} else if slices.ContainsFunc(a.tried, func(i int) bool { return p.Concerns(v, a.Members[i].Pod) }) {
		notes = a.notesOf(p)
	}
	first := &a.Members[a.tried[0]]
	freed, err := p.Free(v, a.Group, first.Pod, notes)
	first.Writes = append(first.Writes, freed.Writes...)
	return freed, err
}

// notesOf repeats the failed pass over the members and returns the plugin's note of each
// turn. A turn that fails has no note.
func (a *attempt) notesOf(p *plugin.GroupFreeing) []plugin.GroupNote {
	b := a.again()
	notes := []plugin.GroupNote{}
	b.shows = func(v state.View, member *model.Pod) {
		_ = a.engine.ShowTurn(v, member, func(c plugin.Cycle) {
			if note := p.Member(c, member); note != nil {
				notes = append(notes, note)
			}
		})
	}
	_, _ = b.tryOn(a.within) // the result is the same as before
	b.revert()
	return notes
}
