package schedulinggates

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

func gated(names ...string) *model.Pod {
	object := &v1.Pod{Spec: v1.PodSpec{SchedulingGates: []v1.PodSchedulingGate{}}}
	for _, name := range names {
		object.Spec.SchedulingGates = append(object.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
	}
	return model.NewPod(object)
}

func TestPreEnqueue(t *testing.T) {
	for _, row := range []struct {
		name string
		pod  *model.Pod
		want string
	}{
		{"two gates", gated("a", "b"), "waiting for scheduling gates: [a b]"},
		{"spec order", gated("b", "a"), "waiting for scheduling gates: [b a]"},
		{"one gate left", gated("b"), "waiting for scheduling gates: [b]"},
		{"empty list", gated(), ""},
		{"no list", model.NewPod(&v1.Pod{}), ""},
	} {
		if got := New().PreEnqueue(row.pod); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
}

func TestEventsToRegister(t *testing.T) {
	ab, b, none := gated("a", "b"), gated("b"), gated()
	for _, row := range []struct {
		name          string
		before, after *model.Pod
		want          bool
	}{
		{"one of two removed", ab, b, false},
		{"the last removed", b, none, true},
		{"both removed", ab, none, true},
	} {
		helps := false
		for _, action := range model.PodUpdates(row.before, row.after) {
			event := model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: row.before, Pod: row.after}
			for _, registration := range New().EventsToRegister() {
				helps = helps || registration.Helps(row.after, event)
			}
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
	added := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{})}
	for _, registration := range New().EventsToRegister() {
		if registration.Helps(ab, added) {
			t.Error("a new node removes a scheduling gate")
		}
	}
}
