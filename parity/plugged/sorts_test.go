package plugged

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// These scripts run with an order of the queue of their own, so that pods of other scripts neither
// wake theirs nor stand before them.
var sortScripts = map[string]script{
	"qos":   {nodes: 1, sort: "QOSSort", plugins: `{multiPoint: {enabled: [{name: Record}]}}`, run: qosScript},
	"gangs": {nodes: 1, sort: "Coscheduling", plugins: coschedulingPoints, config: args("Coscheduling", "permitWaitingTimeSeconds: 60"), run: gangsScript},
}

// qosScript has a burstable and a guaranteed pod wait for one node whose room suffices for either.
func qosScript(ctx context.Context, s *stage) error {
	const open = "plugged.example.com/qos"
	for i, change := range []func(*v1.Pod){func(*v1.Pod) {}, guaranteed} {
		pod := s.pod(fmt.Sprintf("pod-%d", i), 20, change)
		pod.Spec.NodeSelector[open] = s.namespace
		if err := s.create(ctx, pod); err != nil {
			return err
		}
	}
	if err := s.parked(ctx, "pod-0", "pod-1"); err != nil {
		return err
	}
	if err := s.labelNode(ctx, s.nodes[0], open, s.namespace); err != nil {
		return err
	}
	if err := s.bound(ctx, "pod-1"); err != nil {
		return err
	}
	return s.pending(ctx, "pod-0", "Insufficient cpu")
}

// group creates a PodGroup of Coscheduling.
func (s *stage) group(ctx context.Context, name string, members int64) error {
	_, err := s.dynamic.Resource(podGroups).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": podGroups.GroupVersion().String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": members},
	}}, metav1.CreateOptions{})
	return err
}

// member is a pod of a PodGroup.
func (s *stage) member(group string, i int, cpus int64) *v1.Pod {
	return s.pod(fmt.Sprintf("%s-%d", group, i), cpus, labelled("scheduling.x-k8s.io/pod-group", group))
}

// gangsScript has a group whose members are refused until the last one comes, which then waits at
// Permit and activates the others through the CycleState: no event wakes them. A second group is
// let go while it waits, because a member finds no room, and starts when another pod has left.
func gangsScript(ctx context.Context, s *stage) error {
	for _, name := range []string{"late", "short"} {
		if err := s.group(ctx, name, 3); err != nil {
			return err
		}
	}
	for i := range 2 {
		if err := s.create(ctx, s.member("late", i, 1)); err != nil {
			return err
		}
		if err := s.pending(ctx, fmt.Sprintf("late-%d", i), fmt.Sprintf("current pods number: %d, minMember of group: 3", i+1)); err != nil {
			return err
		}
	}
	if err := s.create(ctx, s.member("late", 2, 1)); err != nil {
		return err
	}
	if err := s.bound(ctx, "late-0", "late-1", "late-2"); err != nil {
		return err
	}
	return s.shortGang(ctx)
}

// shortGang has a group without room before another pod has left.
func (s *stage) shortGang(ctx context.Context) error {
	if err := s.create(ctx, s.pod("blocker", 14)); err != nil {
		return err
	}
	if err := s.bound(ctx, "blocker"); err != nil {
		return err
	}
	if err := s.create(ctx, s.member("short", 0, 6), s.member("short", 1, 6), s.member("short", 2, 6)); err != nil {
		return err
	}
	if err := s.preempts(ctx, "short-2", "optimistic rejection in PostFilter"); err != nil {
		return err
	}
	if err := s.remove(ctx, "blocker"); err != nil {
		return err
	}
	return s.bound(ctx, "short-0", "short-1", "short-2")
}
