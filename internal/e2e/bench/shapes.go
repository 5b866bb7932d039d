package main

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsPerApp is how many pods share their labels and demands, as those of a Deployment do.
const podsPerApp = 1000

// shape makes the pods of one app ask for something.
type shape struct {
	name  string
	apply func(spec *v1.PodSpec, app string)
}

// shapes are what pods can ask for, by the names that the command line knows.
var shapes = []shape{
	{"plain", func(*v1.PodSpec, string) {}},
	{"spread", func(spec *v1.PodSpec, app string) {
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: ofApp(app)},
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: ofApp(app)},
		}
	}},
	{"preferred-affinity", func(spec *v1.PodSpec, app string) {
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: ofApp(app), TopologyKey: v1.LabelTopologyZone}},
		}}}
	}},
	{"anti-affinity", func(spec *v1.PodSpec, app string) {
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: ofApp(app), TopologyKey: v1.LabelHostname},
		}}}
	}},
}

func ofApp(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// shapesNamed returns the shapes of a comma-separated list.
func shapesNamed(list string) ([]shape, error) {
	var chosen []shape
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range shapes {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("-shapes: there is no shape %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, shapes[i])
	}
	return chosen, nil
}

// pod is the i-th pod of a shape; prefix tells pods that run already from those that wait.
func (s shape) pod(prefix string, i int) *v1.Pod {
	app := fmt.Sprintf("%s-%d", prefix, i/podsPerApp)
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("500Mi")}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", prefix, i), Labels: map[string]string{"app": app}},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "registry.example/main:1", Resources: v1.ResourceRequirements{Requests: requests},
		}}},
	}
	s.apply(&pod.Spec, app)
	return pod
}
