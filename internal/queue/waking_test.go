package queue_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/decide/plugins/tainttoleration"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/queue"
)

var (
	seeds = flag.Int("seeds", 20, "how many random clusters to wake pods in")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestIndexFindsPodsThatHintsAccept changes random clusters and raises each event beside
// pods that each plugin in turn rejected. The queue calls one hint for similar pods,
// skips pods that the event does not touch, and uses slices of any size. It must wake
// exactly the pods whose own hint call accepts the event.
func TestIndexFindsPodsThatHintsAccept(t *testing.T) {
	var woken, events atomic.Int64
	t.Cleanup(func() { // after all seeds, which run in parallel
		if *seed == 0 && (events.Load() < 500 || woken.Load() < 1000) {
			t.Errorf("only %d events, %d times a pod was woken: the clusters are too dull", events.Load(), woken.Load())
		}
	})
	random.EverySeed(t, "./internal/queue", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		rules := rulesOf(t, r)
		cluster := random.TopologyCluster(r, random.Size{Nodes: 2 + r.IntN(10), Placed: r.IntN(40), Pending: 12})
		waiting := compiled(rules.Profiles[0], enginetest.Pending(cluster))
		s := state.New()
		rules.State = s
		s.Apply(enginetest.Changes(cluster))
		for range 60 {
			m := random.TopologyChange(r, cluster)
			cluster = m.After
			for _, event := range s.Apply(enginetest.MutationChanges(m)).Events {
				events.Add(1)
				n, _ := wakesWhatHintsAccept(t, rules, waiting, event)
				woken.Add(n)
			}
		}
	})
}

// TestIndexFindsPodsAmongTenants does the same with pods of a few tenants. These have
// their own namespaces, pools of nodes and taints, and labels in common.
func TestIndexFindsPodsAmongTenants(t *testing.T) {
	var woken, kept atomic.Int64
	t.Cleanup(func() {
		if *seed == 0 && (woken.Load() < 1000 || kept.Load() < 1000) {
			t.Errorf("pods were woken %d times, and %d times not: the tenants are too dull", woken.Load(), kept.Load())
		}
	})
	random.EverySeed(t, "./internal/queue", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		rules := rulesOf(t, r)
		var objects []*v1.Pod
		for i := range 20 {
			objects = append(objects, tenantPod(r, i))
		}
		waiting := compiled(rules.Profiles[0], objects)
		for range 60 {
			event := tenantEvent(r)
			n, others := wakesWhatHintsAccept(t, rules, waiting, event)
			woken.Add(n)
			kept.Add(others)
		}
	})
}

// rulesOf returns the default configuration, or other arguments for the plugins' hints,
// and slices of any size.
func rulesOf(t testing.TB, r *rand.Rand) queue.Config {
	t.Helper()
	defaults, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	rules := defaults.Queue(time.Minute)
	rules.Slice = r.IntN(8)
	if r.IntN(2) == 0 {
		return rules
	}
	added, err := nodeaffinity.New(&configv1.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "disk", Operator: v1.NodeSelectorOpNotIn, Values: []string{"hdd"}}}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	spread, err := podtopologyspread.New(&configv1.PodTopologySpreadArgs{
		DefaultConstraints: []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule}},
		DefaultingType:     configv1.ListDefaulting,
	})
	if err != nil {
		t.Fatal(err)
	}
	others := map[string]*plugin.Parts{
		added.Name(): added.Parts(), spread.Name(): spread.Parts(), tainttoleration.Name: tainttoleration.New(tainttoleration.WithComparisons).Parts(),
	}
	profile := *rules.Profiles[0]
	profile.EnqueueExtensions = slices.Clone(profile.EnqueueExtensions)
	for i, x := range profile.EnqueueExtensions {
		if other := others[x.Name]; other != nil {
			profile.EnqueueExtensions[i] = other.EnqueueExtensions
		}
	}
	rules.Profiles = []*plugin.Profile{&profile}
	return rules
}

func compiled(profile *plugin.Profile, objects []*v1.Pod) []*model.Pod {
	var pods []*model.Pod
	for _, object := range objects {
		pod := model.NewPod(object)
		pod.SchedulerName = profile.Name
		profile.Compile(pod)
		pods = append(pods, pod)
	}
	return pods
}

// wakesWhatHintsAccept raises the event beside pods that each plugin rejected. It returns
// the numbers of woken and other pods.
func wakesWhatHintsAccept(t *testing.T, rules queue.Config, waiting []*model.Pod, event model.Event) (woken, kept int64) {
	t.Helper()
	for _, x := range rules.Profiles[0].EnqueueExtensions {
		q := parkedUnder(t, rules, waiting, x.Name)
		wakeWholly(t, q, noon.Add(time.Hour), state.Delta{Events: []model.Event{event}})
		for _, pod := range waiting {
			want := event.Reaches(pod.Priority) && accepts(x, q.State().View(), pod, event)
			if got := q.PlaceOf(pod.Key()) != "parked"; got != want {
				t.Fatalf("%s of %s, rejected by %s, is woken: %t, its hint says %t", event.Label(), pod, x.Name, got, want)
			}
			if want {
				woken++
			} else {
				kept++
			}
		}
	}
	return woken, kept
}

