package simulate_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// ranked returns a pod with a priority that takes a whole node, and a grace period of ten
// seconds.
func ranked(name string, priority int32) *v1.Pod {
	p := pod(name, "1", 0)
	p.Spec.Priority, p.Spec.TerminationGracePeriodSeconds = &priority, ptr(int64(10))
	return p
}

// newFull returns a cluster whose nodes have a pod of priority 0 each, named after the
// node.
func newFull(t *testing.T, nodes ...string) *small {
	t.Helper()
	s := newSmall(t, nodes...)
	for _, name := range append([]string{"a"}, nodes...) {
		victim := ranked("on-"+name, 0)
		victim.Spec.NodeName = name
		s.c.SetPod(victim)
	}
	s.advance(0)
	return s
}

// step runs one round.
func (s *small) step() {
	s.Helper()
	if err := s.a.audit(s.c.Step()); err != nil {
		s.Fatal(err)
	}
}

// TestFailedEvictions fails the requests of an eviction in each way. It checks the
// preemptor's place at once, and the time of its binding.
func TestFailedEvictions(t *testing.T) {
	for _, test := range []struct {
		kind  commit.RequestKind
		fault simulate.Fault
		times int
		place string        // of the preemptor after a moment
		bound time.Duration // within
	}{
		{commit.Mark, simulate.NoFault, 0, "parked", 11 * time.Second},
		{commit.Mark, simulate.Conflict, 1, "parked", 11 * time.Second},
		{commit.Mark, simulate.Unavailable, 3, "parked", 11 * time.Second},
		{commit.Mark, simulate.Throttled, 1, "parked", 12 * time.Second},
		{commit.Mark, simulate.Lost, 1, "parked", 11 * time.Second},
		{commit.Mark, simulate.Forbidden, 1, "parked", 11 * time.Second}, // retried at once
		{commit.Mark, simulate.Forbidden, -1, errorBackoff, 0},
		{commit.Delete, simulate.Unavailable, 3, "parked", 11 * time.Second},
		{commit.Delete, simulate.Throttled, 1, "parked", 12 * time.Second},
		{commit.Delete, simulate.Lost, 1, "parked", 11 * time.Second},
		{commit.Delete, simulate.Dropped, 1, "parked", 11 * time.Second},
		{commit.Delete, simulate.Late, 1, "parked", 14 * time.Second},
		{commit.Delete, simulate.Forbidden, 1, "parked", 11 * time.Second},
		{commit.Delete, simulate.Denied, 3, errorBackoff, 16 * time.Second},
		{commit.Delete, simulate.Forbidden, -1, errorBackoff, 0},
	} {
		t.Run(fmt.Sprintf("%s %s x%d", test.kind, test.fault, test.times), func(t *testing.T) {
			s := newFull(t)
			s.c.FailEviction(key("on-a"), test.kind, test.fault, test.times)
			s.c.SetPod(ranked("web", 10))
			s.advance(500 * time.Millisecond)
			s.expect("web", "", "", test.place)
			if test.bound == 0 {
				s.advance(5 * time.Minute)
				if v, _ := s.c.Verdict(key("web")); v.Attempts > 35 {
					t.Errorf("it was tried %d times in five minutes", v.Attempts)
				}
				if s.c.Pod(key("on-a")).DeletionTimestamp != nil {
					t.Error("the victim is being deleted")
				}
				return
			}
			s.advance(test.bound)
			s.expect("web", "a", "a", "")
		})
	}
}

// TestVictimIsGone deletes the victim while its eviction is in flight.
func TestVictimIsGone(t *testing.T) {
	s := newFull(t)
	s.c.SetFaults(simulate.Faults{MaxBindDelay: time.Second})
	s.c.SetPod(ranked("web", 10))
	s.step()
	s.c.DeletePod(key("on-a"))
	s.advance(5 * time.Second)
	s.expect("web", "a", "a", "")
}

// TestVictimNeverGoes has a victim whose kubelet is dead. The preemptor keeps its
// nomination, preempts no other pod, and is bound when the victim goes.
func TestVictimNeverGoes(t *testing.T) {
	s := newFull(t, "b")
	s.c.HoldPod(key("on-a"))
	s.c.HoldPod(key("on-b"))
	s.c.SetPod(ranked("web", 10))
	s.advance(20 * time.Minute)
	s.expect("web", "", "", "parked")
	going := 0
	for _, name := range []string{"on-a", "on-b"} {
		if s.c.Pod(key(name)).DeletionTimestamp != nil {
			going++
		}
	}
	if going != 1 {
		t.Errorf("%d pods are evicted, want 1", going)
	}
	nominated := s.c.Pod(key("web")).Status.NominatedNodeName
	s.c.ReleasePods()
	s.advance(time.Second)
	if node := s.c.Pod(key("web")).Spec.NodeName; node == "" || nominated != node {
		t.Errorf("it is bound to %q, and was nominated to %q", node, nominated)
	}
}

// TestBudgetChangesMeanwhile withdraws a budget's allowance while the eviction is in
// flight. The eviction is carried out, as in kube-scheduler.
func TestBudgetChangesMeanwhile(t *testing.T) {
	s := newFull(t)
	victim := s.c.Pod(key("on-a")).DeepCopy()
	victim.Labels = map[string]string{"app": "web"}
	s.c.SetPod(victim)
	budget := func(allowed int32) {
		if err := s.c.SetObject(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: victim.Labels}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}); err != nil {
			t.Fatal(err)
		}
	}
	budget(1)
	s.c.SetFaults(simulate.Faults{MaxBindDelay: time.Second})
	s.c.SetPod(ranked("web", 10))
	s.step()
	budget(0)
	s.advance(15 * time.Second)
	s.expect("web", "a", "a", "")
}

