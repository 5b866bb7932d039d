package scene

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Answer is what becomes of a pod. It is known beforehand, so that the binder can carry it out without a decision.
type Answer struct {
	// Node is the index of the node that the pod is bound to; nowhere if it stays pending.
	Node int
	// Victims are pods on that node that are evicted first, the last of them after the others.
	Victims []types.NamespacedName
	// Allocation is what the claim of the pod gets before the pod is bound; nil if it has none.
	Allocation *resourcev1.AllocationResult
	// Message is what both schedulers write of a pod that no node has room for, before anything is evicted, in its condition and in an event; empty if
	// one has.
	Message string
}

// nowhere is the Node of a pod that stays pending.
const nowhere = -1

// Pending reports whether the pod stays pending.
func (a *Answer) Pending() bool { return a.Node == nowhere }

// sequence splits the name of a pod into what comes before its index, and the index; a name without one has the index 0.
func sequence(name string) (prefix string, i int) {
	dash := strings.LastIndexByte(name, '-')
	i, err := strconv.Atoi(name[dash+1:])
	if dash < 0 || err != nil {
		return name, 0
	}
	return name[:dash], i
}

// inTurns gives each pod the next node.
func inTurns(nodes int) func(p *v1.Pod) Answer {
	return func(p *v1.Pod) Answer {
		_, i := sequence(p.Name)
		return Answer{Node: i % nodes}
	}
}

// inFreeDevices gives each measured pod the next device, after those that are taken, and other pods the next node.
func inFreeDevices(nodes, taken int) func(p *v1.Pod) Answer {
	others := inTurns(nodes)
	return func(p *v1.Pod) Answer {
		if len(p.Spec.ResourceClaims) == 0 {
			return others(p)
		}
		_, i := sequence(p.Name)
		node := (taken + i) % nodes
		return Answer{Node: node, Allocation: allocation(node, (taken+i)/nodes)}
	}
}

// answerPreemptors gives each preemptor a node of its own and the first of the victims there, and other pods the next node. Preemptors beyond the last node
// stay pending: nodes have room for one.
func answerPreemptors(nodes int, low Pods) func(p *v1.Pod) Answer {
	others := inTurns(nodes)
	return func(p *v1.Pod) Answer {
		prefix, i := sequence(p.Name)
		switch {
		case prefix != preemptorPrefix:
			return others(p)
		case i >= nodes:
			return Answer{Node: nowhere, Message: noRoom(nodes, unhelpful(nodes))}
		}
		a := Answer{Node: i}
		for k := i; k < low.Count && len(a.Victims) < perPreemptor; k += nodes {
			a.Victims = append(a.Victims, types.NamespacedName{Namespace: low.NamespaceOf(k), Name: low.Pod(k).Name})
		}
		a.Message = noRoom(nodes, fmt.Sprintf("found a potential placement for pod on node %s, preempting %d victims", plainNode(i).Name, len(a.Victims)))
		return a
	}
}

// answerTooLarge leaves pods pending that are too large for any node, and gives others the next node.
func answerTooLarge(nodes int) func(p *v1.Pod) Answer {
	others := inTurns(nodes)
	return func(p *v1.Pod) Answer {
		if prefix, _ := sequence(p.Name); prefix == tooLargePrefix {
			return Answer{Node: nowhere, Message: noRoom(nodes, unhelpful(nodes))}
		}
		return others(p)
	}
}

// noRoom is the message about a pod that requests more CPU than is free anywhere, with what comes of evicting others for it.
func noRoom(nodes int, preemption string) string {
	return fmt.Sprintf("0/%[1]d nodes are available: %[1]d Insufficient cpu. preemption: %[2]s", nodes, preemption)
}

// unhelpful says that evicting others helps nowhere.
func unhelpful(nodes int) string {
	return fmt.Sprintf("0/%[1]d nodes are available: %[1]d Preemption is not helpful for scheduling.", nodes)
}
