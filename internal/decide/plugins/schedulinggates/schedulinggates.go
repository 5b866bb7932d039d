// Package schedulinggates keeps gated pods out of the active queue.
//
// It takes a pod. It returns a message that names the pod's scheduling gates, and the
// event of their removal. It owns nothing. It never looks at a node: a gated pod does not
// reach the filters.
package schedulinggates

import (
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "SchedulingGates"

// Plugin holds back pods with scheduling gates.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "SchedulingGates".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		PreEnqueue:        &plugin.PreEnqueue{Pod: p.PreEnqueue},
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
	})
}

// PreEnqueue returns a message with the pod's scheduling gates in the order of its spec,
// or "" without gates.
func (*Plugin) PreEnqueue(pod *model.Pod) string {
	gates := pod.Object.Spec.SchedulingGates
	if len(gates) == 0 {
		return ""
	}
	names := make([]string, len(gates))
	for i := range gates {
		names[i] = gates[i].Name
	}
	return "waiting for scheduling gates: [" + strings.Join(names, " ") + "]"
}

// EventsToRegister registers for the removal of the pod's last scheduling gate. While
// other gates remain, no such event occurs and the pod stays gated.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.TargetPodEvent, Actions: model.UpdatePodSchedulingGatesEliminated}}
}
