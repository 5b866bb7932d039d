package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestMemberFiltersTellWhetherPodsPass places a pod in random small clusters while others
// are off their nodes, and returns these one after another. The pod's filter must agree
// with a new run of the filters: that nothing has changed for the pod, or that it passes
// with the resource usage on its node.
func TestMemberFiltersTellWhetherPodsPass(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(10 * *seeds) {
		r := rand.New(rand.NewPCG(seed, 6))
		b := newBench(t, 0)
		nodes := 1 + r.IntN(4)
		for i := range nodes {
			plugintest.Set(b.state, build.Node(fmt.Sprint("n", i), build.Allocatable(fmt.Sprintf("cpu=%d memory=8Gi pods=%d", 1+r.IntN(4), 2+r.IntN(5))), build.NodeLabels(fmt.Sprintf("zone=z%d kubernetes.io/hostname=n%d", i%2, i))))
		}
		shape := func() []build.PodOption {
			options := []build.PodOption{build.Container([]string{"cpu=1", "cpu=500m memory=3Gi", "cpu=2", ""}[r.IntN(4)]), build.Labels("app=" + []string{"a", "b"}[r.IntN(2)])}
			switch r.IntN(8) {
			case 0:
				options = append(options, hostPort(80))
			case 1:
				options = append(options, build.RequiredAntiAffinity(build.Term("zone", "app=a")))
			case 2:
				options = append(options, build.DoNotSchedule("zone", "app=a"))
			case 3:
				options = append(options, build.NodeSelector("zone=z0"))
			}
			return options
		}
		for i := range 1 + r.IntN(10) {
			plugintest.Set(b.state, build.Pod(append(shape(), build.Named(fmt.Sprint("p", i)), build.NodeName(fmt.Sprint("n", r.IntN(nodes))))...))
		}
		if r.IntN(3) == 0 {
			p := build.Pod(build.Named("q"), build.Container("cpu=1"), ofPriority(5), build.NominatedNodeName(fmt.Sprint("n", r.IntN(nodes))))
			p.UID = "q"
			plugintest.Set(b.state, p)
		}
		v := b.state.View()
		var others []*model.Pod
		for slot := range b.state.Alive() {
			for p := range v.PodsOn(int32(slot)) {
				others = append(others, p)
			}
		}
		r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		b.state.Displace(others...)
		pod := b.compiled(build.Pod(append(shape(), build.Named("m"))...))
		d := b.engine.Decide(v, plan.Alone(pod))
		if d.Outcome != plan.Placed {
			b.state.Return(others...)
			continue
		}
		slot, _ := b.state.Slot(d.Placement.NodeName)
		assume(b.state, d)
		filter, err := b.engine.MemberFilterOf(v, pod)
		if err != nil {
			t.Fatal(err)
		}
		if filter.IsMoved() {
			t.Errorf("seed %d: moved from the beginning", seed)
		}
		if counts := pod.Object.Spec.Affinity != nil || pod.Object.Spec.TopologySpreadConstraints != nil; filter.Counts() != counts || filter.IsNear() != (pod.Object.Spec.Containers[0].Ports != nil) {
			t.Errorf("seed %d: it counts pods: %t, and reads more of them on the node: %t", seed, filter.Counts(), filter.IsNear())
		}
		var use state.Use
		for _, other := range others {
			b.state.Return(other)
			moved, here := filter.IsMoved(), other.NodeName == d.Placement.NodeName
			use.Reset(v.Node(slot))
			use.Add(pod, -1)
			fits := filter.FitsWith(slot, &use)
			b.state.Unassume(d.Placement)
			passes, err := b.engine.Passes(v, pod, slot)
			if err != nil {
				t.Fatal(err)
			}
			assume(b.state, d)
			what := "elsewhere"
			switch {
			case v.Repels(other, pod):
				what = "keeps it away"
			case moved:
				what = "counted"
			case !here && !passes:
				t.Errorf("seed %d: it does not pass beside %s on another node", seed, other)
			case here && !filter.IsNear():
				if what = fmt.Sprint("beside it, and it fits: ", passes); fits != passes {
					t.Errorf("seed %d: it fits beside %s: %t, and passes: %t", seed, other, fits, passes)
				}
			}
			if seen[what]++; !passes {
				b.state.Displace(other)
				defer b.state.Return(other)
			}
			filter.Renew()
			if filter.IsMoved() {
				t.Errorf("seed %d: moved when it was renewed", seed)
			}
		}
		b.state.Unassume(d.Placement)
	}
	for _, what := range []string{"keeps it away", "counted", "elsewhere", "beside it, and it fits: true", "beside it, and it fits: false"} {
		if *seed == 0 && seen[what] < *seeds/2 {
			t.Errorf("%s: %d times: %v", what, seen[what], seen)
		}
	}
}

