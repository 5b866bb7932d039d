package plugged

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// These scripts have their own QueueSort plugins, so other scripts' pods neither wake
// theirs nor precede them.
var sortScripts = map[string]script{
	"qos": {nodes: 1, sort: "QOSSort", plugins: `{multiPoint: {enabled: [{name: Record}]}}`, run: qosScript},
	"topological": {nodes: 1, sort: "TopologicalSort", plugins: `{multiPoint: {enabled: [{name: Record}]}}`,
		config: args("TopologicalSort", "namespaces: [topological-upstream, topological-berth-01]"), objects: orderedApplication, run: topologicalScript},
	"gangs": {nodes: 1, sort: "Coscheduling", plugins: coschedulingPoints, config: args("Coscheduling", "permitWaitingTimeSeconds: 60"), run: gangsScript},
}

// qosScript has a burstable and a guaranteed pod wait for a node with room for one.
func qosScript(ctx context.Context, s *stage) error {
	return s.firstOf(ctx, "pod-1", s.pod("pod-0", 20), s.pod("pod-1", 20, guaranteed))
}

// firstOf has pods wait for the script's node, with room for one of them. The first in
// queue order is bound, and the others stay pending.
func (s *stage) firstOf(ctx context.Context, first string, pods ...*v1.Pod) error {
	const open = "plugged.example.com/open"
	for _, pod := range pods {
		pod.Spec.NodeSelector[open] = s.namespace
		if err := s.create(ctx, pod); err != nil {
			return err
		}
	}
	for _, pod := range pods {
		if err := s.parked(ctx, pod.Name); err != nil {
			return err
		}
	}
	if err := s.labelNode(ctx, s.nodes[0], open, s.namespace); err != nil {
		return err
	}
	if err := s.bound(ctx, first); err != nil {
		return err
	}
	for _, pod := range pods {
		if pod.Name == first {
			continue
		}
		if err := s.pending(ctx, pod.Name, "Insufficient cpu"); err != nil {
			return err
		}
	}
	return nil
}

// group creates a PodGroup of Coscheduling.
func (s *stage) group(ctx context.Context, name string, members int64) error {
	_, err := s.dynamic.Resource(podGroups).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": podGroups.GroupVersion().String(), "kind": "PodGroup",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": members},
	}}, metav1.CreateOptions{})
	return err
}

// member returns a pod of a PodGroup.
func (s *stage) member(group string, i int, cpus int64) *v1.Pod {
	return s.pod(fmt.Sprintf("%s-%d", group, i), cpus, labelled("scheduling.x-k8s.io/pod-group", group))
}

// gangsScript has a group whose members are rejected until the last is created. The last
// waits at Permit and activates the others through the CycleState; no event wakes them. A
// second group is rejected while it waits, because a member finds no room. It starts when
// another pod has left.
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

// shortGang has a group without room until another pod has left.
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
	// A member that is not back in the queue yet is not activated by another:
	// Coscheduling then leaves the gang asleep. The event comes after the member is back.
	for _, name := range []string{"short-0", "short-1"} {
		if _, err := s.rejections(ctx, name, "optimistic rejection in PostFilter", "Insufficient cpu"); err != nil {
			return err
		}
	}
	if err := s.remove(ctx, "blocker"); err != nil {
		return err
	}
	defer s.wake(ctx, "short")()
	return s.bound(ctx, "short-0", "short-1", "short-2")
}

// wake updates a PodGroup every few seconds, an event that Coscheduling registers for,
// until the returned function is called. kube-scheduler loses the activation of a member
// that is being decided about at that moment, so the gang may sleep for minutes.
func (s *stage) wake(ctx context.Context, group string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Second):
			}
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"plugged.example.com/updates":"%d"}}}`, i)
			// A failed update is not an error of the script: the next one follows.
			_, _ = s.dynamic.Resource(podGroups).Namespace(s.namespace).Patch(ctx, group, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
