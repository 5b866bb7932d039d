package noderesourcesfit

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for pods that are deleted or shrink, and for nodes that are added or grow. The arguments that make the filter
// ignore resources are not applied here, as in kube-scheduler.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.AssignedPodEvent, Actions: model.Delete | model.UpdatePodScaleDown, Hint: podFreesRoom},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodScaleDown},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeAllocatable, Hint: nodeOffersRoom, Touches: touchesGrown},
	}
}

// Cause is what the pod requests and would occupy. A node that grows helps only if it grows in one of those resources.
func (*Plugin) Cause(pod *model.Pod) model.Cause {
	text := appendAmounts(make([]byte, 0, 64), &pod.Asks)
	text = appendAmounts(append(text, '/'), &pod.Occupies)
	cause := model.Cause{Alike: model.NeedOf(string(text)), Keys: []model.Key{podsKey}}
	eachAsked(&pod.Asks, func(name string, _ int64) { cause.Keys = append(cause.Keys, resourceKey(name)) })
	return cause
}

// podsKey is the key of the number of pods on a node; every pod needs one more.
var podsKey = resourceKey(string(v1.ResourcePods))

func resourceKey(name string) model.Key { return model.Key{Kind: "resource", Name: name} }

// touchesGrown calls touch with the resources of which a node has more than before; a new node has more of every resource.
func touchesGrown(e model.Event, touch func(model.Key)) {
	var before model.Resources
	var podsBefore int64
	if e.OldNode != nil {
		before, podsBefore = e.OldNode.Allocatable, e.OldNode.AllowedPods
	}
	if e.OldNode == nil || e.Node.AllowedPods > podsBefore {
		touch(podsKey)
	}
	eachAsked(&e.Node.Allocatable, func(name string, amount int64) {
		if amount > amountOf(&before, name) {
			touch(resourceKey(name))
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

func appendAmounts(text []byte, r *model.Resources) []byte {
	eachAsked(r, func(name string, amount int64) {
		text = strconv.AppendInt(append(append(append(text, ' '), name...), '='), amount, 10)
	})
	return text
}

func podFreesRoom(waiting *model.Pod, event model.Event) bool {
	if event.Action == model.Delete {
		gone := event.OldPod
		return gone.NodeName != "" || gone.NominatedNode != ""
	}
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
