package engine

import (
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Some plugins search, which may take long. Their columns are completed for the nodes that a decision looks at, and no others, and up
// to the first node that fails the turn. Where the budget of the turn is used up, the turn is unfinished: what was found out stays in
// the column, and the next turn asks about the rest.

// unasked is the value of a node that was not asked about: reason.Unasked, or plugin.Unasked.
func unasked[T int32 | reason.Code]() T { return ^T(0) }

func isCostly(compiled any) bool {
	costly, ok := compiled.(plugin.Costly)
	return ok && costly.IsCostly()
}

// complete asks about those of the nodes that were not asked about, until stop returns true for a value. It returns for how many nodes
// the plugin was called; finished is false if the budget of the turn is used up. At least one node is asked about.
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

// completeFilter completes the column of a filter for nodes that no filter before rejects by its column. The error is that of the first
// node that fails the turn, or says that the turn is unfinished.
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
	asked, finished := column.complete(c.view.State(), slots, fails)
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
	asked, finished := column.complete(c.view.State(), slots, nil)
	if e.asked(c.profile.first+int32(len(c.profile.Filters)+i), asked); !finished {
		return e.unfinishedBy("Score", c.profile.Scores[i].Name())
	}
	return nil
}

// unfinishedBy notes that the turn is unfinished, whatever becomes of the error.
func (e *Engine) unfinishedBy(point, by string) error {
	e.unfinished = true
	return &plan.PluginError{Point: point, Plugin: by, Err: plugin.ErrUnfinished}
}

// endUnfinished makes the decision of an unfinished turn undone: nothing that was found in it counts, nor may it be remembered.
func (e *Engine) endUnfinished(d *plan.Decision) {
	if e.unfinished {
		clear(e.kept)
		fail(d, plugin.ErrUnfinished)
	}
}
