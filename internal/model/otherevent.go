package model

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AllActions combines all actions: kube-scheduler's All.
const AllActions = Add | Delete | Update

// OtherChange is a change of an object that Berth itself does not read, such as a custom
// resource registered by an out-of-tree plugin.
type OtherChange struct {
	// Resource is kube-scheduler's name, such as resource.k8s.io/ResourceClaim. A custom
	// resource has a name of the form <plural>.<version>.<group>.
	Resource string
	// Old is nil for a new object, New for a deleted object. Custom resources are
	// *unstructured.Unstructured; other objects have their k8s.io/api type.
	Old, New any
}

// label returns kube-scheduler's name of the event.
func (c *OtherChange) label(action Action) string {
	switch action {
	case Add:
		return c.Resource + "Add"
	case Delete:
		return c.Resource + "Delete"
	}
	return c.Resource + "Update"
}

// Objects returns the API objects of an event as kube-scheduler passes them to hints:
// before is nil for Add, after is nil for Delete. If the scheduler has assigned a node
// that the pod's API object does not show yet, the result is a copy with spec.nodeName
// set.
func (e *Event) Objects() (before, after any) {
	switch {
	case e.OldNode != nil || e.Node != nil:
		if e.OldNode != nil {
			before = e.OldNode.Object
		}
		if e.Node != nil {
			after = e.Node.Object
		}
	case e.OldPod != nil || e.Pod != nil:
		if e.OldPod != nil {
			before = e.OldPod.shown()
		}
		if e.Pod != nil {
			after = e.Pod.shown()
		}
	case e.OldObject != nil || e.Object != nil:
		if e.OldObject != nil {
			before = apiObject(e.OldObject)
		}
		if e.Object != nil {
			after = apiObject(e.Object)
		}
	case e.Other != nil:
		before, after = e.Other.Old, e.Other.New
	}
	return before, after
}

// shown returns the API object with the node that the scheduler has chosen.
func (p *Pod) shown() *v1.Pod {
	if p.NodeName == p.Object.Spec.NodeName {
		return p.Object
	}
	with := *p.Object
	with.Spec.NodeName = p.NodeName
	return &with
}

// APIObject returns the API object from which an object was compiled, trimmed to the
// fields that scheduling reads, or nil. It must not be changed.
func APIObject(compiled Compiled) runtime.Object {
	object, _ := apiObject(compiled).(runtime.Object)
	return object
}

// apiObject returns the API object from which an object was compiled.
func apiObject(compiled Compiled) any {
	switch c := compiled.(type) {
	case *Claim:
		return c.Object
	case *Volume:
		return c.Object
	case *StorageClass:
		return c.Object
	case *CSINode:
		return c.Object
	case *CSIDriver:
		return c.Object
	case *StorageCapacity:
		return c.Object
	case *VolumeAttachment:
		return c.Object
	case *DisruptionBudget:
		return c.Object
	case *ResourceClaim:
		return c.Object
	case *ResourceSlice:
		return c.Object
	case *DeviceClass:
		return c.Object
	case *DeviceTaintRule:
		return c.Object
	case *PodGroup:
		return c.Object
	case *CompositeGroup:
		return c.Object
	}
	return nil
}

// OfEachPod is an Alike for opaque hints: no two pods are alike, so the hint is called
// for each pod.
func OfEachPod(waiting *Pod) Need { return NeedOf(waiting.Namespace + "/" + waiting.Name) }

// DefaultEvents returns the events for out-of-tree plugins that register none, and for
// pods rejected by an extender. As in kube-scheduler, they are every action on these
// resources, without volume attachments and resource slices.
func DefaultEvents() []EventToRegister {
	resources := []EventResource{
		AssignedPodEvent, UnscheduledPodEvent, TargetPodEvent, NodeEvent, PersistentVolumeEvent, PersistentVolumeClaimEvent, CSINodeEvent, CSIDriverEvent,
		CSIStorageCapacityEvent, StorageClassEvent, ResourceClaimEvent, DeviceClassEvent,
	}
	var events []EventToRegister
	for _, resource := range resources {
		events = append(events, EventToRegister{Resource: resource, Actions: AllActions})
	}
	return events
}
