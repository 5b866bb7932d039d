package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// without subtracts the usage of the pods of priority 0 on a node.
func without(v state.View) func(slot int32, use *state.Use) {
	return func(slot int32, use *state.Use) {
		for pod := range v.PodsOn(slot) {
			if pod.Priority == 0 {
				use.Add(pod, -1)
			}
		}
	}
}

func hostPort(port int32) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}

func ofPriority(n int32) build.PodOption { return func(p *v1.Pod) { p.Spec.Priority = &n } }

// TestCapacityIsWhatIsPlaced compares, in random small clusters, Capacity without the
// pods of priority 0 with the number of equal pods that can be placed after removing
// these. An inexact capacity may be too high, but never too low.
func TestCapacityIsWhatIsPlaced(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(10 * *seeds) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := newBench(t, 0)
		nodes := 1 + r.IntN(5)
		for i := range nodes {
			options := []build.NodeOption{build.Allocatable(fmt.Sprintf("cpu=%d memory=8Gi pods=%d", 1+r.IntN(4), 1+r.IntN(5))), build.NodeLabels(fmt.Sprintf("zone=z%d kubernetes.io/hostname=n%d", i%2, i))}
			switch r.IntN(6) {
			case 0:
				options = append(options, build.Taints("a=b:NoSchedule"))
			case 1:
				options = append(options, build.Unschedulable)
			}
			plugintest.Set(b.state, build.Node(fmt.Sprint("n", i), options...))
		}
		size := func() build.PodOption {
			return build.Container([]string{"cpu=1", "cpu=500m memory=3Gi", "cpu=2", "memory=2Gi", ""}[r.IntN(5)])
		}
		for i := range r.IntN(8) {
			options := []build.PodOption{build.Named(fmt.Sprint("p", i)), build.NodeName(fmt.Sprint("n", r.IntN(nodes))), size(), ofPriority(int32(r.IntN(3)))}
			if r.IntN(4) == 0 {
				options = append(options, hostPort(80))
			}
			plugintest.Set(b.state, build.Pod(options...))
		}
		for i := range max(0, r.IntN(6)-3) {
			p := build.Pod(build.Named(fmt.Sprint("q", i)), size(), ofPriority(int32(r.IntN(5))), build.NominatedNodeName(fmt.Sprint("n", r.IntN(nodes))))
			p.UID = "q"
			plugintest.Set(b.state, p)
		}
		shape := []build.PodOption{size(), ofPriority(2)}
		switch r.IntN(7) {
		case 0:
			shape = append(shape, build.NodeSelector("zone=z1"))
		case 1:
			shape = append(shape, build.Tolerations(v1.Toleration{Operator: v1.TolerationOpExists}))
		case 2:
			shape = append(shape, hostPort(80))
		case 3:
			shape = append(shape, build.Labels("app=a"), build.RequiredAntiAffinity(build.Term("zone", "app=a")))
		case 4:
			shape = append(shape, build.Labels("app=a"), build.DoNotSchedule("zone", "app=a"))
		}
		pod := func(i int) *model.Pod {
			p := build.Pod(append(shape, build.Named(fmt.Sprint("m", i)))...)
			p.UID = types.UID(fmt.Sprint("m", i))
			return b.compiled(p)
		}
		v := b.state.View()
		most := 1 + r.IntN(12)
		before := b.engine.Counters().Visited
		got, exact := b.engine.Capacity(v, pod(0), most, without(v))
		if visited := b.engine.Counters().Visited - before; visited > int64(nodes) {
			t.Errorf("seed %d: %d slots were visited of %d", seed, visited, nodes)
		}
		var gone []*model.Pod
		for slot := range b.state.Alive() {
			for p := range v.PodsOn(int32(slot)) {
				if p.Priority == 0 {
					gone = append(gone, p)
				}
			}
		}
		b.state.Displace(gone...)
		want := 0
		for ; want < most; want++ {
			d := b.engine.Decide(b.state.View(), plan.Alone(pod(want)))
			if d.Outcome != plan.Placed {
				break
			}
			assume(b.state, d)
		}
		if exact && got != want || got < want || got > most {
			t.Errorf("seed %d: %d of up to %d pass, exact: %t; %d are placed", seed, got, most, exact, want)
		}
		switch {
		case exact && got == 0:
			seen["exactly none"]++
		case exact && got == most:
			seen["all"]++
		case exact:
			seen["exactly some"]++
		case got > want:
			seen["more than are placed"]++
		default:
			seen["at most"]++
		}
	}
	for what, least := range map[string]int{"exactly none": 1, "all": 2, "exactly some": 2, "more than are placed": 1, "at most": 1} {
		if least = least * *seeds / 4; *seed == 0 && seen[what] < least {
			t.Errorf("%s: %d times, want at least %d: %v", what, seen[what], least, seen)
		}
	}
}

