package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// namesOn returns the names of the pods on a node, sorted.
func namesOn(s *State, node string) (names []string) {
	slot, _ := s.Slot(node)
	for pod := range s.View().PodsOn(slot) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// TestDisplacedPodsComeBack displaces bound and assumed pods and pods on a deleted node.
// While they are displaced nothing counts them. Afterwards everything is as before, and
// an assumed pod has kept its holds. Only the journal shows their nodes.
func TestDisplacedPodsComeBack(t *testing.T) {
	s := New()
	waiting := memberOn("w", "g", "")
	s.Apply([]model.Change{
		node("a"), compiled(groupOf("g", "u", 2)), podOn("p", "p", "a", 7), podOn("ghost", "ghost", "gone", 1), {Kind: model.PodSet, Pod: memberOn("m", "g", "a")}, {Kind: model.PodSet, Pod: waiting},
	})
	held := model.Ref{Name: "volume"}
	s.Assume(plan.Placement{Pod: waiting, NodeName: "a", Holds: []plan.Hold{{Plugin: "X", Object: held, Value: numbered(1)}}})
	var pods []*model.Pod
	for _, p := range s.placed {
		pods = append(pods, p.pod)
	}
	slot, _ := s.Slot("a")
	usage := func() string {
		return fmt.Sprint(namesOn(s, "a"), s.Assumed(), s.View().GroupPlaced(model.GroupKey{Namespace: "ns", Name: "g"}), s.View().PodsBelow(8), *s.View().Node(slot).Used(), s.View().Node(slot).PodCount(), len(s.placed))
	}
	before, journal := usage(), s.journal.version()
	s.Displace(pods...)
	if got := namesOn(s, "a"); len(got) != 0 || s.Assumed() != 0 || len(s.placed) != 0 || s.View().PodsBelow(8) {
		t.Errorf("on node a are %v, %d are assumed and %d placed", got, s.Assumed(), len(s.placed))
	}
	if s.Audit() == nil {
		t.Error("pods are displaced, and the audit is silent")
	}
	if len(s.View().Holders(held)) != 1 {
		t.Error("a displaced pod has lost what it holds")
	}
	s.Return(pods...)
	if got := usage(); got != before {
		t.Errorf("with the pods back: %s, before: %s", got, before)
	}
	if s.journal.version() == journal {
		t.Error("the journal does not name the node")
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
	if events := s.Apply(nil).Events; slices.ContainsFunc(events, func(e model.Event) bool { return e.Action == model.Delete }) {
		t.Errorf("events %v", events)
	}
}

// TestPreemptionPriority checks that the priority of a member's group counts, if the
// group exists.
func TestPreemptionPriority(t *testing.T) {
	s := New()
	high := groupOf("high", "u", 1)
	high.Priority = 9
	s.Apply([]model.Change{
		node("a"), compiled(high), {Kind: model.PodSet, Pod: memberOn("m", "high", "a")}, {Kind: model.PodSet, Pod: memberOn("o", "unknown", "a")}, podOn("p", "p", "a", 4),
	})
	for _, p := range s.placed {
		want := p.pod.Priority
		if p.pod.Name == "m" {
			want = 9
		}
		if got := s.View().PreemptionPriority(p.pod); got != want {
			t.Errorf("pod %s has the priority %d, want %d", p.pod, got, want)
		}
	}
}

// TestUnitsBelow compares a priority with the priorities of pods on nodes and of their
// groups.
func TestUnitsBelow(t *testing.T) {
	s := New()
	low := groupOf("low", "u", 1)
	low.Priority = -5
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: memberOn("m", "low", "a")}})
	for i, step := range []struct {
		changes  []model.Change
		priority int32
		want     bool
	}{
		{nil, 0, false}, {nil, 1, true}, {[]model.Change{compiled(low)}, 0, true}, {nil, -4, true}, {nil, -5, false},
	} {
		s.Apply(step.changes)
		if got := s.View().UnitsBelow(step.priority); got != step.want {
			t.Errorf("step %d: some are below %d: %t", i, step.priority, got)
		}
	}
}
