package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// newQueue has one profile: pods with the label gate are gated, and the plugin Fit
// registers for deleted pods.
func newQueue(t testing.TB) *Queue {
	t.Helper()
	q, err := New(Config{
		Profiles: []*plugin.Profile{{
			QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: []*plugin.PreEnqueue{plugintest.PartsOf(gate{}).PreEnqueue}, EnqueueExtensions: plugintest.Registering(&fit{}),
		}},
		BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

type gate struct{}

func (gate) Name() string { return "Gate" }

func (gate) PreEnqueue(pod *model.Pod) string {
	if pod.Object.Labels["gate"] != "" {
		return "gated"
	}
	return ""
}

type fit struct{}

func (*fit) Name() string { return "Fit" }

// EventsToRegister registers for deleted pods, which help every pod. Its hint must not be
// called for a malformed pod.
func (*fit) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.AssignedPodEvent, Actions: model.Delete,
		Alike: func(pod *model.Pod) model.Need {
			if pod.Malformed != "" {
				panic("asked about a pod that cannot be read")
			}
			return model.Need{}
		},
		Cause: func(*model.Pod) model.Cause {
			return model.Cause{Wants: []model.Way{{{room}}}, Keys: []model.Key{room}}
		},
		Touches: func(_ model.Event, to *model.Touch) { to.Has = append(to.Has, room) },
	}}
}

var room = model.Key{Name: "room"}

func pod(name string, priority int32) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority},
	})
}

func arrived(pods ...*model.Pod) state.Delta { return state.Delta{Arrived: pods} }

var podDeleted = state.Delta{Events: []model.Event{{Resource: model.AssignedPodEvent, Action: model.Delete}}}

// pop expects a certain pod to be next, "" for none.
func pop(t *testing.T, q *Queue, now time.Time, want string) *plan.Attempt {
	t.Helper()
	w, ok := q.Pop(now)
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	got := ""
	if ok {
		got = w.First().Name
	}
	if got != want {
		t.Fatalf("at %v: popped %q, want %q", now.Sub(start), got, want)
	}
	return w
}

func reject(q *Queue, now time.Time, w *plan.Attempt, plugins ...string) {
	SettlePod(q, now, w, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: plugins}})
}

func fail(q *Queue, now time.Time, w *plan.Attempt) {
	SettlePod(q, now, w, plan.Decision{Outcome: plan.Failed, Err: errors.New("broken")})
}

func TestOrder(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("old", 0), pod("second", 0)))
	q.Wake(at(1), arrived(pod("low", -5), pod("high", 10)))
	for _, want := range []string{"high", "old", "second", "low", ""} {
		if w := pop(t, q, at(2), want); w != nil {
			SettlePod(q, at(2), w, plan.Decision{Outcome: plan.Placed})
		}
	}
}

// TestSettle settles a pod: it moves to the place of the outcome.
func TestSettle(t *testing.T) {
	for outcome, want := range map[plan.Outcome]string{
		plan.Placed: "binding", plan.Unschedulable: "parked", plan.Failed: "backing off after an error",
		plan.NoNodes: "backing off after an error", plan.Terminating: "",
	} {
		q := newQueue(t)
		q.Wake(at(0), arrived(pod("a", 0)))
		SettlePod(q, at(0), pop(t, q, at(0), "a"), plan.Decision{Outcome: outcome, Rejection: &plan.Rejection{Plugins: []string{"Fit"}}})
		if place := q.PlaceOf(model.PodKey{Namespace: "ns", Name: "a"}); place != want {
			t.Errorf("%s: the pod is %q, want %q", outcome, place, want)
		}
	}
}

