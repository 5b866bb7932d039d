package scene

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// room is the allocatable of a node.
type room struct {
	cpu, memory, pods string
}

func (r room) list() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(r.cpu), v1.ResourceMemory: resource.MustParse(r.memory), v1.ResourcePods: resource.MustParse(r.pods),
	}
}

// node makes a ready node, which stays ready, because no controller checks it.
func node(name string, r room, labels map[string]string) *v1.Node {
	all := map[string]string{v1.LabelHostname: name}
	for key, value := range labels {
		all[key] = value
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all},
		Status: v1.NodeStatus{
			Capacity: r.list(), Allocatable: r.list(),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Simulated"}},
		},
	}
}

// namespaces makes namespaces with the same labels.
func namespaces(labels map[string]string, names ...string) []*v1.Namespace {
	var all []*v1.Namespace
	for _, name := range names {
		all = append(all, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	return all
}

func service(namespace, name string, selector map[string]string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.ServiceSpec{Selector: selector, Ports: []v1.ServicePort{{Port: 80}}},
	}
}

// pod makes a pod of one container that requests cpu and memory, unless these are empty.
func pod(name, cpu, memory string, labels map[string]string) *v1.Pod {
	requests := v1.ResourceList{}
	for resourceName, amount := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if amount != "" {
			requests[resourceName] = resource.MustParse(amount)
		}
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "registry.example/main:1", Resources: v1.ResourceRequirements{Requests: requests},
		}}},
	}
}

// numbered returns names that sort like their indexes.
func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%06d", prefix, i) }

func selecting(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

// affinityOf returns the pod's affinity and creates it if missing.
func affinityOf(pod *v1.Pod) *v1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &v1.Affinity{}
	}
	return pod.Spec.Affinity
}

// near adds a required affinity term.
func near(pod *v1.Pod, term v1.PodAffinityTerm) {
	affinityOf(pod).PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}
}

// rather adds a preferred affinity term.
func rather(pod *v1.Pod, weight int32, term v1.PodAffinityTerm) {
	affinityOf(pod).PodAffinity = &v1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: term}},
	}
}

// apart adds a required anti-affinity term.
func apart(pod *v1.Pod, term v1.PodAffinityTerm) {
	affinityOf(pod).PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}
}

// ratherApart adds a preferred anti-affinity term.
func ratherApart(pod *v1.Pod, weight int32, term v1.PodAffinityTerm) {
	affinityOf(pod).PodAntiAffinity = &v1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: term}},
	}
}

// spread adds a constraint on the pods with the pod's own labels.
func spread(pod *v1.Pod, skew int32, key string, otherwise v1.UnsatisfiableConstraintAction) {
	pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
		MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: otherwise, LabelSelector: selecting(pod.Labels),
	})
}

// inOneOf adds a required node affinity: the label must have one of the values.
func inOneOf(pod *v1.Pod, key string, values ...string) {
	affinityOf(pod).NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}},
		}},
	}}
}
