package simulate

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Size is the size of a generated cluster.
type Size struct {
	Nodes, Zones int
	// Pods are pending; Running are on nodes, which are filled in turn. Apps is the
	// number of applications of each of both.
	Pods, Running, Apps int
}

// The defaults of a Size: three zones, and applications of a hundred pods.
const (
	defaultZones = 3
	podsOfApp    = 100
)

// SizeOf returns the size from names and numbers, as in the value of a flag. Zones and
// apps are optional. The error names the wrong value and the valid ones.
func SizeOf(of map[string]int) (Size, error) {
	s := Size{Zones: defaultZones}
	fields := map[string]*int{"nodes": &s.Nodes, "zones": &s.Zones, "pods": &s.Pods, "running": &s.Running, "apps": &s.Apps}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		field := fields[name]
		if field == nil {
			return s, fmt.Errorf("%q is not known; known are %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if *field = of[name]; *field < 0 || *field == 0 && (name == "zones" || name == "apps") {
			return s, fmt.Errorf("%s=%d: must be a number of %s", name, of[name], name)
		}
	}
	if s.Nodes == 0 {
		return s, fmt.Errorf("nodes=0: a cluster has nodes, such as nodes=5000")
	}
	if s.Apps == 0 {
		s.Apps = max((max(s.Pods, s.Running)+podsOfApp-1)/podsOfApp, 1)
	}
	return s, nil
}

// Generate makes the cluster, the same for the same size. Nodes have 16 to 64 CPUs.
// Applications have eight sizes. Of ten applications, one is spread over the zones, one
// prefers such a spread, one has its pods on different nodes, and one stays in the zone
// of its first pod. Pods of an application share their common parts in memory.
func (s Size) Generate() *manifest.Cluster {
	c := s.WithoutPods()
	for pod := range s.pods() {
		c.Pods = append(c.Pods, pod)
	}
	return c
}

// WithoutPods makes the cluster without pods. Run creates these if Config.Pods has the
// size.
func (s Size) WithoutPods() *manifest.Cluster {
	c := &manifest.Cluster{Namespaces: []*v1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}}}
	for i := range s.Nodes {
		c.Nodes = append(c.Nodes, s.node(i))
	}
	return c
}

// pods generates the pods, running pods first.
func (s Size) pods() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, part := range []struct {
			name string
			pods int
		}{{"running", s.Running}, {"app", s.Pods}} {
			for i := range s.Apps {
				app := newGeneratedApp(fmt.Sprintf("%s-%05d", part.name, i), i)
				for n := i * part.pods / s.Apps; n < (i+1)*part.pods/s.Apps; n++ {
					pod := app.pod(n)
					if part.name == "running" {
						pod.Spec.NodeName, pod.Status.Phase = nodeName(n%s.Nodes), v1.PodRunning
					}
					if !yield(pod) {
						return
					}
				}
			}
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

func (s Size) node(i int) *v1.Node {
	name, size := nodeName(i), int64(16)<<(i%3)
	room := v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(size, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(size*4<<30, resource.BinarySI),
		v1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%s.Zones), v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
		}},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// generatedApp has the common parts of an application's pods.
type generatedApp struct {
	name     string
	template v1.Pod
}

func newGeneratedApp(name string, i int) *generatedApp {
	labels := map[string]string{"app": name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	a := &generatedApp{name: name}
	a.template.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Labels: labels}
	size := int64(1) << (i % 8)
	a.template.Spec = v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Priority: new(int32), Containers: []v1.Container{{
		Name: "main", Image: "registry.example/app:1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: *resource.NewMilliQuantity(10*size, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(size*32<<20, resource.BinarySI),
		}},
	}}}
	a.template.Status.Phase = v1.PodPending
	term := func(key string) []v1.PodAffinityTerm {
		return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}}
	}
	spread := func(action v1.UnsatisfiableConstraintAction) []v1.TopologySpreadConstraint {
		return []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: action, LabelSelector: selector}}
	}
	switch spec := &a.template.Spec; i % 10 {
	case 3:
		spec.TopologySpreadConstraints = spread(v1.DoNotSchedule)
	case 5:
		spec.TopologySpreadConstraints = spread(v1.ScheduleAnyway)
	case 7:
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(v1.LabelHostname)}}
	case 9:
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(v1.LabelTopologyZone)}}
	}
	return a
}

func (a *generatedApp) pod(n int) *v1.Pod {
	pod := a.template
	pod.Name = fmt.Sprintf("%s-%07d", a.name, n)
	pod.UID = types.UID(pod.Name)
	return &pod
}
