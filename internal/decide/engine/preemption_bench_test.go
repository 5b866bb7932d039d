package engine_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// full is a cluster whose nodes have no cpu left.
type full struct {
	*bench
	nodes, each int
}

// newFull fills each node with a number of equal pods of the priority. Their start times
// differ from node to node and from pod to pod.
func newFull(t testing.TB, nodes, each int, priority int32) *full {
	f := &full{newBench(t, nodes), nodes, each}
	for i := range nodes {
		for j := range each {
			f.state.Apply([]model.Change{{Kind: model.PodSet, Pod: f.running(i, j, priority)}})
		}
	}
	return f
}

func (f *full) running(node, j int, priority int32) *model.Pod {
	i := node*f.each + j
	p := benchPreemptor(fmt.Sprintf("low-%d", i), priority, int64(32000/f.each))
	p.Labels = map[string]string{"app": fmt.Sprintf("app-%d", i%100)}
	p.Spec.NodeName = fmt.Sprintf("node-%05d", node)
	p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1_000_000+(i*7919)%500_000), 0)}
	return model.NewPod(p)
}

func benchPreemptor(name string, priority int32, cpuMilli int64) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Priority: &priority, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("500Mi")},
		}}}},
	}
}

// preemptor is a pending pod of priority 100.
func (f *full) preemptor(i int, cpuMilli int64) *model.Pod {
	pod := model.NewPod(benchPreemptor(fmt.Sprintf("high-%d", i), 100, cpuMilli))
	f.profile.Compile(pod)
	return pod
}

// shaped is a pending pod of priority 100 with more demands.
func (f *full) shaped(i int, cpuMilli int64, apply func(*v1.Pod)) *model.Pod {
	p := benchPreemptor(fmt.Sprintf("high-%d", i), 100, cpuMilli)
	apply(p)
	pod := model.NewPod(p)
	f.profile.Compile(pod)
	return pod
}

func withHostPort(p *v1.Pod) {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

func spreadByZone(p *v1.Pod) {
	p.Labels = map[string]string{"app": "high"}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
}

func apartByHost(p *v1.Pod) {
	p.Labels = map[string]string{"app": "high"}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}}}
}

// newPorts has two pods on each node: one of priority 1 with a host port, and a small one
// of priority 0. By its bounds alone, evicting the small one might be enough.
func newPorts(t testing.TB, nodes int) *full {
	f := &full{newBench(t, nodes), nodes, 2}
	for i := range nodes {
		p := benchPreemptor(fmt.Sprintf("small-%d", i), 0, 10)
		p.Spec.NodeName = fmt.Sprintf("node-%05d", i)
		f.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
		f.ported(i)
	}
	return f
}

// ported adds or replaces the pod with a host port on a node.
func (f *full) ported(i int) {
	node := i * 31 % f.nodes
	p := benchPreemptor(fmt.Sprintf("ported-%d", node), 1, 10)
	withHostPort(p)
	p.Spec.NodeName = fmt.Sprintf("node-%05d", node)
	pod := model.NewPod(p)
	f.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}, {Kind: model.PodSet, Pod: pod}})
}

func (f *full) preempt(t testing.TB, pod *model.Pod, found bool) plan.Decision {
	d := f.engine.Decide(f.state.View(), plan.Alone(pod))
	if d.Outcome != plan.Unschedulable || len(d.Evictions) > 0 != found {
		t.Fatalf("%s: %+v", pod.Name, d)
	}
	return d
}

// restart changes a pod on one node.
func (f *full) restart(i int, priority int32) {
	pod := f.running(i*31%f.nodes, i%f.each, priority)
	f.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}, {Kind: model.PodSet, Pod: pod}})
}

func (f *full) budgets(allowed int32) {
	for i := range 100 {
		f.state.Apply([]model.Change{budgetChange(i, allowed)})
	}
}

func budgetChange(i int, allowed int32) model.Change {
	b := model.NewDisruptionBudget(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprintf("budget-%d", i)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprintf("app-%d", i)}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
	return model.Change{Kind: model.ObjectSet, Ref: b.Ref(), Compiled: b}
}

