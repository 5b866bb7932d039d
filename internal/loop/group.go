package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// onceForGroup continues a round with the decision about a pod group.
func (l *Loop) onceForGroup(now time.Time, work plan.Work) {
	l.state.Meter().Begin(l.budget)
	d := l.searches.Decide(l.state, l.engine, work, l.report.placements())
	d.Members[0].Deferral = l.charge(work, d.Outcome == plan.Unfinished)
	if d.Outcome == plan.Unfinished {
		l.goOnLater(now, func() { l.queue.SettleGroup(now, &d) })
		return
	}
	if d.Tree == nil {
		l.noteGroup(&d, &d.Members[0])
	}
	for i := range d.Below {
		// a running group has no member in the decision
		below, with := &d.Below[i], &d.Members[0]
		if len(below.Members) > 0 {
			with = &below.Members[0]
		}
		l.noteGroup(below, with)
	}
	l.report.decidedGroup(&d)
	for i := range d.Members {
		l.state.Evict(d.Members[i].Evictions...)
		l.state.GiveBack(d.Members[i].Writes...)
		l.takeAsked(now, d.Members[i].Nominations)
	}
	l.keepRoom(now, &d)
	l.queue.SettleGroup(now, &d)
	for i := range d.Members {
		l.commit.Start(d.Members[i])
		l.wait(&d.Members[i])
	}
	l.report.ended(l)
}

// noteGroup adds the write of a PodGroup's condition to the decision about a member.
func (l *Loop) noteGroup(d *plan.GroupDecision, with *plan.Decision) {
	if d.Outcome == plan.Placed {
		l.state.NoteGroupScheduled(d.Group)
	}
	if d.Outcome == plan.Terminating || d.Outcome != plan.Placed && l.state.View().GroupScheduled(d.Group) {
		return
	}
	if write := report.OfGroup(d, l.state.View().Wall()); write != nil {
		with.Writes = append(with.Writes, *write)
	}
}
