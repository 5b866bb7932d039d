package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func key(name string) model.PodKey { return model.PodKey{Namespace: "ns", Name: name} }

// TestWoken follows a pod through places. Its turns report the end of each wait, but
// neither ends of backoffs nor early pops.
func TestWoken(t *testing.T) {
	q := newQueue(t)
	woken := func(now time.Time, want plan.Woken) *plan.Attempt {
		t.Helper()
		w := pop(t, q, now, "p")
		if got := w.Members[0].Woken; got != want {
			t.Fatalf("at %v: woken by %+v, want %+v", now.Sub(start), got, want)
		}
		return w
	}
	q.Wake(at(0), arrived(pod("p", 0)))
	reject(q, at(0), woken(at(0), plan.Woken{Event: "UnscheduledPodAdd"}), "Fit")
	q.Wake(at(0.5), podDeleted)
	// after its backoff
	reject(q, at(3), woken(at(3), plan.Woken{Event: "AssignedPodDelete", Plugin: "Fit"}), "Fit")
	q.Wake(at(9), podDeleted)
	fail(q, at(9), woken(at(9), plan.Woken{Event: "AssignedPodDelete", Plugin: "Fit"}))
	reject(q, at(20), woken(at(20), plan.Woken{Event: "BackoffComplete"}), "Fit")
	q.Activate(at(21), []model.PodKey{key("p")})
	reject(q, at(21), woken(at(21), plan.Woken{Event: "ForceActivate"}), "Fit")
	q.Wake(at(400), podDeleted)
	reject(q, at(400), woken(at(400), plan.Woken{Event: "AssignedPodDelete", Plugin: "Fit"}), "Fit")
	if _, ok := q.Pop(at(800)); !ok {
		t.Fatal("a pod that is parked for too long is not tried")
	}
	if d, _ := q.Describe(at(800), key("p")); d.WokenBy != (plan.Woken{Event: "UnschedulableTimeout"}) || d.Place != "deciding" || d.Attempts != 7 {
		t.Errorf("%+v", d)
	}
}

// TestDescribe describes a pod in each place.
func TestDescribe(t *testing.T) {
	q := newQueue(t)
	if _, ok := q.Describe(at(0), key("p")); ok {
		t.Error("a pod is described that the queue does not hold")
	}
	held := pod("held", 0)
	held.Object.Labels = map[string]string{"gate": "yes"}
	q.Wake(at(0), arrived(held, pod("p", 9)))
	if d, ok := q.Describe(at(0), key("held")); !ok || d.Place != "gated" || !slices.Equal(d.Rejectors, []string{"Gate"}) || d.Ahead != nil || d.Unordered {
		t.Errorf("%+v", d)
	}
	reject(q, at(0), pop(t, q, at(0), "p"), "Fit")
	d, _ := q.Describe(at(0.5), key("p"))
	if d.Place != "parked" || !slices.Equal(d.Rejectors, []string{"Fit"}) || len(d.WaitsFor) != 1 || d.WaitsFor[0].Plugin != "Fit" || !slices.Equal(d.WaitsFor[0].Events, []string{"AssignedPodDelete"}) ||
		!d.BackoffEnd.Equal(at(1)) {
		t.Errorf("%+v", d)
	}
	q.Wake(at(60), podDeleted)
	for i := range 30 {
		q.Wake(at(60), arrived(pod(fmt.Sprintf("q%02d", i), int32(i))))
	}
	d, _ = q.Describe(at(60), key("p"))
	if want := []model.PodKey{key("q29"), key("q28"), key("q27"), key("q26"), key("q25")}; d.Place != "active" || d.Ahead == nil || d.Ahead.Pods != 20 || d.Ahead.AtLeast || !slices.Equal(d.Ahead.Next, want) || !d.BackoffEnd.IsZero() || d.Rejectors != nil {
		t.Errorf("%+v, %+v", d, d.Ahead)
	}
}

// TestDescribeLooksAtFew inspects a bounded number of pods, however many are ready.
func TestDescribeLooksAtFew(t *testing.T) {
	q := newQueue(t)
	pods := make([]*model.Pod, maxDescribed+1000)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("p%d", i), 1)
	}
	q.Wake(at(0), arrived(append(pods, pod("last", 0))...))
	asked := 0
	less := q.active.less
	q.active.less = func(a, b *entry) bool {
		asked++
		return less(a, b)
	}
	d, _ := q.Describe(at(0), key("last"))
	if d.Ahead == nil || !d.Ahead.AtLeast || d.Ahead.Pods != maxDescribed || len(d.Ahead.Next) != maxNamed || asked > 4*maxDescribed {
		t.Errorf("%+v after %d comparisons", d.Ahead, asked)
	}
}