// TestBackoff follows one pod through failing attempts: it waits 1, 2, 4, 8, 10, 10
// seconds, and then to the end of the second.
func TestBackoff(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	w := pop(t, q, at(0), "p")
	now := 0.3
	for _, wait := range []float64{1, 2, 4, 8, 10, 10} {
		fail(q, at(now), w)
		ready := float64(int(now+wait)) + 1
		pop(t, q, at(ready-0.001), "")
		w = pop(t, q, at(ready), "p")
		now = ready + 0.3
	}
	if w.Members[0].Attempt != 7 {
		t.Errorf("attempt %d, want 7", w.Members[0].Attempt)
	}
}

func TestRejectedPodIsTriedEarlyWhenNothingElseIsReady(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	reject(q, at(0.1), pop(t, q, at(0), "p"), "Fit")
	pop(t, q, at(0.2), "")
	q.Wake(at(0.3), podDeleted)
	pop(t, q, at(0.3), "p")
}

func TestWokenPodWaitsBehindReadyOnes(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("first", 100)))
	reject(q, at(0.1), pop(t, q, at(0), "first"), "Fit")
	q.Wake(at(0.2), arrived(pod("other", 0)))
	q.Wake(at(0.2), podDeleted)
	pop(t, q, at(0.3), "other")
}

func TestOnlyTheRejectingPluginsEventsWake(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("a", 0), pod("b", 0)))
	reject(q, at(0), pop(t, q, at(0), "a"), "Affinity")
	reject(q, at(0), pop(t, q, at(0), "b"), "Affinity", "Fit")
	q.Wake(at(100), podDeleted)
	pop(t, q, at(100), "b")
	pop(t, q, at(100), "")
}

func TestParkedTooLong(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	reject(q, at(0), pop(t, q, at(0), "p"), "Affinity")
	pop(t, q, at(299), "")
	next, ok := q.Next()
	if !ok || next.After(at(340)) {
		t.Fatalf("next: %v, %v", next.Sub(start), ok)
	}
	pop(t, q, at(331), "p")
}

func TestGates(t *testing.T) {
	q := newQueue(t)
	gatedPod := pod("p", 0)
	gatedPod.Object.Labels = map[string]string{"gate": "yes"}
	q.Wake(at(0), arrived(gatedPod))
	q.Wake(at(0), podDeleted)
	pop(t, q, at(400), "")
	if c := q.Counts(); c.Gated != 1 {
		t.Errorf("%+v", c)
	}
	q.Wake(at(401), arrived(pod("p", 0)))
	w := pop(t, q, at(401), "p")
	if !w.Members[0].Since.Equal(at(401)) {
		t.Errorf("the time behind a gate counts as waiting: since %v", w.Members[0].Since.Sub(start))
	}
}

func TestFailedBindingComesBackInItsNewestVersion(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	SettlePod(q, at(0), pop(t, q, at(0), "p"), plan.Decision{Outcome: plan.Placed})
	newest := pod("p", 7)
	q.Wake(at(1), state.Delta{Failed: []state.Failure{{Pod: newest, Err: errors.New("conflict")}}})
	pop(t, q, at(2.9), "")
	if w := pop(t, q, at(3), "p"); w.First() != newest || w.Members[0].Attempt != 2 {
		t.Errorf("popped %+v", w)
	}
}

func TestPodsThatLeaveAreForgotten(t *testing.T) {
	q := newQueue(t)
	key := model.PodKey{Namespace: "ns", Name: "p"}
	for name, prepare := range map[string]func(){
		"active":       func() {},
		"parked":       func() { reject(q, at(0), pop(t, q, at(0), "p"), "Fit") },
		"errorBackoff": func() { fail(q, at(0), pop(t, q, at(0), "p")) },
		"binding":      func() { SettlePod(q, at(0), pop(t, q, at(0), "p"), plan.Decision{Outcome: plan.Placed}) },
	} {
		q.Wake(at(0), arrived(pod("p", 0)))
		prepare()
		q.Wake(at(1), state.Delta{Left: []model.PodKey{key}})
		if place := q.PlaceOf(key); place != "" || q.Counts() != (Counts{}) || len(q.parked.byPlugin) != 0 {
			t.Errorf("%s: the pod is still %q; %+v", name, place, q.Counts())
		}
	}
}

