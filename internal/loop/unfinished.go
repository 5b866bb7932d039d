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

// goOnLater ends a round whose turn used up its budget, and puts the pods back into the
// queue. Nothing was decided, so neither commit nor an observer gets a decision.
func (l *Loop) goOnLater(now time.Time, unfinished *plan.Attempt) {
	l.report.paused()
	l.takeAsked(now, nil)
	l.queue.Settle(now, unfinished)
	l.unfinished = true
	l.report.ended(l)
}
