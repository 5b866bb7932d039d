package engine

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Some plugins search, which may take long. Their columns are completed only for the
// nodes that a decision looks at, up to the first node that fails the turn. If the budget
// of the round is used up, the turn is unfinished. Its values stay in the column, and the
// next round computes the missing values.

// unasked is the value of a node without a result yet: reason.Unasked or plugin.Unasked.
func unasked[T int32 | reason.Code]() T { return ^T(0) }

// complete computes the missing values of nodes, until stop returns true for a value. It
// returns the number of calls of the plugin. finished is false if the turn's budget is
// used up. The first missing value is computed before the budget is checked.
func (c *column[T]) complete(s *state.State, slots []int32, stop func(slot int32, value T) bool) (asked int, finished bool) {
	meter := s.Meter()
	for _, slot := range slots {
		if known := c.values[slot]; known != unasked[T]() {
			if stop != nil && stop(slot, known) {
				return asked, true
			}
			continue
		}
		if asked > 0 && meter.IsOver() {
			return asked, false
		}
		value := c.ask(s.Node(slot))
		if asked++; value == unasked[T]() {
			return asked, false
		}
		if c.set(slot, value); stop != nil && stop(slot, value) {
			return asked, true
		}
	}
	if c.fresh && c.following != nil {
		c.following.Filled(s)
	}
	c.fresh = false
	return asked, true
}

// completeFilter completes the column of a filter for the nodes that pass the columns of
// earlier filters. The error is the failure of the first node that fails the turn, or
// that the turn is unfinished.
func (e *Engine) completeFilter(c *cycle, i int, column *filterColumn, slots []int32) (err error) {
	if !column.costly {
		return nil
	}
	fails := func(slot int32, code reason.Code) bool {
		if code.IsFailed() && c.toCheck(slot) && !e.firstBefore(c, i, slot) {
			err = c.failure(&c.here, objection{filter: i, code: code})
		}
		return err != nil
	}
	e.begin()
	asked, finished := column.complete(c.view.State(), slots, fails)
	if asked > 0 {
		e.endAt(filterPoint, c.profile, i, failedIf(err))
	}
	if e.asked(c.profile.first+int32(i), asked); !finished {
		return e.unfinishedBy(plan.FilterPoint, c.profile.nameOf(i))
	}
	return err
}

// completeScore completes the column of a Score plugin for feasible nodes.
func (e *Engine) completeScore(c *cycle, i int, column *scoreColumn, slots []int32) error {
	if !column.costly {
		return nil
	}
	e.begin()
	asked, finished := column.complete(c.view.State(), slots, nil)
	if asked > 0 {
		e.end(scorePoint, c.profile.Scores[i].Name, Success)
	}
	if e.asked(c.profile.first+int32(len(c.profile.Filters)+i), asked); !finished {
		return e.unfinishedBy("Score", c.profile.Scores[i].Name)
	}
	return nil
}

// unfinishedBy marks the turn as unfinished, even if the caller drops the returned error.
func (e *Engine) unfinishedBy(point, by string) error {
	e.unfinished = true
	return &plan.PluginError{Point: point, Plugin: by, Err: plugin.ErrUnfinished}
}

// endUnfinished discards the decision of an unfinished turn. The decision has no effect,
// and PostFilter plugins keep nothing from the turn.
func (e *Engine) endUnfinished(d *plan.Decision) {
	if e.unfinished {
		e.victims = preempt.Memory{}
		fail(d, plugin.ErrUnfinished)
	}
}
