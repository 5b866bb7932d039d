package kubelet

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// admitted reports whether a pod's status shows that its node admitted it and that it has
// not ended.
func admitted(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodRunning || pod.Status.Phase == v1.PodPending && pod.Status.StartTime != nil
}

func finished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// startable reports whether there is anything to do for a pod.
func startable(pod *v1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && pod.Status.Phase == v1.PodPending
}

// refused returns the status of a pod that its node refuses.
func refused(pod *v1.Pod, reason, message string, now metav1.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.Phase, status.Reason, status.Message = v1.PodFailed, reason, "Pod was rejected: "+message
	status.StartTime = &now
	return status
}

// waiting returns the status of an admitted pod that cannot start yet.
func waiting(pod *v1.Pod, hosts []v1.HostIP, now metav1.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	setHosts(&status, hosts)
	status.StartTime = &now

	unready := notReady("ContainersNotReady", "unready", pod.Spec.Containers)
	initialized := v1.PodCondition{Status: v1.ConditionTrue}
	state := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	if len(pod.Spec.InitContainers) > 0 {
		initialized = notReady("ContainersNotInitialized", "incomplete", pod.Spec.InitContainers)
		state.Waiting.Reason = "PodInitializing"
	}
	set(&status, pod, now, v1.PodReadyToStartContainers, v1.PodCondition{Status: v1.ConditionFalse})
	set(&status, pod, now, v1.PodInitialized, initialized)
	set(&status, pod, now, v1.PodReady, unready)
	set(&status, pod, now, v1.ContainersReady, unready)
	status.InitContainerStatuses = containers(pod.Spec.InitContainers, func(v1.Container, *v1.ContainerStatus) v1.ContainerState { return state })
	status.ContainerStatuses = containers(pod.Spec.Containers, func(v1.Container, *v1.ContainerStatus) v1.ContainerState { return state })
	return status
}

// running returns the status of a pod with running containers. Its readiness gates are
// true too, because no other component sets them here.
func running(pod *v1.Pod, hosts []v1.HostIP, ips []v1.PodIP, now metav1.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	status.Phase = v1.PodRunning
	if status.StartTime == nil {
		status.StartTime = &now
	}
	setHosts(&status, hosts)
	status.PodIPs, status.PodIP = ips, ips[0].IP

	yes := v1.PodCondition{Status: v1.ConditionTrue}
	for _, kind := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady} {
		set(&status, pod, now, kind, yes)
	}
	for _, gate := range pod.Spec.ReadinessGates {
		set(&status, pod, now, gate.ConditionType, yes)
	}
	runs := v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}}
	ended := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
	status.InitContainerStatuses = containers(pod.Spec.InitContainers, func(c v1.Container, s *v1.ContainerStatus) v1.ContainerState {
		s.Ready = true
		if c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways {
			return ended
		}
		s.Started = new(true)
		return runs
	})
	status.ContainerStatuses = containers(pod.Spec.Containers, func(_ v1.Container, s *v1.ContainerStatus) v1.ContainerState {
		s.Ready, s.Started = true, new(true)
		return runs
	})
	return status
}

func setHosts(status *v1.PodStatus, hosts []v1.HostIP) {
	status.HostIPs, status.HostIP = hosts, hosts[0].IP
}

// containers returns a status for every container. state returns its state and may change
// the rest.
func containers(specs []v1.Container, state func(v1.Container, *v1.ContainerStatus) v1.ContainerState) []v1.ContainerStatus {
	var list []v1.ContainerStatus
	for _, c := range specs {
		s := v1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(false)}
		s.State = state(c, &s)
		list = append(list, s)
	}
	return list
}

// notReady returns a condition that names the unready containers.
func notReady(reason, what string, specs []v1.Container) v1.PodCondition {
	var names []string
	for _, c := range specs {
		names = append(names, c.Name)
	}
	return v1.PodCondition{Status: v1.ConditionFalse, Reason: reason, Message: fmt.Sprintf("containers with %s status: %v", what, names)}
}

// set sets a condition. Its transition time changes only with its status.
func set(status *v1.PodStatus, pod *v1.Pod, now metav1.Time, kind v1.PodConditionType, condition v1.PodCondition) {
	condition.Type, condition.ObservedGeneration, condition.LastTransitionTime = kind, pod.Generation, now
	i := slices.IndexFunc(status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if status.Conditions[i].Status == condition.Status {
		condition.LastTransitionTime = status.Conditions[i].LastTransitionTime
	}
	status.Conditions[i] = condition
}
