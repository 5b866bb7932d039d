package noderesourcesfit

import "github.com/berth-scheduler/berth/internal/model"

// Interests registers for room: pods that go or shrink, and nodes that come or grow. The arguments that make the filter
// ignore resources are not applied here, as in kube-scheduler.
func (*Plugin) Interests() []model.Interest {
	return []model.Interest{
		{Resource: model.AssignedPodEvent, Actions: model.Delete | model.UpdatePodScaleDown, Hint: podFreesRoom},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodScaleDown},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeAllocatable, Hint: nodeOffersRoom},
	}
}

func podFreesRoom(waiting *model.Pod, event model.Event) bool {
	if event.Action == model.Delete {
		gone := event.OldPod
		return gone.NodeName != "" || gone.NominatedNode != ""
	}
	return event.Pod.NodeName != "" && exceeds(&waiting.Occupies, &event.OldPod.Occupies, &event.Pod.Occupies)
}

// nodeOffersRoom reports whether the pod fits on the node when it is empty and, for a node that was there before, whether it
// grew in something that the pod needs.
func nodeOffersRoom(waiting *model.Pod, event model.Event) bool {
	node, before := event.Node, event.OldNode
	if node.AllowedPods < 1 || exceeds(&waiting.Asks, &waiting.Asks, &node.Allocatable) {
		return false
	}
	return before == nil || node.AllowedPods > before.AllowedPods || exceeds(&waiting.Asks, &node.Allocatable, &before.Allocatable)
}

// exceeds reports whether a is larger than b in some resource that is asked for.
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
