package scene

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Answer is the known outcome for a pod. The binder carries it out without a decision.
type Answer struct {
	// Node is the index of the pod's node, or nowhere if the pod stays pending.
	Node int
	// Victims are the pods on that node to evict first, the last of them after the
	// others.
	Victims []types.NamespacedName
	// Allocation is the allocation of the pod's claim before the binding, or nil.
	Allocation *resourcev1.AllocationResult
	// Message is the message of both schedulers about a pod that fits nowhere without
	// preemption, in its condition and in an event. It is empty for other pods.
	Message string
}

// nowhere is the Node of a pod that stays pending.
const nowhere = -1

// Pending reports whether the pod stays pending.
func (a *Answer) Pending() bool { return a.Node == nowhere }

// sequence splits the name of a pod into the part before its index, and the index, or 0.
func sequence(name string) (prefix string, i int) {
	dash := strings.LastIndexByte(name, '-')
	i, err := strconv.Atoi(name[dash+1:])
	if dash < 0 || err != nil {
		return name, 0
	}
	return name[:dash], i
}

// inTurns assigns each pod to the next node.
func inTurns(nodes int) func(p *v1.Pod) Answer {
	return func(p *v1.Pod) Answer {
		_, i := sequence(p.Name)
		return Answer{Node: i % nodes}
	}
}

// inFreeDevices gives each measured pod the next free device, and other pods the next
// node.
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

// answerPreemptors gives each preemptor a node of its own with the first of its victims,
// and other pods the next node. A node has room for one preemptor, so preemptors beyond
// the last node stay pending.
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

// answerTooLarge leaves pods pending that are too large for any node, and gives others
// the next node.
func answerTooLarge(nodes int) func(p *v1.Pod) Answer {
	others := inTurns(nodes)
	return func(p *v1.Pod) Answer {
		if prefix, _ := sequence(p.Name); prefix == tooLargePrefix {
			return Answer{Node: nowhere, Message: noRoom(nodes, unhelpful(nodes))}
		}
		return others(p)
	}
}

// noRoom returns the message about a pod that requests more CPU than any node has free,
// with the result of preemption.
func noRoom(nodes int, preemption string) string {
	return fmt.Sprintf("0/%[1]d nodes are available: %[1]d Insufficient cpu. preemption: %[2]s", nodes, preemption)
}

// unhelpful returns the result of a preemption that helps on no node.
func unhelpful(nodes int) string {
	return fmt.Sprintf("0/%[1]d nodes are available: %[1]d Preemption is not helpful for scheduling.", nodes)
}