func TestMalformedPodWaitsForItsOwnUpdate(t *testing.T) {
	q := newQueue(t)
	broken := pod("p", 0)
	broken.Malformed = "unreadable"
	q.Wake(at(0), arrived(broken))
	reject(q, at(0), pop(t, q, at(0), "p"))
	q.Wake(at(10), podDeleted)
	pop(t, q, at(10), "")
	q.Wake(at(11), arrived(pod("p", 0)))
	pop(t, q, at(11), "p")
}

// TestVersionThatCannotBeReadAsksNoPlugin gives a parked pod a malformed version.
func TestVersionThatCannotBeReadAsksNoPlugin(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	reject(q, at(0), pop(t, q, at(0), "p"), "Fit")
	broken := pod("p", 0)
	broken.Malformed = "unreadable"
	q.Wake(at(1), arrived(broken))
	q.Wake(at(2), podDeleted)
	pop(t, q, at(2), "")
	q.Wake(at(3), arrived(pod("p", 0)))
	pop(t, q, at(3), "p")
}

func TestTerminatingPodIsNotTriedAgain(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	SettlePod(q, at(0), pop(t, q, at(0), "p"), plan.Decision{Outcome: plan.Terminating})
	pop(t, q, at(1000), "")
}

// TestEveryMoveOutsideTheTableIsRefused tries all moves.
func TestEveryMoveOutsideTheTableIsRefused(t *testing.T) {
	allowed := func(from, to place) bool {
		for _, p := range next[from] {
			if p == to {
				return true
			}
		}
		return false
	}
	for from := range places {
		for to := range places {
			q := newQueue(t)
			e := &entry{pod: pod("p", 0), place: from, group: &group{head: entry{place: gated}}}
			q.counts[from]++
			if h := q.heapOf(e, from); h != nil {
				h.add(e)
			}
			if from == parked {
				q.parked.add(e, profile{}, q.config.State.View())
			}
			err := try(func() { q.move(e, to, "") })
			if (err == "") != allowed(from, to) {
				t.Errorf("from %s to %s: %q", from, to, err)
			}
		}
	}
}

