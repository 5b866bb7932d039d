// Package testing has helpers for the tests of plugins: pods and nodes, and a cluster in
// memory that runs a plugin in the real scheduler.
//
// MakePod and MakeNode build API objects from names and amounts, with the function names
// of k8s.io/kubernetes/pkg/scheduler/testing. Each call changes the object and returns
// its wrapper, so that a row of a table fits on a line. They panic on amounts that cannot
// be parsed.
//
// NewCluster takes nodes, pods and plugins. A Cluster returns the results for pods:
//
//	c := testing.NewCluster(t, nodes, nil, testing.WithPlugin("Mine", New, nil))
//	if r := c.Schedule(testing.MakePod().Name("web").Obj()); r.Node != "node-1" {
//		t.Errorf("got node %q: %s", r.Node, r.Message)
//	}
//
// A Cluster owns everything that it runs. It uses no network, and is meant for tests
// only.
package testing

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// PodWrapper wraps a pod.
type PodWrapper struct{ v1.Pod }

// MakePod returns an empty pod.
func MakePod() *PodWrapper { return &PodWrapper{} }

// Obj returns the pod.
func (p *PodWrapper) Obj() *v1.Pod { return &p.Pod }

// Name sets the name.
func (p *PodWrapper) Name(name string) *PodWrapper { p.SetName(name); return p }

// Namespace sets the namespace.
func (p *PodWrapper) Namespace(namespace string) *PodWrapper { p.SetNamespace(namespace); return p }

// UID sets the UID, which is the pod's key in a NodeInfo.
func (p *PodWrapper) UID(uid string) *PodWrapper { p.SetUID(types.UID(uid)); return p }

// ResourceVersion sets the resource version.
func (p *PodWrapper) ResourceVersion(version string) *PodWrapper {
	p.SetResourceVersion(version)
	return p
}

// CreationTimestamp sets the pod's creation time.
func (p *PodWrapper) CreationTimestamp(t metav1.Time) *PodWrapper {
	p.SetCreationTimestamp(t)
	return p
}

// Label adds a label.
func (p *PodWrapper) Label(key, value string) *PodWrapper {
	p.ObjectMeta.Labels = with(p.ObjectMeta.Labels, key, value)
	return p
}

// Labels sets the labels.
func (p *PodWrapper) Labels(labels map[string]string) *PodWrapper { p.SetLabels(labels); return p }

// Annotation adds an annotation.
func (p *PodWrapper) Annotation(key, value string) *PodWrapper {
	p.ObjectMeta.Annotations = with(p.ObjectMeta.Annotations, key, value)
	return p
}

// Annotations sets the annotations.
func (p *PodWrapper) Annotations(annotations map[string]string) *PodWrapper {
	p.SetAnnotations(annotations)
	return p
}

// OwnerReference makes an object the pod's controller.
func (p *PodWrapper) OwnerReference(name string, kind schema.GroupVersionKind) *PodWrapper {
	controls := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, Controller: &controls}}
	return p
}

// Terminating marks the pod as being deleted.
func (p *PodWrapper) Terminating() *PodWrapper {
	now := metav1.Now()
	p.DeletionTimestamp = &now
	return p
}

// SchedulerName sets the name of the profile.
func (p *PodWrapper) SchedulerName(name string) *PodWrapper { p.Spec.SchedulerName = name; return p }

// Priority sets the priority.
func (p *PodWrapper) Priority(priority int32) *PodWrapper { p.Spec.Priority = &priority; return p }

// PreemptionPolicy sets the preemption policy.
func (p *PodWrapper) PreemptionPolicy(policy v1.PreemptionPolicy) *PodWrapper {
	p.Spec.PreemptionPolicy = &policy
	return p
}

// Node puts the pod on a node.
func (p *PodWrapper) Node(name string) *PodWrapper { p.Spec.NodeName = name; return p }

// NominatedNodeName nominates the pod to a node.
func (p *PodWrapper) NominatedNodeName(name string) *PodWrapper {
	p.Status.NominatedNodeName = name
	return p
}

// StartTime sets the time at which the kubelet accepted the pod.
func (p *PodWrapper) StartTime(t metav1.Time) *PodWrapper { p.Status.StartTime = &t; return p }

// Phase sets the phase.
func (p *PodWrapper) Phase(phase v1.PodPhase) *PodWrapper { p.Status.Phase = phase; return p }

// Condition adds a condition.
func (p *PodWrapper) Condition(kind v1.PodConditionType, status v1.ConditionStatus, reason string) *PodWrapper {
	p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: kind, Status: status, Reason: reason})
	return p
}

// NodeSelector sets the node selector.
func (p *PodWrapper) NodeSelector(labels map[string]string) *PodWrapper {
	p.Spec.NodeSelector = labels
	return p
}

// Toleration tolerates all taints with a key.
func (p *PodWrapper) Toleration(key string) *PodWrapper {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	return p
}

// Tolerations sets the tolerations.
func (p *PodWrapper) Tolerations(tolerations []v1.Toleration) *PodWrapper {
	p.Spec.Tolerations = tolerations
	return p
}

// SchedulingGates sets the scheduling gates.
func (p *PodWrapper) SchedulingGates(gates []string) *PodWrapper {
	for _, gate := range gates {
		p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
	}
	return p
}

// Container adds a container with an image.
func (p *PodWrapper) Container(image string) *PodWrapper {
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprintf("con%d", len(p.Spec.Containers)), Image: image})
	return p
}