// TestTwoPreemptors has two pods of one priority compete for the same two nodes. Each
// gets one, and two pods are evicted.
func TestTwoPreemptors(t *testing.T) {
	s := newFull(t, "b", "c")
	s.c.SetPod(ranked("one", 10))
	s.c.SetPod(ranked("two", 10))
	s.advance(15 * time.Second)
	left := 0
	for _, name := range []string{"on-a", "on-b", "on-c"} {
		if s.c.Pod(key(name)) != nil {
			left++
		}
	}
	one, two := s.c.Pod(key("one")).Spec.NodeName, s.c.Pod(key("two")).Spec.NodeName
	if left != 1 || one == "" || two == "" || one == two {
		t.Errorf("%d pods are left; the preemptors are on %q and %q", left, one, two)
	}
}

// TestPreemptorGoesMeanwhile deletes the preemptor, or replaces it by another of its
// name, while its evictions are in flight.
func TestPreemptorGoesMeanwhile(t *testing.T) {
	for _, again := range []bool{false, true} {
		s := newFull(t)
		s.c.SetFaults(simulate.Faults{MaxBindDelay: 500 * time.Millisecond})
		s.c.SetPod(ranked("web", 10))
		s.step()
		s.c.DeletePod(key("web"))
		if again {
			s.c.SetPod(ranked("web", 10))
		}
		s.advance(20 * time.Second)
		if s.c.Pod(key("on-a")) != nil {
			t.Error("the victim stays; kube-scheduler goes on with evictions that it has begun")
		}
		if again {
			s.expect("web", "a", "a", "")
		}
		s.c.DeletePod(key("web"))
		s.advance(forgotten)
		if n := s.c.Outbox().Remembered(); n != 0 {
			t.Errorf("%d things are still remembered", n)
		}
	}
}

// TestKilledAmidEviction kills the process after the condition is written and before the
// deletion. The next process reads the nomination and evicts the same pod.
func TestKilledAmidEviction(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Second} {
		s := newFull(t, "b")
		s.c.FailEviction(key("on-a"), commit.Delete, simulate.Unavailable, 3)
		s.c.FailEviction(key("on-b"), commit.Delete, simulate.Unavailable, 3)
		s.c.SetPod(ranked("web", 10))
		s.advance(after)
		s.a.forget()
		if err := s.c.Restart(); err != nil {
			t.Fatal(err)
		}
		s.advance(20 * time.Second)
		left := 0
		for _, name := range []string{"on-a", "on-b"} {
			if s.c.Pod(key(name)) != nil {
				left++
			}
		}
		if s.c.Pod(key("web")).Spec.NodeName == "" || left != 1 {
			t.Errorf("killed after %s: it is bound to %q, and %d other pods are left", after, s.c.Pod(key("web")).Spec.NodeName, left)
		}
	}
}

// TestStoppedAmidEviction stops the process while a deletion waits for its retry. The
// preemption is answered, and no pod is evicted after that.
func TestStoppedAmidEviction(t *testing.T) {
	s := newFull(t)
	s.c.FailEviction(key("on-a"), commit.Delete, simulate.Throttled, -1)
	s.c.SetPod(ranked("web", 10))
	s.advance(500 * time.Millisecond)
	s.c.Stop()
	s.advance(10 * time.Second)
	if s.c.Pod(key("on-a")).DeletionTimestamp != nil || s.c.Happened()["preemption: failed"] != 1 {
		t.Errorf("the victim: %+v; %v", s.c.Pod(key("on-a")).DeletionTimestamp, s.c.Happened())
	}
}

// TestReplacementsEvictNobody has a controller recreate every evicted pod in a cluster
// that is too small. The number of evictions is bounded by the number of pods of higher
// priority, because no pod is evicted for a pod of the same or a lower priority.
func TestReplacementsEvictNobody(t *testing.T) {
	s := newSmall(t, "b", "c", "d")
	made, wanted := map[string]int32{}, 0
	create := func(priority int32) {
		name := fmt.Sprint("pod-", len(made))
		made[name] = priority
		s.c.SetPod(ranked(name, priority))
	}
	for priority := range int32(3) {
		for range 4 {
			create(priority)
			wanted++
		}
		s.advance(30 * time.Second)
		for range 20 { // a controller that maintains the number of pods
			alive := map[int32]int{}
			for _, p := range s.c.Pods() {
				if p.DeletionTimestamp == nil {
					alive[*p.Spec.Priority]++
				}
			}
			for at := range priority + 1 {
				for range 4 - alive[at] {
					create(at)
				}
			}
			s.advance(20 * time.Second)
		}
	}
	if recreated := len(made) - wanted; recreated != 8 {
		t.Errorf("%d pods were evicted and recreated, want 8: four for each step of priority", recreated)
	}
	for _, p := range s.c.Pods() {
		if bound := p.Spec.NodeName != ""; bound != (*p.Spec.Priority == 2) {
			t.Errorf("%s with priority %d is bound to %q", p.Name, *p.Spec.Priority, p.Spec.NodeName)
		}
	}
}

// TestPreemptionOfAssumedPods has a pod preempt another whose binding hangs. The victim
// is deleted, and its room used.
func TestPreemptionOfAssumedPods(t *testing.T) {
	s := newSmall(t)
	s.c.SetPod(ranked("first", 0))
	s.c.DelayBind(key("first"), 3*time.Second)
	s.advance(time.Second)
	s.c.SetPod(ranked("web", 10))
	s.advance(20 * time.Second)
	s.expect("web", "a", "a", "")
	if s.c.Pod(model.PodKey{Namespace: "default", Name: "first"}) != nil {
		t.Error("the victim stays")
	}
}
