package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestEventAsksNobodyAmongOthers counts the hints of events beside parked pods of other
// tenants, pools and tolerations. No hint runs. An event that concerns a single pod runs
// the hint for that pod.
func TestEventAsksNobodyAmongOthers(t *testing.T) {
	for name, c := range otherCrowds() {
		q := parkedCrowd(t, 1000, c.plugins, c.pod)
		for what, event := range c.events {
			before := q.HintsAsked()
			wakeWholly(t, q, noon.Add(time.Hour), state.Delta{Events: []model.Event{event}})
			if asked := q.HintsAsked() - before; asked > 0 || q.Counts().Parked != 1000 {
				t.Errorf("%s: %s asks %d hints and wakes %d pods, want none", name, what, asked, 1000-q.Counts().Parked)
			}
		}
	}
	mine := func(pod *v1.Pod) *v1.Pod {
		pod.Spec.NodeName = "n"
		return pod
	}
	crowds := otherCrowds()
	seven := map[string]model.Event{
		"Tenants": {Resource: model.AssignedPodEvent, Action: model.Add, Pod: model.NewPod(mine(crowds["Tenants"].pod(7)))},
		"Pools": {Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Labels: map[string]string{v1.LabelOSStable: "linux", "pool": "pool-7"},
		}})},
		"Tolerations": {Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "tenant", Value: "tenant-7", Effect: v1.TaintEffectNoSchedule}}},
		})},
	}
	for name, event := range seven {
		q := parkedCrowd(t, 1000, crowds[name].plugins, crowds[name].pod)
		before := q.HintsAsked()
		wakeWholly(t, q, noon.Add(time.Hour), state.Delta{Events: []model.Event{event}})
		if asked := q.HintsAsked() - before; asked > int64(len(crowds[name].plugins)) || q.Counts().Parked != 999 {
			t.Errorf("%s: an event for one asks %d hints and wakes %d pods", name, asked, 1000-q.Counts().Parked)
		}
	}
}

var podFreed = model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(&v1.Pod{
	ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "freed", UID: "freed"}, Spec: v1.PodSpec{NodeName: "n"},
})}

// TestEventForAllIsTakenInSlices wakes twenty thousand pods that want the same room. One
// hint runs, and no round moves more than a slice. Between the slices pods have their
// turns, by priority and then by time.
func TestEventForAllIsTakenInSlices(t *testing.T) {
	const size = 20_000
	q := parkedCrowd(t, size, []string{"NodeResourcesFit"}, func(i int) *v1.Pod {
		priority := int32(i % 7)
		return &v1.Pod{Spec: v1.PodSpec{Priority: &priority}}
	})
	q.TakeMoves()
	now, before := noon.Add(time.Hour), q.HintsAsked()
	delta := state.Delta{Events: []model.Event{podFreed}}
	rounds, last := 0, plan.QueuedPod{}
	for q.Counts().Parked > 0 {
		q.Wake(now, delta)
		delta, rounds = state.Delta{}, rounds+1
		if moved := len(q.TakeMoves()); moved > queue.DefaultSlice {
			t.Fatalf("round %d moves %d pods, want at most %d", rounds, moved, queue.DefaultSlice)
		}
		if at, ok := q.Next(); q.Unfinished() && (!ok || at.After(now)) {
			t.Fatalf("round %d leaves work, and the next is at %v", rounds, at)
		}
		w, ok := q.Pop(now)
		if !ok {
			t.Fatalf("round %d has woken pods, and none is ready", rounds)
		}
		if p := w.Members[0]; last.Pod != nil && p.Pod.Priority > last.Pod.Priority {
			t.Fatalf("pod %s of priority %d is popped after one of %d", p.Pod, p.Pod.Priority, last.Pod.Priority)
		}
		last = w.Members[0].QueuedPod
		queue.SettlePod(q, now, w, plan.Decision{Outcome: plan.Placed})
	}
	if asked := q.HintsAsked() - before; asked != 1 || rounds < size/queue.DefaultSlice || rounds > size/queue.DefaultSlice+2 {
		t.Errorf("%d hints in %d rounds", asked, rounds)
	}
}

