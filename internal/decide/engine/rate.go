package engine

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Rating compares one node with the best node for a pod.
type Rating struct {
	// Nodes is the number of nodes to choose among, Feasible the number of feasible ones.
	Nodes, Feasible int
	// Best is the node that a decision would choose, empty if no node is feasible.
	// BestTotal is its total.
	Best      string
	BestTotal int64
	// IsFeasible means that the rated node is feasible; Total is its total. Both totals
	// are 0 with fewer than two feasible nodes, as nothing is scored then.
	IsFeasible bool
	Total      int64
	// ByNomination means that the pod is nominated to Best, which is feasible, so a
	// decision considers no other node. The totals ignore the nomination.
	ByNomination bool
	// Rejections are every filter's rejections of the node, in the profile's order, if it
	// is infeasible. A missing node has none.
	Rejections []reason.Rejection
}

// Rate returns how good a node would have been for a pod. It costs as much as a decision,
// searches for no victims and reserves nothing. The error is the error of a decision.
// With an empty node name only the best node is found.
func (e *Engine) Rate(v state.View, pod *model.Pod, nodeName string) (Rating, error) {
	e.work.Decisions++
	v.State().BeginTurn()
	r := Rating{Nodes: v.ToChooseAmong()}
	p, ok := e.profiles[pod.SchedulerName]
	switch {
	case !ok:
		return r, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName)
	case pod.Malformed != "":
		return r, fmt.Errorf("the pod cannot be judged: %s", pod.Malformed)
	}
	if p.External != nil {
		p.External.Begin(v, pod)
		defer p.External.End()
	}
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil {
		return r, err
	}
	slot, exists := v.Slot(nodeName)
	if rejection != nil {
		if exists {
			r.Rejections = rejectedAtPreFilter(rejection, c.open)
		}
		return r, nil
	}
	e.prepare(&c)
	if err := e.rate(&c, &r, slot, exists); err != nil {
		return r, err
	}
	if !r.IsFeasible && exists {
		r.Rejections = e.allObjectionsTo(&c, slot)
	}
	return r, nil
}

// rate finds the best node, and rates the node in a slot.
func (e *Engine) rate(c *cycle, r *Rating, asked int32, exists bool) error {
	nominated, byNomination, err := e.filterNominated(c)
	if err != nil {
		return err
	}
	slots, err := e.feasible(c)
	if err != nil {
		return err
	}
	if r.Feasible = len(slots); r.Feasible == 0 {
		return nil
	}
	best := slots[0]
	if len(slots) > 1 {
		if best, r.BestTotal, err = e.best(c, slots); err != nil {
			return err
		}
	}
	r.Best = c.view.Node(best).Name()
	if at, found := slices.BinarySearch(slots, asked); exists && found {
		r.IsFeasible, r.Total = true, r.BestTotal
		if len(slots) > 1 { // both totals lack the constant share of every node
			bestAt, _ := slices.BinarySearch(slots, best)
			r.Total -= e.scratch.totals[bestAt] - e.scratch.totals[at]
		}
	}
	if byNomination {
		r.Best, r.ByNomination = c.view.Node(nominated).Name(), true
	}
	return nil
}

// rejectedAtPreFilter returns each node's rejections when a PreFilter plugin rejects the
// pod. open means that preemption may help.
func rejectedAtPreFilter(rejection *plan.Rejection, open bool) []reason.Rejection {
	shared := reason.Rejection{Unresolvable: !open, Reasons: []string{rejection.PreFilter}}
	if len(rejection.Plugins) == 1 {
		shared.Plugin = rejection.Plugins[0]
	}
	return []reason.Rejection{shared}
}

// allObjectionsTo returns all objections to one node. If PreFilter plugins left it out,
// that is the only objection. Otherwise filters run with the nominated pods and, if none
// objects, without them.
func (e *Engine) allObjectionsTo(c *cycle, slot int32) []reason.Rejection {
	if !c.narrowed.has(slot) {
		return []reason.Rejection{{Unresolvable: true, Reasons: []string{c.narrowed.text()}}}
	}
	if before := c.nominatedBefore(slot); len(before) > 0 {
		dry := e.filtersBesideNominated(c, slot, before)
		if all := c.allObjections(&dry, slot); len(all) > 0 {
			return all
		}
	}
	return c.allObjections(&c.here, slot)
}
