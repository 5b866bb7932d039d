package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/price"
)

// turnBudget is how many units of work a turn may cost in one round, where it can stop and go on. An ordinary turn costs a
// thousandth of it.
const turnBudget = 20 * price.Millisecond

// goOnLater ends a round whose turn used up its budget. settle puts the pods back into the queue: nothing was decided about them,
// and no observer hears of a decision.
func (l *Loop) goOnLater(now time.Time, settle func()) {
	l.takeAsked(now, nil)
	settle()
	l.unfinished = true
	l.report.ended(l)
}

// charge takes in what a turn cost.
func (l *Loop) charge(_ plan.Work, bill price.Bill) {
	l.report.cost(bill)
}
