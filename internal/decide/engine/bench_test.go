package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// bench is a large regular cluster: three zones, ten pools, every twentieth node tainted.
type bench struct {
	state   *state.State
	engine  *engine.Engine
	profile *plugin.Profile
}

func newBench(t testing.TB, nodes int) *bench { return newBenchWith(t, oracle.DefaultProfile(), nodes) }

func newBenchWith(t testing.TB, profile oracle.Profile, nodes int) *bench {
	p := enginetest.Profile(t, profile)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{state: state.New(), engine: e, profile: p}
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(benchNode(i))})
	}
	b.state.Apply(changes)
	return b
}

func benchNode(i int) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("node-%05d", i),
		Labels: map[string]string{
			"kubernetes.io/hostname":      fmt.Sprintf("node-%05d", i),
			"topology.kubernetes.io/zone": fmt.Sprintf("zone-%c", 'a'+i%3),
			"pool":                        fmt.Sprintf("pool-%d", i%10),
			"disk":                        []string{"ssd", "hdd"}[i%2],
		},
	}}
	if i%20 == 7 {
		n.Spec.Taints = []v1.Taint{{Key: "spot", Effect: v1.TaintEffectNoSchedule}}
	}
	if i%20 == 8 {
		n.Spec.Taints = []v1.Taint{{Key: "busy", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Images = []v1.ContainerImage{{Names: []string{"registry.example/base:1"}, SizeBytes: 200 << 20}}
	if i%4 == 0 {
		n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{"registry.example/web:1"}, SizeBytes: 500 << 20})
	}
	return n
}

// The shapes of pods for which decisions are measured.
var shapes = map[string]func(*v1.Pod){
	"plain": func(*v1.Pod) {},
	"selective": func(p *v1.Pod) {
		p.Spec.Containers[0].Image = "registry.example/web:1"
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 10, Preference: v1.NodeSelectorTerm{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpIn, Values: []string{"pool-1", "pool-2"}}},
			}}},
		}}
	},
}

func (b *bench) pod(i int, shape func(*v1.Pod)) *model.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprintf("pod-%d", i), UID: ""},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c", Image: "registry.example/other:1", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("500Mi")},
		}}}},
	}
	shape(p)
	pod := model.NewPod(p)
	b.profile.Compile(pod)
	return pod
}

// place decides and assumes, as a round of the loop does.
func (b *bench) place(t testing.TB, pod *model.Pod) {
	d := b.engine.Decide(b.state.View(), plan.Alone(pod))
	if d.Outcome != plan.Placed {
		t.Fatalf("pod %s: %+v", pod, d)
	}
	b.state.Assume(d.Placement)
}

// assume assumes the placement of a decision, if it has one.
func assume(s *state.State, d plan.Decision) {
	if d.Outcome == plan.Placed {
		s.Assume(d.Placement)
	}
}

// settle repeats a decision until the engine caches everything that it caches for pods
// that recur.
func (b *bench) settle(m plan.Member) {
	for range 12 {
		b.engine.Decide(b.state.View(), m)
	}
}

// BenchmarkDecision places pods whose needs have columns, one after the other, like the
// pods of a Deployment. Each decision follows a change of one node.
func BenchmarkDecision(b *testing.B) {
	for _, shape := range []string{"plain", "selective"} {
		for _, nodes := range []int{build.Sized(1000), build.Sized(5000), build.Sized(20000)} {
			b.Run(fmt.Sprintf("shape=%s/nodes=%d", shape, nodes), func(b *testing.B) {
				c := newBench(b, nodes)
				c.place(b, c.pod(0, shapes[shape]))
				// fewer pods than fit, so that each decision has nodes to choose from
				batch := nodes * 20
				pods := make([]*model.Pod, min(batch, 20000))
				for i := range pods {
					pods[i] = c.pod(i+1, shapes[shape])
				}
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if i%len(pods) == 0 && i > 0 {
						b.StopTimer()
						c = newBench(b, nodes)
						c.place(b, pods[0])
						c.state.Apply([]model.Change{{Kind: model.PodGone, Key: pods[0].Key()}})
						b.StartTimer()
					}
					c.place(b, pods[i%len(pods)])
				}
			})
		}
	}
}

// BenchmarkFirstSight decides for a need without a column.
func BenchmarkFirstSight(b *testing.B) {
	c := newBench(b, build.Sized(5000))
	b.ReportAllocs()
	for i := range b.N {
		pod := c.pod(i, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(i%20000), resource.DecimalSI)
		})
		c.engine.Decide(c.state.View(), plan.Alone(pod))
	}
}