// TestPasses checks one node at a time: with its nominated pods, and with PreFilter
// narrowing. A pod of another scheduler has no result.
func TestPasses(t *testing.T) {
	b := newBench(t, 0)
	plugintest.Set(b.state, build.Node("n0", build.Allocatable("cpu=2 pods=9")), build.Node("n1", build.Allocatable("cpu=2 pods=9")),
		build.PersistentVolume("v", "modes=RWOP storage=1Gi phase=Bound claim=default/c"), build.PersistentVolumeClaim("c", "modes=RWOP storage=1Gi bound=v"))
	q := build.Pod(build.Named("q"), build.Container("cpu=1"), ofPriority(5), build.NominatedNodeName("n1"))
	q.UID = "q"
	plugintest.Set(b.state, q)
	onlyN1 := func(p *v1.Pod) {
		term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}}
	}
	for name, row := range map[string]struct {
		options []build.PodOption
		want    [2]bool
	}{
		"it fits":                       {[]build.PodOption{build.Container("cpu=1")}, [2]bool{true, true}},
		"beside a nominated pod not":    {[]build.PodOption{build.Container("cpu=2")}, [2]bool{true, false}},
		"too large":                     {[]build.PodOption{build.Container("cpu=3")}, [2]bool{false, false}},
		"PreFilter names one node":      {[]build.PodOption{build.Container("cpu=1"), onlyN1}, [2]bool{false, true}},
		"PreFilter rejects it":          {[]build.PodOption{build.Container("cpu=1"), build.Claims("none")}, [2]bool{false, false}},
		"it outranks the nominated pod": {[]build.PodOption{build.Container("cpu=2"), ofPriority(6)}, [2]bool{true, true}},
		"of equal priority it does not": {[]build.PodOption{build.Container("cpu=2"), ofPriority(5)}, [2]bool{true, false}},
		"a claim that nobody else uses": {[]build.PodOption{build.Claims("c")}, [2]bool{true, true}},
	} {
		pod := b.compiled(build.Pod(append(row.options, build.Named("m"))...))
		for slot, want := range row.want {
			if got, err := b.engine.Passes(b.state.View(), pod, int32(slot)); err != nil || got != want {
				t.Errorf("%s: node %d: %t, %v, want %t", name, slot, got, err, want)
			}
		}
	}
	pod := b.compiled(build.Pod())
	pod.SchedulerName = "other"
	const want = `no profile for scheduler name "other"`
	if got, err := b.engine.Passes(b.state.View(), pod, 0); err == nil || err.Error() != want || got {
		t.Errorf("%t, %v", got, err)
	}
	if _, err := b.engine.MemberFilterOf(b.state.View(), pod); err == nil || err.Error() != want {
		t.Errorf("a filter: %v", err)
	}
	rejected := b.compiled(build.Pod(build.Claims("none")))
	filter, err := b.engine.MemberFilterOf(b.state.View(), rejected)
	if err != nil || !filter.IsMoved() || !filter.Counts() || !filter.IsNear() {
		t.Errorf("a pod that PreFilter rejects: %+v, %v; nothing is known of it", filter, err)
	}
}