// TestCapacityIsExact has a node with room for two pods of 1 cpu, where another pod
// repels one. The row has the expected exact result.
func TestCapacityIsExact(t *testing.T) {
	for name, row := range map[string]struct {
		pod   []build.PodOption
		noUID bool
		other bool // a pod of higher priority is nominated to another node
		self  bool // the pod itself is nominated in the state
		n     int
		exact bool
	}{
		"plain":                 {n: 2, exact: true},
		"too large":             {pod: []build.PodOption{build.Container("cpu=9")}, exact: true},
		"a port":                {pod: []build.PodOption{hostPort(80)}, n: 2},
		"a port, and too large": {pod: []build.PodOption{hostPort(80), build.Container("cpu=9")}, exact: true},
		"nominated":             {pod: []build.PodOption{build.NominatedNodeName("n")}, n: 2},
		"another is nominated":  {other: true, n: 2, exact: true},
		"another is nominated, and there is no UID": {other: true, noUID: true, n: 2},
		"the state knows that it is nominated":      {self: true, n: 2},
	} {
		b := newBench(t, 0)
		plugintest.Set(b.state, build.Node("n", build.Allocatable("cpu=2 pods=9")), build.Node("tainted", build.Allocatable("cpu=9 pods=9"), build.Taints("a=b:NoSchedule")))
		p := build.Pod(append([]build.PodOption{build.Named("m"), build.Container("cpu=1")}, row.pod...)...)
		if row.noUID {
			p.UID = ""
		}
		if row.other {
			q := build.Pod(build.Named("q"), ofPriority(5), build.NominatedNodeName("tainted"))
			q.UID = "q"
			plugintest.Set(b.state, q)
		}
		if row.self {
			nominated := p.DeepCopy()
			nominated.Status.NominatedNodeName = "n"
			plugintest.Set(b.state, nominated)
		}
		v := b.state.View()
		pod := b.compiled(p)
		if n, exact := b.engine.Capacity(v, pod, 5, without(v)); n != row.n || exact != row.exact {
			t.Errorf("%s: %d, exact: %t; want %d, %t", name, n, exact, row.n, row.exact)
		}
	}
	// It costs a plugin call for each pod that passes, and one for the first that does
	// not, besides calls that fill columns.
	b := newBench(t, 0)
	plugintest.Set(b.state, build.Node("n", build.Allocatable("cpu=5 pods=9")))
	asked := func() int64 {
		before := b.engine.Counters().Asked
		b.engine.Capacity(b.state.View(), b.compiled(build.Pod(build.Container("cpu=1"))), 9, without(b.state.View()))
		return b.engine.Counters().Asked - before
	}
	if first, again := asked(), asked(); again != 6 {
		t.Errorf("plugins were asked %d times, and %d times again", first, again)
	}
	// A malformed pod, or one without a profile, has no bound.
	for name, change := range map[string]func(*model.Pod){"malformed": func(p *model.Pod) { p.Malformed = "odd" }, "of another scheduler": func(p *model.Pod) { p.SchedulerName = "other" }} {
		b := newBench(t, 0)
		plugintest.Set(b.state, build.Node("n", build.Allocatable("cpu=2 pods=9")))
		pod := b.compiled(build.Pod(build.Container("cpu=1")))
		change(pod)
		if n, exact := b.engine.Capacity(b.state.View(), pod, 5, without(b.state.View())); n != 5 || exact {
			t.Errorf("%s: %d, exact: %t", name, n, exact)
		}
	}
}
