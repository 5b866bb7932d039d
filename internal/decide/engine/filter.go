package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// filter returns the feasible nodes, ascending. A feasible node passes all filters both
// as it is and with the pods nominated to it. If the pod's own nominated node is
// feasible, it is the only result, as in kube-scheduler. The error is a filter's failure.
func (e *Engine) filter(c *cycle) ([]int32, error) {
	if slot, ok, err := e.filterNominated(c); ok || err != nil {
		return append(e.scratch.slots[:0], slot), err
	}
	return e.feasible(c)
}

// feasible returns the feasible nodes, ascending, ignoring the pod's own nomination.
func (e *Engine) feasible(c *cycle) ([]int32, error) {
	slots, err := e.filterWithoutNominated(c)
	if err == nil && len(slots) > 0 && c.hasNominated() {
		slots, err = e.leaveRoom(c, slots)
	}
	if err == nil && len(c.profile.Extenders) > 0 {
		slots, err = e.filterByExtenders(c, slots)
	}
	return slots, err
}

// filterNominated returns the pod's nominated node if it is feasible, even if PreFilter
// ruled it out. An error on this node fails the turn only if PreFilter left the node.
func (e *Engine) filterNominated(c *cycle) (slot int32, ok bool, err error) {
	if c.pod.NominatedNode == "" {
		return 0, false, nil
	}
	if slot, ok = c.view.Slot(c.pod.NominatedNode); !ok || !c.view.Restriction().Has(slot) {
		return 0, false, nil
	}
	o, err := e.twice(c, slot)
	if err == nil && o.code == reason.None && len(c.profile.Extenders) > 0 {
		var failed error
		// as in kube-scheduler, any node may be chosen
		if o, failed = e.extendersOn(c, slot); failed != nil {
			return slot, false, nil
		}
	}
	switch {
	case err == nil && o.code == reason.None:
		c.narrowed.addNominated(slot, "")
	case err == nil:
		c.narrowed.addNominated(slot, c.profile.nameOf(o.filter))
	case !c.narrowed.has(slot):
		err = nil
	}
	return slot, err == nil && o.code == reason.None, err
}

// twice returns the first objection to a node with the pods nominated to it. If none of
// the filters objects, it tries again without these pods.
func (e *Engine) twice(c *cycle, slot int32) (objection, error) {
	if before := c.nominatedBefore(slot); len(before) > 0 {
		if o, err := e.besideNominated(c, slot, before); o.code != reason.None || err != nil {
			return o, err
		}
	}
	o := e.first(c, &c.here, slot)
	return o, c.failure(&c.here, o)
}

// failureOn returns the error behind an objection to a node, or nil for a rejection. It
// is nil, too, if the node is rejected with its nominated pods: filters do not run
// without them then.
func (e *Engine) failureOn(c *cycle, slot int32, o objection) error {
	if !o.code.IsFailed() {
		return nil
	}
	if before := c.nominatedBefore(slot); len(before) > 0 {
		if o, err := e.besideNominated(c, slot, before); o.code != reason.None || err != nil {
			return err
		}
	}
	return c.failure(&c.here, o)
}

// fewNodes is the number of nodes up to which checking one by one is cheaper than
// columns. Pods pinned to one node, such as a DaemonSet's, each have a need of their own.
// A column for each would never be used again.
const fewNodes = 64

// filterWithoutNominated returns the nodes that pass all filters without nominated pods.
func (e *Engine) filterWithoutNominated(c *cycle) ([]int32, error) {
	switch n := &c.narrowed; {
	case len(n.by) == 0:
		// also with few nodes to choose from, because members of a group share columns
		return e.filterByColumns(c, e.slotsToCheck(c))
	case len(n.slots) <= fewNodes:
		return e.filterOneByOne(c, e.scratch.slots[:0], n.slots)
	default:
		return e.filterByColumns(c, append(e.scratch.slots[:0], n.slots...))
	}
}

// filterOneByOne appends the given nodes that pass all filters.
func (e *Engine) filterOneByOne(c *cycle, to, slots []int32) ([]int32, error) {
	e.visited(len(slots))
	for _, slot := range slots {
		o := e.first(c, &c.here, slot)
		if err := e.failureOn(c, slot, o); err != nil {
			return nil, err
		}
		if o.code == reason.None {
			to = append(to, slot)
		}
	}
	e.scratch.slots = to
	return to, nil
}

