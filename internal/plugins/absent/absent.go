// Package absent stands in for what kube-scheduler has and this version of Berth does not: plugins, and extenders.
//
// It takes a pod; it gives the rejection of a pod that the missing part would have judged, with a text that names the part and what the
// pod needs it for. It owns the table of missing plugins, with the demands that each of them judges. It never looks at a node: whether
// a node satisfies such a demand is what nobody here can tell, so the pod stays pending rather than land on a wrong one.
package absent

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// Plugin rejects the pods that the missing part of its name would have judged.
type Plugin struct {
	name string
	// rejects returns why the pod must not be bound, empty if the missing part has no say about it.
	rejects func(pod *v1.Pod) string
}

// New returns the stand-in for a plugin. It is nil for a plugin that keeps no pod from being bound, such as one that only scores.
// The error says that the plugin is not in the table: a plugin that nobody has thought about must not be passed over.
func New(name string) (*Plugin, error) {
	if _, ok := harmless[name]; ok {
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

// harmless are missing plugins without which no pod is bound that kube-scheduler would not bind, with the reason.
var harmless = map[string]string{
	"DefaultPreemption":     "without preemption a pod waits until there is room",
	"DeferredPodScheduling": "it judges pods that have a node, where a resize waits for room",
	"PodGroupPodsCount":     "it scores",
}

// judged says which demands of a pod each missing plugin judges. A demand is what the pod does, in words that follow "the pod".
var judged = map[string][]func(pod *v1.Pod) string{
	"VolumeRestrictions":         {uses(claims, comparedDisks)},
	"NodeVolumeLimits":           {uses(claims, ephemeralVolumes, countedDisks)},
	"VolumeBinding":              {uses(claims, ephemeralVolumes)},
	"VolumeZone":                 {uses(claims)},
	"DynamicResources":           {resourceClaims, deviceClasses},
	"GangScheduling":             {podGroup},
	"TopologyPlacementGenerator": {podGroup},
}

// Name returns the name of what is missing.
func (p *Plugin) Name() string { return p.name }

// PreFilter rejects the pod if the missing part would have judged it.
func (p *Plugin) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	return plugin.PreFilterResult{Rejection: p.rejects(pod.Object)}
}

// EventsToRegister registers for an update of the pod that takes the demand away. No other event helps: the part stays missing.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.TargetPodEvent, Actions: model.Update, Hint: func(_ *model.Pod, e model.Event) bool {
		return p.rejects(e.Pod.Object) == ""
	}}}
}

// Cause is the same for all pods: the hint looks at nothing but the pod's own update.
func (p *Plugin) Cause(*model.Pod) model.Cause { return model.Cause{Alike: model.NeedOf(p.name)} }

// resourceClaims names the claims for devices that the pod's containers may refer to.
func resourceClaims(pod *v1.Pod) string {
	names := make([]string, len(pod.Spec.ResourceClaims))
	for i := range names {
		names[i] = fmt.Sprintf("resource claim %q", pod.Spec.ResourceClaims[i].Name)
	}
	return used(names)
}

// deviceClassPrefix begins the resource name that every DeviceClass has.
//
// A class may have another name besides (spec.extendedResourceName), which looks like that of any extended resource. A pod that requests it
// needs no bar: a node without the resource is rejected by NodeResourcesFit, and on a node that offers it the device plugin serves the pod.
const deviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// deviceClasses names a resource that is a device of a class.
func deviceClasses(pod *v1.Pod) string {
	name := requested(pod, func(name v1.ResourceName, amount resource.Quantity) bool {
		return strings.HasPrefix(string(name), deviceClassPrefix) && !amount.IsZero()
	})
	if name == "" {
		return ""
	}
	return "requests " + name
}

// requested returns a resource for which asked holds among the requests and limits of containers and init containers: of the first container
// that has any, the first by name. It is empty if there is none. What the pod requests as a whole does not count.
func requested(pod *v1.Pod, asked func(name v1.ResourceName, amount resource.Quantity) bool) string {
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			var names []string
			for _, list := range []v1.ResourceList{containers[i].Resources.Requests, containers[i].Resources.Limits} {
				for name, amount := range list {
					if asked(name, amount) {
						names = append(names, string(name))
					}
				}
			}
			if len(names) > 0 {
				return slices.Min(names)
			}
		}
	}
	return ""
}

// podGroup names the group with which the pod is to be scheduled.
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
