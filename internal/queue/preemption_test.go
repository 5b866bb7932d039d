package queue

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

type preemptionGate struct{}

func (preemptionGate) Name() string                 { return preemptionPlugin }
func (preemptionGate) PreEnqueue(*model.Pod) string { return "" }

// preemptingQueue has the plugins of newQueue, and DefaultPreemption at PreEnqueue if held.
func preemptingQueue(t *testing.T, held bool) *Queue {
	t.Helper()
	pre := []plugin.PreEnqueue{gate{}}
	if held {
		pre = append(pre, preemptionGate{})
	}
	q, err := New(Config{
		Profiles:       []*plugin.Profile{{QueueSort: prioritysort.New(), PreEnqueue: pre, EnqueueExtensions: []plugin.EnqueueExtensions{&fit{}}}},
		BackoffInitial: time.Second, BackoffMax: 10 * time.Second, ParkedMax: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// preempt settles that a pod is rejected, and others are evicted for it.
func preempt(q *Queue, now time.Time, w plan.Work, victims ...*model.Pod) {
	d := plan.Decision{
		Work: w, Outcome: plan.Unschedulable,
		Rejection: &plan.Rejection{Counts: []reason.Count{{Nodes: 1, Reason: "full"}}, Plugins: []string{"Fit"}},
	}
	for _, victim := range victims {
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: victim, NodeName: "n"})
	}
	q.Settle(now, d)
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

func victimLeft(name string) state.Delta {
	delta := podDeleted
	delta.Evicted = []types.UID{types.UID(name)}
	return delta
}

// expectPlace checks where a pod is, and the invariants.
func expectPlace(t *testing.T, q *Queue, name, want string) {
	t.Helper()
	if got := q.PlaceOf(model.PodKey{Namespace: "ns", Name: name}); got != want {
		t.Fatalf("%s is in place %q, want %q", name, got, want)
	}
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
}

// TestPreemptorIsHeldBack wakes a pod while others are evicted for it, in each order of what can happen.
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
		{"the first victim leaves before the end", false, func(q *Queue) { q.Wake(at(1), victimLeft("first")) }, "gated", true, "AssignedPodDelete"},
		{"the last victim leaves before the end", false, func(q *Queue) { q.Wake(at(1), victimLeft("last")) }, "backing off", false, ""},
		{"the profile does not hold preemptors", true, func(q *Queue) { q.Wake(at(1), victimLeft("first")) }, "backing off", false, ""},
		{"an error", false, func(q *Queue) { q.Wake(at(1), ended(p, false, broken)) }, "active", false, ""},
		{"an error while it is held", false, func(q *Queue) { q.Wake(at(1), victimLeft("first")); q.Wake(at(1), ended(p, false, broken)) }, "active", false, ""},
		{"the last victim was not bound", false, func(q *Queue) { q.Wake(at(1), ended(p, true, nil)) }, "active", false, ""},
		{"it is asked for while it is held", false, func(q *Queue) { q.Activate(at(1), []model.PodKey{p.Key()}) }, "gated", true, "AssignedPodDelete"},
		{"the end and the deletion at once", false, func(q *Queue) {
			delta := victimLeft("last")
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
			expectPlace(t, q, "p", "gated") // the deletion of the last victim is answered, and not seen
			q.TakeMoves()
			q.Wake(at(1), state.Delta{Evicted: []types.UID{"last"}})
			expectPlace(t, q, "p", "backing off")
			if moves := q.TakeMoves(); !slices.Equal(moves, []Move{{"backoff", test.released}}) {
				t.Errorf("it moved as %v", moves)
			}
			q.Wake(at(2.5), state.Delta{})
			pop(t, q, at(2.5), "p")
		})
	}
}

// TestPreemptorChangesMeanwhile deletes the preemptor, recreates it, places it and has it preempt again while others are evicted for it.
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
		expectPlace(t, q, "p", "active") // nothing is evicted for this one
		q.Wake(at(1), ended(p, true, nil))
		reject(q, at(1), pop(t, q, at(1), "p"), "Fit")
		q.Wake(at(1), ended(p, true, nil))
		expectPlace(t, q, "p", "parked")
	})
	t.Run("placed, and its binding fails", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), victimLeft("last"))
		w := pop(t, q, at(3), "p")
		q.Settle(at(3), plan.Decision{Work: w, Outcome: plan.Placed, Placements: []plan.Placement{{QueuedPod: w.Pods[0]}}})
		q.Wake(at(3), ended(p, false, errors.New("forbidden")))
		expectPlace(t, q, "p", "binding")
		q.Wake(at(4), state.Delta{Failed: []state.Failure{{Pod: p, Err: errors.New("no")}}})
		expectPlace(t, q, "p", "backing off after an error")
	})
	t.Run("preempts again", func(t *testing.T) {
		q := start(t)
		q.Wake(at(1), victimLeft("last"))
		preempt(q, at(3), pop(t, q, at(3), "p"), pod("other", 0))
		q.Wake(at(3), ended(p, false, errors.New("forbidden"))) // of the first
		expectPlace(t, q, "p", "parked")
		q.Wake(at(3), podDeleted)
		expectPlace(t, q, "p", "gated")
		q.Wake(at(3), ended(p, false, nil))
		expectPlace(t, q, "p", "active") // one of the two has failed, so there may be no event
	})
	t.Run("held back for a victim that is never seen to leave", func(t *testing.T) {
		q := start(t)
		q.Wake(at(2), podDeleted)
		q.Wake(at(600), state.Delta{})
		q.Pop(at(600))
		expectPlace(t, q, "p", "gated") // as long as the evictions have not ended
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

// TestFailingPreemptionsBackOff has every eviction fail: the pod is tried again at once after the first, then after the error backoff, which grows.
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
