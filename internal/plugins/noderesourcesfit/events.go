package noderesourcesfit

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for pods that are deleted or shrink, and for nodes that are added or grow. The arguments that make the filter
// ignore resources are not applied here, as in kube-scheduler. Any deleted pod helps any waiting pod.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: podWasPlaced},
		{
			Resource: model.AssignedPodEvent, Actions: model.UpdatePodScaleDown, Hint: podShrinks,
			Alike: namesOccupied, Cause: causeOfShrinking, Touches: touchesShrunk,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodScaleDown},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeAllocatable, Hint: nodeOffersRoom,
			Alike: amountsAsked, Cause: causeOfNodes, Touches: touchesGrown,
		},
	}
}

// amountsAsked is what hints about nodes depend on.
func amountsAsked(pod *model.Pod) model.Need {
	text := append(make([]byte, 0, 64), "asks"...)
	eachAsked(&pod.Asks, func(name string, asked int64) {
		text = strconv.AppendInt(append(append(append(text, ' '), name...), '='), asked, 10)
	})
	return model.NeedOf(string(text))
}

// namesOccupied is what hints about pods that shrink depend on: of which resources the waiting pod would occupy any.
func namesOccupied(pod *model.Pod) model.Need {
	text := append(make([]byte, 0, 64), "occupies"...)
	eachAsked(&pod.Occupies, func(name string, _ int64) { text = append(append(text, ' '), name...) })
	return model.NeedOf(string(text))
}

// podsKey is the key of the number of pods on a node; every pod needs one more.
var podsKey = resourceKey(string(v1.ResourcePods))

func resourceKey(name string) model.Key { return model.Key{Name: name} }

// causeOfNodes returns that a node must have each resource that the pod requests, and that a node that existed before must have grown in one.
func causeOfNodes(pod *model.Pod) model.Cause {
	var cause model.Cause
	var way model.Way
	eachAsked(&pod.Asks, func(name string, _ int64) {
		way = append(way, model.Clause{resourceKey(name)})
		cause.Keys = append(cause.Keys, resourceKey(name))
	})
	cause.Wants = []model.Way{append(way, model.Clause{podsKey})}
	cause.Keys = append(cause.Keys, podsKey)
	return cause
}

// touchesGrown adds the resources that the node has, and seeks those of which it has more than before.
func touchesGrown(e model.Event, to *model.Touch) {
	to.Has = append(to.Has, podsKey)
	eachAsked(&e.Node.Allocatable, func(name string, _ int64) { to.Has = append(to.Has, resourceKey(name)) })
	if e.OldNode == nil {
		return
	}
	var grown model.Clause
	if e.Node.AllowedPods > e.OldNode.AllowedPods {
		grown = append(grown, podsKey)
	}
	eachAsked(&e.Node.Allocatable, func(name string, amount int64) {
		if amount > amountOf(&e.OldNode.Allocatable, name) {
			grown = append(grown, resourceKey(name))
		}
	})
	to.Seeks = append(to.Seeks, model.Way{grown})
}

// causeOfShrinking returns that the other pod must have shrunk in a resource that the waiting pod would occupy.
func causeOfShrinking(pod *model.Pod) model.Cause {
	occupied := model.Clause{}
	eachAsked(&pod.Occupies, func(name string, _ int64) { occupied = append(occupied, resourceKey(name)) })
	return model.Cause{Wants: []model.Way{{occupied}}}
}

func touchesShrunk(e model.Event, to *model.Touch) {
	eachAsked(&e.OldPod.Occupies, func(name string, amount int64) {
		if amount > amountOf(&e.Pod.Occupies, name) {
			to.Has = append(to.Has, resourceKey(name))
		}
	})
}

// eachAsked calls yield with each resource whose amount is not 0.
func eachAsked(r *model.Resources, yield func(name string, amount int64)) {
	one := func(name v1.ResourceName, amount int64) {
		if amount > 0 {
			yield(string(name), amount)
		}
	}
	one(v1.ResourceCPU, r.CPUMilli)
	one(v1.ResourceMemory, r.MemoryBytes)
	one(v1.ResourceEphemeralStorage, r.EphemeralBytes)
	for _, s := range r.Scalars {
		one(v1.ResourceName(s.Name.Value()), s.Value)
	}
}

func amountOf(r *model.Resources, name string) (amount int64) {
	eachAsked(r, func(one string, has int64) {
		if one == name {
			amount = has
		}
	})
	return amount
}

func podWasPlaced(_ *model.Pod, event model.Event) bool {
	return event.OldPod.NodeName != "" || event.OldPod.NominatedNode != ""
}

// podShrinks reports whether a pod on a node shrinks in a resource that the waiting pod would occupy.
func podShrinks(waiting *model.Pod, event model.Event) bool {
	return event.Pod.NodeName != "" && exceeds(&waiting.Occupies, &event.OldPod.Occupies, &event.Pod.Occupies)
}

// nodeOffersRoom reports whether the pod would fit on the node if it were empty and, if the node existed before, whether it grew in a resource
// that the pod needs.
func nodeOffersRoom(waiting *model.Pod, event model.Event) bool {
	node, before := event.Node, event.OldNode
	if node.AllowedPods < 1 || exceeds(&waiting.Asks, &waiting.Asks, &node.Allocatable) {
		return false
	}
	return before == nil || node.AllowedPods > before.AllowedPods || exceeds(&waiting.Asks, &node.Allocatable, &before.Allocatable)
}

// exceeds reports whether a is larger than b in a requested resource.
func exceeds(asks, a, b *model.Resources) bool {
	if asks.CPUMilli > 0 && a.CPUMilli > b.CPUMilli ||
		asks.MemoryBytes > 0 && a.MemoryBytes > b.MemoryBytes ||
		asks.EphemeralBytes > 0 && a.EphemeralBytes > b.EphemeralBytes {
		return true
	}
	for _, s := range asks.Scalars {
		if s.Value > 0 && a.Scalar(s.Name) > b.Scalar(s.Name) {
			return true
		}
	}
	return false
}