// BenchmarkPreemption decides for pods without a feasible node. In "next", each decision
// follows a change of a pod on one node. In "first", each request is new. In "burst", the
// 500 pods before it were nominated. In "ports", only the requested port is taken on each
// node.
func BenchmarkPreemption(b *testing.B) {
	for _, size := range []struct{ nodes, each int }{{build.Sized(5000), 4}, {build.Sized(5000), 30}, {build.Sized(50000), 4}} {
		b.Run(fmt.Sprintf("nodes=%d,each=%d", size.nodes, size.each), func(b *testing.B) { benchmarkPreemption(b, size.nodes, size.each) })
	}
}

func benchmarkPreemption(b *testing.B, nodes, each int) {
	one := int64(32000 / each)
	f := newFull(b, nodes, each, 1)
	run := func(what string, of func(b *testing.B, i int)) {
		b.Run(what, func(b *testing.B) {
			// warm-up: remembered rejections and orders are not measured
			for i := range 12 {
				of(b, 1<<30+i)
			}
			b.ReportAllocs()
			before := f.engine.Counters()
			b.ResetTimer()
			for i := range b.N {
				of(b, i)
			}
			after := f.engine.Counters()
			b.ReportMetric(float64(after.Tried-before.Tried)/float64(b.N), "tried/op")
			b.ReportMetric(float64(after.Rated-before.Rated)/float64(b.N), "rated/op")
		})
	}
	run("next", func(b *testing.B, i int) {
		f.restart(i, 1)
		f.preempt(b, f.preemptor(i, one), true)
	})
	run("two-victims", func(b *testing.B, i int) {
		f.restart(i, 1)
		f.preempt(b, f.preemptor(i, 2*one), true)
	})
	run("first", func(b *testing.B, i int) { f.preempt(b, f.preemptor(i, one+1+int64(i%100000)%one), true) })
	var nominated []plan.Nomination
	release := func() {
		for _, n := range nominated {
			f.state.Apply([]model.Change{{Kind: model.PodGone, Key: n.Pod.Key()}})
		}
		nominated = nil
	}
	run("burst", func(b *testing.B, i int) {
		if len(nominated) == 500 {
			b.StopTimer()
			release()
			b.StartTimer()
		}
		d := f.preempt(b, f.preemptor(i, one), true)
		f.state.Nominate(d.Nominations...)
		nominated = append(nominated, d.Nominations[0])
	})
	release()
	f.budgets(0)
	run("budgets", func(b *testing.B, i int) {
		f.restart(i, 1)
		f.preempt(b, f.preemptor(i, one), true)
	})
	run("budgets-changing", func(b *testing.B, i int) {
		f.state.Apply([]model.Change{budgetChange(i%100, int32(i%2))})
		f.preempt(b, f.preemptor(i, one), true)
	})
	if each == 30 {
		return
	}
	f = newPorts(b, nodes)
	run("ports", func(b *testing.B, i int) {
		f.ported(i)
		f.preempt(b, f.shaped(i, 10, withHostPort), true)
	})
	f = newFull(b, nodes, each, 1)
	for _, shape := range []struct {
		what string
		of   func(*v1.Pod)
	}{{"burst-ports", withHostPort}, {"burst-spread", spreadByZone}, {"burst-apart", apartByHost}} {
		run(shape.what, func(b *testing.B, i int) {
			if len(nominated) == 500 {
				b.StopTimer()
				release()
				b.StartTimer()
			}
			d := f.preempt(b, f.shaped(i, one, shape.of), true)
			f.state.Nominate(d.Nominations...)
			nominated = append(nominated, d.Nominations[0])
		})
		release()
	}
	f = newFull(b, nodes, each, 100)
	run("none-lower", func(b *testing.B, i int) {
		f.restart(i, 100)
		f.preempt(b, f.preemptor(i, one), false)
	})
	for i := range nodes { // a small pod of low priority on each
		p := benchPreemptor(fmt.Sprintf("small-%d", i), 0, 0)
		p.Spec.NodeName = fmt.Sprintf("node-%05d", i)
		f.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
	}
	run("none-enough", func(b *testing.B, i int) {
		f.restart(i, 100)
		f.preempt(b, f.preemptor(i, one), false)
	})
}
