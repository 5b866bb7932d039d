package simulate_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// small is a cluster of one node with one CPU, audited after every round. The tests of
// this file are the rows of design/failures.md.
type small struct {
	*testing.T
	c *simulate.Cluster
	a *auditor
}

func newSmall(t *testing.T, nodes ...string) *small {
	t.Helper()
	return smallOf(t, defaults(t), nodes...)
}

func smallOf(t *testing.T, config simulate.Config, nodes ...string) *small {
	t.Helper()
	c, err := simulate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := &small{t, c, newAuditor(c, oracle.DefaultProfile())}
	for _, name := range append([]string{"a"}, nodes...) {
		s.c.SetNode(node(name, "1"))
	}
	return s
}

// forgotten is a little longer than the time for which events of deleted pods are
// remembered, in case they repeat.
const forgotten = 7 * time.Minute

func key(name string) model.PodKey { return model.PodKey{Namespace: "default", Name: name} }

// advance moves the time.
func (s *small) advance(d time.Duration) {
	s.Helper()
	if err := s.c.AdvanceTo(s.c.Now().Add(d), s.a.audit); err != nil {
		s.Fatal(err)
	}
}

// expect checks the node of a pod in the API server and in the state, and its place in
// the queue.
func (s *small) expect(name, stored, believed, place string) {
	s.Helper()
	got := ""
	if p := s.c.Pod(key(name)); p != nil {
		got = p.Spec.NodeName
	}
	on, _, _ := s.c.Loop().State().NodeOf(key(name))
	if in := s.c.Loop().Queue().PlaceOf(key(name)); got != stored || on != believed || in != place {
		s.Fatalf("%s after the start, %s is bound to %q, believed to be on %q, in place %q; want %q, %q, %q", s.c.Elapsed(), name, got, on, in, stored, believed, place)
	}
}

func (s *small) attempts(name string, want int) {
	s.Helper()
	if v, _ := s.c.Verdict(key(name)); v.Attempts != want {
		s.Fatalf("%s was tried %d times, want %d", name, v.Attempts, want)
	}
}

const (
	errorBackoff = "backing off after an error"
	binding      = "binding"
	either       = "binding, or bound already if it was stored"
)

// TestBindErrors fails the first bindings of a pod in each way. It checks the pod's place
// at once, and the time of its binding.
func TestBindErrors(t *testing.T) {
	for _, test := range []struct {
		fault    simulate.Fault
		times    int
		place    string        // at once
		bound    time.Duration // within
		attempts int
	}{
		{simulate.Conflict, 1, errorBackoff, 2 * time.Second, 2},
		{simulate.Forbidden, 1, errorBackoff, 2 * time.Second, 2},
		{simulate.Denied, 1, errorBackoff, 2 * time.Second, 2},
		{simulate.Throttled, 1, binding, time.Second, 1},
		{simulate.Throttled, 11, binding, 13 * time.Second, 2},
		{simulate.Unavailable, 1, binding, 10 * time.Millisecond, 1},
		{simulate.Unavailable, 4, binding, 3 * time.Second, 2},
		{simulate.Internal, 1, either, 100 * time.Millisecond, 1},
		{simulate.Refused, 3, binding, 310 * time.Millisecond, 1},
		{simulate.Refused, 4, binding, 3 * time.Second, 2},
		{simulate.Lost, 1, "", 0, 1},
		{simulate.Dropped, 1, binding, 50 * time.Millisecond, 1},
		{simulate.Dropped, 4, binding, 8 * time.Second, 2},
		{simulate.TimedOut, 1, either, 31 * time.Second, 1},
		{simulate.Late, 1, binding, 4 * time.Second, 1},
	} {
		t.Run(fmt.Sprintf("%s x%d", test.fault, test.times), func(t *testing.T) {
			s := newSmall(t)
			s.c.SetPod(pod("web", "1", 0))
			s.c.FailBind(key("web"), test.fault, test.times)
			s.advance(0)
			believed := "a"
			if test.place == errorBackoff {
				believed = ""
			}
			if place := s.c.Loop().Queue().PlaceOf(key("web")); place != test.place && (test.place != either || place != binding && place != "") {
				t.Errorf("at once it is in place %q, want %q", place, test.place)
			}
			if on, _, _ := s.c.Loop().State().NodeOf(key("web")); on != believed {
				t.Errorf("at once it takes room on %q, want %q", on, believed)
			}
			s.advance(test.bound)
			s.expect("web", "a", "a", "")
			s.attempts("web", test.attempts)
			if test.fault == simulate.Denied {
				return
			}
			s.c.DeletePod(key("web"))
			s.advance(forgotten)
			if n := s.c.Outbox().Remembered(); n != 0 {
				t.Errorf("%d things are still to be written", n)
			}
		})
	}
}