// TestManyHintsAreAskedInSlices has an event that concerns five thousand pods of
// different requests, and helps half of them.
func TestManyHintsAreAskedInSlices(t *testing.T) {
	const size = 5000
	q := parkedCrowd(t, size, []string{"NodeResourcesFit"}, func(i int) *v1.Pod { return requesting(int64(1 + i)) })
	now := noon.Add(time.Hour)
	delta := state.Delta{Events: []model.Event{{Resource: model.NodeEvent, Action: model.Add, Node: offering(size / 2)}}}
	for rounds := 0; rounds == 0 || q.Unfinished(); rounds++ {
		before := q.HintsAsked()
		q.Wake(now, delta)
		delta = state.Delta{}
		if asked := q.HintsAsked() - before; asked > queue.DefaultSlice {
			t.Fatalf("round %d asks %d hints", rounds, asked)
		}
		if q.HintsAsked() < size && q.Counts().Parked < size {
			t.Fatalf("round %d wakes pods while %d of %d hints were asked", rounds, q.HintsAsked(), size)
		}
	}
	if parked := q.Counts().Parked; parked != size/2 || q.HintsAsked() != size {
		t.Errorf("%d pods are still parked, %d hints were asked", parked, q.HintsAsked())
	}
}

// TestPodsOfAStatefulSetAreAskedAboutOnce deletes a pod whose anti-affinity, in both
// directions, kept all others of its set away. Each pod has its own label, so the hint of
// one direction depends on the pod. That hint does not run for pods that the other hint
// has helped.
func TestPodsOfAStatefulSetAreAskedAboutOnce(t *testing.T) {
	const size = 2000
	member := func(i int) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web", "statefulset.kubernetes.io/pod-name": fmt.Sprint("web-", i)}},
			Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: selecting("app", "web")}},
			}}},
		}
	}
	q := parkedCrowd(t, size, []string{"InterPodAffinity"}, member)
	gone := member(size)
	gone.Spec.NodeName = "n"
	wakeWholly(t, q, noon.Add(time.Hour), state.Delta{Events: []model.Event{{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(gone)}}})
	if q.HintsAsked() != 1 || q.Counts().Parked != 0 {
		t.Errorf("%d hints were asked, %d pods are still parked", q.HintsAsked(), q.Counts().Parked)
	}
}

func requesting(cpuMilli int64) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI),
	}}}}}}
}

func offering(cpuMilli int64) *model.Node {
	return model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: *resource.NewMilliQuantity(cpuMilli, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110"),
	}}})
}

// TestSlicesKeepTheOrderOfTurns wakes pods of various priorities, rejected by various
// plugins, at various times, in slices of any size. Each pod is decided about at its
// turn. The order is the same as without slices.
func TestSlicesKeepTheOrderOfTurns(t *testing.T) {
	random.EverySeed(t, "./internal/queue", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		var objects []*v1.Pod
		var rejectors [][]string
		for i := range 40 {
			p := tenantPod(r, i)
			priority := int32(r.IntN(4))
			p.Spec.Priority = &priority
			objects = append(objects, p)
			rejectors = append(rejectors, one(r, []string{"NodeResourcesFit"}, []string{"NodeAffinity", "NodeResourcesFit"}, []string{"InterPodAffinity", "TaintToleration"}))
		}
		event := tenantEvent(r)
		if r.IntN(3) == 0 {
			event = podFreed
		}
		rules := rulesOf(t, r)
		var want []string
		for _, slice := range []int{1000, 1, 2, 7} {
			rules.Slice = slice
			waiting := compiled(rules.Profiles[0], objects)
			got := turns(t, rules, waiting, rejectors, event)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("in slices of %d the turns are %v, want %v", slice, got, want)
			}
		}
	})
}

