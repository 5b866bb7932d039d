package loop_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/feature"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// waitingGang is what gangs of eight that cannot start are like. A node has 4 cpu and runs pods of 100m, but for free nodes, which only gangs tolerate.
type waitingGang struct {
	name string
	free int // nodes
	// cpu is what member i requests, in thousandths.
	cpu func(i int) int64
}

var waitingGangs = []waitingGang{
	{name: "NoRoom", cpu: func(int) int64 { return 4000 }},
	{name: "RoomForSeven", free: 7, cpu: func(int) int64 { return 4000 }},
	{name: "RoomForSevenOfTwoKinds", free: 7, cpu: func(i int) int64 { return 3950 + 50*int64(i%2) }}, // further orders are tried, in vain
}

const ofGang = 8

func newWaitingGangs(t testing.TB, nodes, gangs int, of waitingGang) *full {
	t.Helper()
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Queue(queue.DefaultParkedMax)
	rules.GroupPatience = queue.DefaultGroupPatience
	waiting, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		t.Fatal(err)
	}
	changes := ingest.New(c.Compile())
	f := &full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Now()}
	f.loop = loop.New(changes, waiting, decider, f.commit)
	for i := range nodes + of.free {
		node := fmt.Sprintf("node-%05d", i)
		options := []build.NodeOption{build.Allocatable("cpu=4 memory=32Gi pods=110")}
		if i >= nodes {
			options = append(options, build.Taints("gangs:NoSchedule"))
		}
		changes.Set(build.Node(node, options...))
		if i >= nodes {
			continue
		}
		changes.Set(f.pod(fmt.Sprintf("staying-%d", i), 100, build.NodeName(node), priority(1000)))
		for j := range 2 {
			changes.Set(f.pod(runningName(i+j*nodes), 100, build.NodeName(node)))
		}
	}
	for g := range gangs {
		name := fmt.Sprintf("gang-%d", g)
		changes.Set(&schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID(name)},
			Spec: schedulingv1beta1.PodGroupSpec{
				SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: ofGang}},
			},
		})
		for i := range ofGang {
			changes.Set(f.pod(fmt.Sprintf("%s-%d", name, i), of.cpu(i), build.Tolerations(v1.Toleration{Operator: v1.TolerationOpExists}), func(p *v1.Pod) {
				p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
			}))
		}
	}
	f.rest()
	if n := f.commit.made[plan.Unschedulable]; n != ofGang*gangs {
		t.Fatalf("%d pods are unschedulable, want all %d members", n, ofGang*gangs)
	}
	return f
}

// BenchmarkWaitingGangs measures what 1,000 gangs of eight that cannot start cost the others, as BenchmarkHopelessPreemptors does for single pods: other pods are placed
// as fast as can be, for each a pod ends, and the gangs are tried as often as their backoffs allow.
func BenchmarkWaitingGangs(b *testing.B) {
	for _, of := range waitingGangs {
		b.Run(of.name, func(b *testing.B) {
			nodes, gangs, turn := build.Sized(5000), build.Sized(1000), 500
			alone, beside := newWaitingGangs(b, nodes, 0, of), newWaitingGangs(b, nodes, gangs, of)
			compareAlone(b, alone, beside, nodes, turn, gangs, ofGang)
		})
	}
}
