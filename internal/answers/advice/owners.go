package advice

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// owner is a controller outside of Kubernetes that sets fields of pods, or labels of
// nodes.
type owner struct {
	name string
	// gates are the prefixes of its scheduling gates.
	gates []string
	// pods are the labels of pods whose node selector and node affinity it may set.
	pods []string
	// ask is the command that tells what the owner waits for. It may name the namespace.
	ask string
	// template is the object whose node labels it copies into pods.
	template string
}

// owners are in no order. The names are constants of the sources: the pod integration of
// Kueue, staging/src/volcano.sh/apis of Volcano, and the operator of Grove.
var owners = []owner{
	{name: "Kueue", gates: []string{"kueue.x-k8s.io/"}, pods: []string{"kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/queue-name"},
		ask: "kubectl -n %s get workloads.kueue.x-k8s.io", template: "ResourceFlavor"},
	{name: "Volcano", gates: []string{"scheduling.volcano.sh/"}, ask: "kubectl get queues.scheduling.volcano.sh"},
	{name: "Grove", gates: []string{"grove.io/"}, ask: "kubectl -n %s get podgangs.scheduler.grove.io"},
	{name: "the Cloud Storage FUSE driver", gates: []string{"gke-gcsfuse/"}},
}

// question returns the command to ask the owner, in parentheses.
func (o *owner) question(namespace string) string {
	if o.ask == "" {
		return ""
	}
	if strings.Contains(o.ask, "%s") {
		return " (" + fmt.Sprintf(o.ask, namespace) + ")"
	}
	return " (" + o.ask + ")"
}

// gateOwner returns the owner of a scheduling gate, or nil.
func gateOwner(gate string) *owner {
	for i := range owners {
		if slices.ContainsFunc(owners[i].gates, func(prefix string) bool { return strings.HasPrefix(gate, prefix) }) {
			return &owners[i]
		}
	}
	return nil
}

// selectorOwner returns the owner that may have set the pod's node selector, or nil.
func selectorOwner(pod *v1.Pod) *owner {
	for i := range owners {
		if slices.ContainsFunc(owners[i].pods, func(label string) bool { return hasKey(pod.Labels, label) }) {
			return &owners[i]
		}
	}
	return nil
}

// ofNodePools are the domains of labels that autoscalers and clouds set to describe a
// node. Such a label on another node would be wrong.
var ofNodePools = []string{
	"karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "eks.amazonaws.com", "alpha.eksctl.io", "cloud.google.com", "kubernetes.azure.com",
}

// gates removes the pod's scheduling gates, because each of them holds the pod back. A
// gate with a known owner is left to the owner.
func (t *trial) gates() []knob {
	gates := t.Pod.Spec.SchedulingGates
	if len(gates) == 0 {
		return nil
	}
	var names, parts []string
	for i := range gates {
		if o := gateOwner(gates[i].Name); o != nil {
			parts = append(parts, fmt.Sprintf("let %s remove the scheduling gate %s%s", o.name, gates[i].Name, o.question(t.Pod.Namespace)))
		} else {
			names = append(names, gates[i].Name)
		}
	}
	word := "gate"
	if len(names) > 1 {
		word = "gates"
	}
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("remove the scheduling %s %s, or let its owner do so", word, strings.Join(names, ", ")))
	}
	return []knob{single("", t.ofPod(Gate, int64(len(gates)), func(p *v1.Pod) { p.Spec.SchedulingGates = nil }, "%s", strings.Join(parts, ", and ")))}
}

// ownedSelectors adds to changes of the pod's node selector or node affinity that their
// owner may have set it. An edit of the pod would be undone, or refused.
func (t *trial) ownedSelectors() []knob {
	knobs := t.selectors()
	o := selectorOwner(t.Pod)
	if o == nil {
		return knobs
	}
	for i := range knobs {
		at := knobs[i].at
		knobs[i].at = func(setting int) Change {
			change := at(setting)
			change.Text += fmt.Sprintf(" (%s may have set it from a %s)", o.name, o.template)
			return change
		}
	}
	return knobs
}
