package model

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Node is a compiled node. It is built once, by NewNode, and never changed afterwards. It does not include the pods on the node: these are in
// the state.
type Node struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.Node

	Name        string
	Allocatable Resources
	AllowedPods int64
	// Images holds the sizes in bytes of the images on the node, by every name of an image.
	Images map[string]int64
}

// NewNode compiles an API object. The object is kept and must not be changed afterwards.
func NewNode(object *v1.Node) *Node {
	node := &Node{
		Object:      object,
		Name:        Interned(object.Name),
		Allocatable: allocatableOf(object.Status.Allocatable),
		AllowedPods: AllowedPods(object.Status.Allocatable),
	}
	if len(object.Status.Images) > 0 {
		node.Images = make(map[string]int64, 2*len(object.Status.Images))
		for i := range object.Status.Images {
			for _, name := range object.Status.Images[i].Names {
				if _, listed := node.Images[name]; !listed { // of a name that is listed twice the first size counts
					node.Images[Interned(name)] = object.Status.Images[i].SizeBytes
				}
			}
		}
	}
	return node
}

// Unschedulable reports whether the node is cordoned.
func (n *Node) Unschedulable() bool { return n.Object.Spec.Unschedulable }

// Aspect is a part of a node that can change by itself. Plugins declare which aspects they read; caches are refilled only for nodes where one of
// those changed.
type Aspect uint16

// The aspects of a node.
const (
	Labels Aspect = 1 << iota
	Taints        // spec.taints and spec.unschedulable
	Allocatable
	Images
	Features
	// Usage is what the pods on the node occupy: requests and the number of pods.
	Usage
	// Ports are the host ports that pods on the node hold.
	Ports
	// PodLabels are the labels of pods on the node, and which of them are being deleted. No plugin reads them of a node: tallies count by them.
	PodLabels
	// Volumes are the volumes that pods on the node use or that are attached to it, and what its CSINode says.
	Volumes
	// Supply is what of storage is free that few nodes besides this one can use: volumes to bind, capacity to provision.
	Supply
	// Devices are the devices that the node alone can use: what there is of them, and which are allocated.
	Devices
	// Nominations are the pods that are nominated to the node.
	Nominations
	// Starts are the times at which the pods on the node started, which preemption reads.
	Starts
	// Presence changes when a node appears, disappears or is replaced.
	Presence

	// Static is everything in a node's own object.
	Static = Labels | Taints | Allocatable | Images | Features
	// AllAspects is what changes with a new or deleted node.
	AllAspects = Static | Usage | Ports | Volumes | Supply | Devices | Nominations | Starts | Presence
)

// Changed returns the aspects in which two versions of one node differ.
func Changed(before, after *Node) Aspect {
	var changed Aspect
	a, b := before.Object, after.Object
	if !maps.Equal(a.Labels, b.Labels) {
		changed |= Labels
	}
	if a.Spec.Unschedulable != b.Spec.Unschedulable || !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) {
		changed |= Taints
	}
	if !before.Allocatable.Equal(&after.Allocatable) || before.AllowedPods != after.AllowedPods {
		changed |= Allocatable
	}
	if !maps.Equal(before.Images, after.Images) {
		changed |= Images
	}
	if !slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures) {
		changed |= Features
	}
	return changed
}
