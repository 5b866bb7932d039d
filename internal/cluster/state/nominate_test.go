package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// nominee is one pod, by name, and its history.
type nominee struct {
	s      *State
	uid    int
	newest *model.Pod
	freed  int // events for the freed space of a nomination
}

func (n *nominee) version(node, nominated string) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: types.UID(fmt.Sprint(n.uid))}}
	p.Spec.NodeName, p.Status.NominatedNodeName = node, nominated
	return model.NewPod(p)
}

func (n *nominee) apply(c ...model.Change) {
	delta := n.s.Apply(c)
	for _, e := range delta.Events {
		if e.OnlyUpTo != nil {
			n.freed++
		}
	}
	for _, pod := range delta.Arrived {
		n.newest = pod
	}
	for _, f := range delta.Failed {
		n.newest = f.Pod
	}
}

func (n *nominee) nominate(mode plan.NominationMode, node string) {
	for _, pod := range n.s.Nominate(plan.Nomination{Pod: n.newest, Mode: mode, NodeName: node}) {
		n.newest = pod
	}
	n.apply()
}

// do does one step, written as a word and a node's name: an event of the watch, or an
// action of the scheduler.
func (n *nominee) do(t *testing.T, step string) {
	word, node, _ := strings.Cut(step, ":")
	placement := plan.Placement{Pod: n.newest, NodeName: node}
	set := func(pod *model.Pod) { n.apply(model.Change{Kind: model.PodSet, Pod: pod}) }
	switch word {
	case "show":
		set(n.version("", node))
	case "again":
		n.uid++
		set(n.version("", node))
	case "ending":
		pod := n.version("", node)
		pod.Terminating = true
		set(pod)
	case "on":
		set(n.version(node, ""))
	case "gone":
		n.apply(podGone("p"))
	case "set":
		n.nominate(plan.Set, node)
	case "clear":
		n.nominate(plan.Clear, "")
	case "keep":
		n.nominate(plan.Keep, "")
	case "assume":
		n.s.Assume(placement)
		n.apply()
	case "undo":
		n.s.Assume(placement)
		n.s.Unassume(placement)
		n.apply()
	case "fail":
		n.s.Assume(placement)
		n.apply(bindDone(n.newest, node, errors.New("refused")))
	default:
		t.Fatalf("unknown step %q", step)
	}
	audited(t, n.s)
}

// TestNominate follows a pod through nominations in the API and decisions of the
// scheduler. As in kube-scheduler, a decided nomination holds through versions that do
// not have it yet.
func TestNominate(t *testing.T) {
	for _, row := range []struct {
		steps, node string
		freed       int
	}{
		{"show: set:a", "a", 0},
		{"show: set:a show: show:", "a", 0},
		{"show: set:a show:a", "a", 0},
		{"show: set:a show: show:a show:", "", 1},
		{"show: set:a show:b", "b", 1},
		{"show: set:a set:b", "b", 1},
		{"show: set:a set:b show:", "b", 1},
		{"show: set:a clear", "", 1},
		{"show: set:a clear show:", "", 1},
		{"show: set:a keep", "a", 0},
		{"show: set:nowhere", "nowhere", 0},
		{"show:a set:a", "a", 0},
		{"show:a set:b", "b", 1},
		{"show:a set:b show:b", "b", 1},
		// kube-scheduler accepts any version with a nomination.
		{"show:a set:b show:a", "a", 2},
		{"show:a set:b show:", "", 2}, // somebody has cleared it
		{"show:a clear", "", 1},
		{"show:a clear show:", "", 1},
		{"show:a clear show:a", "a", 1},
		{"show: clear", "", 0},
		{"show: set:a gone", "", 1},
		{"show: set:a gone show:", "", 1},
		{"show: set:a again:", "", 1},
		{"show: set:a again:b", "b", 1},
		{"show: set:a again:a", "a", 1},
		{"show: set:a ending:", "a", 0},
		{"show: set:a ending: gone", "", 1},
		{"show: set:a on:a", "", 0},
		{"show: set:a on:b", "", 1},
		{"show: set:a on:a show:", "", 0}, // a restored backup
		{"show: set:a assume:a", "", 0},
		{"show: set:a assume:b", "", 1},
		{"show: set:a assume:b set:a", "", 1}, // it has a place
		{"show: set:a undo:b", "a", 0},
		{"show: set:a undo:b show:", "a", 0},
		{"show: set:a fail:b", "", 1},
		{"show: set:a fail:a show:", "", 0},
	} {
		n := &nominee{s: New()}
		n.s.Apply([]model.Change{node("a"), node("b")})
		for _, step := range strings.Fields(row.steps) {
			n.do(t, step)
		}
		got := ""
		if pod := n.s.nominations.byPod[model.PodKey{Namespace: "ns", Name: "p"}]; pod != nil {
			got = pod.NominatedNode
		}
		if got != row.node || n.freed != row.freed {
			t.Errorf("%s: nominated to %q with %d events, want %q with %d", row.steps, got, n.freed, row.node, row.freed)
		}
		if n.newest.NominatedNode != got && n.s.placed[n.newest.Key()] == nil && !strings.HasSuffix(row.steps, "gone") && !strings.Contains(row.steps, "fail") {
			t.Errorf("%s: the newest version is nominated to %q, the state has %q", row.steps, n.newest.NominatedNode, got)
		}
	}
}

