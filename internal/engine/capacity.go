package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Capacity returns how many pods equal to one would pass the filters, placed one after another on the nodes of the view, if other pods were on these nodes than there are:
// without changes the use of a node to what these others occupy. It counts up to most and costs a look at each node, and one more for each pod. ok is false if this
// cannot be said from what pods occupy: filters count pods around the nodes, or read ports, volumes or the pod's own objects; PreFilter narrows the nodes or rejects the
// pod; the pod is nominated, or malformed; plugins from outside or extenders have a say; a filter fails.
func (e *Engine) Capacity(v state.View, pod *model.Pod, most int, without func(slot int32, use *state.Use)) (n int, ok bool) {
	c, err := e.cycleOf(v, pod)
	if err != nil || c == nil || !e.isByUse(c) {
		return 0, false
	}
	slots := e.slotsToCheck(c)
	e.work.Visited += int64(len(slots))
	for i := range c.needs {
		if slices.Contains(c.usage.by, i) {
			continue
		}
		column := e.filterColumn(c, i)
		if column == nil || column.nonZero == 0 {
			continue
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			return 0, false
		}
		slots = passed
	}
	var use, beside state.Use
	for _, slot := range slots {
		if n >= most {
			break
		}
		var before []*model.Pod
		if v.Nominated() > 0 {
			before = v.NominatedBefore(pod, slot)
		}
		use.Reset(v.Node(slot))
		without(slot, &use)
		for n < most {
			passes, ok := e.passesByUse(c, v.NodeWith(slot, &use))
			if passes && ok && len(before) > 0 { // and with the pods that are nominated to the node
				beside.Copy(&use)
				for _, other := range before {
					beside.Add(&other.Occupies, 1, +1)
				}
				passes, ok = e.passesByUse(c, v.NodeWith(slot, &beside))
			}
			if !ok {
				return 0, false
			}
			if !passes {
				break
			}
			use.Add(&pod.Occupies, 1, +1)
			n++
		}
	}
	return n, true
}

// isByUse reports whether filters judge the cycle's pod, and pods equal to it, by what depends on the node alone and what pods occupy there.
func (e *Engine) isByUse(c *cycle) bool {
	p, pod := c.profile, c.pod
	return p.Outside == nil && len(p.Extenders) == 0 && len(p.turnFilters) == 0 && len(c.narrowed.by) == 0 && len(c.view.Touched()) == 0 &&
		pod.NominatedNode == "" && pod.Malformed == "" && (c.view.Nominated() == 0 || pod.UID != "" && !c.view.IsNominated(pod.Key())) &&
		!slices.ContainsFunc(c.own, func(own plugin.FilterNeed) bool { return own != nil }) && e.usageOf(c).only
}

// passesByUse reports whether the filters that read what pods occupy pass a node; ok is false if one fails.
func (e *Engine) passesByUse(c *cycle, node state.Node) (passes, ok bool) {
	for _, i := range c.usage.by {
		e.asked(c.profile.first+int32(i), 1)
		if code := c.here.verdicts[i].Filter(node); code != reason.None {
			return false, !code.IsFailed()
		}
	}
	return true, true
}
