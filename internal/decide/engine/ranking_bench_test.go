package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// rankedShapes are the pods for which rankings are measured.
var rankedShapes = []struct {
	name  string
	shape func(*v1.Pod)
}{
	{"plain", func(*v1.Pod) {}},
	{"node-affinity", func(p *v1.Pod) {
		shapes["selective"](p)
		p.Spec.Containers[0].Image = "registry.example/other:1"
	}},
	{"images", func(p *v1.Pod) { p.Spec.Containers[0].Image = "registry.example/web:1" }},
	{"zone-affinity", func(p *v1.Pod) { demand(p, "required-affinity") }},
	{"zone-spread", func(p *v1.Pod) { demand(p, "hard-spread") }},
	{"default-spread", func(*v1.Pod) {}}, // a Service selects the pods
	{"host-anti-affinity", func(p *v1.Pod) { demand(p, "anti-affinity") }},
}

// demand gives a pod the affinity or spread demands of a shape of the grid.
func demand(p *v1.Pod, shape string) {
	for _, s := range topologyShapes {
		if s.name == shape {
			s.apply(&p.Spec, &metav1.LabelSelector{MatchLabels: p.Labels})
		}
	}
}

// newUneven returns a bench with a pod of a different size on each node.
func newUneven(b *testing.B, nodes int) *bench {
	c, r := newBench(b, nodes), rand.New(rand.NewPCG(1, 1))
	var changes []model.Change
	for i := range nodes {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprintf("other-%d", i)}, Spec: v1.PodSpec{NodeName: fmt.Sprintf("node-%05d", i)}}
		p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: *resource.NewMilliQuantity(r.Int64N(20_000), resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(r.Int64N(80<<30), resource.BinarySI),
		}}}}
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: model.NewPod(p)})
	}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "default-spread"}}}
	changes = append(changes, model.Change{Kind: model.ObjectSet, Object: service, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "bench", Name: "web"}})
	c.state.Apply(changes)
	return c
}

// BenchmarkRanking decides about many equal pods one after the other, and assumes each on
// its node, by a ranking and by scans.
func BenchmarkRanking(b *testing.B) {
	for _, nodes := range []int{build.Sized(5000), build.Sized(50_000), build.Sized(200_000)} {
		for _, s := range rankedShapes {
			for _, by := range []string{"ranking", "scan"} {
				b.Run(fmt.Sprintf("shape=%s/nodes=%d/by=%s", s.name, nodes, by), func(b *testing.B) {
					c := newUneven(b, nodes)
					if by == "scan" {
						c.engine.ScanOnly()
					}
					const batch = 1000
					pods := make([]*model.Pod, batch)
					for i := range pods {
						pods[i] = c.pod(i, func(p *v1.Pod) {
							p.Labels = map[string]string{"app": s.name}
							s.shape(p)
						})
					}
					for _, pod := range pods[:10] { // so that the nodes are ranked
						c.place(b, pod)
					}
					b.ReportAllocs()
					b.ResetTimer()
					for i := range b.N {
						at := 10 + i%(batch-10)
						if i > 0 && at == 10 {
							b.StopTimer()
							for _, pod := range pods[10:] {
								c.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
							}
							c.engine.Decide(c.state.View(), plan.Alone(pods[10]))
							b.StartTimer()
						}
						c.place(b, pods[at])
					}
				})
			}
		}
	}
}
