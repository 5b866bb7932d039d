package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

type preemptionGate struct{}

func (preemptionGate) Name() string                 { return preemptionPlugin }
func (preemptionGate) PreEnqueue(*model.Pod) string { return "" }

// preemptingQueue has the plugins of newQueue, and DefaultPreemption at PreEnqueue if
// held.
func preemptingQueue(t *testing.T, held bool) *Queue {
	t.Helper()
	pre := []*plugin.PreEnqueue{plugintest.PartsOf(gate{}).PreEnqueue}
	if held {
		pre = append(pre, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
	}
	q, err := New(Config{
		Profiles:       []*plugin.Profile{{QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: pre, EnqueueExtensions: plugintest.Registering(&fit{})}},
		BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// preempt settles the rejection of a pod with evictions.
func preempt(q *Queue, now time.Time, w *plan.Attempt, victims ...*model.Pod) {
	d := plan.Decision{
		Outcome:   plan.Unschedulable,
		Rejection: &plan.Rejection{Counts: []reason.Count{{Nodes: 1, Reason: "full"}}, Plugins: []string{"Fit"}},
	}
	for _, victim := range victims {
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: victim, NodeName: "n"})
	}
	SettlePod(q, now, w, d)
}

func going(name string) *model.Pod {
	p := pod(name, 0)
	p.Terminating = true
	return p
}

// ended is the result of a preemption.
func ended(preemptor *model.Pod, inMemory bool, err error) state.Delta {
	return state.Delta{Preempted: []*model.PreemptionResult{{Preemptor: preemptor, InMemory: inMemory, Err: err}}}
}

// terminates shows a victim as terminating; victimLeft shows deletions.
func terminates(name string) state.Delta { return state.Delta{Evicted: []types.UID{types.UID(name)}} }

func victimLeft(names ...string) state.Delta {
	var delta state.Delta
	for _, name := range names {
		delta.Evicted = append(delta.Evicted, types.UID(name))
		delta.Events = append(delta.Events, model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: pod(name, 0)})
	}
	return delta
}

// expectPlace checks the place of a pod, and the invariants.
func expectPlace(t *testing.T, q *Queue, name, want string) {
	t.Helper()
	if got := q.PlaceOf(model.PodKey{Namespace: "ns", Name: name}); got != want {
		t.Fatalf("%s is in place %q, want %q", name, got, want)
	}
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
}

// TestPreemptorIsHeldBack wakes a pod during its evictions, in each possible order of
// events.
func TestPreemptorIsHeldBack(t *testing.T) {
	p := pod("p", 1)
	start := func(t *testing.T, held bool) *Queue {
		q := preemptingQueue(t, held)
		q.Wake(at(0), arrived(p))
		preempt(q, at(0), pop(t, q, at(0), "p"), pod("first", 0), pod("last", 0), going("going"))
		expectPlace(t, q, "p", "parked")
		return q
	}
	broken := errors.New("forbidden")
	for _, test := range []struct {
		name     string
		unheld   bool
		happen   func(q *Queue)
		place    string
		gated    bool // before the end
		released string
	}{
		{"nothing wakes it", false, func(q *Queue) { q.Wake(at(1), ended(p, false, nil)) }, "parked", false, ""},
		{"the first victim leaves before the end", false, func(q *Queue) { q.Wake(at(1), victimLeft("first")) }, "parked", false, ""},
		{"the last victim leaves before the end", false, func(q *Queue) { q.Wake(at(1), victimLeft("last")) }, "parked", false, ""},
		{"all victims leave before the end", false, func(q *Queue) { q.Wake(at(1), victimLeft("going", "first", "last")) }, "backing off", false, ""},
		{"another pod leaves before the end", false, func(q *Queue) { q.Wake(at(1), podDeleted) }, "gated", true, "AssignedPodDelete"},
		{"another pod and the first victim leave before the end", false, func(q *Queue) {
			delta := victimLeft("first")
			delta.Events = append(delta.Events, podDeleted.Events...)
			q.Wake(at(1), delta)
		}, "gated", true, "AssignedPodDelete"},
		{"the profile does not hold preemptors", true, func(q *Queue) { q.Wake(at(1), victimLeft("first")) }, "backing off", false, ""},
		{"an error", false, func(q *Queue) { q.Wake(at(1), ended(p, false, broken)) }, "active", false, ""},
		{"an error while it is held", false, func(q *Queue) { q.Wake(at(1), podDeleted); q.Wake(at(1), ended(p, false, broken)) }, "active", false, ""},
		{"the last victim was not bound", false, func(q *Queue) { q.Wake(at(1), ended(p, true, nil)) }, "active", false, ""},
		{"it is asked for while it is held", false, func(q *Queue) { q.Activate(at(1), []model.PodKey{p.Key()}) }, "gated", true, "AssignedPodDelete"},
		{"the end and the deletion at once", false, func(q *Queue) {
			delta := victimLeft("going", "first", "last")
			delta.Preempted = ended(p, false, nil).Preempted
			q.Wake(at(1), delta)
		}, "backing off", false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := start(t, !test.unheld)
			test.happen(q)
			expectPlace(t, q, "p", test.place)
			if !test.gated {
				return
			}
			q.Wake(at(1), ended(p, false, nil))
			// the deletion of the last victim is answered, and not seen
			expectPlace(t, q, "p", "gated")
			q.TakeMoves()
			q.Wake(at(1), terminates("last"))
			expectPlace(t, q, "p", "backing off")
			if moves := q.TakeMoves(); len(moves) != 1 || moves[0].Queue != "backoff" || moves[0].Event != test.released || moves[0].Pods != 1 {
				t.Errorf("it moved as %v", moves)
			}
			q.Wake(at(2.5), state.Delta{})
			pop(t, q, at(2.5), "p")
		})
	}
}

