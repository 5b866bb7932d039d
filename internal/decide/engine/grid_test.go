package engine_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

var large = flag.Bool("large", false, "also measure 50,000 nodes with 500,000 pods, which takes some minutes and several GiB")

// appsPods is the number of pods of the grid's cluster that share their labels and
// demands.
const appsPods = 1000

// topologyShapes are the affinity and spread demands of one app's pods.
var topologyShapes = []struct {
	name  string
	apply func(spec *v1.PodSpec, selector *metav1.LabelSelector)
}{
	{"plain", func(*v1.PodSpec, *metav1.LabelSelector) {}},
	{"required-affinity", func(spec *v1.PodSpec, selector *metav1.LabelSelector) {
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: selector, TopologyKey: v1.LabelTopologyZone}}}}
	}},
	{"preferred-affinity", func(spec *v1.PodSpec, selector *metav1.LabelSelector) {
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: 10, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: v1.LabelTopologyZone}}}}}
	}},
	{"anti-affinity", func(spec *v1.PodSpec, selector *metav1.LabelSelector) {
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: selector, TopologyKey: v1.LabelHostname}}}}
	}},
	{"hard-spread", func(spec *v1.PodSpec, selector *metav1.LabelSelector) {
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector}}
	}},
	{"soft-spread", func(spec *v1.PodSpec, selector *metav1.LabelSelector) {
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selector},
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selector}}
	}},
	// a Service selects the pods
	{"default-spread", func(*v1.PodSpec, *metav1.LabelSelector) {}},
}

// gridPod is the i-th pod of a shape's apps. Each app of the pods on nodes has its own
// labels and the demands of the shape.
func gridPod(prefix string, i int, apply func(*v1.PodSpec, *metav1.LabelSelector)) *v1.Pod {
	app := map[string]string{"app": fmt.Sprintf("%s-%d", prefix, i/appsPods)}
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "grid", Name: fmt.Sprintf("%s-%d", prefix, i), Labels: app},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "registry.example/other:1", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("500Mi")},
		}}}},
	}
	apply(&p.Spec, &metav1.LabelSelector{MatchLabels: app})
	return p
}

// fillGrid puts pods on the cluster's nodes, evenly, and adds a Service for the pending
// app if the shape needs one.
func (b *bench) fillGrid(pods int, shape string, apply func(*v1.PodSpec, *metav1.LabelSelector)) {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "grid"}}
	changes := []model.Change{{Kind: model.ObjectSet, Object: namespace, Ref: model.Ref{Kind: model.NamespaceKind, Name: "grid"}}}
	if shape == "default-spread" {
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "grid", Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "pending-0"}}}
		changes = append(changes, model.Change{Kind: model.ObjectSet, Object: service, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "grid", Name: "web"}})
	}
	b.state.Apply(changes)
	nodes := b.state.Nodes()
	for i := range pods {
		p := gridPod("running", i, apply)
		p.Spec.NodeName = fmt.Sprintf("node-%05d", i%nodes)
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
}

// BenchmarkGrid measures a decision for each shape over sizes of cluster. The decision
// places a pod whose needs have columns. The pod before it has just changed one node and
// the counts.
func BenchmarkGrid(b *testing.B) {
	sizes := []struct{ nodes, pods int }{{build.Sized(5000), 0}, {build.Sized(5000), build.Sized(150000)}}
	if *large {
		sizes = append(sizes, struct{ nodes, pods int }{50000, 500000})
	}
	for _, size := range sizes {
		for _, shape := range topologyShapes {
			b.Run(fmt.Sprintf("nodes=%d/pods=%d/shape=%s", size.nodes, size.pods, shape.name), func(b *testing.B) {
				benchmarkShape(b, size.nodes, size.pods, shape.name, shape.apply)
			})
		}
	}
}

func benchmarkShape(b *testing.B, nodes, pods int, shape string, apply func(*v1.PodSpec, *metav1.LabelSelector)) {
	c := newBench(b, nodes)
	c.fillGrid(pods, shape, apply)
	var pending []*model.Pod
	for i := range appsPods {
		pod := model.NewPod(gridPod("pending", i, apply))
		c.profile.Compile(pod)
		pending = append(pending, pod)
	}
	c.place(b, pending[0])
	heap := heapBytes()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		at := 1 + i%(len(pending)-1)
		if i > 0 && at == 1 {
			b.StopTimer()
			for _, pod := range pending[1:] {
				c.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
			}
			b.StartTimer()
		}
		c.place(b, pending[at])
	}
	// State, tallies and columns, and also the API objects of the nodes and pods, which a
	// real process has in its informers, too.
	b.ReportMetric(float64(heap>>20), "heap-MiB")
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkFirstSightOfSelector decides for pods of a new app beside 150,000 pods. Each
// decision has to count all of them once.
func BenchmarkFirstSightOfSelector(b *testing.B) {
	for _, shape := range topologyShapes[1:6] {
		b.Run("shape="+shape.name, func(b *testing.B) {
			c := newBench(b, build.Sized(5000))
			c.fillGrid(build.Sized(150000), shape.name, shape.apply)
			b.ResetTimer()
			for i := range b.N {
				pod := model.NewPod(gridPod(fmt.Sprintf("new-%d", i), 0, shape.apply))
				c.profile.Compile(pod)
				c.place(b, pod)
			}
		})
	}
}
