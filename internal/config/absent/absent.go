// Package absent rejects pods that need a kube-scheduler plugin which Berth lacks.
//
// It takes a pod and returns the rejection, which names the missing plugin and the pod's
// demand. It owns the table of missing plugins and of the demands that each would check.
// It never looks at a node: without the plugin, no node is known to satisfy the demand,
// so the pod stays pending.
package absent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Plugin stands in for one missing plugin and rejects the pods that need it.
type Plugin struct {
	name string
	// rejects returns why the pod must not be bound, or "" if it does not need the
	// plugin.
	rejects func(pod *v1.Pod) string
}

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{Name: p.name, PreFilter: &plugin.PreFilter{Run: p.PreFilter, Skips: p.Skips, Bars: p.Bars}})
}

// New returns the stand-in for a plugin, or nil if no pod depends on the plugin, for
// example because it only scores. A plugin that is not in the table is an error, so that
// none is ignored by mistake.
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

// harmless lists missing plugins whose absence cannot cause a wrong binding.
var harmless = sets.New(
	"DeferredPodScheduling", // judges placed pods whose resize is deferred
	"PodGroupPodsCount",     // scores
)

// judged holds the demands that each missing plugin would check. A demand is a text that
// follows "the pod".
var judged = map[string][]func(pod *v1.Pod) string{
	"GangScheduling":             {podGroup},
	"TopologyPlacementGenerator": {podGroup},
}

// Name returns the name of the missing plugin.
func (p *Plugin) Name() string { return p.name }

// PreFilter rejects a pod that needs the missing plugin.
func (p *Plugin) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	return plugin.PreFilterResult{Rejection: p.rejects(pod.Object)}
}

// Skips reports whether the pod does not need the missing plugin.
func (p *Plugin) Skips(pod *model.Pod) bool { return p.rejects(pod.Object) == "" }

// Bars returns why a pod stays pending, or "" if it does not need the missing plugin.
func (p *Plugin) Bars(pod *model.Pod, _ model.ClassResolver) string { return p.rejects(pod.Object) }

// EventsToRegister registers for updates that remove the demand from the pod. No other
// event can help.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.TargetPodEvent, Actions: model.Update, Hint: func(_ *model.Pod, e model.Event) bool {
		return p.rejects(e.Pod.Object) == ""
	}}}
}

// podGroup returns the demand of a pod that belongs to a pod group.
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