// countingSort is an out-of-tree QueueSort plugin.
type countingSort struct {
	prioritysort.Plugin
	asked int
}

func (*countingSort) Name() string { return "Fair" }

func (s *countingSort) Less(a, b plugin.Queued) bool {
	s.asked++
	return s.Plugin.Less(a, b)
}

// TestDescribeAsksNobody does not call an out-of-tree QueueSort plugin, and reports an
// unknown order.
func TestDescribeAsksNobody(t *testing.T) {
	if ownSort != prioritysort.Name {
		t.Errorf("the built-in plugin is %s", prioritysort.Name)
	}
	sort := &countingSort{}
	q := newOutsideQueue(t, func(p *plugin.Profile) { p.QueueSort = plugintest.PartsOf(sort).QueueSort })
	q.Wake(at(0), arrived(pod("a", 2), pod("b", 1), pod("c", 0)))
	before := sort.asked
	d, ok := q.Describe(at(0), key("c"))
	if !ok || d.Place != "active" || d.Ahead != nil || !d.Unordered || sort.asked != before || before == 0 {
		t.Errorf("%+v, after %d comparisons", d, sort.asked-before)
	}
}

// TestDescribeVeryLargeGroup describes a group of very many members, always in the same
// way.
func TestDescribeVeryLargeGroup(t *testing.T) {
	g := newGroupQueue(t)
	const members = 50_000
	var changes []model.Change
	for i := range members {
		var gates []string
		if i%10_000 == 0 {
			gates = []string{"gate"}
		}
		changes = append(changes, memberOf("g", fmt.Sprintf("m%05d", i), 0, gates...))
	}
	g.Wake(g.now, g.State().Apply(changes))
	for range 5 {
		d, _ := g.Describe(g.now, key("m00001"))
		var held []string
		for _, m := range d.Group.Held {
			held = append(held, m.Key.Name)
		}
		if want := []string{"m00000", "m10000", "m20000", "m30000", "m40000"}; d.Group.HeldCount != len(want) || !slices.Equal(held, want) {
			t.Fatalf("held %v, %+v, want %v", held, d.Group, want)
		}
	}
}

// TestDescribeGroup names the members that hold up a group.
func TestDescribeGroup(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(memberOf("g", "a", 0), memberOf("g", "b", 0))
	if d, _ := g.Describe(g.now, key("a")); d.Group == nil || d.Group.Exists || d.Group.Waiting != 2 || d.Place != "incomplete" {
		t.Errorf("%+v, %+v", d, d.Group)
	}
	g.apply(podGroup("g", 4, 0))
	if d, _ := g.Describe(g.now, key("a")); !d.Group.Exists || d.Group.MinCount != 4 || d.Group.Waiting != 2 || d.Group.Gate != "GangScheduling" || d.Place != "gated" {
		t.Errorf("%+v, %+v", d, d.Group)
	}
	g.apply(memberOf("g", "c", 0), memberOf("g", "d", 0, "gate"))
	if d, _ := g.Describe(g.now, key("a")); d.Group.HeldCount != 1 || len(d.Group.Held) != 1 || d.Group.Held[0].Key != key("d") || !slices.Equal(d.Group.Held[0].Plugins, []string{"Gate"}) {
		t.Errorf("%+v, %+v", d, d.Group)
	}
	g.apply(memberOf("g", "d", 0))
	before, _ := g.Describe(g.now, key("a"))
	work, text := g.pop()
	if text == "" || before.WokenBy != work.Members[0].Woken || work.Members[0].Woken.Event == "" {
		t.Fatalf("%q, woken by %+v, described as %+v", text, work.Members[0].Woken, before.WokenBy)
	}
	g.settle(work, plan.Unschedulable)
	d, _ := g.Describe(g.now, key("a"))
	if d.Group.RejectedCount != 4 || len(d.Group.Rejected) != 4 || d.Group.Rejected[0].Key != key("a") || !slices.Equal(d.Rejectors, []string{"Fit"}) || d.BackoffEnd.IsZero() {
		t.Errorf("%+v, %+v", d, d.Group)
	}
}
