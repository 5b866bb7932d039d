package state

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// promisedPod is a pending pod that was promised a node, none if it is empty.
func promisedPod(name, node string, priority int32) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority},
		Status:     v1.PodStatus{NominatedNodeName: node},
	})
}

func TestNominations(t *testing.T) {
	s := New()
	apply := func(changes ...model.Change) Delta { return s.Apply(changes) }
	set := func(p *model.Pod) Delta { return apply(model.Change{Kind: model.PodSet, Pod: p}) }
	for _, name := range []string{"a", "b"} {
		apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})})
	}
	promised := func(to string, priority int32) int {
		slot, _ := s.Slot(to)
		return len(s.PromisedBefore(promisedPod("asks", "", priority), slot))
	}
	set(promisedPod("p", "a", 5))
	set(promisedPod("q", "a", 3))
	for priority, want := range map[int32]int{2: 2, 3: 2, 4: 1, 5: 1, 6: 0} {
		if got := promised("a", priority); got != want {
			t.Errorf("a pod of priority %d must leave room for %d, want %d", priority, got, want)
		}
	}
	delta := set(promisedPod("p", "b", 5))
	if len(delta.Events) != 1 || *delta.Events[0].OnlyUpTo != 5 || delta.Events[0].OldPod.NominatedNode != "a" {
		t.Errorf("promised another node: events %+v", delta.Events)
	}
	if promised("a", 0) != 1 || promised("b", 0) != 1 {
		t.Error("the promise has not moved")
	}
	if delta = set(promisedPod("p", "b", 5)); len(delta.Events) != 0 || s.Nominated() != 2 {
		t.Errorf("the same promise again: events %+v, %d promises", delta.Events, s.Nominated())
	}
	s.Assume(plan.Placement{QueuedPod: plan.QueuedPod{Pod: promisedPod("p", "b", 5)}, NodeName: "b"})
	if delta = apply(); len(delta.Events) != 0 {
		t.Errorf("it got what it was promised: events %+v", delta.Events)
	}
	set(promisedPod("r", "a", 7))
	s.Assume(plan.Placement{QueuedPod: plan.QueuedPod{Pod: promisedPod("r", "a", 7)}, NodeName: "b"})
	if delta = apply(); len(delta.Events) != 1 || *delta.Events[0].OnlyUpTo != 7 || len(apply().Events) != 0 {
		t.Errorf("it got another node than it was promised: events %+v", delta.Events)
	}
	delta = apply(model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "ns", Name: "q"}})
	if len(delta.Events) != 1 || s.Nominated() != 0 || len(s.nominations.byNode) != 0 {
		t.Errorf("deleted: events %+v; left: %+v", delta.Events, s.nominations)
	}
}

// TestTryLeavesNothingBehind tries a pod and looks at what is counted while it is tried and afterwards.
func TestTryLeavesNothingBehind(t *testing.T) {
	s := New()
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})}})
	slot, _ := s.Slot("a")
	version := s.Version()
	pod := promisedPod("p", "a", 0)
	pod.Occupies.CPUMilli, pod.Ports = 100, []model.HostPort{{Port: 80, Protocol: v1.ProtocolTCP, IP: model.AnyIP}}
	s.Try(slot, []*model.Pod{pod}, func() {
		n := s.Node(slot)
		if n.Used().CPUMilli != 100 || n.PodCount() != 1 || !n.PortInUse(pod.Ports[0]) || len(s.Trial().Pods) != 1 {
			t.Error("the pod is not there while it is tried")
		}
	})
	n := s.Node(slot)
	if n.Used().CPUMilli != 0 || n.PodCount() != 0 || n.PortInUse(pod.Ports[0]) || len(s.Trial().Pods) != 0 || s.Version() != version || s.Pods() != 0 {
		t.Error("something was left behind")
	}
}