func try(f func()) (problem string) {
	defer func() {
		if p := recover(); p != nil {
			problem = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

func TestNewChecksItsConfig(t *testing.T) {
	for _, row := range []struct {
		initial, max, parked time.Duration
		want                 string
	}{
		{0, time.Second, time.Minute, "initial backoff 0s: must be greater than 0"},
		{2 * time.Second, time.Second, time.Minute, "maximal backoff 1s: must not be less than the initial backoff 2s"},
		{time.Second, time.Second, 0, "maximal time parked 0s: must be greater than 0"},
	} {
		_, err := New(Config{BackoffInitial: row.initial, MaxBackoff: row.max, MaxParked: row.parked})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
}

// TestGateThatComesLateLeavesNothingBehind wakes a parked pod that a PreEnqueue plugin
// gates by then, and lets both waiting times pass.
func TestGateThatComesLateLeavesNothingBehind(t *testing.T) {
	q := newQueue(t)
	waiting := pod("p", 0)
	q.Wake(at(0), arrived(waiting))
	reject(q, at(0), pop(t, q, at(0), "p"), "Fit", "Affinity")
	waiting.Object.Labels = map[string]string{"gate": "yes"}
	q.Wake(at(1), podDeleted)
	if len(q.parked.byPlugin) != 0 || q.Counts().Gated != 1 {
		t.Errorf("parked for %v; %+v", q.parked.byPlugin, q.Counts())
	}
	pop(t, q, at(1000), "")
}

func TestActivate(t *testing.T) {
	q := newQueue(t)
	gatedPod := pod("gated", 0)
	gatedPod.Object.Labels = map[string]string{"gate": "yes"}
	q.Wake(at(0), arrived(pod("parked", 9), pod("errorBackoff", 8), gatedPod))
	reject(q, at(0), pop(t, q, at(0), "parked"), "Affinity")
	fail(q, at(0), pop(t, q, at(0), "errorBackoff"))
	key := func(name string) model.PodKey { return model.PodKey{Namespace: "ns", Name: name} }
	q.Activate(at(0.1), []model.PodKey{key("parked"), key("errorBackoff"), key("gated"), key("noPlugin")})
	for _, want := range []string{"parked", "errorBackoff", ""} {
		if w := pop(t, q, at(0.2), want); w != nil {
			SettlePod(q, at(0.2), w, plan.Decision{Outcome: plan.Placed})
		}
	}
}

func TestEventOfAPromisedPlaceReachesOnlyPodsThatWereOutranked(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("low", 1), pod("high", 3)))
	for range 2 {
		w, _ := q.Pop(at(0))
		reject(q, at(0), w, "Fit")
	}
	upTo := int32(2)
	q.Wake(at(100), state.Delta{Events: []model.Event{{Resource: model.AssignedPodEvent, Action: model.Delete, OnlyUpTo: &upTo}}})
	pop(t, q, at(100), "low")
	pop(t, q, at(100), "")
}

// TestMovesAreNamedAsKubeSchedulerNamesThem follows pods through all queues.
func TestMovesAreNamedAsKubeSchedulerNamesThem(t *testing.T) {
	q := newQueue(t)
	p := pod("p", 0)
	expect := func(step, queue, event string) {
		t.Helper()
		if got, want := q.TakeMoves(), []Move{{Queue: queue, Event: event, Pods: 1, Pod: p}}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	q.Wake(at(0), arrived(p))
	expect("arrival", "active", "UnscheduledPodAdd")
	reject(q, at(0.1), pop(t, q, at(0), "p"), "Fit")
	expect("rejection", "unschedulable", "ScheduleAttemptFailure")
	q.EachUnschedulable(func(_, plugin string, pods int) {
		if plugin != "Fit" || pods != 1 {
			t.Errorf("%d pods wait for %s", pods, plugin)
		}
	})
	q.Wake(at(0.2), podDeleted)
	expect("waking", "backoff", "AssignedPodDelete")
	w := pop(t, q, at(0.2), "p")
	expect("early", "active", "PopFromBackoffQ")
	fail(q, at(0.3), w)
	expect("error", "backoff", "ScheduleAttemptFailure")
	w = pop(t, q, at(2), "p")
	expect("end of backoff", "active", "BackoffComplete")
	reject(q, at(2), w, "Affinity")
	q.TakeMoves()
	if w = pop(t, q, at(400), "p"); !w.Members[0].AfterFlush {
		t.Error("the attempt does not say that it is owed to the flush")
	}
	expect("flush", "active", "UnschedulableTimeout")
}

// TestMovesOfGonePodsAreForgotten: the memory of moves refers to no pod of an earlier
// round.
func TestMovesOfGonePodsAreForgotten(t *testing.T) {
	q := newQueue(t)
	for i := range 20 {
		q.Wake(at(0), arrived(pod(fmt.Sprint("p", i), 0)))
	}
	if n := len(q.TakeMoves()); n != 20 {
		t.Fatalf("%d moves", n)
	}
	q.TakeMoves() // the first result is valid until here
	if n := q.StaleMoves(); n != 0 {
		t.Errorf("%d pods", n)
	}
}

// TestClockSetBack checks that no pod waits longer than the longest backoff when the
// clock jumps back.
func TestClockSetBack(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(7200), arrived(pod("errorBackoff", 1), pod("parked", 0)))
	fail(q, at(7200), pop(t, q, at(7200), "errorBackoff"))
	reject(q, at(7200), pop(t, q, at(7200), "parked"), "Fit")
	w := pop(t, q, at(0), "errorBackoff")
	SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Placed})
	q.Wake(at(0), podDeleted)
	pop(t, q, at(0), "parked")
}

