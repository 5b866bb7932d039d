package loop

import (
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// noteGroups adds the writes of the conditions of PodGroups to an attempt for a group or
// a tree.
func (l *Loop) noteGroups(a *plan.Attempt) {
	if a.Group == nil {
		return
	}
	if a.Tree == nil {
		l.noteGroup(a, &a.Members[0])
	}
	for i := range a.Below {
		// a running group has no member in the attempt
		below, with := &a.Below[i], &a.Members[0]
		if len(below.Members) > 0 {
			with = &below.Members[0]
		}
		l.noteGroup(below, with)
	}
}

// noteGroup adds the write of a PodGroup's condition to the decision about a member.
func (l *Loop) noteGroup(a *plan.Attempt, with *plan.Decision) {
	if a.Outcome == plan.Placed {
		l.state.NoteGroupScheduled(a.Group)
	}
	if a.Outcome == plan.Terminating || a.Outcome != plan.Placed && l.state.View().GroupScheduled(a.Group) {
		return
	}
	if write := report.WriteAfter(a, l.state.View().Wall()); write != nil {
		with.Writes = append(with.Writes, *write)
	}
}
