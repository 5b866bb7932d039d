// Package nodename limits a pod to the node that its spec names.
//
// It takes a pod and nodes. It returns the name of the only node to check, and a verdict
// on any node. It owns nothing. It never checks that the node exists: an unknown name
// leaves no node to check.
package nodename

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeName"

const otherNode = reason.Unresolvable | 1

// Plugin rejects all nodes but the one in spec.nodeName, if it is set.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodeName".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		PreFilter:         &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips},
		Filter:            &plugin.Filter{Need: p.FilterNeed}, // reads no aspect: a node's name never changes
	})
}

// PreFilter returns the pod's node.
func (*Plugin) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	if pod.NodeName == "" {
		return plugin.PreFilterResult{}
	}
	return plugin.PreFilterResult{Narrowed: true, Nodes: []string{pod.NodeName}}
}

// Skips reports whether the pod names no node.
func (*Plugin) Skips(pod *model.Pod) bool { return pod.NodeName == "" }

// FilterNeed returns the node's name, or nil if the pod names none.
func (*Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	if pod.NodeName == "" {
		return nil
	}
	need := name(pod.NodeName)
	return &need
}

// name is the node that a pod requires.
type name string

func (n *name) AppendText(text []byte) []byte { return append(text, *n...) }
func (n *name) Compile() *plugin.Verdicts     { return &plugin.Verdicts{NodeVerdicts: n} }

func (n *name) Filter(node state.Node) reason.Code {
	if string(*n) != node.Name() {
		return otherNode
	}
	return reason.None
}

func (*name) Reasons(reason.Code) []string {
	return []string{"node(s) didn't match the requested node name"}
}

// EventsToRegister registers for new nodes, which may have the name.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.NodeEvent, Actions: model.Add}}
}