// TestPreemptorChangesMeanwhile deletes the preemptor, recreates it, places it and has it
// preempt again, during its evictions.
func TestPreemptorChangesMeanwhile(t *testing.T) {
	p := pod("p", 1)
	start := func(t *testing.T) *Queue {
		q := preemptingQueue(t, true)
		q.Wake(at(0), arrived(p))
		preempt(q, at(0), pop(t, q, at(0), "p"), pod("first", 0), pod("last", 0))
		return q
	}
	t.Run("deleted", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), state.Delta{Left: []model.PodKey{p.Key()}})
		q.Wake(at(1), ended(p, false, errors.New("forbidden")))
		q.Wake(at(1), victimLeft("last"))
		expectPlace(t, q, "p", "")
	})
	t.Run("recreated", func(t *testing.T) {
		q := start(t)
		again := pod("p", 1)
		again.UID = "another"
		q.Wake(at(1), arrived(again))
		expectPlace(t, q, "p", "active") // nothing is evicted for this pod
		q.Wake(at(1), ended(p, true, nil))
		reject(q, at(1), pop(t, q, at(1), "p"), "Fit")
		q.Wake(at(1), ended(p, true, nil))
		expectPlace(t, q, "p", "parked")
	})
	t.Run("placed, and its binding fails", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), victimLeft("first", "last"))
		w := pop(t, q, at(3), "p")
		SettlePod(q, at(3), w, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Pod: w.First()}})
		q.Wake(at(3), ended(p, false, errors.New("forbidden")))
		expectPlace(t, q, "p", "binding")
		q.Wake(at(4), state.Delta{Failed: []state.Failure{{Pod: p, Err: errors.New("no")}}})
		expectPlace(t, q, "p", "backing off after an error")
	})
	t.Run("preempts again", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), victimLeft("first", "last"))
		preempt(q, at(3), pop(t, q, at(3), "p"), pod("other", 0))
		q.Wake(at(3), ended(p, false, errors.New("forbidden"))) // of the first
		expectPlace(t, q, "p", "parked")
		q.Wake(at(3), podDeleted)
		expectPlace(t, q, "p", "gated")
		q.Wake(at(3), ended(p, false, nil))
		// either has failed, so no event may follow
		expectPlace(t, q, "p", "active")
	})
	t.Run("held back for a victim that is never seen to leave", func(t *testing.T) {
		q := start(t)
		q.Wake(at(2), podDeleted)
		q.Wake(at(600), state.Delta{})
		q.Pop(at(600))
		expectPlace(t, q, "p", "gated") // until the evictions have ended
		q.Wake(at(600), ended(p, false, nil))
		expectPlace(t, q, "p", "gated")
		pop(t, q, at(1200), "p")
	})
	t.Run("parked for a victim that is never seen to leave", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), ended(p, false, nil))
		expectPlace(t, q, "p", "parked")
		pop(t, q, at(340), "p")
	})
	t.Run("held back when its last victim leaves", func(t *testing.T) {
		q := start(t)
		q.Wake(at(2), podDeleted)
		expectPlace(t, q, "p", "gated")
		q.Wake(at(2), victimLeft("last")) // although the deletion was not answered yet
		expectPlace(t, q, "p", "active")
	})
}

