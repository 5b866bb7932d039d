// Package preempt finds which pods to evict from which node, so that a pod without a feasible node finds room there.
//
// It takes the cycle of a pod that no node would do for; it gives the node and its victims, or why evicting pods helps nowhere. It owns nothing. It
// never changes the state, evicts nothing and nominates nobody: it only tries, in dry runs of the cycle.
//
// The rules are those of kube-scheduler's DefaultPreemption, except that all nodes are candidates, and that equals are decided by Cycle.Tie.
package preempt

import (
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Candidate is a node and the pods to evict from it. There is at least one.
type Candidate struct {
	Slot int32
	// Victims are sorted by importance, the most important first.
	Victims []*model.Pod
	// Violations is how many of the victims violate a PodDisruptionBudget.
	Violations int
}

const (
	notHelpful = "Preemption is not helpful for scheduling"
	noVictims  = "No preemption victims found for incoming pod"
)

// Ineligible returns why a pod must not have others evicted now; empty if it may.
func Ineligible(c plugin.Cycle, pod *model.Pod) string {
	if pod.NeverPreempts() {
		return "not eligible due to preemptionPolicy=Never."
	}
	if pod.NominatedNode == "" {
		return ""
	}
	v := c.View()
	slot, ok := v.Slot(pod.NominatedNode)
	if !ok || !c.Resolvable(slot) {
		return ""
	}
	// While a pod that was evicted for this one, or another, is still leaving its node, there will be room without a further victim.
	for other := range v.PodsOn(slot) {
		if other.Priority < pod.Priority && v.IsLeaving(other) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// Search returns the best candidate. If there is none, the rejection says why not, node by node. An error means that no candidate was found, and that
// for some nodes it could not be found out.
func Search(c plugin.Cycle, pod *model.Pod) (*Candidate, *plan.Rejection, error) {
	s := search{cycle: c, pod: pod, objections: map[plugin.Objection]int{}}
	potential := c.Potential()
	for _, slot := range potential {
		s.try(slot)
	}
	switch {
	case s.best != nil:
		return s.best, nil, nil
	case len(s.errs) > 0:
		return nil, nil, errors.Join(s.errs...)
	}
	rejection, err := s.rejection(len(potential))
	return nil, rejection, err
}

// search is a search for the best candidate.
type search struct {
	cycle plugin.Cycle
	pod   *model.Pod
	draft state.Draft

	best *Candidate
	rank rank // of best
	// withoutVictims counts the nodes without a pod of lower priority, objections the others for which evicting all of these was not enough.
	withoutVictims int
	objections     map[plugin.Objection]int
	errs           []error
}

// try looks for victims on a node.
func (s *search) try(slot int32) {
	all := lowerPods(s.cycle.View(), slot, s.pod.Priority)
	if len(all) == 0 {
		s.withoutVictims++
		return
	}
	found, objection := s.victims(slot, all)
	switch {
	case objection.Code.IsFailed():
		_, err := s.cycle.Reasons(objection)
		s.errs = append(s.errs, err)
	case !objection.IsNone():
		s.objections[objection]++
	case len(found.Victims) == 0:
		s.errs = append(s.errs, fmt.Errorf("expected at least one victim pod on node %q", s.cycle.View().Node(slot).Name()))
	default:
		if r := s.rankOf(&found); s.best == nil || r.isBetter(&s.rank) {
			s.best, s.rank = &found, r
		}
	}
}

// victims returns which of a node's pods of lower priority must be evicted, or the first objection to the node that evicting all of them leaves.
// They are put back one after the other, those whose eviction would violate a budget first, and among these the more important first; those with
// which the pod no longer fits are the victims. So it is not the least number of pods, and not always those of the lowest priority.
func (s *search) victims(slot int32, all []*model.Pod) (Candidate, plugin.Objection) {
	dryRun := s.cycle.View().DryRun(&s.draft)
	for _, pod := range all {
		dryRun.Remove(pod.Key())
	}
	if o := s.cycle.Objection(dryRun, slot); !o.IsNone() {
		return Candidate{}, o
	}
	sortByImportance(all)
	violating, rest := splitByBudgets(s.cycle.View(), all)
	found := Candidate{Slot: slot}
	reprieve := func(pods []*model.Pod) {
		for _, pod := range pods {
			dryRun.Add(pod, slot)
			if !s.cycle.Objection(dryRun, slot).IsNone() {
				dryRun.Remove(pod.Key())
				found.Victims = append(found.Victims, pod)
			}
		}
	}
	reprieve(violating)
	found.Violations = len(found.Victims)
	reprieve(rest)
	sortByImportance(found.Victims)
	return found, plugin.Objection{}
}

// rejection says why there is no candidate among so many potential nodes.
func (s *search) rejection(potential int) (*plan.Rejection, error) {
	nodes := map[string]int{}
	if n := s.cycle.View().Nodes() - potential; n > 0 {
		nodes[notHelpful] = n
	}
	if s.withoutVictims > 0 {
		nodes[noVictims] = s.withoutVictims
	}
	for o, n := range s.objections {
		texts, err := s.cycle.Reasons(o)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			nodes[text] += n
		}
	}
	return &plan.Rejection{Counts: reason.Counted(nodes)}, nil
}

// lowerPods returns the pods of lower priority on a node, in no particular order.
func lowerPods(v state.View, slot int32, priority int32) []*model.Pod {
	var lower []*model.Pod
	for pod := range v.PodsOn(slot) {
		if pod.Priority < priority {
			lower = append(lower, pod)
		}
	}
	return lower
}
