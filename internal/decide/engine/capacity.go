package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Capacity returns how many copies of a pod would pass the filters, placed one after
// another on the nodes of the view. The nodes may have other pods than now: the function
// `without` changes a node's usage to that of these pods. Capacity counts up to most. It
// costs one check for each node and each counted pod.
//
// Unless exact is set, n is an upper bound. It is not exact if filters count pods around
// the nodes, or read ports, volumes, devices or the pod's own objects, or if the pod is
// nominated. If no bound is known, n is most: PreFilter narrows the nodes or rejects the
// pod, out-of-tree plugins or extenders filter, or a filter fails.
func (e *Engine) Capacity(v state.View, pod *model.Pod, most int, without func(slot int32, use *state.Use)) (n int, exact bool) {
	c, err := e.cycleOf(v, pod)
	if err != nil || c == nil || pod.Malformed != "" || c.asksOutside() || len(c.narrowed.by) > 0 || len(v.Touched()) > 0 {
		return most, false
	}
	slots := e.slotsToCheck(c)
	e.visited(len(slots))
	defer func() { e.added(n) }()
	var byUse []int
	for i := range c.needs {
		f := c.profile.Filters[i]
		if !f.HasColumn() || len(c.own) > 0 && c.own[i] != nil {
			continue
		}
		switch reads := f.Reads.Nodes; {
		case c.needs[i].IsZero() || reads&(model.Ports|model.Volumes|model.Devices|model.Supply) != 0:
			continue
		case reads&model.Usage != 0:
			byUse = append(byUse, i)
			continue
		}
		column := e.filterColumn(c, i)
		if column == nil || column.nonZero == 0 {
			continue
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			return most, false
		}
		slots = passed
	}
	owned := slices.ContainsFunc(c.own, func(own plugin.FilterNeed) bool { return own != nil })
	nominated := pod.NominatedNode != "" || v.Nominated() > 0 && (pod.UID == "" || v.IsNominated(pod.Key()))
	exact = !owned && !nominated && e.usageOf(c).only
	var use, beside state.Use
	for _, slot := range slots {
		if n >= most {
			break
		}
		var before []*model.Pod
		if v.Nominated() > 0 && !nominated {
			before = v.NominatedBefore(pod, slot)
		}
		use.Reset(v.Node(slot))
		without(slot, &use)
		for n < most && e.passesByUse(c, byUse, v.NodeWith(slot, &use)) {
			if len(before) > 0 { // and with the node's nominated pods
				beside.Copy(&use)
				for _, other := range before {
					beside.Add(other, +1)
				}
				if !e.passesByUse(c, byUse, v.NodeWith(slot, &beside)) {
					break
				}
			}
			use.Add(pod, +1)
			n++
		}
	}
	return n, exact || n == 0 && !owned // 0 is exact, whatever other filters return
}

// passesByUse reports whether the filters at these positions, which read resource usage,
// pass a node.
func (e *Engine) passesByUse(c *cycle, filters []int, node state.Node) bool {
	for _, i := range filters {
		e.asked(c.profile.first+int32(i), 1)
		if c.here.verdicts[i].Filter(node) != reason.None {
			return false
		}
	}
	return true
}
