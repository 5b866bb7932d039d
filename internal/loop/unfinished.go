package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// turnBudget is the budget of a turn in one round, in units of work, if the turn can stop
// and continue. An ordinary turn costs a thousandth of it.
const turnBudget = 20 * price.Millisecond

// A search restarts when the devices that it reads change. So the budget of a turn
// doubles after every stallRounds unfinished rounds, at most stallDoublings times.
const (
	stallRounds    = 1000
	stallDoublings = 4
)

// goOnLater ends a round whose turn used up its budget. settle puts the pods back into
// the queue. Nothing was decided, so neither commit nor an observer gets a decision.
func (l *Loop) goOnLater(now time.Time, settle func()) {
	l.takeAsked(now, nil)
	settle()
	l.unfinished = true
	l.report.ended(l)
}

// charge closes the bill of a turn and reports it to the observers and the queue. It
// returns the Deferral for the event of the first pod, or nil.
func (l *Loop) charge(work plan.Work, unfinished bool) *plan.Deferral {
	bill := l.state.Meter().End()
	l.report.cost(bill)
	return l.queue.Charge(work, &bill, unfinished)
}