// filterByColumns keeps the given nodes that pass all filters, in place. It reads the
// columns first, then the rules about counts. Columns describe the state's pods, so nodes
// on which the view has other pods are checked one by one.
func (e *Engine) filterByColumns(c *cycle, slots []int32) ([]int32, error) {
	e.visited(len(slots))
	slots, touched := apart(slots, c.view.Touched())
	counted := 0 // the count filters before this position have been applied
	for i := range c.needs {
		column := e.filterColumn(c, i)
		if column == nil || column.nonZero == 0 {
			continue
		}
		if column.costly {
			slots = e.keepCounted(c, counted, i, slots)
			counted = i
		}
		if err := e.completeFilter(c, i, column, slots); err != nil {
			return nil, err
		}
		passed, codes := keepFeasible(slots, column.values)
		if codes.IsFailed() {
			if err := e.firstFailure(c, i, column); err != nil {
				return nil, err
			}
		}
		slots = passed
	}
	e.countReads(c, len(slots))
	slots = e.keepCounted(c, counted, len(c.counting), slots)
	slots, err := e.filterByTurn(c, slots)
	if err != nil {
		return nil, err
	}
	if len(touched) > 0 {
		some, err := e.filterOneByOne(c, nil, touched)
		if err != nil {
			return nil, err
		}
		slots = append(slots, some...)
		slices.Sort(slots)
	}
	e.scratch.slots = slots
	return slots, nil
}

// keepCounted drops, in place, the nodes that the count filters at positions from
// (inclusive) to (exclusive) reject.
func (e *Engine) keepCounted(c *cycle, from, to int, slots []int32) []int32 {
	for i := from; i < to; i++ {
		if c.counting[i] != nil {
			e.begin()
			rules := c.here.counts[i].rules
			for j := range rules {
				slots = keepWithin(slots, &rules[j])
			}
			e.endAt(filterPoint, c.profile, i, Success)
		}
	}
	return slots
}

// alive returns the slots of existing nodes.
func (e *Engine) alive(alive []bool) []int32 {
	slots := e.scratch.slots
	if cap(slots) < len(alive) {
		slots = make([]int32, len(alive))
	}
	slots = slots[:len(alive)]
	n := 0
	for slot, ok := range alive {
		slots[n] = int32(slot)
		if ok {
			n++
		}
	}
	return slots[:n]
}

// apart removes the slots in some from a sorted list, in place. It returns the rest and
// the removed slots.
func apart(slots, some []int32) (rest, out []int32) {
	if len(some) == 0 {
		return slots, nil
	}
	sorted := slices.Sorted(slices.Values(some))
	rest = slices.DeleteFunc(slots, func(slot int32) bool {
		_, found := slices.BinarySearch(sorted, slot)
		if found {
			out = append(out, slot)
		}
		return found
	})
	return rest, out
}

func aliveOf(alive []bool, slots []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(slots), func(slot int32) bool { return !alive[slot] })
}

// firstFailure returns the error of the first node, by slot, on which the filter failed
// and which no earlier filter rejects. The cached verdict counts, because a second call
// of the filter may return something else.
func (e *Engine) firstFailure(c *cycle, filter int, column *filterColumn) error {
	for slot, code := range column.values {
		if !code.IsFailed() || code == reason.Unasked || !c.toCheck(int32(slot)) || e.firstBefore(c, filter, int32(slot)) {
			continue
		}
		return c.failure(&c.here, objection{filter: filter, code: code})
	}
	return nil
}

// firstBefore reports whether a filter before the one at a position rejects a node.
func (e *Engine) firstBefore(c *cycle, filter int, slot int32) bool {
	node := c.view.Node(slot)
	for i, verdicts := range c.here.verdicts[:filter] {
		if verdicts == nil {
			continue
		}
		e.asked(c.profile.first+int32(i), 1)
		if verdicts.Filter(node) != reason.None {
			return true
		}
	}
	return false
}

// countReads adds a number of nodes to the counters of the count filters with rules.
func (e *Engine) countReads(c *cycle, nodes int) {
	for i := range c.counting {
		if c.counting[i] != nil && len(c.here.counts[i].rules) > 0 {
			e.byPlugin[int(c.profile.first)+i] += int64(nodes)
		}
	}
}

// keepFeasible drops the slots that the column rejects, in place, and returns the union
// of all codes. It writes before it counts, so that the loop has no unpredictable branch.
func keepFeasible(slots []int32, codes []reason.Code) (kept []int32, seen reason.Code) {
	n := 0
	for _, slot := range slots {
		code := codes[slot]
		slots[n] = slot
		seen |= code
		if code == reason.None {
			n++
		}
	}
	return slots[:n], seen
}

// keepWithin drops the slots that the rule rejects, in place.
func keepWithin(slots []int32, rule *plugin.CountRule) []int32 {
	if len(rule.Differences) > 0 {
		return slices.DeleteFunc(slots, func(slot int32) bool { return rule.Verdict(slot) != reason.None })
	}
	n := 0
	domains, counts, low, high := rule.Domains, rule.Counts, rule.Min, rule.Max
	withoutDomain := rule.Missing == reason.None
	for _, slot := range slots {
		slots[n] = slot
		domain := domains[slot]
		ok := withoutDomain
		if domain >= 0 {
			var count int32
			if int(domain) < len(counts) {
				count = counts[domain]
			}
			ok = count >= low && count <= high
		}
		if ok {
			n++
		}
	}
	return slots[:n]
}
