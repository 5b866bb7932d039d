package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/price"
)

// turnBudget is how many units of work a turn may cost in one round, where it can stop
// and go on. An ordinary turn costs a thousandth of it.
const turnBudget = 20 * price.Millisecond

// goOnLater ends a round whose turn used up its budget. settle puts the pods back into
// the queue. Nothing was decided about them, so neither commit nor an observer gets a
// decision.
func (l *Loop) goOnLater(now time.Time, settle func()) {
	l.takeAsked(now, nil)
	settle()
	l.unfinished = true
	l.report.ended(l)
}

// charge takes in what a turn cost. It returns what the event of its first pod is to say
// of that, nil if nothing.
func (l *Loop) charge(work plan.Work, unfinished bool) *plan.Deferral {
	bill := l.state.Meter().End()
	l.report.cost(bill)
	return l.queue.Charge(work, &bill, unfinished)
}
