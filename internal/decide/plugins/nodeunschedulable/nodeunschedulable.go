// Package nodeunschedulable keeps pods off cordoned nodes.
//
// It takes a pod's tolerations and a node's spec.unschedulable, and returns a verdict. It
// owns nothing. It never looks at the node's taints: TaintToleration does.
package nodeunschedulable

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeUnschedulable"

const cordoned = reason.Unresolvable | 1

// Plugin rejects cordoned nodes for pods that do not tolerate them.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodeUnschedulable".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		// Taints include spec.unschedulable.
		Filter: &plugin.Filter{Reads: plugin.Reads{Nodes: model.Taints}, Need: p.FilterNeed},
	})
}

// FilterNeed returns nil for pods that tolerate a cordon, since they pass every node. All
// other pods have the same need.
func (*Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	if tolerates(pod.Object.Spec.Tolerations) {
		return nil
	}
	return schedulable{}
}

// schedulable is the need for a node that is not cordoned.
type schedulable struct{}

func (schedulable) AppendText(text []byte) []byte { return append(text, "schedulable"...) }
func (schedulable) Compile() *plugin.Verdicts     { return uncordoned }

// uncordoned is the compiled need, equal for all pods.
var uncordoned = &plugin.Verdicts{NodeVerdicts: schedulable{}}

func (schedulable) Filter(node state.Node) reason.Code {
	if !node.Model().Unschedulable() {
		return reason.None
	}
	return cordoned
}

func (schedulable) Reasons(reason.Code) []string { return []string{"node(s) were unschedulable"} }

// EventsToRegister registers for nodes that become schedulable, and for tolerations that
// the waiting pod gains.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeTaint, Hint: becomesSchedulable},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodToleration, Hint: gainsToleration},
	}
}

func becomesSchedulable(_ *model.Pod, e model.Event) bool {
	return !e.Node.Unschedulable() && (e.OldNode == nil || e.OldNode.Unschedulable())
}

func gainsToleration(_ *model.Pod, e model.Event) bool {
	return tolerates(e.Pod.Object.Spec.Tolerations)
}

// tolerates reports whether some toleration tolerates the taint of a cordon. The taint
// has the key node.kubernetes.io/unschedulable, an empty value and the effect NoSchedule.
// Operators that compare numbers never match an empty value.
func tolerates(tolerations []v1.Toleration) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if t.Key != "" && t.Key != v1.TaintNodeUnschedulable || t.Effect != "" && t.Effect != v1.TaintEffectNoSchedule {
			continue
		}
		switch t.Operator {
		case v1.TolerationOpExists:
			return true
		case "", v1.TolerationOpEqual:
			if t.Value == "" {
				return true
			}
		}
	}
	return false
}
