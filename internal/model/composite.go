package model

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CompositeGroup is a compiled CompositePodGroup. It is built once and never changed afterwards.
type CompositeGroup struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *schedulingv1alpha3.CompositePodGroup
	// Key is its namespace and name. A PodGroup may have the same: they are different things.
	Key GroupKey
	// MinGroupCount is how many of the groups directly below it must succeed for it to do so: a gang's minGroupCount, otherwise 1.
	MinGroupCount int
	// IsGang says that its policy is gang. Otherwise the policy is basic, or none that is known, which counts as basic.
	IsGang bool
	// Priority is that of the object; 0 if it has none. That of the root counts for all below it.
	Priority int32
	// IsUnit says that all pods below it may only be evicted together: its disruptionMode is all.
	IsUnit bool
	// TopologyKey is the node label of which the nodes of all pods below it must have one value; empty if they may have any.
	TopologyKey string
	// Parent is the name of the CompositePodGroup of its namespace that it belongs to; empty for a root.
	Parent string
}

// NewCompositeGroup compiles an API object. The object is kept and must not be changed afterwards.
func NewCompositeGroup(object *schedulingv1alpha3.CompositePodGroup) *CompositeGroup {
	g := &CompositeGroup{Object: object, Key: GroupKey{Interned(object.Namespace), object.Name}, MinGroupCount: 1}
	if gang := object.Spec.SchedulingPolicy.Gang; gang != nil {
		g.IsGang, g.MinGroupCount = true, int(gang.MinGroupCount)
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
func (g *CompositeGroup) Ref() Ref { return Ref{CompositePodGroupKind, g.Key.Namespace, g.Key.Name} }

// UID returns the object's UID.
func (g *CompositeGroup) UID() types.UID { return g.Object.UID }

// Version returns the object's resourceVersion.
func (g *CompositeGroup) Version() string { return g.Object.ResourceVersion }

// PreemptionPolicy is the group's own, or the default. It counts only with the gate PodGroupPreemptionPolicy.
func (g *CompositeGroup) PreemptionPolicy() v1.PreemptionPolicy {
	if policy := g.Object.Spec.PreemptionPolicy; policy != nil {
		return v1.PreemptionPolicy(*policy)
	}
	return v1.PreemptLowerPriority
}

// RootKey names what is tried as one: a PodGroup that belongs to no composite one, or the tree with this CompositePodGroup at its top. Both may have the same name.
type RootKey struct {
	Key       GroupKey
	Composite bool
}

// String returns namespace and name.
func (k RootKey) String() string { return k.Key.String() }

// GroupTree is a pod group, or a composite pod group with the groups below it. It is built when it is asked for, and never changed afterwards.
type GroupTree struct {
	// Group is set for a PodGroup, Composite for a CompositePodGroup; never both.
	Group     *PodGroup
	Composite *CompositeGroup
	// Below are the groups that name the composite one as their parent, those that were created first at the beginning, and of these by name. A PodGroup has none.
	Below []*GroupTree
}

// TreeOf returns a pod group by itself as a tree.
func TreeOf(group *PodGroup) *GroupTree { return &GroupTree{Group: group} }

// Key returns the namespace and name of the group at the top.
func (t *GroupTree) Key() GroupKey {
	if t.Composite != nil {
		return t.Composite.Key
	}
	return t.Group.Key
}

// Object returns the API object of the group at the top.
func (t *GroupTree) Object() metav1.Object {
	if t.Composite != nil {
		return t.Composite.Object
	}
	return t.Group.Object
}

// TopologyKey returns the node label of which the nodes of all its pods must have one value; empty if they may have any.
func (t *GroupTree) TopologyKey() string {
	if t.Composite != nil {
		return t.Composite.TopologyKey
	}
	return t.Group.TopologyKey
}

// Leaves calls yield with each PodGroup of the tree, in order, until yield returns false. It can be ranged over.
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

// Root returns what stands for the whole tree as a group of all its pods: it has the name, priority and preemption policy of the composite group at the top, and
// no topology of its own.
func (t *GroupTree) Root() *PodGroup {
	g := t.Composite
	object := &schedulingv1beta1.PodGroup{ObjectMeta: g.Object.ObjectMeta}
	object.Spec.Priority = &g.Priority
	policy := schedulingv1beta1.PreemptionPolicy(g.PreemptionPolicy())
	object.Spec.PreemptionPolicy = &policy
	return NewPodGroup(object)
}
