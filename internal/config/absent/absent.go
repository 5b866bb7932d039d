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

// New returns the stand-in for a missing plugin, which rejects the pods that need it. It
// returns nil if no pod depends on the plugin, for example because it only scores. A
// plugin that is not in the table is an error, so that none is ignored by mistake.
func New(name string) (*plugin.Parts, error) {
	if harmless.Has(name) {
		return nil, nil
	}
	demands, ok := judged[name]
	if !ok {
		return nil, fmt.Errorf("plugin %q is missing, and it is not known which pods need it", name)
	}
	// rejects returns why the pod must not be bound, or "" if it does not need the plugin
	rejects := func(pod *model.Pod) string {
		for _, of := range demands {
			if demand := of(pod.Object); demand != "" {
				return name + " is not part of this version of Berth: the pod " + demand
			}
		}
		return ""
	}
	return plugin.New(plugin.Parts{
		Name: name,
		PreFilter: &plugin.PreFilter{
			Run: func(_ state.View, pod *model.Pod) plugin.PreFilterResult {
				return plugin.PreFilterResult{Rejection: rejects(pod)}
			},
			Skips: func(pod *model.Pod) bool { return rejects(pod) == "" },
			Bars:  func(pod *model.Pod, _ model.ClassResolver) string { return rejects(pod) },
		},
		// Only an update that removes the demand from the pod can help.
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: []model.EventToRegister{{
			Resource: model.TargetPodEvent, Actions: model.Update,
			Hint: func(_ *model.Pod, e model.Event) bool { return rejects(e.Pod) == "" },
		}}},
	}), nil
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
