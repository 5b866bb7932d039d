package simulate

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Generate makes the cluster, the same for the same size. Nodes have 16 to 64 CPUs.
// Applications have eight sizes. Of ten applications, one is spread over the zones, one
// prefers such a spread, one has its pods on different nodes, and one stays in the zone
// of its first pod. Pods of an application share their common parts in memory, unless
// all pods are different.
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
	s.addGroups(c)
	s.addVolumes(c)
	s.addDevices(c)
	return c
}

// pods generates the pods: running pods, pods of applications, then members of groups.
func (s Size) pods() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		extras := s.extras()
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
					} else {
						extras.claim(pod, n)
					}
					if extras.vary(pod); !yield(pod) {
						return
					}
				}
			}
		}
		for pod := range s.members() {
			if extras.vary(pod); !yield(pod) {
				return
			}
		}
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

func zoneName(i int) string { return fmt.Sprintf("zone-%d", i) }

func (s Size) node(i int) *v1.Node {
	name, size := nodeName(i), int64(16)<<(i%3)
	room := v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(size, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(size*4<<30, resource.BinarySI),
		v1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
			v1.LabelHostname: name, v1.LabelTopologyZone: zoneName(i % s.Zones), v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64",
		}},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// The applications, of ten, whose constraints rule out nodes: one is spread over zones,
// one has its pods on different nodes, and one stays in one zone.
const (
	spreadApp    = 3
	exclusiveApp = 7
	zonalApp     = 9
)

// generatedApp has the common parts of an application's pods.
type generatedApp struct {
	name     string
	template v1.Pod
}

func newGeneratedApp(name string, i int) *generatedApp {
	size := int64(1) << (i % 8)
	a := newTemplate(name, 10*size, size*32<<20)
	selector := &metav1.LabelSelector{MatchLabels: a.template.Labels}
	term := func(key string) []v1.PodAffinityTerm {
		return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: selector}}
	}
	spread := func(action v1.UnsatisfiableConstraintAction) []v1.TopologySpreadConstraint {
		return []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: action, LabelSelector: selector}}
	}
	switch spec := &a.template.Spec; i % 10 {
	case spreadApp:
		spec.TopologySpreadConstraints = spread(v1.DoNotSchedule)
	case 5:
		spec.TopologySpreadConstraints = spread(v1.ScheduleAnyway)
	case exclusiveApp:
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(v1.LabelHostname)}}
	case zonalApp:
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(v1.LabelTopologyZone)}}
	}
	return a
}

// newTemplate makes an application without constraints. Its pods request this much.
func newTemplate(name string, cpuMilli, memory int64) *generatedApp {
	a := &generatedApp{name: name}
	a.template.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Labels: map[string]string{"app": name}}
	a.template.Spec = v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Priority: new(int32), Containers: []v1.Container{{
		Name: "main", Image: "registry.example/app:1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		}},
	}}}
	a.template.Status.Phase = v1.PodPending
	return a
}

func (a *generatedApp) pod(n int) *v1.Pod {
	pod := a.template
	pod.Name = fmt.Sprintf("%s-%07d", a.name, n)
	pod.UID = types.UID(pod.Name)
	return &pod
}