// accepts reports whether a hint of a plugin accepts an event for a pod that it rejects.
func accepts(x *plugin.EnqueueExtensions, v state.View, pod *model.Pod, event model.Event) bool {
	var asked model.Need
	if x.Asked != nil {
		asked = x.Asked(v, pod)
	}
	return slices.ContainsFunc(x.Events, func(i model.EventToRegister) bool {
		return i.Helps(pod, event) && (i.Asked == nil || i.Asked.Hint(asked, event))
	})
}

// wakeWholly applies a delta, in as many slices as necessary.
func wakeWholly(t *testing.T, q *queue.Queue, now time.Time, delta state.Delta) {
	t.Helper()
	for rounds := 0; ; rounds++ {
		q.Wake(now, delta)
		if err := q.Audit(); err != nil {
			t.Fatal(err)
		}
		if !q.Unfinished() {
			return
		}
		if rounds > 10_000 {
			t.Fatal("the queue does not finish")
		}
		delta = state.Delta{}
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func parkedUnder(t testing.TB, config queue.Config, pods []*model.Pod, plugin string) *queue.Queue {
	t.Helper()
	q, err := queue.New(config)
	if err != nil {
		t.Fatal(err)
	}
	q.Wake(noon, state.Delta{Arrived: pods})
	parkAll(q, noon, []string{plugin})
	return q
}

// crowd is waiting pods: in a thousand apps, each with its own node selector, affinity
// and requests.
func crowd(t testing.TB, size int) *queue.Queue {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	var pods []*model.Pod
	for i := range size {
		app := fmt.Sprintf("app-%03d", i%1000)
		term := v1.PodAffinityTerm{TopologyKey: v1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		pod := model.NewPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("p%d", i)), Labels: map[string]string{"app": app},
			},
			Spec: v1.PodSpec{
				SchedulerName: c.Profiles[0].Name,
				NodeSelector:  map[string]string{"for": app},
				Affinity:      &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}},
				TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				}},
				Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU: *resource.NewMilliQuantity(int64(1000+i%1000), resource.DecimalSI),
				}}}},
			},
		})
		c.Profiles[0].Compile(pod)
		pods = append(pods, pod)
	}
	q, err := queue.New(c.Queue(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	q.Wake(noon, state.Delta{Arrived: pods})
	for {
		w, ok := q.Pop(noon)
		if !ok {
			return q
		}
		queue.SettlePod(q, noon, w, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{
			Plugins: []string{"InterPodAffinity", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "TaintToleration"},
		}})
	}
}

// useless returns changes that help no pod of the crowd.
func useless() map[string]model.Event {
	node := func(label string, cpu, gpus string) *model.Node {
		return model.NewNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1.LabelHostname: "n", v1.LabelTopologyZone: "z", "x": label}},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("110"), "example.com/gpu": resource.MustParse(gpus),
			}},
		})
	}
	stranger := model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "stranger", UID: "stranger", Labels: map[string]string{"app": "other"}},
		Spec:       v1.PodSpec{NodeName: "n"},
	})
	return map[string]model.Event{
		"NodeLabel":       {Resource: model.NodeEvent, Action: model.UpdateNodeLabel, OldNode: node("1", "1", "1"), Node: node("2", "1", "1")},
		"NodeAllocatable": {Resource: model.NodeEvent, Action: model.UpdateNodeAllocatable, OldNode: node("1", "1", "1"), Node: node("1", "1", "2")},
		"NodeCondition":   {Resource: model.NodeEvent, Action: model.UpdateNodeCondition, OldNode: node("1", "1", "1"), Node: node("1", "1", "1")},
		"AssignedPodAdd":  {Resource: model.AssignedPodEvent, Action: model.Add, Pod: stranger},
	}
}

// TestUselessChangesCallNoHint counts the hint calls of a change beside ten thousand
// parked pods that it cannot help.
func TestUselessChangesCallNoHint(t *testing.T) {
	q := crowd(t, 10_000)
	for name, event := range useless() {
		before := q.HintsAsked()
		q.Wake(noon.Add(time.Minute), state.Delta{Events: []model.Event{event}})
		if asked := q.HintsAsked() - before; asked > 0 || q.Counts().Parked != 10_000 {
			t.Errorf("%s: asked %d hints, %d pods still parked", name, asked, q.Counts().Parked)
		}
	}
}

// BenchmarkUselessChange measures such a change beside a hundred thousand.
func BenchmarkUselessChange(b *testing.B) {
	q := crowd(b, build.Sized(100_000))
	for name, event := range useless() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q.Wake(noon.Add(time.Minute), state.Delta{Events: []model.Event{event}})
			}
		})
	}
}
