package model

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CompositeGroup is a compiled CompositePodGroup. It is immutable.
type CompositeGroup struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *schedulingv1alpha3.CompositePodGroup
	// Key is the namespace and name. A PodGroup with the same key is a different object.
	Key GroupKey
	// MinGroupCount is the number of groups directly below that must succeed for this
	// group to succeed: a gang's minGroupCount, otherwise 1.
	MinGroupCount int
	// IsGang means that the policy is gang. All other policies, including unknown
	// policies, count as basic.
	IsGang bool
	// Priority is the object's priority, or 0. The root's priority applies to the whole
	// tree.
	Priority int32
	// IsUnit means that all pods below may only be evicted together: disruptionMode all.
	IsUnit bool
	// TopologyKey is a node label that must have the same value on the nodes of all pods
	// below. Empty means no restriction.
	TopologyKey string
	// Parent is the name of the CompositePodGroup above, in the same namespace. It is
	// empty for a root.
	Parent string
}

// NewCompositeGroup compiles an API object. It keeps the object, which must not be
// changed afterwards.
func NewCompositeGroup(object *schedulingv1alpha3.CompositePodGroup) *CompositeGroup {
	g := &CompositeGroup{Object: object, Key: GroupKey{Interned(object.Namespace), object.Name}, MinGroupCount: 1}
	if gang := object.Spec.SchedulingPolicy.Gang; gang != nil {
		g.IsGang, g.MinGroupCount = true, int(gang.MinGroupCount)
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
func (g *CompositeGroup) Ref() Ref { return Ref{CompositePodGroupKind, g.Key.Namespace, g.Key.Name} }

// UID returns the object's UID.
func (g *CompositeGroup) UID() types.UID { return g.Object.UID }

// Version returns the object's resourceVersion.
func (g *CompositeGroup) Version() string { return g.Object.ResourceVersion }

// PreemptionPolicy returns the group's policy, or the default. It applies only with the
// feature gate PodGroupPreemptionPolicy.
func (g *CompositeGroup) PreemptionPolicy() v1.PreemptionPolicy {
	if policy := g.Object.Spec.PreemptionPolicy; policy != nil {
		return v1.PreemptionPolicy(*policy)
	}
	return v1.PreemptLowerPriority
}

// RootKey identifies a unit of scheduling: a PodGroup without a parent, or the tree with
// this CompositePodGroup as its root. Both may have the same name.
type RootKey struct {
	Key       GroupKey
	Composite bool
}

// String returns namespace/name.
func (k RootKey) String() string { return k.Key.String() }

// GroupTree is a pod group, or a composite pod group with the groups below it. It is
// built on demand and immutable.
type GroupTree struct {
	// Group is set for a PodGroup, Composite for a CompositePodGroup. Invariant: exactly
	// one is set.
	Group     *PodGroup
	Composite *CompositeGroup
	// Below are the groups whose parent is Composite, ordered by creation time, then
	// name. A PodGroup has none.
	Below []*GroupTree
}

// TreeOf returns a tree that consists of one pod group.
func TreeOf(group *PodGroup) *GroupTree { return &GroupTree{Group: group} }

// Key returns the namespace and name of the root.
func (t *GroupTree) Key() GroupKey {
	if t.Composite != nil {
		return t.Composite.Key
	}
	return t.Group.Key
}

// Object returns the API object of the root.
func (t *GroupTree) Object() metav1.Object {
	if t.Composite != nil {
		return t.Composite.Object
	}
	return t.Group.Object
}

// TopologyKey returns the root's topology key: a node label that must have the same value
// on the nodes of all pods. Empty means no restriction.
func (t *GroupTree) TopologyKey() string {
	if t.Composite != nil {
		return t.Composite.TopologyKey
	}
	return t.Group.TopologyKey
}

// Leaves calls yield with each PodGroup of the tree, in order, until yield returns false.
// It can be used with range.
func (t *GroupTree) Leaves(yield func(*PodGroup) bool) { t.leaves(yield) }

func (t *GroupTree) leaves(yield func(*PodGroup) bool) bool {
	if t.Group != nil {
		return yield(t.Group)
	}
	for _, below := range t.Below {
		if !below.leaves(yield) {
			return false
		}
	}
	return true
}

// Root returns a PodGroup that represents all pods of the tree. It has the name, priority
// and preemption policy of the root, and no topology.
func (t *GroupTree) Root() *PodGroup {
	g := t.Composite
	object := &schedulingv1beta1.PodGroup{ObjectMeta: g.Object.ObjectMeta}
	object.Spec.Priority = &g.Priority
	policy := schedulingv1beta1.PreemptionPolicy(g.PreemptionPolicy())
	object.Spec.PreemptionPolicy = &policy
	return NewPodGroup(object)
}