// turns parks the pods, raises the event and returns the order of their turns.
func turns(t *testing.T, rules queue.Config, pods []*model.Pod, rejectors [][]string, event model.Event) (order []string) {
	t.Helper()
	q, err := queue.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	for i, pod := range pods {
		at := noon.Add(time.Duration(i) * time.Millisecond)
		wakeWholly(t, q, at, state.Delta{Arrived: []*model.Pod{pod}})
		parkAll(q, at, rejectors[i])
	}
	now := noon.Add(50 * time.Second) // before the check for idle pods
	delta := state.Delta{Events: []model.Event{event}}
	for {
		q.Wake(now, delta)
		delta = state.Delta{}
		if w, ok := q.Pop(now); ok {
			order = append(order, w.First().Name)
			queue.SettlePod(q, now, w, plan.Decision{Outcome: plan.Placed})
		} else if !q.Unfinished() {
			return order
		}
		if err := q.Audit(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingIsForgottenBetweenSlices raises event after event in slices while pods
// arrive, leave, change, are placed and rejected again. Every pod that was parked at an
// event that its hint accepts is woken by it, or has had a turn since.
func TestNothingIsForgottenBetweenSlices(t *testing.T) {
	random.EverySeed(t, "./internal/queue", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		rules := rulesOf(t, r)
		rules.Slice = 1 + r.IntN(3)
		q, err := queue.New(rules)
		if err != nil {
			t.Fatal(err)
		}
		now := noon
		// pods that an event must wake, in the parked version
		owed := map[model.PodKey]*model.Pod{}
		parked := map[model.PodKey]parkedPod{}
		profile := rules.Profiles[0]
		for step := range 600 {
			now = now.Add(time.Duration(r.IntN(100)) * time.Millisecond)
			delta := state.Delta{}
			switch {
			case r.IntN(4) == 0:
				p := tenantPod(r, r.IntN(30))
				p.UID = types.UID(p.Name) // often a new version of a waiting pod
				delta.Arrived = compiled(profile, []*v1.Pod{p})
			case r.IntN(10) == 0:
				delta.Left = []model.PodKey{{Namespace: tenant(r), Name: fmt.Sprintf("pod-%d", r.IntN(30))}}
			case r.IntN(3) == 0 && step < 500:
				delta.Events = append(delta.Events, tenantEvent(r))
			}
			for _, key := range delta.Left {
				delete(owed, key)
				delete(parked, key)
			}
			for _, event := range delta.Events {
				for key, p := range parked {
					if event.Reaches(p.pod.Priority) && p.helped(rules, q.State().View(), event) {
						owed[key] = p.pod
					}
				}
			}
			q.Wake(now, delta)
			if w, ok := q.Pop(now); ok {
				pod := w.First()
				delete(owed, pod.Key())
				delete(parked, pod.Key())
				if r.IntN(5) == 0 {
					queue.SettlePod(q, now, w, plan.Decision{Outcome: plan.Terminating})
				} else {
					by := one(r, profile.EnqueueExtensions...).Name
					queue.SettlePod(q, now, w, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{by}}})
					parked[pod.Key()] = parkedPod{pod, by}
				}
			}
			if err := q.Audit(); err != nil {
				t.Fatal(err)
			}
			for _, pod := range delta.Arrived { // a new version is checked separately
				delete(parked, pod.Key())
				delete(owed, pod.Key())
			}
			if !q.Unfinished() {
				for key, pod := range owed {
					if place := q.PlaceOf(key); place == "parked" {
						t.Fatalf("step %d: pod %s is still parked", step, pod)
					}
				}
				clear(owed)
			}
		}
		wakeWholly(t, q, now, state.Delta{})
	})
}

type parkedPod struct {
	pod *model.Pod
	by  string
}

func (p parkedPod) helped(rules queue.Config, v state.View, event model.Event) bool {
	for _, x := range rules.Profiles[0].EnqueueExtensions {
		if x.Name == p.by {
			return accepts(x, v, p.pod, event)
		}
	}
	return false
}
