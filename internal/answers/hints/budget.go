package hints

import "time"

const (
	// Searches may take 1/share of the loop's time.
	share = 100
	// maxSaved limits the saved time, so searches never run longer at once. A single step
	// is not interrupted.
	maxSaved = 5 * time.Millisecond
)

// The cost of work without a clock: about its time on a processor of 2020.
const (
	stepCost  = 20 * time.Microsecond // such as copying and compiling a pod
	visitCost = 5 * time.Nanosecond
	askCost   = 100 * time.Nanosecond
)

// costOf returns the cost of visiting nodes and calling plugins.
func costOf(visited, asked int64) time.Duration {
	return stepCost + time.Duration(visited)*visitCost + time.Duration(asked)*askCost
}

// budget is the time that searches may take. It grows with the loop's time. A step that
// takes longer than expected overdraws it, and the next step then waits.
type budget struct {
	saved time.Duration
	last  time.Time // time of the last earn
	// step is the expected time of a step: the last one, or slightly less than an earlier
	// and longer one.
	step time.Duration
}

func newBudget() budget { return budget{saved: maxSaved} }

// earn adds the budget for the loop's time since the last call.
func (b *budget) earn(now time.Time) {
	if !b.last.IsZero() && !now.After(b.last) {
		return
	}
	if !b.last.IsZero() {
		b.saved = min(b.saved+now.Sub(b.last)/share, maxSaved)
	}
	b.last = now
}

// needs returns the budget that a step requires.
func (b *budget) needs() time.Duration { return max(1, min(b.step, maxSaved)) }

// affords reports whether the budget suffices for a step.
func (b *budget) affords() bool { return b.saved >= b.needs() }

func (b *budget) spend(cost time.Duration) {
	b.saved -= cost
	b.step = max(cost, b.step-b.step/4)
}

// next returns the time when the budget suffices for a step.
func (b *budget) next() time.Time {
	return b.last.Add(max(0, b.needs()-b.saved) * share)
}
