package build

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeOption changes a new node.
type NodeOption func(*v1.Node)

// Node makes a node with room for 110 pods by default.
func Node(name string, options ...NodeOption) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Status: v1.NodeStatus{Allocatable: Resources("pods=110")}}
	for _, option := range options {
		option(n)
	}
	return n
}

// NodesInZones reads "a=z1 b=": node a in zone z1, node b without a zone. Each has its
// name as host name.
func NodesInZones(text string, options ...NodeOption) []*v1.Node {
	var all []*v1.Node
	for _, field := range strings.Fields(text) {
		name, zone, _ := strings.Cut(field, "=")
		n := Node(name, options...)
		n.Labels[v1.LabelHostname] = name
		if zone != "" {
			n.Labels[v1.LabelTopologyZone] = zone
		}
		all = append(all, n)
	}
	return all
}

// With applies options to one of the nodes, and returns all.
func With(nodes []*v1.Node, name string, options ...NodeOption) []*v1.Node {
	for _, n := range nodes {
		for _, option := range options {
			if n.Name == name {
				option(n)
			}
		}
	}
	return nodes
}

// NodeLabels adds labels such as "disk=ssd".
func NodeLabels(text string) NodeOption {
	return func(n *v1.Node) { maps.Copy(n.Labels, LabelSet(text)) }
}

// WithoutLabel removes a label.
func WithoutLabel(key string) NodeOption { return func(n *v1.Node) { delete(n.Labels, key) } }

// Allocatable adds or changes resources such as "cpu=4 memory=8Gi".
func Allocatable(text string) NodeOption {
	return func(n *v1.Node) { maps.Copy(n.Status.Allocatable, Resources(text)) }
}

// Taints adds taints such as "a=b:NoSchedule c:NoExecute".
func Taints(text string) NodeOption {
	return func(n *v1.Node) {
		for _, field := range strings.Fields(text) {
			keyValue, effect, _ := strings.Cut(field, ":")
			key, value, _ := strings.Cut(keyValue, "=")
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
		}
	}
}

// Unschedulable cordons the node.
func Unschedulable(n *v1.Node) { n.Spec.Unschedulable = true }
