// Package nodename holds a pod to the node that its spec names.
//
// It takes a pod and nodes; it gives the one node worth looking at, and a verdict for those who ask about another. It owns
// nothing. It never checks that the node exists: a name without a node simply leaves no node to look at.
package nodename

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Name is the plugin's name in the configuration.
const Name = "NodeName"

const otherNode = reason.Unresolvable | 1

// Plugin rejects nodes that a pod with spec.nodeName does not name.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodeName".
func (*Plugin) Name() string { return Name }

// Narrow names the pod's node.
func (*Plugin) Narrow(pod *model.Pod) (names []string, narrowed bool, rejection string) {
	if pod.NodeName == "" {
		return nil, false, ""
	}
	return []string{pod.NodeName}, true, ""
}

// FilterNeed is the node's name.
func (*Plugin) FilterNeed(pod *model.Pod) model.Need {
	if pod.NodeName == "" {
		return model.Need{}
	}
	return model.NeedOf(pod.NodeName)
}

// FilterReads names no aspect: the name is what makes the node that node.
func (*Plugin) FilterReads() model.Aspect { return 0 }

// CompileFilter prepares the comparison with the pod's node name.
func (*Plugin) CompileFilter(pod *model.Pod) compiled.Filter { return &filter{name: pod.NodeName} }

// filter passes the one node of its name, and every node when it has none.
type filter struct{ name string }

func (f *filter) Filter(node state.Node) reason.Code {
	if f.name != "" && f.name != node.Name() {
		return otherNode
	}
	return reason.None
}

func (*filter) Reasons(reason.Code) []string {
	return []string{"node(s) didn't match the requested node name"}
}

// Interests registers for new nodes, one of which may have the name.
func (*Plugin) Interests() []model.Interest {
	return []model.Interest{{Resource: model.NodeEvent, Actions: model.Add}}
}

// Cause is the same for all pods: hints do not look at them.
func (*Plugin) Cause(*model.Pod) model.Cause { return model.Cause{Alike: model.NeedOf(Name)} }
