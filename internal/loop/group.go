package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// onceForGroup is the rest of a round in which the members of a pod group are decided about.
func (l *Loop) onceForGroup(now time.Time, work plan.Work) {
	d := l.searches.Decide(l.state, l.engine, work, l.report.placements())
	if d.Outcome == plan.Placed {
		l.state.NoteGroupScheduled(work.Group)
	}
	if d.Outcome != plan.Terminating && (d.Outcome == plan.Placed || !l.state.View().GroupScheduled(work.Group)) {
		if write := report.OfGroup(&d, now); write != nil {
			d.Members[0].Writes = append(d.Members[0].Writes, *write)
		}
	}
	l.report.decidedGroup(&d)
	for i := range d.Members {
		l.state.Evict(d.Members[i].Evictions...)
		l.takeAsked(now, d.Members[i].Nominations)
	}
	l.keepRoom(now, &d)
	l.queue.SettleGroup(now, &d)
	for i := range d.Members {
		l.commit.Start(d.Members[i])
		l.wait(&d.Members[i])
	}
}
