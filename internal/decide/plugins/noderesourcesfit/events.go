package noderesourcesfit

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for pods that are deleted or shrink, and for nodes that are
// added or grow. Hints check the amounts that the filter checks; kube-scheduler's hints
// also check ignored resources. Any deleted pod helps any waiting pod.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: podWasPlaced},
		{
			Resource: model.AssignedPodEvent, Actions: model.UpdatePodScaleDown, Hint: podShrinks,
			Alike: namesOccupied, Cause: causeOfShrinking, Touches: touchesShrunk,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodScaleDown},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeAllocatable, Hint: p.nodeOffersRoom,
			Alike: p.amountsAsked, Cause: p.causeOfNodes, Touches: touchesGrown,
		},
		{
			Resource: model.DeviceClassEvent, Actions: model.Add | model.Update, Hint: classStandsIn,
			Alike: namesAsked, Cause: causeOfClasses, Touches: touchesNamed,
		},
	}
}

// textBytes estimates the length of a text that lists the resources with their amounts.
func textBytes(r *model.Resources) int { return 64 + 40*len(r.Scalars) }

// namesAsked returns the part of a pod that hints about classes depend on: the resources
// that it lists, even with amount 0.
func namesAsked(pod *model.Pod) model.Need {
	text := append(make([]byte, 0, textBytes(&pod.Asks)), "names"...)
	for _, s := range pod.Asks.Scalars {
		text = append(append(text, ' '), s.Name.Value()...)
	}
	need, _ := model.NeedOfText(text)
	return need
}

// maxKeys is the number of scalars up to which their names are keys of a cause. Beyond
// it, events find the pod by few names or always. Hints check long lists by name, so they
// cost less than thousands of keys.
const maxKeys = 64

// causeOfClasses requires that the class provides a resource that the pod requests.
func causeOfClasses(pod *model.Pod) model.Cause {
	if len(pod.Asks.Scalars) > maxKeys {
		return model.Cause{}
	}
	named := make(model.Clause, 0, len(pod.Asks.Scalars))
	for _, s := range pod.Asks.Scalars {
		if model.CanBeDevices(s.Name) {
			named = append(named, resourceKey(s.Name.Value()))
		}
	}
	return model.Cause{Wants: []model.Way{{named}}}
}

func touchesNamed(e model.Event, to *model.Touch) {
	for _, name := range newlyNamed(e) {
		to.Has = append(to.Has, resourceKey(name))
	}
}

// newlyNamed returns the resources that a class did not provide before.
func newlyNamed(e model.Event) (names []string) {
	class := e.Object.(*model.DeviceClass)
	named := class.Object.Spec.ExtendedResourceName
	if e.OldObject == nil {
		names = append(names, model.ImpliedResource(class.Name))
	} else if before := e.OldObject.(*model.DeviceClass).Object.Spec.ExtendedResourceName; before != nil && named != nil && *before == *named {
		return nil
	}
	if named != nil {
		names = append(names, *named)
	}
	return names
}

// classStandsIn reports whether a class now provides a resource that the pod requests.
func classStandsIn(waiting *model.Pod, event model.Event) bool {
	for _, name := range newlyNamed(event) {
		if waiting.Asks.IsListed(model.ResourceNameOf(name)) {
			return true
		}
	}
	return false
}

// amountsAsked returns the part of a pod that hints about nodes depend on.
func (p *Plugin) amountsAsked(pod *model.Pod) model.Need {
	text := append(make([]byte, 0, textBytes(&pod.Asks)), "asks"...)
	eachAsked(p.checked(&pod.Asks), func(name string, asked int64) {
		text = strconv.AppendInt(append(append(append(text, ' '), name...), '='), asked, 10)
	})
	need, _ := model.NeedOfText(text)
	return need
}

// namesOccupied returns the part of a pod that hints about shrinking pods depend on: the
// resources that the waiting pod would occupy.
func namesOccupied(pod *model.Pod) model.Need {
	text := append(make([]byte, 0, textBytes(&pod.Occupies)), "occupies"...)
	eachAsked(&pod.Occupies, func(name string, _ int64) { text = append(append(text, ' '), name...) })
	need, _ := model.NeedOfText(text)
	return need
}

// podsKey is the key of the number of pods on a node; every pod needs one more.
var podsKey = resourceKey(string(v1.ResourcePods))

func resourceKey(name string) model.Key { return model.Key{Name: name} }

// devicesKey is the key of resources that devices can provide: a node need not have any.
var devicesKey = resourceKey("")