// Containers sets the containers.
func (p *PodWrapper) Containers(containers []v1.Container) *PodWrapper {
	p.Spec.Containers = containers
	return p
}

// Req adds a container with requests.
func (p *PodWrapper) Req(amounts map[v1.ResourceName]string) *PodWrapper {
	return p.container(v1.ResourceRequirements{Requests: quantities(amounts)})
}

// Lim adds a container with limits.
func (p *PodWrapper) Lim(amounts map[v1.ResourceName]string) *PodWrapper {
	return p.container(v1.ResourceRequirements{Limits: quantities(amounts)})
}

// Res adds a container with equal requests and limits.
func (p *PodWrapper) Res(amounts map[v1.ResourceName]string) *PodWrapper {
	return p.container(v1.ResourceRequirements{Requests: quantities(amounts), Limits: quantities(amounts)})
}

func (p *PodWrapper) container(resources v1.ResourceRequirements) *PodWrapper {
	p.Container("image")
	p.Spec.Containers[len(p.Spec.Containers)-1].Resources = resources
	return p
}

// InitReq adds an init container with requests.
func (p *PodWrapper) InitReq(amounts map[v1.ResourceName]string) *PodWrapper {
	p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{
		Name: fmt.Sprintf("init-con%d", len(p.Spec.InitContainers)), Image: "image", Resources: v1.ResourceRequirements{Requests: quantities(amounts)},
	})
	return p
}

// SidecarReq adds a restartable init container (a sidecar) with requests.
func (p *PodWrapper) SidecarReq(amounts map[v1.ResourceName]string) *PodWrapper {
	p.InitReq(amounts)
	always := v1.ContainerRestartPolicyAlways
	p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = &always
	return p
}

// Overhead sets the overhead.
func (p *PodWrapper) Overhead(list v1.ResourceList) *PodWrapper { p.Spec.Overhead = list; return p }

// HostPort adds a container with a host port.
func (p *PodWrapper) HostPort(port int32) *PodWrapper {
	return p.ContainerPort([]v1.ContainerPort{{HostPort: port}})
}

// ContainerPort adds a container with ports.
func (p *PodWrapper) ContainerPort(ports []v1.ContainerPort) *PodWrapper {
	p.Container("image")
	p.Spec.Containers[len(p.Spec.Containers)-1].Ports = ports
	return p
}

// PVC adds a volume of a claim.
func (p *PodWrapper) PVC(claim string) *PodWrapper {
	return p.Volume(v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
}

// Volume adds a volume.
func (p *PodWrapper) Volume(volume v1.Volume) *PodWrapper {
	p.Spec.Volumes = append(p.Spec.Volumes, volume)
	return p
}

// PodAffinityKind is the kind of an affinity term: required, preferred with weight 1, or
// both.
type PodAffinityKind int

// The kinds of a term; NilPodAffinity adds no term.
const (
	NilPodAffinity PodAffinityKind = iota
	PodAffinityWithRequiredReq
	PodAffinityWithPreferredReq
	PodAffinityWithRequiredPreferredReq
	PodAntiAffinityWithRequiredReq
	PodAntiAffinityWithPreferredReq
	PodAntiAffinityWithRequiredPreferredReq
)

// PodAffinity adds an affinity term for pods that the selector selects.
func (p *PodWrapper) PodAffinity(topologyKey string, selector *metav1.LabelSelector, kind PodAffinityKind) *PodWrapper {
	if kind == NilPodAffinity {
		return p
	}
	a := p.affinity()
	if a.PodAffinity == nil {
		a.PodAffinity = &v1.PodAffinity{}
	}
	term := v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: topologyKey}
	if kind == PodAffinityWithRequiredReq || kind == PodAffinityWithRequiredPreferredReq {
		to := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, term)
	}
	if kind == PodAffinityWithPreferredReq || kind == PodAffinityWithRequiredPreferredReq {
		to := &a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
	}
	return p
}

// PodAntiAffinity adds an anti-affinity term for pods that the selector selects.
func (p *PodWrapper) PodAntiAffinity(topologyKey string, selector *metav1.LabelSelector, kind PodAffinityKind) *PodWrapper {
	if kind == NilPodAffinity {
		return p
	}
	a := p.affinity()
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	term := v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: topologyKey}
	if kind == PodAntiAffinityWithRequiredReq || kind == PodAntiAffinityWithRequiredPreferredReq {
		to := &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, term)
	}
	if kind == PodAntiAffinityWithPreferredReq || kind == PodAntiAffinityWithRequiredPreferredReq {
		to := &a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
	}
	return p
}

// PodAffinityExists is PodAffinity for pods with a label.
func (p *PodWrapper) PodAffinityExists(label, topologyKey string, kind PodAffinityKind) *PodWrapper {
	return p.PodAffinity(topologyKey, exists(label), kind)
}

// PodAntiAffinityExists is PodAntiAffinity for pods with a label.
func (p *PodWrapper) PodAntiAffinityExists(label, topologyKey string, kind PodAffinityKind) *PodWrapper {
	return p.PodAntiAffinity(topologyKey, exists(label), kind)
}

func (p *PodWrapper) affinity() *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	return p.Spec.Affinity
}

func exists(label string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}}}
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

func quantities(amounts map[v1.ResourceName]string) v1.ResourceList {
	if len(amounts) == 0 {
		return nil
	}
	list := v1.ResourceList{}
	for name, amount := range amounts {
		list[name] = resource.MustParse(amount)
	}
	return list
}
