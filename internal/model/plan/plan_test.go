package plan_test

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestForPod makes and concludes attempts for a pod. Attempt and member are one
// allocation.
func TestForPod(t *testing.T) {
	pod := plan.QueuedPod{Pod: &model.Pod{Name: "p"}, Attempt: 3}
	var a *plan.Attempt
	if n := testing.AllocsPerRun(100, func() {
		a = plan.ForPod(pod)
		a.Conclude(plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{NodeName: "n"}})
	}); n != 1 {
		t.Errorf("an attempt costs %v allocations, want 1", n)
	}
	if m := &a.Members[0]; len(a.Members) != 1 || a.First() != pod.Pod || m.Attempt != 3 || a.Outcome != plan.Placed || m.Placement.NodeName != "n" {
		t.Errorf("%+v", a)
	}
}

// TestForGroup makes an attempt for the members of a group, which are undecided.
func TestForGroup(t *testing.T) {
	group := &model.PodGroup{Key: model.GroupKey{Name: "g"}}
	a := plan.ForGroup(group, nil, []plan.QueuedPod{{Pod: &model.Pod{Name: "a"}}, {Pod: &model.Pod{Name: "b"}}})
	if len(a.Members) != 2 || a.Members[1].Pod.Name != "b" || a.Members[1].Outcome != plan.Undecided || a.Root() != (model.RootKey{Key: group.Key}) {
		t.Errorf("%+v", a)
	}
}
