package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

const (
	// differentApps is the number of Services whose pods default spreading counts.
	differentApps = 5000
	// differentSelectors is the number of node selectors in use.
	differentSelectors = 500
	gpu                = "example.com/gpu"
)

// differentShapes are the demands of the i-th pod, in addition to its own requests.
var differentShapes = []struct {
	name  string
	apply func(i int, p *v1.Pod)
}{
	{"amounts", func(int, *v1.Pod) {}},
	{"selector", func(i int, p *v1.Pod) {
		p.Spec.NodeSelector = map[string]string{"rack": fmt.Sprintf("rack-%d", i%differentSelectors%20)}
		// nodes lack most of these labels, so terms differ without ruling out more nodes
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: fmt.Sprintf("absent-%d", i%differentSelectors), Operator: v1.NodeSelectorOpDoesNotExist}}}},
		}}}
	}},
	{"spread", func(i int, p *v1.Pod) { p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", i%differentApps)} }},
	{"extended", func(_ int, p *v1.Pod) {
		list := p.Spec.Containers[0].Resources
		list.Requests[gpu], list.Limits = resource.MustParse("1"), v1.ResourceList{gpu: resource.MustParse("1")}
	}},
}

// newDifferent returns a cluster whose nodes have one or 40 shapes, and differ in zones,
// racks, taints and images. Every tenth node has devices.
func newDifferent(t testing.TB, nodes, shapes int) *bench {
	b := newBench(t, 0)
	var changes []model.Change
	for i := range nodes {
		n := benchNode(i)
		n.Labels["rack"] = fmt.Sprintf("rack-%d", i/3%20)
		shape := int64(i * 7 % shapes)
		n.Status.Allocatable[v1.ResourceCPU] = *resource.NewQuantity(32+2*(shape%8), resource.DecimalSI)
		n.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity((128+16*(shape/8))<<30, resource.BinarySI)
		if i%10 == 3 {
			n.Status.Allocatable[gpu] = resource.MustParse("64")
		}
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for i := range differentApps {
		service := build.Service(fmt.Sprintf("app-%d", i), map[string]string{"app": fmt.Sprintf("app-%d", i)})
		service.Namespace = "bench"
		changes = append(changes, model.Change{Kind: model.ObjectSet, Object: service, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "bench", Name: service.Name}})
	}
	b.state.Apply(changes)
	return b
}

// different returns the i-th pod, without compiling it.
func different(r *rand.Rand, i int, apply func(int, *v1.Pod)) *model.Pod {
	p := &v1.Pod{
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "registry.example/web:1", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{
				v1.ResourceCPU:    *resource.NewMilliQuantity(100+r.Int64N(4000), resource.DecimalSI),
				v1.ResourceMemory: *resource.NewQuantity((100+r.Int64N(16000))<<20, resource.BinarySI),
			},
		}}}},
	}
	p.Namespace, p.Name = "bench", fmt.Sprintf("pod-%d", i)
	apply(i, p)
	return model.NewPod(p)
}

// BenchmarkDifferent compiles, decides and assumes pods whose requests no pod had before.
// The cluster is half full: for each placed pod, the oldest one leaves.
func BenchmarkDifferent(b *testing.B) {
	for _, nodes := range []int{build.Sized(5000), build.Sized(50000)} {
		for _, shapes := range []int{1, 40} {
			for _, shape := range differentShapes {
				b.Run(fmt.Sprintf("nodes=%d/shapes=%d/pod=%s", nodes, shapes, shape.name), func(b *testing.B) {
					benchmarkDifferent(b, newDifferent(b, nodes, shapes), nodes, shape.apply)
				})
			}
		}
	}
}

func benchmarkDifferent(b *testing.B, c *bench, nodes int, apply func(int, *v1.Pod)) {
	r := rand.New(rand.NewPCG(1, 2))
	placed := c.halfFull(r, nodes)
	// Stopping the timer for each pod would stop the world and empty the caches. So only
	// these times are of the decision, and ns/op is of the whole iteration.
	times := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for i := range b.N {
		pod := different(r, i, apply)
		start := time.Now()
		c.profile.Compile(pod)
		c.place(b, pod)
		times = append(times, time.Since(start))
		c.state.Apply([]model.Change{{Kind: model.PodGone, Key: placed[i%len(placed)]}})
		placed[i%len(placed)] = pod.Key()
	}
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	slices.Sort(times)
	b.ReportMetric(float64(sum)/float64(len(times))/1000, "mean-µs")
	b.ReportMetric(float64(times[len(times)/2])/1000, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100])/1000, "p99-µs")
}

// halfFull puts different pods of apps on nodes and returns them. Eight pods take about
// half of a node.
func (b *bench) halfFull(r *rand.Rand, nodes int) (placed []model.PodKey) {
	for i := range 8 * nodes {
		p := different(r, i, func(i int, p *v1.Pod) {
			differentShapes[2].apply(i, p)
			p.Name, p.Spec.NodeName = fmt.Sprintf("running-%d", i), fmt.Sprintf("node-%05d", r.IntN(nodes))
		})
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: p}})
		placed = append(placed, p.Key())
	}
	return placed
}
