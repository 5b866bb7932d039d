package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// parkedCrowd is a queue with parked pods that the given plugins rejected.
func parkedCrowd(t testing.TB, size int, plugins []string, pod func(i int) *v1.Pod) *queue.Queue {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.New(c.Queue(24 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	pods := make([]*model.Pod, size)
	for i := range pods {
		object := pod(i)
		object.Name, object.UID = fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("p%d", i))
		object.Spec.SchedulerName = c.Profiles[0].Name
		pods[i] = model.NewPod(object)
		c.Profiles[0].Compile(pods[i])
	}
	q.Wake(noon, state.Delta{Arrived: pods})
	parkAll(q, noon, plugins)
	return q
}

// parkAll rejects every ready pod.
func parkAll(q *queue.Queue, now time.Time, plugins []string) {
	for {
		w, ok := q.Pop(now)
		if !ok {
			return
		}
		queue.SettlePod(q, now, w, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: plugins}})
	}
}

// groupedCrowd is a queue with waiting groups that events wake.
func groupedCrowd(t testing.TB, groups, members int, pod func(i int) *v1.Pod) *queue.Queue {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	rules := c.Queue(24 * time.Hour)
	rules.Groups, rules.GroupPatience = true, queue.DefaultGroupPatience
	q, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		name := fmt.Sprintf("g%d", i)
		object := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		changes := []model.Change{{Kind: model.ObjectSet, Compiled: model.NewPodGroup(object)}}
		for j := range members {
			object := pod(i)
			object.Namespace, object.Name = "ns", fmt.Sprintf("%s-%d", name, j)
			object.UID = types.UID(object.Name)
			object.Spec.SchedulerName = c.Profiles[0].Name
			object.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
			member := model.NewPod(object)
			c.Profiles[0].Compile(member)
			changes = append(changes, model.Change{Kind: model.PodSet, Pod: member})
		}
		q.Wake(noon, q.State().Apply(changes))
	}
	return q
}

// rejectGroups rejects every ready group, and returns their number.
func rejectGroups(q *queue.Queue, now time.Time, plugins []string) (tried int) {
	for {
		w, ok := q.Pop(now)
		if !ok {
			return tried
		}
		tried++
		queue.RejectGroup(w, plugins...)
		q.Settle(now, w)
	}
}

// A crowd is waiting pods that none of the events helps.
type otherCrowd struct {
	plugins []string
	pod     func(i int) *v1.Pod
	events  map[string]model.Event
}

