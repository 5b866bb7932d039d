package state

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// nominatedPod is a pending pod that is nominated to a node; an empty name means none.
func nominatedPod(name, node string, priority int32) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority},
		Status:     v1.PodStatus{NominatedNodeName: node},
	})
}

func TestNominations(t *testing.T) {
	s := New()
	apply := func(changes ...model.Change) Delta {
		defer audited(t, s)
		return s.Apply(changes)
	}
	set := func(p *model.Pod) Delta { return apply(model.Change{Kind: model.PodSet, Pod: p}) }
	for _, name := range []string{"a", "b"} {
		apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})})
	}
	nominated := func(to string, priority int32) int {
		slot, _ := s.Slot(to)
		return len(s.View().NominatedBefore(nominatedPod("asks", "", priority), slot))
	}
	set(nominatedPod("p", "a", 5))
	set(nominatedPod("q", "a", 3))
	for priority, want := range map[int32]int{2: 2, 3: 2, 4: 1, 5: 1, 6: 0} {
		if got := nominated("a", priority); got != want {
			t.Errorf("a pod of priority %d must leave room for %d, want %d", priority, got, want)
		}
	}
	delta := set(nominatedPod("p", "b", 5))
	if len(delta.Events) != 1 || *delta.Events[0].OnlyUpTo != 5 || delta.Events[0].OldPod.NominatedNode != "a" {
		t.Errorf("nominated to another node: events %+v", delta.Events)
	}
	if nominated("a", 0) != 1 || nominated("b", 0) != 1 {
		t.Error("the nomination has not moved")
	}
	if delta = set(nominatedPod("p", "b", 5)); len(delta.Events) != 0 || s.Nominated() != 2 {
		t.Errorf("the same nomination again: events %+v, %d nominations", delta.Events, s.Nominated())
	}
	s.Assume(plan.Placement{Pod: nominatedPod("p", "b", 5), NodeName: "b"})
	if delta = apply(); len(delta.Events) != 0 {
		t.Errorf("assumed on the nominated node: events %+v", delta.Events)
	}
	set(nominatedPod("r", "a", 7))
	s.Assume(plan.Placement{Pod: nominatedPod("r", "a", 7), NodeName: "b"})
	if delta = apply(); len(delta.Events) != 1 || *delta.Events[0].OnlyUpTo != 7 || len(apply().Events) != 0 {
		t.Errorf("assumed on another node than nominated: events %+v", delta.Events)
	}
	delta = apply(model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "ns", Name: "q"}})
	if len(delta.Events) != 1 || s.Nominated() != 0 || len(s.nominations.byNode) != 0 {
		t.Errorf("deleted: events %+v; left: %+v", delta.Events, s.nominations)
	}
}

// TestNominationIsTakenBackUnseen nominates a pod in memory. A version without a
// nominated node keeps that nomination, unless a version before it had the nomination
// stored already.
func TestNominationIsTakenBackUnseen(t *testing.T) {
	for _, wasNominated := range []bool{false, true} {
		s := New()
		pod := nominatedPod("p", "", 5)
		s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: pod}})
		s.Nominate(plan.Nomination{Pod: pod, Mode: plan.Set, NodeName: "a"})
		delta := s.Apply([]model.Change{{Kind: model.PodSet, Pod: nominatedPod("p", "", 5), WasNominated: wasNominated}})
		left, freed, arrived := 1, 0, "a"
		if wasNominated {
			left, freed, arrived = 0, 1, ""
		}
		if s.Nominated() != left || len(delta.Events) != freed || delta.Arrived[0].NominatedNode != arrived {
			t.Errorf("was nominated: %t: %d nominations are left, events %+v; it arrives nominated to %q", wasNominated, s.Nominated(), delta.Events, delta.Arrived[0].NominatedNode)
		}
		audited(t, s)
	}
}

// The volumes of a pod are in use while it is nominated or placed.
func TestVolumesOfNominatedPods(t *testing.T) {
	s := New()
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})}})
	pod := func(node string) *model.Pod {
		return model.NewPod(build.Pod(build.NominatedNodeName(node), build.Disks("ebs=vol-1")))
	}
	p := pod("a")
	placement := plan.Placement{Pod: p, NodeName: "a"}
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"nominated", func() { s.Apply([]model.Change{{Kind: model.PodSet, Pod: p}}) }, true},
		{"again", func() { s.Apply([]model.Change{{Kind: model.PodSet, Pod: p}}) }, true},
		{"assumed", func() { s.Assume(placement) }, true},
		{"no longer", func() { s.Unassume(placement) }, true},
		{"not nominated", func() { s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod("")}}) }, false},
		{"assumed without nomination", func() { s.Assume(plan.Placement{Pod: pod(""), NodeName: "a"}) }, true},
		{"gone", func() { s.Apply([]model.Change{{Kind: model.PodGone, Key: p.Key()}}) }, false},
	} {
		step.do()
		if got := s.storage.InUse("ebs.csi.aws.com", "vol-1"); got != step.want {
			t.Errorf("%s: in use = %t, want %t", step.name, got, step.want)
		}
	}
	if n := s.storage.Sizes().Used; n != 0 {
		t.Errorf("%d volumes are in use without a pod", n)
	}
}

// TestNominationEndsWithThePlacement fails the binding of a pod that was nominated: it is
// retried without the nomination, whether or not the API shows it.
func TestNominationEndsWithThePlacement(t *testing.T) {
	for _, shown := range []string{"", "a"} {
		s := New()
		s.Apply([]model.Change{node("a")})
		object := podOn("p", "p", "", 1).Pod.Object
		object.Status.NominatedNodeName = shown
		pod := model.NewPod(object)
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
		for _, changed := range s.Nominate(plan.Nomination{Pod: pod, Mode: plan.Set, NodeName: "a"}) {
			pod = changed
		}
		s.Assume(plan.Placement{Pod: pod, NodeName: "a"})
		delta := s.Apply([]model.Change{bindDone(pod, "a", errors.New("refused"))})
		if len(delta.Failed) != 1 || delta.Failed[0].Pod.NominatedNode != "" || s.Nominated() != 0 {
			t.Errorf("shown on %q: %+v is to be tried again, %d pods are nominated", shown, delta.Failed, s.Nominated())
		}
		audited(t, s)
	}
}
