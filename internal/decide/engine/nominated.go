package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// A node to which other pods are nominated must be feasible for a pod both with them, so that it leaves room for them, and without them, because
// they may never come (kube-scheduler's two filter passes). Each is checked in a dry run, or by numbers where filters read nothing of pods but what
// they occupy: where pods preempt others, there are many such nodes.

// leaveRoom drops the nodes, which are ascending, that are infeasible with the pods that are nominated to them. It works in place.
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
	kept, done := 0, 0 // slots[:kept] are what is left of slots[:done]
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

// besideNominated returns the first objection to a node with the pods that are nominated to it. Where room is kept for a group, the objection says so if there is none
// to the node but for that.
func (e *Engine) besideNominated(c *cycle, slot int32, before []*model.Pod) (objection, error) {
	theirs, kept := c.view.WithoutKept(before)
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

// objectionsBesideNominated returns the first objection to each node that is infeasible with the pods that are nominated to it. Such a node is
// not checked without them.
func (e *Engine) objectionsBesideNominated(c *cycle) map[int32]objection {
	if !c.hasNominated() {
		return nil
	}
	objections := map[int32]objection{}
	c.eachNominated(func(slot int32, before []*model.Pod) {
		if !c.toCheck(slot) {
			return
		}
		// A filter that failed here has failed the turn, unless another filter rejected the node as it is.
		if o, err := e.besideNominated(c, slot, before); err == nil && o.code != reason.None {
			objections[slot] = o
		}
	})
	return objections
}