// TestNominateEventIsDeliveredOnce moves one nomination and clears another, of pods of
// two priorities. Each event is in the next delta, for pods of at most that priority.
func TestNominateEventIsDeliveredOnce(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b"), {Kind: model.PodSet, Pod: nominatedPod("p", "a", 5)}, {Kind: model.PodSet, Pod: nominatedPod("q", "a", 3)}})
	changed := s.Nominate(
		plan.Nomination{Pod: nominatedPod("p", "a", 5), Mode: plan.Set, NodeName: "b"},
		plan.Nomination{Pod: nominatedPod("q", "a", 3), Mode: plan.Clear},
	)
	if len(changed) != 2 || changed[0].NominatedNode != "b" || changed[1].NominatedNode != "" || changed[0].Object.Status.NominatedNodeName != "a" {
		t.Errorf("changed: %+v", changed)
	}
	delta := s.Apply(nil)
	if len(delta.Events) != 2 || *delta.Events[0].OnlyUpTo != 5 || *delta.Events[1].OnlyUpTo != 3 || delta.Events[0].OldPod.NominatedNode != "a" {
		t.Errorf("events: %+v", delta.Events)
	}
	if again := s.Apply(nil); len(again.Events) > 0 {
		t.Errorf("delivered twice: %+v", again.Events)
	}
	audited(t, s)
}

// TestEvict follows a pod that is to be evicted. It is leaving until its eviction has
// failed, or until the watch shows that it is gone or terminating, for whatever reason.
func TestEvict(t *testing.T) {
	victim := func(uid, node string, parts ...func(*v1.Pod)) *model.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v", UID: types.UID(uid)}, Spec: v1.PodSpec{NodeName: node}}
		for _, part := range parts {
			part(p)
		}
		return model.NewPod(p)
	}
	ending := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	preempted := func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
	}
	done := func(kept ...*model.Pod) model.Change {
		return model.Change{Kind: model.PreemptionDone, Preemption: &model.PreemptionResult{Preemptor: victim("p", ""), Victims: []*model.Pod{victim("1", "a")}, Kept: kept}}
	}
	set := func(p *model.Pod) model.Change { return model.Change{Kind: model.PodSet, Pod: p} }
	for _, row := range []struct {
		name    string
		before  *model.Pod
		changes []model.Change
		now     *model.Pod // the pod that is checked
		leaving bool
	}{
		{"decided", victim("1", "a"), nil, victim("1", "a"), true},
		{"with its condition", victim("1", "a"), []model.Change{set(victim("1", "a", preempted))}, victim("1", "a", preempted), true},
		{"deleted for it", victim("1", "a"), []model.Change{set(victim("1", "a", preempted, ending))}, victim("1", "a", preempted, ending), true},
		{"deleted otherwise", victim("1", "a"), []model.Change{set(victim("1", "a", ending))}, victim("1", "a", ending), false},
		{"being deleted before", victim("1", "a", ending), nil, victim("1", "a", ending), false},
		{"done", victim("1", "a"), []model.Change{done()}, victim("1", "a"), true},
		{"failed", victim("1", "a"), []model.Change{done(victim("1", "a"))}, victim("1", "a"), false},
		{"gone", victim("1", "a"), []model.Change{podGone("v")}, victim("1", "a"), false},
		{"created again", victim("1", "a"), []model.Change{set(victim("2", "a"))}, victim("2", "a"), false},
		{"another of its name", victim("2", "a"), nil, victim("2", "a"), false},
		{"not there", victim("1", ""), nil, victim("1", ""), false},
		{"on another node", victim("1", "a"), []model.Change{set(victim("1", "b"))}, victim("1", "b"), false},
	} {
		s := New()
		s.Apply([]model.Change{node("a"), node("b"), set(row.before)})
		s.Evict(plan.Eviction{Pod: victim("1", "a"), NodeName: "a"})
		audited(t, s)
		for _, c := range row.changes {
			delta := s.Apply([]model.Change{c})
			if (c.Kind == model.PreemptionDone) != (len(delta.Preempted) == 1) {
				t.Errorf("%s: preempted %+v", row.name, delta.Preempted)
			}
			audited(t, s)
		}
		if got := s.View().IsLeaving(row.now); got != row.leaving {
			t.Errorf("%s: leaving = %t, want %t", row.name, got, row.leaving)
		}
	}
}

// TestEvictAssumed evicts a pod with an unsent binding: it is leaving until the binding
// fails, and not when it is assumed again.
func TestEvictAssumed(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	pod := podOn("p", "1", "", 1).Pod
	placement := plan.Placement{Pod: pod, NodeName: "a"}
	s.Assume(placement)
	s.Evict(plan.Eviction{Pod: pod, NodeName: "a"})
	if audited(t, s); !s.View().IsLeaving(pod) {
		t.Error("an assumed pod is not leaving")
	}
	s.Apply([]model.Change{bindDone(pod, "a", errors.New("preempted"))})
	s.Assume(placement)
	if audited(t, s); s.View().IsLeaving(pod) {
		t.Error("a pod is leaving a node that it has left and come back to")
	}
}
