package upstream_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

func ranked(p *v1.Pod, priority int32) *v1.Pod {
	p.Spec.Priority = &priority
	return p
}

// TestEvicted checks that once an eviction is decided, no further pods are evicted for a
// pod that is nominated to the node. Exceptions are a failed eviction, and a pod that
// does not outrank the victim.
func TestEvicted(t *testing.T) {
	s := newUpstream(t, cases.EmptyConfig())
	s.SetNode(node("a", "2"))
	victim, other := ranked(pod("victim", "1", "a"), 5), ranked(pod("other", "1", "a"), 0)
	do(t, s.SetPod(victim))
	do(t, s.SetPod(other))
	p := ranked(pod("p", "1", ""), 10)
	p.Status.NominatedNodeName = "a"
	expect := func(when string, mode upstream.Nomination) {
		t.Helper()
		v := judged(t, s, p)
		if waits := strings.Contains(v.Message, "terminating pod on the nominated node"); v.Preemption.Mode != mode || waits != (mode == upstream.Keep) {
			t.Errorf("%s: %s, %q", when, v.Preemption.Mode, v.Message)
		}
	}
	expect("before", upstream.Set)
	s.Evict(victim)
	s.Evict(victim)
	expect("decided, for two", upstream.Keep)
	s.Kept(victim.UID)
	expect("failed for one", upstream.Keep)
	p.Status.NominatedNodeName = ""
	expect("not nominated", upstream.Set)
	p.Status.NominatedNodeName = "a"
	*p.Spec.Priority = 5
	expect("does not outrank it", upstream.Set)
	*p.Spec.Priority = 10
	s.Kept(victim.UID)
	expect("failed for both", upstream.Set)
	s.Evict(victim)
	do(t, s.RemovePod(victim.Namespace, victim.Name))
	do(t, s.SetPod(victim))
	expect("gone and back", upstream.Set)
}

// TestDecidedNomination checks that a decided nomination outlasts only the versions of
// the pod that do not show it yet.
func TestDecidedNomination(t *testing.T) {
	s := newUpstream(t, cases.EmptyConfig())
	shown := func(nodeName string) *v1.Pod {
		p := pod("p", "1", "")
		p.Status.NominatedNodeName = nodeName
		return p
	}
	expect := func(when, want string) {
		t.Helper()
		got := ""
		for _, p := range s.Nominated() {
			got = p.Status.NominatedNodeName
		}
		if got != want {
			t.Errorf("%s: nominated to %q, want %q", when, got, want)
		}
	}
	do(t, s.Nominate(shown(""), "a"))
	expect("decided", "a")
	do(t, s.SetPod(shown("")))
	do(t, s.SetPod(shown("")))
	expect("not shown yet", "a")
	do(t, s.SetPod(shown("a")))
	expect("shown", "a")
	do(t, s.SetPod(shown("")))
	expect("cleared by others", "")
	do(t, s.Nominate(shown("a"), "b"))
	do(t, s.SetPod(shown("a")))
	expect("the old one is shown", "a")
	do(t, s.Nominate(shown("a"), ""))
	expect("cleared", "")
	do(t, s.Nominate(shown(""), "a"))
	again := shown("")
	again.UID = "again"
	do(t, s.SetPod(again))
	expect("another pod of the name", "")
}