// causeOfNodes returns the condition under which an event about a node can help: the node
// has each resource that the pod requests, and an existing node has grown in at least
// one. Devices may provide resources that the node lacks. With more than maxKeys scalars,
// the condition has the first maxKeys that a node must have.
func (p *Plugin) causeOfNodes(pod *model.Pod) model.Cause {
	asks := p.checked(&pod.Asks)
	many := len(asks.Scalars) > maxKeys
	if many {
		few := *asks
		few.Scalars, asks = few.Scalars[:maxKeys], &few
	}
	most := len(asks.Scalars) + fixedBits
	cause := model.Cause{Keys: make([]model.Key, 0, 2*most)}
	way := make(model.Way, 0, most)
	eachAsked(asks, func(name string, _ int64) {
		clause := model.Clause{resourceKey(name)}
		if model.CanBeDevices(model.ResourceNameOf(name)) {
			clause = append(clause, devicesKey)
		}
		way = append(way, clause)
		cause.Keys = append(cause.Keys, clause...)
	})
	cause.Wants = []model.Way{append(way, model.Clause{podsKey})}
	if cause.Keys = append(cause.Keys, podsKey); many {
		cause.Keys = nil
	}
	return cause
}

// touchesGrown adds the resources that the node has, and seeks those that have grown.
func touchesGrown(e model.Event, to *model.Touch) {
	to.Has = append(to.Has, podsKey)
	eachAsked(&e.Node.Allocatable, func(name string, _ int64) { to.Has = append(to.Has, resourceKey(name)) })
	var grown model.Clause
	if e.Classes != nil && e.Classes.HasClasses() {
		to.Has = append(to.Has, devicesKey)
		grown = append(grown, devicesKey)
	}
	if e.OldNode == nil {
		return
	}
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

// causeOfShrinking requires that the other pod shrank in a resource that the waiting pod
// would occupy.
func causeOfShrinking(pod *model.Pod) model.Cause {
	if len(pod.Occupies.Scalars) > maxKeys {
		return model.Cause{}
	}
	occupied := make(model.Clause, 0, len(pod.Occupies.Scalars)+fixedBits)
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

// eachAsked yields each resource whose amount is not 0.
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

func amountOf(r *model.Resources, name string) int64 {
	return max(model.KeyOf(v1.ResourceName(name)).In(r), 0)
}

func podWasPlaced(_ *model.Pod, event model.Event) bool {
	return event.OldPod.NodeName != "" || event.OldPod.NominatedNode != ""
}

// podShrinks reports whether a placed pod shrinks in a resource that the waiting pod
// would occupy.
func podShrinks(waiting *model.Pod, event model.Event) bool {
	return event.Pod.NodeName != "" && exceeds(&waiting.Occupies, &event.OldPod.Occupies, &event.Pod.Occupies)
}

// nodeOffersRoom reports whether the pod would fit on the node if it were empty. An
// existing node must also have grown in a resource that the pod needs, or have a resource
// that devices provide.
func (p *Plugin) nodeOffersRoom(waiting *model.Pod, event model.Event) bool {
	node, before := event.Node, event.OldNode
	asks, delegated := notDelegated(p.checked(&waiting.Asks), event)
	if node.AllowedPods < 1 || exceeds(asks, asks, &node.Allocatable) {
		return false
	}
	return before == nil || delegated || node.AllowedPods > before.AllowedPods || exceeds(asks, &node.Allocatable, &before.Allocatable)
}

// notDelegated returns the amounts that are checked on an event's node. delegated reports
// whether others are left to DynamicResources.
func notDelegated(asks *model.Resources, event model.Event) (checked *model.Resources, delegated bool) {
	if event.Classes == nil || !asks.AreDevices(event.Classes) {
		return asks, false
	}
	rest := *asks
	rest.Scalars = slices.DeleteFunc(slices.Clone(rest.Scalars), func(s model.Scalar) bool {
		return s.Value != 0 && event.Node.Allocatable.Scalar(s.Name) <= 0 && event.Classes.ClassFor(s.Name) != nil
	})
	return &rest, len(rest.Scalars) < len(asks.Scalars)
}

// exceeds reports whether a is larger than b in a requested resource.
func exceeds(asks, a, b *model.Resources) bool {
	if asks.CPUMilli > 0 && a.CPUMilli > b.CPUMilli ||
		asks.MemoryBytes > 0 && a.MemoryBytes > b.MemoryBytes ||
		asks.EphemeralBytes > 0 && a.EphemeralBytes > b.EphemeralBytes {
		return true
	}
	// Scalars that a does not list are 0, and not larger.
	if len(a.Scalars) < len(asks.Scalars) {
		for _, s := range a.Scalars {
			if s.Value > b.Scalar(s.Name) && asks.Scalar(s.Name) > 0 {
				return true
			}
		}
		return false
	}
	for _, s := range asks.Scalars {
		if s.Value > 0 && a.Scalar(s.Name) > b.Scalar(s.Name) {
			return true
		}
	}
	return false
}
