package engine

import (
	"fmt"
	"slices"
	"sort"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
)

// reject returns why no node is feasible: for each node, the first objection to it.
func (e *Engine) reject(of *cycle) *plan.Rejection {
	own := *of // a copy, so that cycles of placed pods stay on the stack
	c := &own
	r := &plan.Rejection{Plugins: slices.Clone(c.narrowed.by)}
	byReason := map[string]int{}
	for o, nodes := range e.objections(c) {
		for _, text := range c.here.verdicts[o.filter].Reasons(o.code) {
			byReason[text] += nodes
		}
		if name := c.profile.Filters[o.filter].Name(); !slices.Contains(r.Plugins, name) {
			r.Plugins = append(r.Plugins, name)
		}
	}
	if outside := c.view.Nodes() - len(c.narrowed.slots); len(c.narrowed.by) > 0 && outside > 0 {
		byReason[c.narrowed.text()] += outside
	}
	for text, nodes := range byReason {
		r.Counts = append(r.Counts, reason.Count{Nodes: nodes, Reason: text})
	}
	sortAsText(r.Counts)
	slices.Sort(r.Plugins)
	return r
}

// sortAsText sorts counts as kube-scheduler prints them: by the text "<nodes> <reason>", so that 10 comes before 2.
func sortAsText(counts []reason.Count) {
	text := func(i int) string { return fmt.Sprintf("%d %s", counts[i].Nodes, counts[i].Reason) }
	sort.Slice(counts, func(i, j int) bool { return text(i) < text(j) })
}

// objections counts the nodes by their first objection.
func (e *Engine) objections(c *cycle) map[objection]int {
	counts := map[objection]int{}
	nominated := e.objectionsBesideNominated(c)
	first := e.firstOneByOne(c)
	if len(c.narrowed.by) == 0 || len(c.narrowed.slots) > fewNodes {
		first = e.firstByColumns(c)
	}
	each := func(slot int32) {
		if o, ok := nominated[slot]; ok {
			counts[o]++
		} else {
			counts[first(slot)]++
		}
	}
	if len(c.narrowed.by) > 0 {
		for _, slot := range c.narrowed.slots {
			each(slot)
		}
		return counts
	}
	for slot, alive := range c.view.State().Alive() {
		if alive {
			each(int32(slot))
		}
	}
	return counts
}

func (e *Engine) firstOneByOne(c *cycle) func(slot int32) objection {
	return func(slot int32) objection { return e.first(c, &c.here, slot) }
}

// firstByColumns returns a function that gives the first objection to a node from the columns. The view must have the same pods on the node as
// the state.
func (e *Engine) firstByColumns(c *cycle) func(slot int32) objection {
	columns := make([]*filterColumn, len(c.needs))
	for i := range c.needs {
		columns[i] = e.filterColumn(c, i)
	}
	touched := map[int32]bool{}
	for _, slot := range c.view.Touched() {
		touched[slot] = true
	}
	return func(slot int32) objection {
		if touched[slot] {
			return e.first(c, &c.here, slot)
		}
		for i, column := range columns {
			code := reason.None
			switch {
			case column != nil:
				code = column.values[slot]
			case c.counting[i] != nil:
				code = c.here.counts[i].Filter(c.view.Node(slot))
			}
			if code != reason.None {
				return objection{i, code}
			}
		}
		return objection{}
	}
}
