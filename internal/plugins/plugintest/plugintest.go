// Package plugintest builds the small clusters that plugins' tables of examples are about.
//
// It takes API objects and gives state views, through the same state that production uses. It owns nothing and is imported
// by tests only.
package plugintest

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/state"
)

// Cluster returns a state that holds the nodes, and the pods on the nodes they name.
func Cluster(nodes []*v1.Node, pods ...*v1.Pod) *state.State {
	s := state.New()
	var changes []model.Change
	for _, n := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for _, p := range pods {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
	}
	s.Apply(changes)
	return s
}

// Node returns the view of a cluster's only node, with the given pods on it.
func Node(node *v1.Node, pods ...*v1.Pod) state.Node {
	placed := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		on := p.DeepCopy()
		on.Spec.NodeName = node.Name
		placed[i] = on
	}
	s := Cluster([]*v1.Node{node}, placed...)
	slot, _ := s.Slot(node.Name)
	return s.Node(slot)
}