// TestUnknownOutcomeKeepsTheRoom loses the answer to a binding, and then the API server
// for minutes. The pod's room stays reserved all the time.
func TestUnknownOutcomeKeepsTheRoom(t *testing.T) {
	s := newSmall(t)
	s.c.SetPod(pod("web", "1", 0))
	s.c.SetPod(pod("next", "1", 1))
	s.c.FailBind(key("web"), simulate.TimedOut, 1)
	s.c.DelayBind(key("web"), time.Second)
	s.advance(0)
	s.c.BreakWatch(model.PodKind)
	s.advance(10 * time.Second)
	s.c.Disconnect()
	s.advance(5 * time.Minute)
	if on, confirmed, _ := s.c.Loop().State().NodeOf(key("web")); on != "a" || confirmed {
		t.Fatalf("it is on %q in the state, confirmed: %t; want it assumed on a", on, confirmed)
	}
	s.c.Reconnect(time.Second)
	s.advance(15 * time.Second)
	s.expect("web", "a", "a", "")
	s.expect("next", "", "", "parked")
	s.attempts("web", 1)
}

// TestWatchSettlesABinding fails every request after a binding whose answer was lost. The
// watch then shows the pod on its node.
func TestWatchSettlesABinding(t *testing.T) {
	s := newSmall(t)
	s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{simulate.Refused: 100}})
	s.c.SetPod(pod("web", "1", 0))
	s.c.FailBind(key("web"), simulate.Lost, 1)
	s.advance(10 * time.Minute)
	s.expect("web", "a", "a", "")
	if _, confirmed, _ := s.c.Loop().State().NodeOf(key("web")); !confirmed {
		t.Error("the watch has shown it, and it is still assumed")
	}
	s.c.SetFaults(simulate.Faults{})
	s.advance(time.Minute)
	if open := s.c.Outbox().Open(); open != 0 {
		t.Errorf("%d bindings are still asked about", open)
	}
}

// TestConfirmationNeverComes breaks the watch of pods before a pod is bound. The API
// server's answer is enough, for any length of time.
func TestConfirmationNeverComes(t *testing.T) {
	s := newSmall(t)
	s.c.SetPod(pod("web", "1", 0))
	s.c.DelayBind(key("web"), time.Second)
	s.advance(0)
	s.c.BreakWatch(model.PodKind)
	s.advance(time.Hour)
	s.expect("web", "a", "a", "")
	s.c.MendWatch(model.PodKind, true)
	s.advance(time.Minute)
	s.expect("web", "a", "a", "")
	s.attempts("web", 1)
}

