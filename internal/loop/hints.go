package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Hints searches for the smallest changes that would give pending pods a node. It works
// in short steps on the loop's goroutine and limits its own cost. It must not change
// engine or state.
type Hints interface {
	// Rejected is called after a single pod was found unschedulable, in the state of that
	// decision. It returns a sentence for the FailedScheduling event, or an empty string.
	Rejected(now time.Time, e *engine.Engine, s *state.State, d *plan.Decision) string
	// Search continues the searches. It is called before each round.
	Search(now time.Time, e *engine.Engine, s *state.State)
	// Next returns when Search can continue. ok is false without a search.
	Next() (at time.Time, ok bool)
}

// search continues the searches of Hints.
func (l *Loop) search(now time.Time) {
	if l.hints != nil {
		l.hints.Search(now, l.engine, l.state)
	}
}

// advise adds a hint to the decision about an unschedulable single pod.
func (l *Loop) advise(now time.Time, a *plan.Attempt) {
	if l.hints == nil || a.Group != nil || a.Outcome != plan.Unschedulable {
		return
	}
	d := &a.Members[0]
	d.Advice = l.hints.Rejected(now, l.engine, l.state, d)
	l.report.advised()
}
