package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// Adviser looks for what would give nodes to pods that have none, a bit at a time, on the goroutine of the loop. It must not change engine and state. What it costs it has to bound itself.
type Adviser interface {
	// Rejected is called after the decision that no node will do for a pod that belongs to no group, in the state in which it was made. It returns a sentence for the event about that, empty
	// if none is known.
	Rejected(now time.Time, e *engine.Engine, s *state.State, d *plan.Decision) string
	// Search goes on with what is looked for. It is called before each round.
	Search(now time.Time, e *engine.Engine, s *state.State)
	// Next returns when Search can go on; ok is false if there is nothing to look for.
	Next() (at time.Time, ok bool)
}

// Advise has events about pods without a node say what would help them. It must be called before the first round.
func (l *Loop) Advise(by Adviser) { l.adviser = by }

// search lets the adviser go on.
func (l *Loop) search(now time.Time) {
	if l.adviser != nil {
		l.adviser.Search(now, l.engine, l.state)
	}
}

// advise adds to the decision about a single pod what would help.
func (l *Loop) advise(now time.Time, d *plan.Decision) {
	if l.adviser == nil || d.Outcome != plan.Unschedulable {
		return
	}
	d.Advice = l.adviser.Rejected(now, l.engine, l.state, d)
	l.report.advised()
}