// stages bring the pod web to a stage of its life. If a pod is returned, the change comes
// before the scheduler sees that pod.
func stages() map[string]func(s *small) *v1.Pod {
	return map[string]func(s *small) *v1.Pod{
		"queued": func(s *small) *v1.Pod { return pod("web", "1", 0) },
		"backing off": func(s *small) *v1.Pod {
			s.c.FailBind(key("web"), simulate.Conflict, 1)
			s.c.SetPod(pod("web", "1", 0))
			s.advance(0)
			s.expect("web", "", "", errorBackoff)
			return nil
		},
		"parked": func(s *small) *v1.Pod {
			s.c.SetPod(pod("web", "2", 0))
			s.advance(0)
			s.expect("web", "", "", "parked")
			return nil
		},
		"gated": func(s *small) *v1.Pod {
			p := pod("web", "1", 0)
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
			s.c.SetPod(p)
			s.advance(0)
			s.expect("web", "", "", "gated")
			return nil
		},
		"assumed": func(s *small) *v1.Pod {
			s.c.DelayBind(key("web"), time.Second)
			s.c.SetPod(pod("web", "1", 0))
			s.advance(0)
			s.expect("web", "", "a", binding)
			return nil
		},
		"binding": func(s *small) *v1.Pod {
			s.c.FailBind(key("web"), simulate.Dropped, 1)
			s.c.SetPod(pod("web", "1", 0))
			s.advance(time.Millisecond)
			s.expect("web", "", "a", binding)
			return nil
		},
		"bound": func(s *small) *v1.Pod {
			s.c.SetPod(pod("web", "1", 0))
			s.advance(0)
			s.expect("web", "a", "a", "")
			return nil
		},
	}
}

// changes are changes to the pod web.
func changes() map[string]func(s *small) {
	return map[string]func(s *small){
		"deleted": func(s *small) { s.c.DeletePod(key("web")) },
		"updated": func(s *small) {
			p := s.c.Pod(key("web")).DeepCopy()
			p.Labels = map[string]string{"new": "label"}
			s.c.SetPod(p)
		},
		"replaced": func(s *small) {
			s.c.DeletePod(key("web"))
			s.c.SetPod(pod("web", "100m", 0))
		},
		"terminating": func(s *small) {
			p := s.c.Pod(key("web")).DeepCopy()
			at := metav1.NewTime(s.c.Now())
			p.DeletionTimestamp = &at
			s.c.SetPod(p)
			s.advance(time.Second)
			s.c.DeletePod(key("web"))
		},
	}
}

// TestPodsAtEveryStage deletes, updates, replaces and terminates pods at each stage of
// their life. The auditor checks that the pod is then in the right place only. Its room,
// if any, goes to the next pod.
func TestPodsAtEveryStage(t *testing.T) {
	for stage, reach := range stages() {
		for change, do := range changes() {
			t.Run(change+" while "+stage, func(t *testing.T) {
				s := newSmall(t)
				if queued := reach(s); queued != nil {
					s.c.SetPod(queued) // the change comes before the scheduler sees the pod
				}
				do(s)
				s.advance(time.Minute)
				next := "a"
				switch p := s.c.Pod(key("web")); {
				case change == "replaced":
					s.expect("web", "a", "a", "")
					next = ""
				case change == "updated" && stage != "parked" && stage != "gated":
					s.expect("web", "a", "a", "")
					next = ""
				case change == "updated":
					s.expect("web", "", "", stage)
				case p != nil:
					t.Errorf("the pod is still there: %v", p)
				default:
					s.expect("web", "", "", "")
				}
				s.c.SetPod(pod("next", "950m", 1))
				s.advance(time.Minute)
				if got := s.c.Pod(key("next")).Spec.NodeName; got != next {
					t.Errorf("the next pod is on %q, want %q", got, next)
				}
			})
		}
	}
}

// TestNodeVanishesUnderAssumedPod deletes a node while a binding to it is in flight. The
// API server stores the binding. The pod counts again if the node returns, and waiting
// pods go elsewhere.
func TestNodeVanishesUnderAssumedPod(t *testing.T) {
	s := newSmall(t, "b")
	s.c.SetPod(pod("web", "1", 0))
	s.c.DelayBind(key("web"), 3*time.Second)
	s.advance(0)
	on, _, _ := s.c.Loop().State().NodeOf(key("web"))
	other := map[string]string{"a": "b", "b": "a"}[on]
	s.c.DeleteNode(on)
	s.c.SetPod(pod("next", "1", 1))
	s.advance(4 * time.Second)
	s.expect("web", on, on, "")
	s.expect("next", other, other, "")
	s.c.SetNode(node(on, "1"))
	s.c.SetPod(pod("third", "1", 2))
	s.advance(time.Minute)
	s.expect("third", "", "", "parked")
}

