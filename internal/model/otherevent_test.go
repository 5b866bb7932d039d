package model_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestEventResourceNamed finds resources by kube-scheduler's names.
func TestEventResourceNamed(t *testing.T) {
	for name, want := range map[string]model.EventResource{
		"Node": model.NodeEvent, "Pod": model.AnyPodEvent, "AssignedPod": model.AssignedPodEvent, "TargetPod": model.TargetPodEvent,
		"storage.k8s.io/CSINode": model.CSINodeEvent, "resource.k8s.io/ResourceClaim": model.ResourceClaimEvent, "PersistentVolumeClaim": model.PersistentVolumeClaimEvent, "*": model.AnyEvent,
	} {
		if got, other := model.EventResourceNamed(name); got != want || other != "" {
			t.Errorf("%s is resource %d, other %q", name, got, other)
		}
	}
	for _, name := range []string{"resource.k8s.io/DeviceTaintRule", "quotas.v1.example.com", ""} {
		if got, other := model.EventResourceNamed(name); got != model.OtherEvent || other != name {
			t.Errorf("%q is resource %d, other %q", name, got, other)
		}
	}
}

// TestObjects checks that hints get the same API objects as in kube-scheduler.
func TestObjects(t *testing.T) {
	node := func(name string) *model.Node {
		return model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	assumed := *pod
	assumed.NodeName = "n"
	claim := model.NewClaim(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	a, b := node("a"), node("b")
	for _, row := range []struct {
		what        string
		event       model.Event
		before, now any
	}{
		{"a node is new", model.Event{Node: a}, nil, a.Object},
		{"a node changes", model.Event{OldNode: a, Node: b}, a.Object, b.Object},
		{"a node is gone", model.Event{OldNode: a}, a.Object, nil},
		{"a pod is new", model.Event{Pod: pod}, nil, pod.Object},
		{"a claim changes", model.Event{OldObject: claim, Object: claim}, claim.Object, claim.Object},
		{"a claim is gone", model.Event{OldObject: claim}, claim.Object, nil},
		{"another object", model.Event{Other: &model.OtherChange{Old: 1, New: 2}}, 1, 2},
		{"anything", model.Event{Resource: model.AnyEvent}, nil, nil},
	} {
		if before, now := row.event.Objects(); before != row.before || now != row.now {
			t.Errorf("%s: %v and %v", row.what, before, now)
		}
	}
	before, now := (&model.Event{OldPod: &assumed}).Objects()
	if shown, ok := before.(*v1.Pod); now != nil || !ok || shown.Spec.NodeName != "n" || pod.Object.Spec.NodeName != "" {
		t.Errorf("of an assumed pod that is gone hints get %v and %v", before, now)
	}
}
