package loop

import (
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
)

// applyBudget limits the units of work that a round spends on applying changes. Further
// changes are held for the next rounds, so that a burst of giant pods does not delay
// other pods.
const applyBudget = 10 * price.Millisecond

// The approximate cost of applying a change, in units. For pods with few elements the
// base cost suffices, so a number of elements is included.
const (
	changeUnits   = price.Millisecond / 1000
	termUnits     = 4 * changeUnits
	labelUnits    = 2 * changeUnits
	claimUnits    = 3 * changeUnits
	termsIncluded = 8
	otherIncluded = 32
)

// applyUnits returns the approximate cost of applying a change.
func applyUnits(c *model.Change) int64 {
	if c.Kind != model.PodSet {
		return changeUnits
	}
	units := int64(changeUnits) + excess(len(c.Pod.Terms), termsIncluded)*termUnits + excess(len(c.Pod.Labels), otherIncluded)*labelUnits
	if volumes := c.Pod.Volumes; volumes != nil {
		units += excess(len(volumes.Claims), otherIncluded) * claimUnits
	}
	return units
}

func excess(length, included int) int64 { return int64(max(length-included, 0)) }

// drain returns the changes to apply in this round, in the order of the source. The
// first round applies all changes, because no pod may be decided about on a part of the
// cluster. Later, a part of the changes is what a slower watch would have shown. While
// changes are held, the source merges newer ones by object, so held changes are bounded.
func (l *Loop) drain() []model.Change {
	held := len(l.held) > 0 && l.began
	if len(l.held) == 0 {
		l.held = l.drained()
	} else if !l.began {
		l.held = append(l.held, l.drained()...)
	}
	count := len(l.held)
	if l.began {
		count = within(l.held, applyBudget)
	}
	l.began = true
	changes := l.held[:count:count]
	if l.held = l.held[count:]; len(l.held) == 0 {
		l.held = nil
	}
	l.behind = held || len(l.held) > 0
	return changes
}

// drained returns the changes of the source, and records them.
func (l *Loop) drained() []model.Change {
	changes := l.source.Drain()
	if len(changes) > 0 {
		l.record.Drained(changes)
	}
	return changes
}

// within returns the number of changes that can be applied within a budget. It is at
// least 1 if changes is not empty.
func within(changes []model.Change, budget int64) int {
	for i := range changes {
		if budget -= applyUnits(&changes[i]); budget < 0 {
			return max(i, 1)
		}
	}
	return len(changes)
}

// Held returns the number of changes that were drained and are not applied yet.
func (l *Loop) Held() int { return len(l.held) }
