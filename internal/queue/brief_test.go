package queue

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// briefOf returns the brief of a pod in the queue.
func briefOf(t *testing.T, q *Queue, now time.Time, pod *model.Pod) Brief {
	t.Helper()
	b, ok := q.Brief(now, pod.Key(), pod.UID)
	if !ok {
		t.Fatalf("no brief of %s", pod)
	}
	return b
}

// TestBrief describes a pod in each place, and no pod that is binding or has another UID.
func TestBrief(t *testing.T) {
	q := newQueue(t)
	p := pod("p", 9)
	held := pod("held", 0)
	held.Object.Labels = map[string]string{"gate": "yes"}
	if _, ok := q.Brief(at(0), p.Key(), p.UID); ok {
		t.Error("a brief of a pod that the queue does not hold")
	}
	q.Wake(at(0), arrived(held, p))
	expect := func(now time.Time, of *model.Pod, want Brief) {
		t.Helper()
		got := briefOf(t, q, now, of)
		if got.Turn != nil != (want.Place == "active") {
			t.Errorf("%s is %s, and its turn is %v", of, want.Place, got.Turn)
		}
		if got.Turn = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", of, got, want)
		}
	}
	expect(at(0), held, Brief{Place: "gated", Since: at(0), Rejectors: []string{"Gate"}, WaitsForEvent: true})
	expect(at(0), p, Brief{Place: "active", Since: at(0)})
	w := pop(t, q, at(0), "p")
	expect(at(0), p, Brief{Place: "deciding", Since: at(0), Attempts: 1})
	reject(q, at(0), w, "Fit")
	expect(at(0.5), p, Brief{Place: "parked", Since: at(0), BackoffEnd: at(1), Attempts: 1, Rejectors: []string{"Fit"}, WaitsForEvent: true})
	if got := q.Events("", "Fit"); !slices.Equal(got, []string{"AssignedPodDelete"}) {
		t.Errorf("Fit waits for %v", got)
	}
	q.Wake(at(0.5), podDeleted)
	expect(at(0.5), p, Brief{Place: "backing off", Since: at(0), BackoffEnd: at(1), Attempts: 1})
	fail(q, at(2), pop(t, q, at(2), "p"))
	expect(at(2), p, Brief{Place: "backing off after an error", Since: at(2), BackoffEnd: at(3), Attempts: 2})
	SettlePod(q, at(9), pop(t, q, at(9), "p"), plan.Decision{Outcome: plan.Placed})
	for _, of := range []*model.Pod{p, model.NewPod(held.Object.DeepCopy())} {
		uid := of.UID
		if of.Name == "held" {
			uid = "another"
		}
		if b, ok := q.Brief(at(9), of.Key(), uid); ok {
			t.Errorf("%s: %+v", of, b)
		}
	}
}

// TestBriefOfMember gives all members of a group the turn and the key of the group.
func TestBriefOfMember(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
	a, _ := g.Brief(g.now, key("a"), g.entries[key("a")].pod.UID)
	b, _ := g.Brief(g.now, key("b"), g.entries[key("b")].pod.UID)
	if a.Group.Name != "g" || a.Place != "active" || a.Turn == nil || b.Turn == nil || a.Turn.Compare(b.Turn) != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestTurns compares the order of turns with the order of the queue, for pods of several
// priorities, times and namespaces, of which one has an account and yields.
func TestTurns(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"heavy": 50}
	q.Wake(at(0), arrived(podsIn("heavy", 1, 0)...))
	if name, _ := turn(t, q, at(0), prices); name != "heavy0" {
		t.Fatalf("%q had its turn", name)
	}
	for i := range 6 {
		priority := int32(i % 2)
		q.Wake(at(float64(5-i)), arrived(
			podIn("heavy", fmt.Sprintf("h%d", i), priority), podIn("light", fmt.Sprintf("l%d", i), priority)))
	}
	yield := 0
	for a := range q.allActive() {
		x := briefOf(t, q, at(9), a.pod).Turn
		if x.yields {
			yield++
		}
		for b := range q.allActive() {
			y := briefOf(t, q, at(9), b.pod).Turn
			if got, want := x.Compare(y) < 0, q.inLine(a, b); got != want {
				t.Errorf("%s before %s: %v, want %v", a.pod, b.pod, got, want)
			}
		}
	}
	if yield != 3 {
		t.Errorf("%d pods yield, want those of priority 0 in the namespace with the account", yield)
	}
}

// TestNoTurns leaves out the turn if an out-of-tree plugin orders the queue, and does not
// call the plugin.
func TestNoTurns(t *testing.T) {
	sort := &countingSort{}
	q := newOutsideQueue(t, func(p *plugin.Profile) { p.QueueSort = plugintest.PartsOf(sort).QueueSort })
	p := pod("a", 2)
	q.Wake(at(0), arrived(p, pod("b", 1)))
	before := sort.asked
	if b := briefOf(t, q.Queue, at(0), p); b.Turn != nil || b.Place != "active" || sort.asked != before {
		t.Errorf("%+v, after %d comparisons", b, sort.asked-before)
	}
}

// BenchmarkBrief describes pods of a queue with 100,000 parked pods.
func BenchmarkBrief(b *testing.B) {
	q := newQueue(b)
	pods := make([]*model.Pod, 100_000)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("p%d", i), 0)
	}
	q.Wake(at(0), arrived(pods...))
	for range pods {
		w, _ := q.Pop(at(0))
		reject(q, at(0), w, "Fit")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := pods[i%len(pods)]
		if _, ok := q.Brief(at(1), p.Key(), p.UID); !ok {
			b.Fatal("a pod is missing")
		}
	}
}

// TestBriefOfAPreemptingGroup: each member waits for the victims of its group.
func TestBriefOfAPreemptingGroup(t *testing.T) {
	g := newWakingQueue(t, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
	g.apply(podGroup("g", 2, 9), memberOf("g", "m", 9), memberOf("g", "n", 9))
	g.now = at(1)
	work, _ := g.pop()
	g.preempts(work, "v", "w")
	for i := range work.Members {
		p := work.Members[i].Pod
		if got := briefOf(t, g.Queue, g.now, p).Leaving; got != 2 {
			t.Errorf("%s waits for %d victims, want 2", p, got)
		}
		if d, _ := g.Describe(g.now, p.Key()); len(d.Leaving) != 2 {
			t.Errorf("%s is described with the victims %v", p, d.Leaving)
		}
	}
}