// TestPreemptorAwaitsItsVictims deletes victims. The deletion of its last victim wakes a
// preemptor. No other deletion wakes a preemptor that waits for victims.
func TestPreemptorAwaitsItsVictims(t *testing.T) {
	p := pod("p", 1)
	start := func(t *testing.T, rejector string) *Queue {
		q := preemptingQueue(t, true)
		q.Wake(at(0), arrived(p))
		w := pop(t, q, at(0), "p")
		SettlePod(q, at(0), w, plan.Decision{
			Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{rejector}},
			Evictions: []plan.Eviction{{Pod: pod("first", 0)}, {Pod: pod("last", 0)}},
		})
		return q
	}
	steps := func(t *testing.T, q *Queue, deltas ...state.Delta) {
		t.Helper()
		for _, delta := range deltas {
			expectPlace(t, q, "p", "parked")
			q.Wake(at(60), delta)
		}
		expectPlace(t, q, "p", "active")
	}
	t.Run("in order", func(t *testing.T) {
		q := start(t, "Fit")
		steps(t, q, victimLeft("first"), terminates("last"), ended(p, false, nil), victimLeft("last"))
	})
	t.Run("the last first", func(t *testing.T) {
		q := start(t, "Fit")
		steps(t, q, terminates("last"), terminates("first"), ended(p, false, nil), victimLeft("last"), victimLeft("first"))
	})
	t.Run("no deletion helps against what rejected it", func(t *testing.T) {
		steps(t, start(t, "Affinity"), victimLeft("first"), victimLeft("last"))
	})
	t.Run("one is shown on another node", func(t *testing.T) {
		steps(t, start(t, "Fit"), victimLeft("first"), state.Delta{Evicted: []types.UID{"last"}, Moved: []types.UID{"last"}})
	})
	t.Run("all are being deleted already", func(t *testing.T) {
		q := preemptingQueue(t, true)
		q.Wake(at(0), arrived(p))
		preempt(q, at(0), pop(t, q, at(0), "p"), going("going"), going("too"))
		steps(t, q, victimLeft("too"), victimLeft("going"))
	})
	t.Run("another's go", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(0), arrived(pod("other", 1), pod("waits", 1)))
		preempt(q, at(0), pop(t, q, at(0), "other"), pod("shared", 0), pod("last", 0))
		reject(q, at(0), pop(t, q, at(0), "waits"), "Fit")
		q.Wake(at(60), victimLeft("shared"))
		// it has no victims, and every event reaches it
		expectPlace(t, q, "waits", "active")
		expectPlace(t, q, "other", "parked")
		steps(t, q, victimLeft("last"), victimLeft("first"))
		expectPlace(t, q, "other", "active")
	})
	t.Run("another's go, and its own do not", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(0), arrived(pod("other", 1)))
		preempt(q, at(0), pop(t, q, at(0), "other"), pod("theirs", 0))
		q.Wake(at(1), terminates("last"))
		q.Wake(at(1), ended(p, false, nil))
		q.Wake(at(60), victimLeft("theirs"))
		if kept := q.waking.overdue; len(kept) != 1 || !kept[0].overdue {
			t.Errorf("kept are %+v, want the event, for pods that await room only", kept)
		}
		pop(t, q, at(60), "other")
		if due, ok := q.Next(); !ok || due.After(at(60).Add(roomAwaited)) {
			t.Errorf("the queue has something to do at %v, %t", due, ok)
		}
		q.Wake(at(89), state.Delta{})
		expectPlace(t, q, "p", "parked")
		q.Wake(at(90), state.Delta{})
		expectPlace(t, q, "p", "active")
		preempt(q, at(90), pop(t, q, at(90), "p"), going("last"))
		q.Wake(at(200), state.Delta{})
		expectPlace(t, q, "p", "parked") // it is retried once
		if len(q.waking.overdue) > 0 {
			t.Errorf("%d events are kept", len(q.waking.overdue))
		}
	})
	t.Run("another's go, and others that do not help", func(t *testing.T) {
		q := start(t, "Affinity")
		q.Wake(at(0), arrived(pod("other", 1)))
		preempt(q, at(0), pop(t, q, at(0), "other"), pod("theirs", 0))
		q.Wake(at(60), victimLeft("theirs"))
		q.Wake(at(100), state.Delta{})
		expectPlace(t, q, "p", "parked")
	})
	t.Run("another's go while it is being tried", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(0), arrived(pod("other", 1)))
		preempt(q, at(0), pop(t, q, at(0), "other"), pod("theirs", 0))
		q.Activate(at(50), []model.PodKey{p.Key()})
		q.Wake(at(50), terminates("last"))
		w := pop(t, q, at(50), "p")
		q.Wake(at(60), victimLeft("theirs"))
		preempt(q, at(61), w, going("last")) // its decision took the room into account
		q.Wake(at(100), state.Delta{})
		expectPlace(t, q, "p", "parked")
	})
	t.Run("more of another's go than is kept", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(1), terminates("last"))
		q.Wake(at(1), ended(p, false, nil))
		q.Wake(at(1), arrived(pod("other", 1)))
		var victims []*model.Pod
		var names []string
		for i := range maxOverdue + 2 {
			victims = append(victims, pod(fmt.Sprint("v", i), 0))
			names = append(names, victims[i].Name)
		}
		preempt(q, at(1), pop(t, q, at(1), "other"), victims...)
		q.Wake(at(60), victimLeft(names...))
		if n := len(q.waking.overdue); n != maxOverdue || !q.waking.overdue[n-1].all {
			t.Errorf("%d events are kept, want %d, of which the last is for all pods", n, maxOverdue)
		}
		for q.Wake(at(90), state.Delta{}); q.Unfinished(); q.Wake(at(90), state.Delta{}) {
		}
		expectPlace(t, q, "p", "active")
	})
	t.Run("something else has it tried", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(60), podDeleted)
		expectPlace(t, q, "p", "gated")
		q.Wake(at(60), terminates("last"))
		reject(q, at(60), pop(t, q, at(60), "p"), "Fit")
		expectPlace(t, q, "p", "parked")
		q.Wake(at(60), victimLeft("first"))
		expectPlace(t, q, "p", "backing off")
	})
	t.Run("more happens than is kept", func(t *testing.T) {
		q := start(t, "Fit")
		q.Wake(at(0), arrived(pod("other", 1)))
		preempt(q, at(0), pop(t, q, at(0), "other"), pod("shared", 0), pod("kept", 0))
		delta := victimLeft("shared")
		for range maxPending + 1 {
			delta.Events = append(delta.Events, model.Event{Resource: model.NodeEvent, Action: model.Add})
		}
		q.Wake(at(60), delta)
		for q.Unfinished() {
			q.Wake(at(60), state.Delta{})
		}
		expectPlace(t, q, "p", "gated")
	})
}

// TestFailingPreemptionsBackOff has every eviction fail. The pod is retried at once after
// the first failure, then after the error backoff, which grows.
func TestFailingPreemptionsBackOff(t *testing.T) {
	q := preemptingQueue(t, true)
	p := pod("p", 1)
	q.Wake(at(0), arrived(p))
	now := at(0)
	fails := func() {
		t.Helper()
		preempt(q, now, pop(t, q, now, "p"), pod("v", 0))
		q.Wake(now, ended(p, false, errors.New("forbidden")))
	}
	fails()
	expectPlace(t, q, "p", "active")
	fails()
	for _, wait := range []time.Duration{1, 2, 4, 8, 10, 10} {
		expectPlace(t, q, "p", "backing off after an error")
		pop(t, q, now.Add(wait*time.Second), "")
		now = now.Add((wait + 1) * time.Second)
		fails()
	}
	now = now.Add(time.Minute)
	preempt(q, now, pop(t, q, now, "p"), pod("v", 0))
	q.Wake(now, ended(p, false, nil))
	q.Wake(now, victimLeft("v"))
	expectPlace(t, q, "p", "backing off")
	now = now.Add(time.Minute)
	fails()
	expectPlace(t, q, "p", "active")
}