// TestFairness has pods of the highest priority that are never bound, woken by every
// event, beside others. Each of the others has its turn within one backoff of the failing
// pods, oldest first.
func TestFairness(t *testing.T) {
	q := newQueue(t)
	for i := range 100 {
		q.Wake(at(0), arrived(pod(fmt.Sprintf("hopeless-%02d", i), 1000)))
	}
	turns, order := 0, []string{}
	for step := range 1000 { // 10 ms each
		now := at(float64(step) / 100)
		if step%20 == 0 {
			q.Wake(now, arrived(pod(fmt.Sprintf("plain-%02d", step/20), 0)))
		}
		q.Wake(now, podDeleted)
		w, ok := q.Pop(now)
		switch {
		case !ok:
		case w.First().Priority > 0:
			turns++
			if step%2 == 0 {
				reject(q, now, w, "Fit")
			} else {
				fail(q, now, w)
			}
		default:
			order = append(order, w.First().Name)
			SettlePod(q, now, w, plan.Decision{Outcome: plan.Placed})
		}
	}
	if len(order) != 50 || !slices.IsSorted(order) || turns < 500 {
		t.Errorf("%d of 50 pods had a turn, beside %d turns of the hopeless ones, in order %v", len(order), turns, order)
	}
}

// TestRejectedAtPermit rejects a pod at Permit. It is parked under the plugin, unless an
// event that helps has happened since it arrived there. Its own departure from the node
// helps only others.
func TestRejectedAtPermit(t *testing.T) {
	mine, other := pod("p", 0), pod("q", 0)
	deleted := func(p *model.Pod) model.Event {
		on := *p
		on.NodeName = "n"
		return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: &on}
	}
	rejected := state.Failure{Pod: mine, Err: errors.New("no"), Rejectors: []string{"Fit"}}
	many := make([]model.Event, maxMissed+1)
	for _, row := range []struct {
		name   string
		before []model.Event // while the pod waits at Permit
		with   []model.Event // in the batch of the rejection
		place  string
	}{
		{"nothing has happened", nil, []model.Event{deleted(mine)}, "parked"},
		{"what helps has happened", []model.Event{deleted(other)}, []model.Event{deleted(mine)}, "backing off"},
		{"something else has happened", []model.Event{{Resource: model.NodeEvent, Action: model.Add}}, nil, "parked"},
		{"what helps happens then", nil, []model.Event{deleted(mine), deleted(other)}, "backing off"},
		{"more has happened than is kept", many, nil, "backing off"},
	} {
		q := newQueue(t)
		settle := func(w *plan.Attempt) {
			steps := []plan.Step{{Stage: plan.Permit, Plugin: "Fit"}}
			SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Steps: steps}})
		}
		former, earlier := pod("former", 1), pod("earlier", 2)
		q.Wake(at(0), arrived(mine, former, earlier))
		settle(pop(t, q, at(0), "earlier")) // the events stored for it are over
		q.Wake(at(0), state.Delta{Events: []model.Event{deleted(other), deleted(other)}})
		q.Wake(at(0), state.Delta{Left: []model.PodKey{earlier.Key()}})
		settle(pop(t, q, at(0), "former"))
		w := pop(t, q, at(0), "p")
		// while another is at Permit, and before this one is
		q.Wake(at(0), state.Delta{Events: []model.Event{deleted(other)}})
		settle(w)
		q.Wake(at(1), state.Delta{Events: row.before})
		q.Wake(at(2), state.Delta{Failed: []state.Failure{rejected}, Events: row.with})
		if place := q.PlaceOf(mine.Key()); place != row.place {
			t.Errorf("%s: the pod is %s, want %s", row.name, place, row.place)
		}
		q.Wake(at(2), state.Delta{Left: []model.PodKey{former.Key()}})
		if q.missed.pods != 0 || q.missed.events != nil {
			t.Errorf("%s: %d events are kept for %d pods", row.name, len(q.missed.events), q.missed.pods)
		}
	}
}
