package model

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

// GroupKey is a pod group's namespace and name; zero for a pod without a group.
type GroupKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k GroupKey) String() string { return k.Namespace + "/" + k.Name }

// Ref returns the reference of the PodGroup of a key.
func (k GroupKey) Ref() Ref { return Ref{PodGroupKind, k.Namespace, k.Name} }

// PodGroup is a compiled PodGroup. It is built once and never changed afterwards.
type PodGroup struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *schedulingv1beta1.PodGroup
	Key    GroupKey
	// IsGang says that its policy is gang. Otherwise the policy is basic, or none that is known, which counts as basic.
	IsGang bool
	// MinCount is how many members must have a node for the attempt to succeed: a gang's minCount, otherwise 1.
	MinCount int
	// Priority is that of the group, to which its members' must be equal; 0 if the object has none.
	Priority int32
	// IsUnit says that its members may only be evicted together: its disruptionMode is all.
	IsUnit bool
	// TopologyKey is the node label of which the nodes of all members must have one value; empty if they may have any.
	TopologyKey string
	// Parent is the name of the CompositePodGroup of its namespace that it belongs to, which counts with the gate CompositePodGroup alone; empty if there is none.
	Parent string
}

// NewPodGroup compiles an API object. The object is kept and must not be changed afterwards.
func NewPodGroup(object *schedulingv1beta1.PodGroup) *PodGroup {
	g := &PodGroup{Object: object, Key: GroupKey{Interned(object.Namespace), object.Name}, MinCount: 1}
	if gang := object.Spec.SchedulingPolicy.Gang; gang != nil {
		g.IsGang, g.MinCount = true, int(gang.MinCount)
	}
	if object.Spec.Priority != nil {
		g.Priority = *object.Spec.Priority
	}
	g.IsUnit = object.Spec.DisruptionMode != nil && object.Spec.DisruptionMode.All != nil
	if c := object.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 { // the API allows one
		g.TopologyKey = c.Topology[0].Key
	}
	if parent := object.Spec.ParentCompositePodGroupName; parent != nil {
		g.Parent = *parent
	}
	return g
}

// Ref returns the reference of the group.
func (g *PodGroup) Ref() Ref { return g.Key.Ref() }

// UID returns the object's UID.
func (g *PodGroup) UID() types.UID { return g.Object.UID }

// PreemptionPolicy is the group's own, or the default. It counts only with the gate PodGroupPreemptionPolicy; without it that of the members does.
func (g *PodGroup) PreemptionPolicy() v1.PreemptionPolicy {
	if policy := g.Object.Spec.PreemptionPolicy; policy != nil {
		return v1.PreemptionPolicy(*policy)
	}
	return v1.PreemptLowerPriority
}

// Version returns the object's resourceVersion.
func (g *PodGroup) Version() string { return g.Object.ResourceVersion }

// groupOf returns the group that a pod names.
func groupOf(object *v1.Pod) GroupKey {
	if of := object.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return GroupKey{Interned(object.Namespace), Interned(*of.PodGroupName)}
	}
	return GroupKey{}
}