// selecting returns a selector of pods by a label.
func selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// otherCrowds returns three crowds. Tenants have equal labels, each in its own namespace.
// Pools have different values of one label, tolerations different values of one taint.
// The events concern one more tenant, pool or taint.
func otherCrowds() map[string]otherCrowd {
	stranger := func(app string) *model.Pod {
		return model.NewPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "stranger", Name: "s", UID: "s", Labels: map[string]string{"app": app, "part-of": "shop"}},
			Spec: v1.PodSpec{NodeName: "n", Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: selecting("app", "web")}},
			}}},
		})
	}
	podEvent := func(action model.Action, before, after *model.Pod) model.Event {
		return model.Event{Resource: model.AssignedPodEvent, Action: action, OldPod: before, Pod: after}
	}
	node := func(labels map[string]string, taints ...v1.Taint) *model.Node {
		return model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels}, Spec: v1.NodeSpec{Taints: taints}, Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")},
		}})
	}
	labels := func(os, pool string) map[string]string {
		return map[string]string{v1.LabelOSStable: os, v1.LabelHostname: "n", "pool": pool}
	}
	taint := func(value string) v1.Taint {
		return v1.Taint{Key: "tenant", Value: value, Effect: v1.TaintEffectNoSchedule}
	}
	nodeEvent := func(action model.Action, before, after *model.Node) model.Event {
		return model.Event{Resource: model.NodeEvent, Action: action, OldNode: before, Node: after}
	}
	return map[string]otherCrowd{
		"Tenants": {
			plugins: []string{"InterPodAffinity", "PodTopologySpread"},
			pod: func(i int) *v1.Pod {
				return &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("tenant-%d", i), Labels: map[string]string{"app": "web", "part-of": "shop"}},
					Spec: v1.PodSpec{
						Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{
							RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelTopologyZone, LabelSelector: selecting("app", "web")}},
						}},
						TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
							MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selecting("app", "web"),
						}},
					},
				}
			},
			events: map[string]model.Event{
				"AssignedPodAdd":            podEvent(model.Add, nil, stranger("web")),
				"AssignedPodDelete":         podEvent(model.Delete, stranger("web"), nil),
				"AssignedPodUpdatePodLabel": podEvent(model.UpdatePodLabel, stranger("db"), stranger("web")),
			},
		},
		"SelectedTenants": selectedTenants(),
		"Pools": {
			plugins: []string{"NodeAffinity"},
			pod: func(i int) *v1.Pod {
				return &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{v1.LabelOSStable: "linux", "pool": fmt.Sprintf("pool-%d", i)}}}
			},
			events: map[string]model.Event{
				"NodeAdd":                  nodeEvent(model.Add, nil, node(labels("linux", "other"))),
				"NodeUpdateNodeLabel/os":   nodeEvent(model.UpdateNodeLabel, node(labels("windows", "other")), node(labels("linux", "other"))),
				"NodeUpdateNodeLabel/pool": nodeEvent(model.UpdateNodeLabel, node(labels("linux", "another")), node(labels("linux", "other"))),
			},
		},
		"Tolerations": {
			plugins: []string{"TaintToleration"},
			pod: func(i int) *v1.Pod {
				return &v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{{Key: "tenant", Value: fmt.Sprintf("tenant-%d", i), Effect: v1.TaintEffectNoSchedule}}}}
			},
			events: map[string]model.Event{
				"NodeAdd":                 nodeEvent(model.Add, nil, node(nil, taint("other"))),
				"NodeUpdateNodeTaint":     nodeEvent(model.UpdateNodeTaint, node(nil, taint("another")), node(nil, taint("other"))),
				"NodeUpdateNodeTaint/new": nodeEvent(model.UpdateNodeTaint, node(nil), node(nil, taint("other"))),
			},
		},
	}
}

// selectedTenants are tenants with equal labels whose terms select the tenant's own
// namespaces by a label. The events are about one more such tenant.
func selectedTenants() otherCrowd {
	named := func(tenant string, near, apart bool) *v1.Pod {
		term := []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelTopologyZone, LabelSelector: selecting("app", "web"), NamespaceSelector: selecting("tenant", tenant),
		}}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, UID: "s", Labels: map[string]string{"app": "web"}}}
		pod.Spec.Affinity = &v1.Affinity{}
		if near {
			pod.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}
		}
		if apart {
			pod.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term}
		}
		return pod
	}
	stranger := named("stranger", true, true)
	stranger.Spec.NodeName = "n"
	known := state.New()
	known.Apply([]model.Change{{
		Kind: model.ObjectSet, Ref: model.Ref{Kind: model.NamespaceKind, Name: "stranger"},
		Object: &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Labels: map[string]string{"tenant": "stranger"}}},
	}})
	event := func(action model.Action) model.Event {
		return model.Event{Resource: model.AssignedPodEvent, Action: action, Cluster: known}
	}
	came, went := event(model.Add), event(model.Delete)
	came.Pod, went.OldPod = model.NewPod(stranger), model.NewPod(stranger)
	relabelled := model.Event{Resource: model.NamespaceEvent, Action: model.Update, Labels: &model.LabelsChange{
		Ref:    model.Ref{Kind: model.NamespaceKind, Name: "stranger"},
		Before: labels.Set{"tenant": "former"}, After: labels.Set{"tenant": "stranger", "color": "red"},
	}}
	appeared := relabelled
	appeared.Labels = &model.LabelsChange{Ref: relabelled.Labels.Ref, After: relabelled.Labels.After}
	return otherCrowd{
		plugins: []string{"InterPodAffinity"},
		pod:     func(i int) *v1.Pod { return named(fmt.Sprintf("tenant-%d", i), i%2 == 0, i%2 > 0) },
		events: map[string]model.Event{
			"AssignedPodAdd": came, "AssignedPodDelete": went, "NamespaceUpdate": relabelled, "NamespaceUpdate/new": appeared,
		},
	}
}

const othersParked = 5_000

