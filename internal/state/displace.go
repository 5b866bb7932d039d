package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/internal/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Preemption for a pod group asks where its members would go if very many pods were gone, and then which of these can stay. On a draft each member would count
// anew what differs; so these pods are taken off their nodes for real, and tallies and columns follow by what changes. Nobody hears of it, and in the end
// all are back.

// Displace takes pods off their nodes for a while: nothing counts them any more, no event says so, and they keep what they hold of volumes and devices
// besides, as in kube-scheduler, where only the nodes of a snapshot lose them. Return must be called for each before the next change. A pod that is on no node is
// a bug.
func (s *State) Displace(pods ...*model.Pod) {
	if s.displaced == nil {
		s.displaced = map[model.PodKey]*placed{}
	}
	for _, pod := range pods {
		p := s.placed[pod.Key()]
		if p == nil || p.pod.UID != pod.UID {
			panic(fmt.Sprintf("state: displace pod %s, which is on no node", pod))
		}
		s.lift(p) // a slot without a node is kept as well: its pods come back
		s.displaced[pod.Key()] = p
	}
}

// Return puts pods back that Displace took off their nodes. One that is not displaced is a bug.
func (s *State) Return(pods ...*model.Pod) {
	for _, pod := range pods {
		p := s.displaced[pod.Key()]
		if p == nil || p.pod.UID != pod.UID || s.placed[pod.Key()] != nil {
			panic(fmt.Sprintf("state: return pod %s, which is not displaced", pod))
		}
		delete(s.displaced, pod.Key())
		s.place(p)
		if p.phase == assumed {
			s.assumed++
		}
	}
	if len(s.displaced) == 0 {
		s.displaced = nil
	}
}

// UnitsBelow reports whether a pod on a node, or the group of one, has a lower priority.
func (v View) UnitsBelow(priority int32) bool {
	if v.PodsBelow(priority) {
		return true
	}
	for key := range v.s.groups.members {
		if group := v.s.groups.objects[key]; group != nil && v.priorityOfRoot(group) < priority {
			return true
		}
	}
	return false
}

// PreemptionPriority returns what decides whether a pod may be evicted for another: the priority of its group, or of the root of the tree that this belongs to, if that
// exists, or else its own.
func (v View) PreemptionPriority(pod *model.Pod) int32 {
	if group := v.s.groups.objects[pod.Group]; group != nil {
		return v.priorityOfRoot(group)
	}
	return pod.Priority
}

// priorityOfRoot returns the priority of a group, or of the topmost that exists above it.
func (v View) priorityOfRoot(group *model.PodGroup) int32 {
	if top, _ := v.topOf(group); top != nil {
		return top.Priority
	}
	return group.Priority
}

// Unit names pods that can only be evicted together: the members of a PodGroup, or of all below a CompositePodGroup. The zero value names none.
type Unit struct {
	Key       model.GroupKey
	Composite bool
}

// UnitOf returns the unit that a pod on a node belongs to, zero if it can be evicted by itself: that of the topmost group whose disruptionMode is all.
func (v View) UnitOf(pod *model.Pod) Unit {
	group := v.s.groups.objects[pod.Group]
	if group == nil {
		return Unit{}
	}
	switch _, whole := v.topOf(group); {
	case whole != nil:
		return Unit{whole.Key, true}
	case group.IsUnit:
		return Unit{group.Key, false}
	}
	return Unit{}
}

// UnitMembers returns the pods of a unit that are on nodes, in no particular order.
func (v View) UnitMembers(unit Unit) iter.Seq[*model.Pod] {
	if unit.Composite {
		return v.TreeMembers(v.Tree(unit.Key))
	}
	return v.GroupMembers(unit.Key)
}

// Repels reports whether a pod on a node carries a required anti-affinity term that selects another, with a topology key that a node has, or had.
func (v View) Repels(on, other *model.Pod) bool {
	p := v.s.placed[on.Key()]
	if p == nil {
		return false
	}
	if p.list != nil {
		in := v.s.theirNamespace(other.Namespace)
		return slices.ContainsFunc(p.list.prepared, func(t *TermCounts) bool {
			effect, _ := t.matcher.effect(in, other.Labels)
			return effect.Repelling > 0
		})
	}
	return slices.ContainsFunc(p.terms, func(t *TermCounts) bool {
		return t.Kind == model.RequiredAntiAffinity && t.Term.Matches(other, v.s.namespaces[other.Namespace])
	})
}

func (s *State) auditDisplaced(v *audit.Violations) {
	for key := range s.displaced {
		v.Add("pod %s was taken off its node for a what-if, and is not back", key)
	}
}
