package model

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Node is a compiled node, built by NewNode. It is immutable. The pods on the node are
// not part of it; they are in package state.
type Node struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.Node

	Name        string
	Allocatable Resources
	AllowedPods int64
	// Images holds the sizes of the images on the node in bytes, by each name of an
	// image.
	Images map[string]int64
}

// NewNode compiles an API object. It keeps the object, which must not be changed
// afterwards.
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
				// the first size of a repeated name counts
				if _, listed := node.Images[name]; !listed {
					node.Images[Interned(name)] = object.Status.Images[i].SizeBytes
				}
			}
		}
	}
	return node
}

// Unschedulable reports whether the node is cordoned.
func (n *Node) Unschedulable() bool { return n.Object.Spec.Unschedulable }

// Aspect is a part of a node that can change separately. Plugins declare the aspects that
// they read. Caches are refilled only for nodes on which such an aspect has changed.
type Aspect uint16

// The aspects of a node.
const (
	Labels Aspect = 1 << iota
	Taints        // spec.taints and spec.unschedulable
	Allocatable
	Images
	Features
	// Usage is the resources requested by the pods on the node, and the number of pods.
	Usage
	// Ports are the host ports used by pods on the node.
	Ports
	// PodLabels are the labels of pods on the node, and which of the pods are
	// terminating. No plugin reads them per node; tallies count pods by them.
	PodLabels
	// Volumes are the volumes used by pods on the node or attached to it, and its
	// CSINode.
	Volumes
	// Supply is the free storage that only a few other nodes can use: volumes to bind and
	// capacity to provision.
	Supply
	// Devices are the devices that only this node can use, and their allocations.
	Devices
	// Nominations are the pods nominated to the node.
	Nominations
	// Starts are the start times of the pods on the node, which preemption reads.
	Starts
	// Presence changes when a node appears, disappears or is replaced.
	Presence

	// Static combines the aspects of a node's own object.
	Static = Labels | Taints | Allocatable | Images | Features
	// AllAspects combines the aspects that change with a new or deleted node.
	AllAspects = Static | Usage | Ports | Volumes | Supply | Devices | Nominations | Starts | Presence
)

// Changed returns the aspects that differ between two versions of a node.
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
