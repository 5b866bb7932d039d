// Package absent rejects pods that need a part of kube-scheduler which this version of Berth lacks.
//
// It takes a pod; it gives the rejection of a pod that the missing part would have judged, with a text that names the part and why the pod needs
// it. It owns the table of missing plugins, with the demands that each of them judges. It never looks at a node: without the part it is unknown
// whether a node satisfies such a demand, so the pod stays pending.
package absent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Plugin rejects the pods that the missing part of its name would have judged.
type Plugin struct {
	name string
	// rejects returns why the pod must not be bound, empty if the missing part does not judge it.
	rejects func(pod *v1.Pod) string
}

// New returns the stand-in for a plugin. It is nil for a plugin that keeps no pod from being bound, such as one that only scores. A plugin that
// is not in the table is an error, so that no plugin is ignored by mistake.
func New(name string) (*Plugin, error) {
	if harmless.Has(name) {
		return nil, nil
	}
	needs, ok := judged[name]
	if !ok {
		return nil, fmt.Errorf("plugin %q is missing, and it is not known which pods need it", name)
	}
	return &Plugin{name, func(pod *v1.Pod) string {
		for _, of := range needs {
			if need := of(pod); need != "" {
				return name + " is not part of this version of Berth: the pod " + need
			}
		}
		return ""
	}}, nil
}

// harmless are missing plugins without which only pods are bound that kube-scheduler would bind.
var harmless = sets.New(
	"DeferredPodScheduling", // judges pods that have a node, where a resize waits for room
	"PodGroupPodsCount",     // scores
)

// judged holds the demands of a pod that each missing plugin judges. A demand is a text that follows "the pod".
var judged = map[string][]func(pod *v1.Pod) string{
	"GangScheduling":             {podGroup},
	"TopologyPlacementGenerator": {podGroup},
}

// Name returns the name of what is missing.
func (p *Plugin) Name() string { return p.name }

// PreFilter rejects the pod if the missing part would have judged it.
func (p *Plugin) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	return plugin.PreFilterResult{Rejection: p.rejects(pod.Object)}
}

// Skips reports whether the missing part would not have judged the pod.
func (p *Plugin) Skips(pod *model.Pod) bool { return p.rejects(pod.Object) == "" }

// Bars returns why a pod stays pending, empty if the missing part would not have judged it.
func (p *Plugin) Bars(pod *model.Pod, _ model.ClassResolver) string { return p.rejects(pod.Object) }

// EventsToRegister registers for an update of the pod that removes the demand. No other event helps: the part stays missing.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.TargetPodEvent, Actions: model.Update, Hint: func(_ *model.Pod, e model.Event) bool {
		return p.rejects(e.Pod.Object) == ""
	}}}
}

// podGroup returns the demand to be scheduled with a pod group.
func podGroup(pod *v1.Pod) string {
	switch group := pod.Spec.SchedulingGroup; {
	case group == nil:
		return ""
	case group.PodGroupName == nil:
		return "belongs to a pod group"
	default:
		return fmt.Sprintf("belongs to pod group %q", *group.PodGroupName)
	}
}
