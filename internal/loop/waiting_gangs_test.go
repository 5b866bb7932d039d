package loop_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// waitingGang describes gangs of eight that cannot start. A node has 4 cpu and runs pods
// of 100m, except free nodes, which only gangs tolerate.
type waitingGang struct {
	name string
	free int // number of nodes
	// cpu is the request of member i, in millicores.
	cpu func(i int) int64
	// small is the number of small pods of priority 0 on each node. Gangs have the given
	// priority; if it is not 0, they may evict small pods.
	small    int
	priority int32
}

var waitingGangs = []waitingGang{
	{name: "NoRoom", small: 2, cpu: func(int) int64 { return 4000 }},
	{name: "RoomForSeven", small: 2, free: 7, cpu: func(int) int64 { return 4000 }},
	// tries further orders without success
	{name: "RoomForSevenOfTwoKinds", small: 2, free: 7, cpu: func(i int) int64 { return 3950 + 50*int64(i%2) }},
	{name: "EvictionsDoNotHelp", small: 6, priority: 1000, cpu: func(int) int64 { return 4000 }},
}

const ofGang = 8

// newWaitingGangs returns a scheduler that has tried the gangs until each has reached its
// longest backoff. Some gangs are retried every second.
func newWaitingGangs(t testing.TB, nodes, gangs int, of *waitingGang) *full {
	t.Helper()
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Queue(queue.DefaultMaxParked)
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
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit})
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
		for j := range of.small {
			changes.Set(f.pod(runningName(i+j*nodes), 100, build.NodeName(node)))
		}
	}
	f.rest()
	// in seconds: the longest backoff of a gang of eight, and the time until all gangs
	// have reached it
	const longest, steady = 28, 28 + 1 + 2 + 4 + 8 + 16
	for second := range steady {
		if f.rest(); second < longest {
			for g := second * gangs / longest; g < (second+1)*gangs/longest; g++ {
				f.addGang(g, of)
			}
		}
		f.now = f.now.Add(time.Second)
	}
	if n := f.loop.Queue().Counts(); f.commit.made[plan.Unschedulable] < ofGang*gangs || len(f.commit.last.Evictions) > 0 {
		t.Fatalf("%d pods are unschedulable, want all %d members: %+v", f.commit.made[plan.Unschedulable], ofGang*gangs, n)
	}
	return f
}

// addGang adds a gang that cannot start.
func (f *full) addGang(g int, of *waitingGang) {
	name := fmt.Sprintf("gang-%d", g)
	f.changes.Set(&schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID(name)},
		Spec: schedulingv1beta1.PodGroupSpec{
			Priority:         &of.priority,
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: ofGang}},
		},
	})
	for i := range ofGang {
		f.changes.Set(f.pod(fmt.Sprintf("%s-%d", name, i), of.cpu(i), build.Tolerations(v1.Toleration{Operator: v1.TolerationOpExists}), func(p *v1.Pod) {
			p.Spec.SchedulingGroup, p.Spec.Priority = &v1.PodSchedulingGroup{PodGroupName: &name}, &of.priority
		}))
	}
}

// BenchmarkWaitingGangs measures how 1,000 gangs of eight that cannot start slow down
// other pods, as BenchmarkHopelessPreemptors does for single pods. Other pods are placed
// as fast as possible, each time a pod ends, and the gangs are retried as often as their
// backoffs allow.
func BenchmarkWaitingGangs(b *testing.B) {
	for _, of := range waitingGangs {
		nodes, gangs := build.Sized(5000), build.Sized(1000)
		var alone, beside *full // reused when the benchmark runs longer
		b.Run(of.name, func(b *testing.B) {
			if alone == nil {
				alone, beside = newWaitingGangs(b, nodes, 0, &of), newWaitingGangs(b, nodes, gangs, &of)
			}
			compareAlone(b, alone, beside, of.small*nodes, gangs, ofGang)
		})
	}
}
