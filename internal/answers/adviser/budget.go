package adviser

import "time"

const (
	// share is the part of the loop's time that searches may take: one in so many.
	share = 100
	// savedMax is how much of that is saved up at most, so that searches take no longer at a time; but a single step takes as long as it takes.
	savedMax = 5 * time.Millisecond
)

// What work is counted to, where there is no clock: about what it takes on a processor of 2020.
const (
	stepCost  = 20 * time.Microsecond // to copy and compile a pod, say
	visitCost = 5 * time.Nanosecond
	askCost   = 100 * time.Nanosecond
)

// costOf is what so many nodes that were looked at, and plugins asked about nodes, are counted to.
func costOf(visited, asked int64) time.Duration {
	return stepCost + time.Duration(visited)*visitCost + time.Duration(asked)*askCost
}

// budget is the time that searches may take. It is earned as the loop's time passes, and may be overdrawn by a step that takes longer than was expected: then the next one waits.
type budget struct {
	saved time.Duration
	last  time.Time // until when it was earned
	// step is what a step takes, about: the last one, or a little less than one before that took longer.
	step time.Duration
}

func newBudget() budget { return budget{saved: savedMax} }

// earn takes in the loop's time.
func (b *budget) earn(now time.Time) {
	if !b.last.IsZero() && !now.After(b.last) {
		return
	}
	if !b.last.IsZero() {
		b.saved = min(b.saved+now.Sub(b.last)/share, savedMax)
	}
	b.last = now
}

// needs is what must be saved before a step begins.
func (b *budget) needs() time.Duration { return max(1, min(b.step, savedMax)) }

// affords reports whether there is time for a step.
func (b *budget) affords() bool { return b.saved >= b.needs() }

func (b *budget) spend(cost time.Duration) {
	b.saved -= cost
	b.step = max(cost, b.step-b.step/4)
}

// next is when there is time for a step.
func (b *budget) next() time.Time {
	return b.last.Add(max(0, b.needs()-b.saved) * share)
}