// TestWatchBreaks breaks the watches for ten minutes. Earlier decisions are carried out,
// and the changes are seen when the watches resume.
func TestWatchBreaks(t *testing.T) {
	for _, anew := range []bool{false, true} {
		s := newSmall(t)
		s.c.SetPod(pod("web", "1", 0))
		s.advance(0)
		for _, kind := range s.c.Reads() {
			s.c.BreakWatch(kind)
		}
		s.c.SetPod(pod("next", "1", 1))
		s.c.SetNode(node("b", "1"))
		s.advance(10 * time.Minute)
		s.expect("next", "", "", "")
		for _, kind := range s.c.Reads() {
			s.c.MendWatch(kind, anew)
		}
		s.advance(12 * time.Second)
		s.expect("next", "b", "b", "")
	}
}

// TestRelistMissesDeletions deletes and replaces pods and a node while nothing is
// watched. Deletions have to be inferred from the list.
func TestRelistMissesDeletions(t *testing.T) {
	s := newSmall(t, "b")
	s.c.SetPod(pod("on-a", "1", 0))
	s.c.SetPod(pod("on-b", "1", 0))
	s.c.SetPod(pod("waits", "1", 1))
	s.advance(0)
	s.expect("waits", "", "", "parked")
	for _, kind := range s.c.Reads() {
		s.c.BreakWatch(kind)
	}
	s.c.DeletePod(key("on-a"))
	s.c.DeletePod(key("on-b"))
	s.c.SetPod(pod("on-b", "100m", 2, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }))
	s.c.DeleteNode("b")
	s.advance(time.Minute)
	for _, kind := range s.c.Reads() {
		s.c.MendWatch(kind, true)
	}
	s.advance(12 * time.Second)
	s.expect("on-a", "", "", "")
	s.expect("on-b", "", "", "gated")
	s.expect("waits", "a", "a", "")
	if n := s.c.Loop().State().Nodes(); n != 1 {
		t.Errorf("%d nodes are believed in, want 1", n)
	}
}

