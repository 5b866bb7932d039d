package testing

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// NodeWrapper wraps a node.
type NodeWrapper struct{ v1.Node }

// MakeNode returns a node without a name that allows 32 pods.
func MakeNode() *NodeWrapper { return (&NodeWrapper{}).Capacity(nil) }

// Obj returns the node.
func (n *NodeWrapper) Obj() *v1.Node { return &n.Node }

// Name sets the name.
func (n *NodeWrapper) Name(name string) *NodeWrapper { n.SetName(name); return n }

// UID sets the UID.
func (n *NodeWrapper) UID(uid string) *NodeWrapper { n.SetUID(types.UID(uid)); return n }

// Label adds a label.
func (n *NodeWrapper) Label(key, value string) *NodeWrapper {
	n.Labels = with(n.Labels, key, value)
	return n
}

// Annotation adds an annotation.
func (n *NodeWrapper) Annotation(key, value string) *NodeWrapper {
	n.Annotations = with(n.Annotations, key, value)
	return n
}

// Capacity sets capacity and allocatable. Without a number of pods, the node allows 32.
func (n *NodeWrapper) Capacity(amounts map[v1.ResourceName]string) *NodeWrapper {
	list := v1.ResourceList{v1.ResourcePods: resource.MustParse("32")}
	for name, amount := range quantities(amounts) {
		list[name] = amount
	}
	n.Status.Capacity, n.Status.Allocatable = list, list.DeepCopy()
	return n
}

// Images sets the images, given as sizes in bytes by name.
func (n *NodeWrapper) Images(sizes map[string]int64) *NodeWrapper {
	n.Status.Images = nil
	for name, size := range sizes {
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: size})
	}
	slices.SortFunc(n.Status.Images, func(a, b v1.ContainerImage) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return n
}

// Taints sets the taints.
func (n *NodeWrapper) Taints(taints []v1.Taint) *NodeWrapper { n.Spec.Taints = taints; return n }

// Unschedulable cordons the node, or uncordons it.
func (n *NodeWrapper) Unschedulable(unschedulable bool) *NodeWrapper {
	n.Spec.Unschedulable = unschedulable
	return n
}

// DeclaredFeatures sets the features that the node declares, in alphabetical order.
func (n *NodeWrapper) DeclaredFeatures(features []string) *NodeWrapper {
	n.Status.DeclaredFeatures = features
	return n
}

// Condition adds a condition.
func (n *NodeWrapper) Condition(kind v1.NodeConditionType, status v1.ConditionStatus, message, reason string) *NodeWrapper {
	n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: kind, Status: status, Message: message, Reason: reason})
	return n
}
