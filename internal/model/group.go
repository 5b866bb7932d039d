package model

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
)

// GroupKey is a pod group's namespace and name, or zero for a pod without a group.
type GroupKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k GroupKey) String() string { return k.Namespace + "/" + k.Name }

// Ref returns the reference of the PodGroup with this key.
func (k GroupKey) Ref() Ref { return Ref{PodGroupKind, k.Namespace, k.Name} }

// PodGroup is a compiled PodGroup. It is immutable.
type PodGroup struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *schedulingv1beta1.PodGroup
	Key    GroupKey
	// IsGang means that the policy is gang. All other policies, including unknown
	// policies, count as basic.
	IsGang bool
	// MinCount is the number of members that must have a node for the attempt to succeed:
	// a gang's minCount, otherwise 1.
	MinCount int
	// Priority is the object's priority, or 0. The members' priorities must equal it.
	Priority int32
	// IsUnit means that the members may only be evicted together: disruptionMode all.
	IsUnit bool
	// TopologyKey is a node label that must have the same value on the nodes of all
	// members. Empty means no restriction.
	TopologyKey string
	// Parent is the name of the CompositePodGroup above, in the same namespace, or empty.
	// It applies only with the feature gate CompositePodGroup.
	Parent string
}

// NewPodGroup compiles an API object. It keeps the object, which must not be changed
// afterwards.
func NewPodGroup(object *schedulingv1beta1.PodGroup) *PodGroup {
	g := &PodGroup{Object: object, Key: GroupKey{Interned(object.Namespace), object.Name}, MinCount: 1}
	if gang := object.Spec.SchedulingPolicy.Gang; gang != nil {
		g.IsGang, g.MinCount = true, int(gang.MinCount)
	}
	if object.Spec.Priority != nil {
		g.Priority = *object.Spec.Priority
	}
	g.IsUnit = object.Spec.DisruptionMode != nil && object.Spec.DisruptionMode.All != nil
	// the API allows at most 1
	if c := object.Spec.SchedulingConstraints; c != nil && len(c.Topology) > 0 {
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

// PreemptionPolicy returns the group's policy, or the default. It applies only with the
// feature gate PodGroupPreemptionPolicy; otherwise the members' policies apply.
func (g *PodGroup) PreemptionPolicy() v1.PreemptionPolicy {
	if policy := g.Object.Spec.PreemptionPolicy; policy != nil {
		return v1.PreemptionPolicy(*policy)
	}
	return v1.PreemptLowerPriority
}

// Version returns the object's resourceVersion.
func (g *PodGroup) Version() string { return g.Object.ResourceVersion }

// groupOf returns the key of the group that a pod names.
func groupOf(object *v1.Pod) GroupKey {
	if of := object.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return GroupKey{Interned(object.Namespace), Interned(*of.PodGroupName)}
	}
	return GroupKey{}
}
