package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Preemption for a pod group computes where its members would go without very many pods,
// and then which of these pods can stay. On a draft, each member would have to recount
// all differences. So these pods really leave their nodes for a while, and tallies and
// columns follow incrementally. No event shows it, and in the end all pods are back.

// Displace takes pods off their nodes temporarily: nothing counts them, and no event is
// emitted. They keep their holds on volumes and devices, as in kube-scheduler, where only
// the nodes of a snapshot lose them. Return must be called for each pod before the next
// change. A pod that is on no node is a bug.
func (s *State) Displace(pods ...*model.Pod) {
	if s.displaced == nil {
		s.displaced = map[model.PodKey]*placed{}
	}
	for _, pod := range pods {
		p := s.placed[pod.Key()]
		if p == nil || p.pod.UID != pod.UID {
			panic(fmt.Sprintf("state: displace pod %s, which is on no node", pod))
		}
		s.lift(p) // keeps a slot without a node too: its pods come back
		s.displaced[pod.Key()] = p
	}
}

// Return puts displaced pods back on their nodes. A pod that is not displaced is a bug.
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

// UnitsBelow reports whether a pod on a node, or its group, has a lower priority.
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

// PreemptionPriority returns the priority that decides whether a pod may be evicted for
// another. It is the priority of the topmost existing group above the pod, or else the
// pod's own.
func (v View) PreemptionPriority(pod *model.Pod) int32 {
	if group := v.s.groups.objects[pod.Group]; group != nil {
		return v.priorityOfRoot(group)
	}
	return pod.Priority
}

// priorityOfRoot returns the priority of a group, or of the topmost existing group above
// it.
func (v View) priorityOfRoot(group *model.PodGroup) int32 {
	if top, _ := v.topOf(group); top != nil {
		return top.Priority
	}
	return group.Priority
}

// Unit names pods that can only be evicted together: the members of a PodGroup, or of all
// PodGroups below a CompositePodGroup. The zero value names none.
type Unit struct {
	Key       model.GroupKey
	Composite bool
}

// UnitOf returns the unit of a pod on a node, zero if the pod can be evicted alone. The
// unit belongs to the topmost group whose disruptionMode is all.
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

// Repels reports whether a pod on a node carries a required anti-affinity term that
// selects another pod. The topology key of the term must be a label that some node has or
// had.
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
