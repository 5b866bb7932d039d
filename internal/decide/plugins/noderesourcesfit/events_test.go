package noderesourcesfit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func nodeEvent(action model.Action, before, after string) model.Event {
	e := model.Event{Resource: model.NodeEvent, Action: action, Node: model.NewNode(nodeOf(after))}
	if action != model.Add {
		e.OldNode = model.NewNode(nodeOf(before))
	}
	return e
}

// scaleDown is an event about a pod that requests less than before.
func scaleDown(resource model.EventResource, nodeName, before, after string) model.Event {
	a, b := podOf(before), podOf(after)
	a.Spec.NodeName, b.Spec.NodeName = nodeName, nodeName
	return model.Event{Resource: resource, Action: model.UpdatePodScaleDown, OldPod: model.NewPod(a), Pod: model.NewPod(b)}
}

func deleted(nodeName, nominated string) model.Event {
	p := podOf("")
	p.Spec.NodeName, p.Status.NominatedNodeName = nodeName, nominated
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(p)}
}

// The numbered rows come from design/rules/resources.md#fit-events.
func TestEventsToRegister(t *testing.T) {
	const (
		add, grow     = model.Add, model.UpdateNodeAllocatable
		assigned, own = model.AssignedPodEvent, model.TargetPodEvent
	)
	for _, row := range []struct {
		name    string
		waiting string
		event   model.Event
		queue   bool
	}{
		{"1", "cpu=2", nodeEvent(add, "", "pods=9 cpu=1"), false},
		{"2", "cpu=2", nodeEvent(add, "", "pods=9 cpu=4"), true},
		{"3", "cpu=2", nodeEvent(grow, "pods=9 cpu=4", "pods=9 cpu=8"), true},
		{"4", "cpu=2", nodeEvent(grow, "pods=9 cpu=4 memory=1Gi", "pods=9 cpu=4 memory=2Gi"), false},
		{"5", "cpu=2", nodeEvent(grow, "pods=10 cpu=4", "pods=11 cpu=4"), true},
		{"6 cpu up", "", nodeEvent(grow, "pods=9 cpu=4", "pods=9 cpu=8"), false},
		{"6 pods up", "", nodeEvent(grow, "pods=9 cpu=4", "pods=10 cpu=4"), true},
		{"7", "cpu=1 nvidia.com/gpu=1", nodeEvent(add, "", "pods=9 cpu=64"), false},
		{"8", "cpu=2", deleted("n", ""), true},
		{"9", "memory=1Gi", scaleDown(assigned, "n", "cpu=2", "cpu=1"), false},
		{"a nominated pod gone", "cpu=2", deleted("", "n"), true},
		{"a pod gone that was nowhere", "cpu=2", deleted("", ""), false},
		{"no pods allowed", "", nodeEvent(add, "", "cpu=1"), false},
		{"nothing asked", "", nodeEvent(add, "", "pods=1"), true},
		{"grown but still too small", "cpu=9", nodeEvent(grow, "pods=9 cpu=4", "pods=9 cpu=8"), false},
		{"more pods but too small", "cpu=9", nodeEvent(grow, "pods=9 cpu=4", "pods=10 cpu=4"), false},
		{"shrunk", "cpu=2", nodeEvent(grow, "pods=9 cpu=8", "pods=9 cpu=4"), false},
		{"memory grown", "memory=1Gi", nodeEvent(grow, "pods=9 memory=1Gi", "pods=9 memory=2Gi"), true},
		{"ephemeral grown", "ephemeral-storage=1", nodeEvent(grow, "pods=9", "pods=9 ephemeral-storage=1"), true},
		{"scalar grown", "example.com/gpu=1", nodeEvent(grow, "pods=9 example.com/gpu=1", "pods=9 example.com/gpu=2"), true},
		{"scalar grown, zero asked", "example.com/gpu=0", nodeEvent(grow, "pods=9", "pods=9 example.com/gpu=2"), false},
		{"a label", "cpu=1", nodeEvent(model.UpdateNodeLabel, "pods=9 cpu=4", "pods=9 cpu=8"), false},
		{"cpu freed", "cpu=1", scaleDown(assigned, "n", "cpu=2", "cpu=1"), true},
		{"scalar freed", "example.com/gpu=1", scaleDown(assigned, "n", "example.com/gpu=2", "example.com/gpu=1"), true},
		{"scalar vanished", "example.com/gpu=1", scaleDown(assigned, "n", "example.com/gpu=2", ""), true},
		{"freed nowhere", "cpu=1", scaleDown(assigned, "", "cpu=2", "cpu=1"), false},
		{"own request reduced", "memory=1Gi", scaleDown(own, "", "cpu=2", "cpu=1"), true},
	} {
		waiting, queue := model.NewPod(podOf(row.waiting)), false
		for _, i := range newPlugin(t, nil).EventsToRegister() {
			queue = queue || i.Helps(waiting, row.event)
		}
		if queue != row.queue {
			t.Errorf("%s: queue %v, want %v", row.name, queue, row.queue)
		}
	}
}

// Hints leave out ignored resources. kube-scheduler's hints check them, row 7 of
// design/rules/resources.md#fit-events.
func TestHintsLeaveOutIgnoredResources(t *testing.T) {
	for _, args := range []*configv1.NodeResourcesFitArgs{
		{IgnoredResources: []string{"nvidia.com/gpu"}}, {IgnoredResourceGroups: []string{"nvidia.com"}},
	} {
		p := newPlugin(t, args)
		for _, row := range []struct {
			name  string
			pod   string
			event model.Event
			want  bool
		}{
			{"a node without the ignored resource", "cpu=1 nvidia.com/gpu=1", nodeEvent(model.Add, "", "pods=9 cpu=64"), true},
			{"a node that grows without it", "cpu=1 nvidia.com/gpu=1", nodeEvent(model.UpdateNodeAllocatable, "pods=9", "pods=9 cpu=64"), true},
			{"a node with more of it alone", "cpu=1 nvidia.com/gpu=1",
				nodeEvent(model.UpdateNodeAllocatable, "pods=9 cpu=64", "pods=9 cpu=64 nvidia.com/gpu=8"), false},
			{"a node without another resource", "cpu=1 example.com/gpu=1", nodeEvent(model.Add, "", "pods=9 cpu=64"), false},
		} {
			if got := plugintest.Helped(t, p, model.NewPod(podOf(row.pod)), row.event); got != row.want {
				t.Errorf("%s: helps %t, want %t", row.name, got, row.want)
			}
		}
	}
}

// Row 10 of design/rules/resources.md#fit-events: usage falls when the allocated and
// actual resources have fallen, not when the spec has.
func TestScaleDownFollowsStatus(t *testing.T) {
	resized := func(spec, actual string) *model.Pod {
		p := podOf(spec)
		p.Spec.NodeName = "n"
		p.Status.ContainerStatuses = []v1.ContainerStatus{{
			Name: "c0", AllocatedResources: list(actual), Resources: &v1.ResourceRequirements{Requests: list(actual)},
		}}
		return model.NewPod(p)
	}
	for _, row := range []struct {
		name   string
		before *model.Pod
		after  *model.Pod
		want   model.Action
	}{
		{"10", resized("cpu=2", "cpu=2"), resized("cpu=1", "cpu=2"), model.Update},
		{"then", resized("cpu=1", "cpu=2"), resized("cpu=1", "cpu=1"), model.UpdatePodScaleDown},
	} {
		if got := model.PodUpdates(row.before, row.after); len(got) != 1 || got[0] != row.want {
			t.Errorf("%s: updates %b, want %b", row.name, got, row.want)
		}
	}
}