// BenchmarkEventBesideOthers measures an event beside five thousand parked pods of other
// tenants, pools or tolerations. It can help none of them.
func BenchmarkEventBesideOthers(b *testing.B) {
	for name, c := range otherCrowds() {
		q := parkedCrowd(b, build.Sized(othersParked), c.plugins, c.pod)
		for what, event := range c.events {
			b.Run(name+"/"+what, func(b *testing.B) {
				before := q.HintsAsked()
				b.ReportAllocs()
				for b.Loop() {
					q.Wake(noon.Add(time.Hour), state.Delta{Events: []model.Event{event}})
				}
				b.ReportMetric(float64(q.HintsAsked()-before)/float64(b.N), "hints/op")
			})
		}
	}
}

// BenchmarkEventForAll measures an event that helps all of a hundred thousand parked
// pods, until the last of them is woken. ns/op covers all rounds together.
func BenchmarkEventForAll(b *testing.B) {
	size := build.Sized(100_000)
	plugins := []string{"NodeResourcesFit", "NodeAffinity", "TaintToleration"}
	q := parkedCrowd(b, size, plugins, func(i int) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"pool": fmt.Sprintf("pool-%d", i%1000)}}}
	})
	freed := model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "s"}, Spec: v1.PodSpec{NodeName: "n"},
	})}
	now, rounds := noon, []time.Duration{}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Hour)
		delta := state.Delta{Events: []model.Event{freed}}
		for {
			began := time.Now()
			q.Wake(now, delta)
			rounds = append(rounds, time.Since(began))
			q.TakeMoves()
			if q.Counts().Parked == 0 {
				break
			}
			delta = state.Delta{}
		}
		b.StopTimer()
		parkAll(q, now, plugins)
		q.TakeMoves()
		b.StartTimer()
	}
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)-1]), "longest-round-ns")
	b.ReportMetric(float64(rounds[len(rounds)/2]), "median-round-ns")
	b.ReportMetric(float64(len(rounds))/float64(b.N), "rounds/op")
}

// BenchmarkEventForGroups is BenchmarkEventForAll for a thousand rejected groups of 64.
// The event helps each member.
func BenchmarkEventForGroups(b *testing.B) {
	const members = 64
	groups, plugins := build.Sized(1000), []string{"NodeResourcesFit", "NodeAffinity", "TaintToleration"}
	q := groupedCrowd(b, groups, members, func(i int) *v1.Pod {
		return &v1.Pod{Spec: v1.PodSpec{NodeSelector: map[string]string{"pool": fmt.Sprintf("pool-%d", i)}}}
	})
	freed := model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "s"}, Spec: v1.PodSpec{NodeName: "n"},
	})}
	now, rounds := noon, []time.Duration{}
	rejectGroups(q, now, plugins)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second) // the backoff still lasts
		delta := state.Delta{Events: []model.Event{freed}}
		for {
			began := time.Now()
			q.Wake(now, delta)
			rounds = append(rounds, time.Since(began))
			if q.TakeMoves(); !q.Waking() {
				break
			}
			delta = state.Delta{}
		}
		b.StopTimer()
		now = now.Add(time.Hour)
		if n := rejectGroups(q, now, plugins); n != groups {
			b.Fatalf("%d groups are tried, want %d", n, groups)
		}
		q.TakeMoves()
		b.StartTimer()
	}
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)-1]), "longest-round-ns")
	b.ReportMetric(float64(len(rounds))/float64(b.N), "rounds/op")
}

// BenchmarkRejection measures the time of the queue for a pod that is woken, popped and
// rejected again, beside ten thousand parked pods. The pods are equal, with one bucket in
// each index, or each has its own labels, namespace and terms.
func BenchmarkRejection(b *testing.B) {
	plugins := []string{"NodeResourcesFit", "NodeAffinity", "TaintToleration", "InterPodAffinity", "PodTopologySpread"}
	tenants, parked := otherCrowds()["Tenants"].pod, build.Sized(10_000)
	for name, pod := range map[string]func(i int) *v1.Pod{"Alike": func(int) *v1.Pod { return tenants(0) }, "Different": tenants} {
		b.Run(name, func(b *testing.B) {
			q := parkedCrowd(b, parked, plugins, pod)
			now := noon.Add(time.Hour)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				q.Activate(now, []model.PodKey{{Namespace: pod(i % parked).Namespace, Name: fmt.Sprintf("p%d", i%parked)}})
				i++
				parkAll(q, now, plugins)
				q.TakeMoves()
			}
		})
	}
}