// TestDuplicateAndLateEvents shows every event twice and up to three seconds late, out of
// order among objects.
func TestDuplicateAndLateEvents(t *testing.T) {
	s := newSmall(t, "b", "c")
	s.c.SetFaults(simulate.Faults{MaxWatchDelay: 3 * time.Second, MaxBindDelay: time.Second, DuplicatePercent: 100})
	for i := range 20 {
		s.c.SetPod(pod(fmt.Sprint("web-", i), "1", i))
		s.advance(500 * time.Millisecond)
		s.c.DeletePod(key(fmt.Sprint("web-", i-5)))
	}
	s.advance(time.Minute)
	bound := 0
	for _, p := range s.c.Pods() {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != 3 {
		t.Errorf("%d pods are bound, want one on each node", bound)
	}
}

// TestAPIServerAway disconnects the API server for five minutes. Known pods are decided
// about and retried after each backoff. Pending writes are made after the reconnect.
func TestAPIServerAway(t *testing.T) {
	s := newSmall(t)
	s.c.SetPod(pod("web", "900m", 0))
	s.c.SetPod(pod("huge", "9", 1))
	s.c.DelayBind(key("web"), 10*time.Millisecond)
	s.advance(0)
	s.c.Disconnect()
	s.advance(5 * time.Minute)
	if p := s.c.Pod(key("web")); p.Spec.NodeName != "" {
		t.Fatalf("it is on %s", p.Spec.NodeName)
	}
	s.c.Reconnect(2 * time.Second)
	s.advance(20 * time.Second)
	s.expect("web", "a", "a", "")
	condition := s.c.Pod(key("huge")).Status.Conditions
	const want = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	if len(condition) != 1 || condition[0].Message != want {
		t.Errorf("the conditions of the other pod are %v", condition)
	}
}

// TestStalledProcess stalls the process for an hour while a pod backs off. Its backoff is
// over then.
func TestStalledProcess(t *testing.T) {
	s := newSmall(t)
	s.c.FailBind(key("web"), simulate.Conflict, 1)
	s.c.SetPod(pod("web", "1", 0))
	s.advance(500 * time.Millisecond)
	s.attempts("web", 1)
	s.c.Stall(time.Hour)
	s.advance(0)
	s.attempts("web", 2)
	s.expect("web", "a", "a", "")
}

// TestClockOfANewProcess starts processes whose wall clock is hours off; backoffs have
// their normal length in each. Package loop tests the setting of the clock during a
// process.
func TestClockOfANewProcess(t *testing.T) {
	s := newSmall(t)
	for _, skew := range []time.Duration{-3 * time.Hour, 7 * time.Hour} {
		s.c.SetClock(skew)
		s.a.forget()
		if err := s.c.Restart(); err != nil {
			t.Fatal(err)
		}
		name := skew.String()
		s.c.FailBind(key(name), simulate.Conflict, 2)
		s.c.SetPod(pod(name, "100m", 0))
		for _, row := range []struct {
			after    time.Duration // after the previous row
			attempts int
		}{{0, 1}, {1900 * time.Millisecond, 1}, {100 * time.Millisecond, 2}, {2900 * time.Millisecond, 2}, {100 * time.Millisecond, 3}} {
			s.advance(row.after)
			s.attempts(name, row.attempts)
		}
		s.expect(name, "a", "a", "")
	}
}

// TestKill kills the process with bindings in flight. Each is stored once, and the next
// process receives it in its lists.
func TestKill(t *testing.T) {
	s := newSmall(t, "b", "c")
	for i := range 5 {
		name := fmt.Sprint("web-", i)
		s.c.SetPod(pod(name, "1", i))
		s.c.DelayBind(key(name), time.Duration(i)*time.Second)
	}
	s.advance(500 * time.Millisecond)
	s.c.Kill()
	s.advance(10 * time.Second)
	s.a.forget()
	if err := s.c.Restart(); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Minute)
	bound := 0
	for i := range 5 {
		if p := s.c.Pod(key(fmt.Sprint("web-", i))); p.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != 3 {
		t.Errorf("%d pods are bound, want one on each node", bound)
	}
}

// TestStoreGoesBack shows a bound pod without its node, as after a restore of the API
// server's store from a backup. Its room is released and it is scheduled again, as by
// kube-scheduler.
func TestStoreGoesBack(t *testing.T) {
	s := newSmall(t)
	s.c.SetPod(pod("web", "1", 0))
	s.advance(0)
	s.expect("web", "a", "a", "")
	before := s.c.Pod(key("web")).DeepCopy()
	before.Spec.NodeName = ""
	s.c.SetNode(node("b", "1"))
	s.c.DeleteNode("a")
	s.a.boundTo = map[string]string{}
	s.c.SetPod(before)
	s.advance(time.Second)
	s.expect("web", "b", "b", "")
}

// TestStoreGoesBackForAnotherScheduler shows pods of another scheduler without the nodes
// that they were bound to. Their room is released.
func TestStoreGoesBackForAnotherScheduler(t *testing.T) {
	for _, anew := range []bool{false, true} {
		s := newSmall(t)
		theirs := func(node string) *v1.Pod {
			return pod("theirs", "1", 0, func(p *v1.Pod) { p.Spec.SchedulerName, p.Spec.NodeName = "theirs", node })
		}
		s.c.SetPod(theirs("a"))
		s.advance(0)
		s.c.SetPod(pod("web", "1", 0))
		s.advance(time.Minute)
		s.expect("web", "", "", "parked")
		if anew {
			s.c.BreakWatch(model.PodKind)
		}
		s.c.SetPod(theirs(""))
		if anew {
			s.c.MendWatch(model.PodKind, true)
		}
		s.advance(time.Minute)
		s.expect("web", "a", "a", "")
	}
}

// reporting are the requests that must not delay a binding.
var reporting = []commit.RequestKind{commit.Patch, commit.Record, commit.Repeat}

// TestStatusWritesFail fails conditions and events in each transient way. The latest
// condition is written in the end, and no binding is delayed.
func TestStatusWritesFail(t *testing.T) {
	for fault := simulate.Conflict; fault <= simulate.Late; fault++ {
		s := newSmall(t)
		s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{fault: 30}, Kinds: reporting})
		s.c.SetPod(pod("huge", "9", 0))
		s.advance(4 * time.Minute)
		s.expectTold("huge")
		s.c.SetPod(pod("web", "1", 1))
		s.advance(0)
		s.expect("web", "a", "a", "")
	}
}

