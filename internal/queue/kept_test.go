package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/elements"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestNothingIsKeptOfPodsThatAreGone runs rounds of pods that arrive, wait in every place
// and leave. Each round has its own names, namespaces, labels, taints, volumes, domains
// and priorities. After a round the queue is empty, and its memory has not grown since
// the earlier rounds.
func TestNothingIsKeptOfPodsThatAreGone(t *testing.T) {
	defaults, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.New(defaults.Queue(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var plugins []string
	for _, x := range defaults.Profiles[0].EnqueueExtensions {
		plugins = append(plugins, x.Name)
	}
	const rounds, settled = 40, 5
	var memory queue.Memory
	for round := range rounds {
		now := noon.Add(time.Duration(round) * time.Hour)
		pods, victims := freshPods(round, 3*len(plugins)+4)
		for _, pod := range pods {
			defaults.Profiles[0].Compile(pod)
		}
		wakeWholly(t, q, now, state.Delta{Arrived: pods})
		evicting := map[string]*model.Pod{}
		for i := 0; ; i++ {
			w, ok := q.Pop(now)
			if !ok {
				break
			}
			d := plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{
				Plugins: []string{plugins[i%len(plugins)], plugins[(i+1+i/len(plugins))%len(plugins)]},
			}}
			d.Rejection.Pending = d.Rejection.Plugins[:i%2]
			switch {
			case i == 0:
				d.Outcome = plan.Placed
				d.Placement = plan.Placement{Pod: w.First(), NodeName: "n", Steps: []plan.Step{{Stage: plan.Permit}}}
			case i == 1:
				d.Outcome, d.Err = plan.Failed, errors.New("broken")
			case i%5 == 2:
				d.Evictions = []plan.Eviction{{Pod: victims[i%len(victims)], NodeName: "n"}, {Pod: victims[(i+1)%len(victims)], NodeName: "n"}}
				evicting[w.First().Name] = w.First()
			}
			queue.SettlePod(q, now, w, d)
		}
		events := freshEvents(round)
		some := q.Kept()
		q.Wake(now, state.Delta{Events: events[:1]})
		some.Missed = q.Kept().Missed
		if k := some; k.Pods != len(pods) || k.InHeaps != len(pods)-1 || k.Plugins < len(plugins) || k.Buckets < len(pods) || k.Postings < len(pods) ||
			k.Gates != 1 || k.Awaited == 0 || k.Leaving == 0 || k.Missed != 1 {
			t.Fatalf("round %d: what is kept is too little to prove anything: %+v", round, k)
		}
		wakeWholly(t, q, now.Add(time.Second), state.Delta{Events: events[1:]})
		if woken := q.Counts(); woken.Active+woken.BackingOff < 3 {
			t.Fatalf("round %d: the events woke too few pods to prove anything: %+v", round, woken)
		}
		// Some leave while they wait for victims, others after the victims have left or
		// the preemption has failed.
		gone := state.Delta{Evicted: []types.UID{victims[0].UID}, Moved: []types.UID{victims[1].UID}}
		for _, pod := range evicting {
			gone.Preempted = append(gone.Preempted, &model.PreemptionResult{Preemptor: pod, Err: errors.New("forbidden")})
			break
		}
		for i, pod := range pods {
			if i%2 == 0 {
				gone.Left = append(gone.Left, pod.Key())
			}
		}
		wakeWholly(t, q, now.Add(2*time.Second), gone)
		gone = state.Delta{}
		for _, pod := range pods {
			gone.Left = append(gone.Left, pod.Key())
		}
		wakeWholly(t, q, now.Add(3*time.Second), gone)
		q.TakeMoves()
		if kept := q.Kept(); kept != (queue.Kept{}) {
			t.Fatalf("round %d: after all pods are gone the queue keeps %+v", round, kept)
		}
		if n := elements.Reachable(q)["*queue.entry"]; n > 0 {
			t.Fatalf("round %d: %d pods that are gone are still in memory", round, n)
		}
		switch now := q.Memory(); {
		case round <= settled:
			memory = now
		case now != memory:
			t.Fatalf("the queue keeps memory for %+v after %d rounds, for %+v after %d", memory, settled, now, round)
		}
	}
}

// freshPods returns victims, and pods that differ in all their index keys from each other
// and from other rounds.
func freshPods(round, number int) (pods, victims []*model.Pod) {
	for i := range number {
		fresh := fmt.Sprintf("%d-%d", round, i)
		p := build.Pod(
			build.RequiredAffinity(build.Term("topology-"+fresh, "app=a-"+fresh)), build.RequiredAntiAffinity(build.Term("apart-"+fresh, "app=b-"+fresh)),
			build.Claims("claim-"+fresh), build.Labels("app=a-"+fresh),
		)
		p.Namespace, p.Name, p.UID = "ns-"+fresh, "pod-"+fresh, types.UID(fresh)
		p.Spec.SchedulerName = v1.DefaultSchedulerName
		p.Spec.NodeSelector = map[string]string{"pool-" + fresh: "yes"}
		p.Spec.Tolerations = []v1.Toleration{{Key: "taint-" + fresh, Operator: v1.TolerationOpExists}}
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "spread-" + fresh, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a-" + fresh}},
		}}
		p.Spec.Containers = []v1.Container{{Image: "image-" + fresh, Ports: []v1.ContainerPort{{HostPort: int32(1 + round*number + i)}}}}
		priority := int32(1000*round + i/2)
		p.Spec.Priority = &priority
		if i%10 == 9 {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gate-" + fresh}}
		}
		pods = append(pods, model.NewPod(p))
		victim := build.Pod(build.NodeName("n"))
		victim.Name, victim.UID = "victim-"+fresh, types.UID("victim-"+fresh)
		victims = append(victims, model.NewPod(victim))
	}
	return pods, victims
}

// freshEvents are the events that the pods of a round wait for; the first is an unrelated
// event.
func freshEvents(round int) []model.Event {
	events := []model.Event{{Resource: model.AssignedPodEvent, Action: model.Add, Pod: model.NewPod(build.Pod(build.NodeName("n")))}}
	for i := range 10 {
		fresh := fmt.Sprintf("%d-%d", round, i)
		n := build.Node("node-"+fresh, func(n *v1.Node) {
			n.Labels = map[string]string{"pool-" + fresh: "yes", "topology-" + fresh: "x", "spread-" + fresh: "x"}
			n.Spec.Taints = []v1.Taint{{Key: "taint-" + fresh, Effect: v1.TaintEffectNoSchedule}}
		})
		events = append(events,
			model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(n)},
			model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(build.Pod(build.NodeName("n"), build.Labels("app=b-"+fresh)))},
		)
	}
	return events
}
