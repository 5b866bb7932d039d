package queue

import (
	"errors"
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// slicedQueue has parked pods that an event helps. Each round moves a single pod.
func slicedQueue(t *testing.T, pods ...*model.Pod) *Queue {
	t.Helper()
	q := newQueue(t)
	q.Wake(at(0), arrived(pods...))
	for range pods {
		w, _ := q.Pop(at(0))
		reject(q, at(0), w, "Fit")
	}
	q.config.Slice = 1
	return q
}

func placeOf(q *Queue, name string) string {
	return q.PlaceOf(model.PodKey{Namespace: "ns", Name: name})
}

// finish runs rounds until nothing is left.
func finish(t *testing.T, q *Queue, seconds float64) (rounds int) {
	t.Helper()
	for q.Unfinished() {
		q.Wake(at(seconds), state.Delta{})
		q.flush(at(seconds))
		if rounds++; rounds > 1000 {
			t.Fatal("the queue does not finish")
		}
		if err := q.Audit(); err != nil {
			t.Fatal(err)
		}
	}
	return rounds
}

// TestPodsThatChangeBetweenSlices deletes a pod that is to be woken, updates another, and
// has a third rejected again after the event.
func TestPodsThatChangeBetweenSlices(t *testing.T) {
	q := slicedQueue(t, pod("first", 9), pod("deleted", 1), pod("updated", 1), pod("last", 0))
	q.Wake(at(100), podDeleted)
	for placeOf(q, "first") == "parked" {
		q.Wake(at(100), state.Delta{})
	}
	reject(q, at(100), pop(t, q, at(100), "first"), "Fit")
	if place := placeOf(q, "updated"); place != "parked" || !q.Unfinished() {
		t.Fatalf("the pods are woken at once: %s", place)
	}
	newer := pod("updated", 5)
	q.Wake(at(100), state.Delta{Left: []model.PodKey{pod("deleted", 0).Key()}, Arrived: []*model.Pod{newer}})
	if place := placeOf(q, "updated"); place != "active" {
		t.Errorf("a pod that is updated while it is being woken is %s", place)
	}
	finish(t, q, 100)
	if place := placeOf(q, "first"); place != "parked" {
		t.Errorf("a pod that was rejected after the event is %s, want parked", place)
	}
	if w := pop(t, q, at(100), "updated"); w.First() != newer {
		t.Error("an old version is popped")
	}
	pop(t, q, at(100), "last")
	pop(t, q, at(100), "")
}

// TestPodParkedAfterAnEvent parks pods between an event and its hints. They are not
// woken, because their decisions took the event into account. For a bucket of such pods
// alone no hint runs.
func TestPodParkedAfterAnEvent(t *testing.T) {
	for _, before := range [][]*model.Pod{{pod("before", 0)}, {pod("before", 5)}, nil} {
		q := slicedQueue(t, append(before, pod("other", 0))...)
		q.profiles[""].registered["Fit"][0].Hint = func(*model.Pod, model.Event) bool { return true }
		q.config.Slice = 0
		q.Wake(at(100), podDeleted)
		if before == nil { // events are stored only while a pod is parked
			q.Wake(at(100), state.Delta{Left: []model.PodKey{pod("other", 0).Key()}})
		}
		q.Wake(at(100), arrived(pod("after", 0), pod("after-too", 0)))
		reject(q, at(100), pop(t, q, at(100), "after"), "Fit")
		reject(q, at(100), pop(t, q, at(100), "after-too"), "Fit")
		asked := q.HintsAsked()
		q.config.Slice = 2
		finish(t, q, 100)
		if placeOf(q, "after") != "parked" || placeOf(q, "after-too") != "parked" || len(before) > 0 && placeOf(q, "before") != "active" {
			t.Errorf("of %v: the pod that was parked after the event is %s, %s; the one before is %s",
				before, placeOf(q, "after"), placeOf(q, "after-too"), placeOf(q, "before"))
		}
		if before == nil && q.HintsAsked() != asked {
			t.Error("a hint is asked for pods that were parked after the event")
		}
	}
}

// TestUpdateBeforeItsHintIsAsked updates a pod that an event may help, before its hint
// runs: the pod is tried.
func TestUpdateBeforeItsHintIsAsked(t *testing.T) {
	q := slicedQueue(t, pod("p", 0))
	q.config.Slice = 0
	q.Wake(at(100), podDeleted)
	q.Wake(at(100), arrived(pod("p", 3)))
	if place := placeOf(q, "p"); place != "active" {
		t.Errorf("the pod is %s", place)
	}
}

// TestBackoffIsLookedAtWhenAPodIsMoved wakes pods that back off. They are not popped
// early before all are woken, because a ready pod may be among them.
func TestBackoffIsLookedAtWhenAPodIsMoved(t *testing.T) {
	q := slicedQueue(t, pod("high", 9), pod("low", 0))
	q.Wake(at(0.5), podDeleted)
	for placeOf(q, "high") == "parked" {
		pop(t, q, at(0.5), "")
		q.Wake(at(0.5), state.Delta{})
	}
	if place := placeOf(q, "high"); place != "backing off" {
		t.Fatalf("the pod is %s", place)
	}
	pop(t, q, at(0.5), "")
	finish(t, q, 3)
	pop(t, q, at(3), "high")
	pop(t, q, at(3), "low")
}

// TestTooManyEvents has more pending events than the limit. Every parked pod is retried,
// and no hint runs.
func TestTooManyEvents(t *testing.T) {
	q := slicedQueue(t, pod("a", 0), pod("b", 2))
	upTo := int32(0)
	few := podDeleted.Events[0]
	few.OnlyUpTo = &upTo
	q.config.Slice = 0
	for range maxPending + 1 {
		q.Wake(at(100), state.Delta{Events: []model.Event{few}})
	}
	if n := q.waking.left(); n != 1 {
		t.Errorf("%d events are kept", n)
	}
	q.config.Slice = 1
	finish(t, q, 100)
	if c := q.Counts(); c.Active != 2 || q.HintsAsked() != 0 {
		t.Errorf("%+v after %d hints", c, q.HintsAsked())
	}
}

// TestEventsThatAreOverAreNotKept raises very many events, one after the other.
func TestEventsThatAreOverAreNotKept(t *testing.T) {
	q := slicedQueue(t, pod("p", 0))
	q.config.Slice = 10
	for range 10_000 {
		q.Wake(at(0), state.Delta{Events: []model.Event{{Resource: model.NodeEvent, Action: model.Add}, {Resource: model.NodeEvent, Action: model.Add}}})
		if n := cap(q.waking.pending); n > 100 {
			t.Fatalf("there is memory for %d events", n)
		}
	}
}

// TestFlushesAreTakenInSlices has a thousand pods whose backoff ends in one second, and a
// thousand after errors. A thousand each are parked and gated for too long. No call moves
// more than a slice of each kind, and all are moved in the end.
func TestFlushesAreTakenInSlices(t *testing.T) {
	const size, slice = 1000, 100
	q := newQueue(t)
	q.config.Slice = size
	for i := range 4 * size {
		p := pod(fmt.Sprintf("p%d", i), 0)
		if i%4 == 3 {
			p.Object.Labels = map[string]string{"gate": "yes"}
		}
		q.Wake(at(0), arrived(p))
		if i%4 == 3 {
			continue
		}
		w, _ := q.Pop(at(0))
		switch i % 4 {
		case 0:
			fail(q, at(0), w)
		case 1:
			reject(q, at(0), w, "Fit")
		case 2:
			reject(q, at(0), w, "Affinity")
		}
	}
	q.Wake(at(0.5), podDeleted)
	if c := q.Counts(); c.BackingOff != 2*size || c.Parked != size || c.Gated != size {
		t.Fatalf("%+v", c)
	}
	q.config.Slice = slice
	q.TakeMoves()
	var popped []*plan.Attempt
	now := 1000.0
	for rounds := 0; ; rounds++ {
		q.Wake(at(now), state.Delta{})
		w, ok := q.Pop(at(now))
		if moved := len(q.TakeMoves()); moved > 2*slice {
			t.Fatalf("round %d moves %d pods", rounds, moved)
		}
		if !ok && !q.Unfinished() {
			break
		}
		if ok {
			popped = append(popped, w)
		}
	}
	if c := q.Counts(); len(popped) != 3*size || c.Gated != size || c.Parked+c.BackingOff+c.Active > 0 {
		t.Errorf("%d pods were popped; %+v", len(popped), c)
	}
	if _, ok := q.Pop(at(now + 31)); ok || q.flushing {
		t.Error("gated pods are flushed again and again")
	}
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
}

// TestManyRejectedAtPermit rejects many pods at Permit that have missed many events, all
// of them without help. The number of hints in one batch of changes is bounded, and pods
// without a check are retried. The pod that exceeds the bound is the last to be checked.
func TestManyRejectedAtPermit(t *testing.T) {
	for missedEvents, looking := range map[int]int{1: 100, maxMissed / 2: 3, maxMissed/2 + 1: 2, maxMissed - 1: 2, maxMissed: 2, maxMissed + 1: 100} {
		q := newQueue(t)
		asked := 0
		registered := q.profiles[""].registered["Fit"]
		registered[0].Hint = func(*model.Pod, model.Event) bool { asked++; return false }
		failed := state.Delta{}
		for i := range 100 {
			p := pod(fmt.Sprintf("p%d", i), 0)
			q.Wake(at(0), arrived(p))
			w, _ := q.Pop(at(0))
			SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Steps: []plan.Step{{Stage: plan.Permit}}}})
			failed.Failed = append(failed.Failed, state.Failure{Pod: p, Err: errors.New("no"), Rejectors: []string{"Fit"}})
		}
		for range missedEvents {
			q.Wake(at(1), podDeleted)
		}
		want := looking * missedEvents
		if missedEvents > maxMissed { // some events are dropped, so none is checked
			want, looking = 0, 0
		}
		q.Wake(at(2), failed)
		if c := q.Counts(); asked != want || c.Parked != looking || c.Parked+c.Active+c.BackingOff != 100 {
			t.Errorf("%d events: %d hints were asked, want %d; %+v", missedEvents, asked, want, c)
		}
	}
}
