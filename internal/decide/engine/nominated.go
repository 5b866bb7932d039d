package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// A node with nominated pods must be feasible for a pod twice, as in kube-scheduler's two
// filter passes. It must be feasible with these pods, to leave space for them, and
// without them, because they may never come. Each check is a dry run, or arithmetic if
// filters read only resource usage: clusters with much preemption have many such nodes.

// leaveRoom drops the nodes that are infeasible with their nominated pods, in place. The
// nodes are ascending.
func (e *Engine) leaveRoom(c *cycle, slots []int32) (left []int32, err error) {
	if len(slots) < c.view.NominatedNodes() {
		left = slices.DeleteFunc(slots, func(slot int32) bool {
			before := c.nominatedBefore(slot)
			if len(before) == 0 || err != nil {
				return false
			}
			var o objection
			o, err = e.besideNominated(c, slot, before)
			return o.code != reason.None
		})
		return left, err
	}
	kept, done := 0, 0 // slots[:kept] are the remaining nodes of slots[:done]
	keep := func(until int) {
		kept += copy(slots[kept:], slots[done:until])
		done = until
	}
	c.eachNominated(func(slot int32, before []*model.Pod) {
		further, feasible := slices.BinarySearch(slots[done:], slot)
		if !feasible || err != nil {
			return
		}
		var o objection
		if o, err = e.besideNominated(c, slot, before); o.code != reason.None {
			keep(done + further)
			done++
		}
	})
	keep(len(slots))
	return slots[:kept], err
}

// besideNominated returns the first objection to a node with its nominated pods. If only
// space held for a pod group makes the node infeasible, the objection has kept set.
func (e *Engine) besideNominated(c *cycle, slot int32, before []*model.Pod) (objection, error) {
	theirs, kept := c.view.WithoutRoomHolds(before)
	if kept == 0 {
		return e.beside(c, slot, before)
	}
	if len(theirs) > 0 {
		if o, err := e.beside(c, slot, theirs); o.code != reason.None || err != nil {
			return o, err
		}
	}
	if o := e.first(c, &c.here, slot); o.code != reason.None {
		return o, c.failure(&c.here, o)
	}
	o, err := e.beside(c, slot, before)
	if o.code != reason.None {
		o.kept = kept
	}
	return o, err
}

// beside returns the first objection to a node with other pods on it.
func (e *Engine) beside(c *cycle, slot int32, before []*model.Pod) (objection, error) {
	if e.usageOf(c).only {
		o := e.objectionWith(c, c.here.verdicts, slot, before)
		return o, c.failure(&c.here, o)
	}
	dry := e.filtersBesideNominated(c, slot, before)
	o := e.first(c, &dry, slot)
	return o, c.failure(&dry, o)
}

func (e *Engine) filtersBesideNominated(c *cycle, slot int32, before []*model.Pod) filters {
	dryRun := c.view.DryRun(&e.scratch.dryRun)
	for _, pod := range before {
		dryRun.Add(pod, slot)
	}
	e.scratch.dry = e.filtersIn(c, dryRun.View(), e.scratch.dry)
	return e.scratch.dry
}

// objectionsBesideNominated returns the first objection to each node that is infeasible
// with its nominated pods. Such a node is not checked without them.
func (e *Engine) objectionsBesideNominated(c *cycle) map[int32]objection {
	if !c.hasNominated() {
		return nil
	}
	objections := map[int32]objection{}
	c.eachNominated(func(slot int32, before []*model.Pod) {
		if !c.toCheck(slot) {
			return
		}
		// A filter that failed here has failed the turn, unless another filter rejected
		// the node as it is.
		if o, err := e.besideNominated(c, slot, before); err == nil && o.code != reason.None {
			objections[slot] = o
		}
	})
	return objections
}