// expectTold checks that a pod's condition is Unschedulable.
func (s *small) expectTold(name string) {
	s.Helper()
	condition := s.c.Pod(key(name)).Status.Conditions
	if len(condition) != 1 || condition[0].Reason != v1.PodReasonUnschedulable {
		s.Errorf("the conditions of %s are %v, after %v", name, condition, s.c.Happened())
	}
}

// TestHangingStatusesLeaveWorkers makes the conditions and events of more pods hang than
// workers exist. A pod that is placed then is still bound at once, and all conditions are
// written in the end.
func TestHangingStatusesLeaveWorkers(t *testing.T) {
	const huge = commit.DefaultInFlight + 36
	s := newSmall(t)
	s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{simulate.TimedOut: 100}, Kinds: reporting})
	for i := range huge {
		s.c.SetPod(pod(fmt.Sprint("huge-", i), "9", i))
	}
	s.advance(time.Second)
	s.c.SetPod(pod("web", "1", 1))
	s.advance(0)
	s.expect("web", "a", "a", "")
	s.c.SetFaults(simulate.Faults{})
	s.advance(time.Minute)
	for i := range huge {
		s.expectTold(fmt.Sprint("huge-", i))
	}
}

// TestStopInOrder stops a process with more bindings than workers, none of which is
// answered soon. Bindings in flight arrive, the others are failed and not sent, and the
// next process places the remaining pods.
func TestStopInOrder(t *testing.T) {
	const pods = commit.DefaultInFlight + 20
	s := newSmall(t)
	s.c.SetNode(node("a", "20"))
	for i := range pods {
		name := fmt.Sprint("web-", i)
		s.c.SetPod(pod(name, "100m", i))
		s.c.DelayBind(key(name), time.Second)
	}
	s.advance(500 * time.Millisecond)
	waiting, sent := s.c.Outbox().Waiting(), s.c.Outbox().Open()
	if waiting != 20 || sent != commit.DefaultInFlight {
		t.Fatalf("%d bindings wait and %d are sent", waiting, sent)
	}
	s.c.Stop()
	s.advance(10 * time.Second)
	if d := s.c.Outbox(); d.Waiting()+d.Open() != 0 || s.a.placedPods() != sent {
		t.Errorf("%d bindings wait, %d are open, %d are stored, want the %d that were sent", d.Waiting(), d.Open(), s.a.placedPods(), sent)
	}
	s.a.forget()
	if err := s.c.Restart(); err != nil {
		t.Fatal(err)
	}
	s.advance(5 * time.Second)
	if placed := s.a.placedPods(); placed != pods {
		t.Errorf("%d pods are bound, want all %d", placed, pods)
	}
}

// TestDeniedPodStarvesNobody lets pods of the highest priority, whose bindings are always
// denied, contend for the only free room.
func TestDeniedPodStarvesNobody(t *testing.T) {
	s := newSmall(t)
	important := func(p *v1.Pod) { p.Spec.Priority = ptr(int32(1_000_000)) }
	for i := range 3 {
		name := fmt.Sprint("denied-", i)
		s.c.SetPod(pod(name, "1", 0, important))
		s.c.DelayBind(key(name), 200*time.Millisecond)
		s.c.FailBind(key(name), simulate.Denied, -1)
	}
	s.c.SetPod(pod("web", "1", 5))
	s.advance(15 * time.Second)
	s.expect("web", "a", "a", "")
}
