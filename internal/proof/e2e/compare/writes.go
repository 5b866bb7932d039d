package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// write is one request that changes an object. Responses are not decoded.
type write func(ctx context.Context, client kubernetes.Interface) error

// bind binds a pod to a node.
func bind(pod *v1.Pod, node string) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		binding := &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: node},
		}
		if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind %s to %s: %w", pod.Name, node, err)
		}
		return nil
	}
}

// protect keeps a claim from being deleted while it has devices.
func protect(namespace, claim string) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		err := client.ResourceV1().RESTClient().Patch(types.MergePatchType).Namespace(namespace).Resource("resourceclaims").Name(claim).
			Body(fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, resourcev1.Finalizer)).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("protect claim %s: %w", claim, err)
		}
		return nil
	}
}

// allocate allocates devices to a claim, and reserves it for a pod.
func allocate(pod *v1.Pod, claim string, allocation *resourcev1.AllocationResult) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		patch, err := json.Marshal(map[string]any{"status": resourcev1.ResourceClaimStatus{
			Allocation:  allocation,
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
		}})
		if err == nil {
			err = client.ResourceV1().RESTClient().Patch(types.MergePatchType).Namespace(pod.Namespace).Resource("resourceclaims").Name(claim).
				SubResource("status").Body(patch).Do(ctx).Error()
		}
		if err != nil {
			return fmt.Errorf("allocate claim %s: %w", claim, err)
		}
		return nil
	}
}

// remove deletes a pod with its own grace period.
func remove(pod *v1.Pod) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		err := client.CoreV1().RESTClient().Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(options).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("delete %s: %w", pod.Name, err)
		}
		return nil
	}
}

// setPending writes the unschedulable condition of a pod, and its nominated node if any.
func setPending(pod *v1.Pod, message, nominated string) write {
	status := map[string]any{"conditions": []v1.PodCondition{{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: message,
	}}}
	if nominated != "" {
		status["nominatedNodeName"] = nominated
	}
	return setStatus(pod, status)
}

// setExpected writes the node to which a pod is going to be bound, once its claim is.
func setExpected(pod *v1.Pod, node string) write {
	return setStatus(pod, map[string]any{"nominatedNodeName": node})
}

// setDisrupted writes the condition that a pod is preempted.
func setDisrupted(pod *v1.Pod) write {
	return setStatus(pod, map[string]any{"conditions": []v1.PodCondition{{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message: "round-robin: preempting to accommodate a higher priority pod",
	}}})
}

// setStatus patches the status of a pod. The transition time of all its conditions is
// now.
func setStatus(pod *v1.Pod, status map[string]any) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		conditions, _ := status["conditions"].([]v1.PodCondition)
		for i := range conditions {
			conditions[i].LastTransitionTime, conditions[i].ObservedGeneration = metav1.Now(), pod.Generation
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
		if err == nil {
			err = client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
				SubResource("status").Body(patch).Do(ctx).Error()
		}
		if err != nil {
			return fmt.Errorf("write the status of %s: %w", pod.Name, err)
		}
		return nil
	}
}

// record writes an event.
func record(event *eventsv1.Event) write {
	return func(ctx context.Context, client kubernetes.Interface) error {
		if err := client.EventsV1().RESTClient().Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error(); err != nil {
			return fmt.Errorf("write the event %s of %s: %w", event.Reason, event.Regarding.Name, err)
		}
		return nil
	}
}

func scheduled(pod *v1.Pod, node string) *eventsv1.Event {
	return event(pod, v1.EventTypeNormal, "Scheduled", "Binding", fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node))
}

func failedScheduling(pod *v1.Pod, message string) *eventsv1.Event {
	return event(pod, v1.EventTypeWarning, "FailedScheduling", "Scheduling", message)
}

func preempted(victim, preemptor *v1.Pod, node string) *eventsv1.Event {
	return event(victim, v1.EventTypeNormal, "Preempted", "Preempting", fmt.Sprintf("Preempted by pod %s on node %s", preemptor.UID, node))
}

// event returns an event about a pod, with the present time.
func event(pod *v1.Pod, kind, reason, action, note string) *eventsv1.Event {
	now := time.Now()
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano())},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: "round-robin",
		ReportingInstance:   "round-robin-compare",
		Action:              action,
		Reason:              reason,
		Type:                kind,
		Note:                note,
		Regarding: v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		},
	}
}
