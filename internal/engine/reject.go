package engine

import (
	"fmt"
	"slices"
	"sort"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// objection is a filter and what it said.
type objection struct {
	filter int
	code   reason.Code
}

// reject says why no node is feasible: for each node, what the first filter that objects to it says.
func (e *Engine) reject(s *state.State, p *profile, pod *model.Pod, n *narrowing) *plan.Rejection {
	r := &plan.Rejection{Plugins: slices.Clone(n.by)}
	e.compile(p, pod)
	byReason := map[string]int{}
	for o, nodes := range e.objections(s, p, pod, n) {
		for _, text := range e.scan.filters[o.filter].Reasons(o.code) {
			byReason[text] += nodes
		}
		if name := p.Filters[o.filter].Name(); !slices.Contains(r.Plugins, name) {
			r.Plugins = append(r.Plugins, name)
		}
	}
	if outside := s.Nodes() - len(n.slots); len(n.by) > 0 && outside > 0 {
		byReason[n.text()] += outside
	}
	for text, nodes := range byReason {
		r.Counts = append(r.Counts, reason.Count{Nodes: nodes, Reason: text})
	}
	sortAsText(r.Counts)
	slices.Sort(r.Plugins)
	return r
}

// sortAsText orders counts as kube-scheduler prints them: by the text "<nodes> <reason>", so that 10 comes before 2.
func sortAsText(counts []reason.Count) {
	text := func(i int) string { return fmt.Sprintf("%d %s", counts[i].Nodes, counts[i].Reason) }
	sort.Slice(counts, func(i, j int) bool { return text(i) < text(j) })
}

// objections counts the nodes by their first objection.
func (e *Engine) objections(s *state.State, p *profile, pod *model.Pod, n *narrowing) map[objection]int {
	counts := map[objection]int{}
	promised := e.objectionsBesidePromised(s, p, pod)
	if len(n.by) > 0 && len(n.slots) <= fewNodes {
		for _, slot := range n.slots {
			if o, ok := promised[slot]; ok {
				counts[o]++
				continue
			}
			filter, code := e.firstObjection(s.Node(slot))
			counts[objection{filter, code}]++
		}
		return counts
	}
	columns := make([]*filterColumn, len(p.Filters))
	for i := range p.Filters {
		columns[i] = e.filterColumn(s, p, i, pod)
	}
	each := func(slot int32) {
		if o, ok := promised[slot]; ok {
			counts[o]++
			return
		}
		for i, c := range columns {
			code := reason.None
			if c != nil {
				code = c.values[slot]
			} else {
				code = e.scan.layered[i].Filter(s.Node(slot))
			}
			if code != reason.None {
				counts[objection{i, code}]++
				return
			}
		}
	}
	if len(n.by) > 0 {
		for _, slot := range n.slots {
			each(slot)
		}
		return counts
	}
	for slot, alive := range s.Alive() {
		if alive {
			each(int32(slot))
		}
	}
	return counts
}
