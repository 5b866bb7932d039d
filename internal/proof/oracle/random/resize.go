package random

import (
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
)

// setResize gives a pod the status of a resize at a random stage. It may be reported per
// container, for the pod, or partly; it may be pending for a reason.
func setResize(r *rand.Rand, p *v1.Pod) {
	p.Status.ContainerStatuses = containerStatuses(r, p.Spec.Containers)
	p.Status.InitContainerStatuses = containerStatuses(r, p.Spec.InitContainers)
	p.Status.AllocatedResources, p.Status.Resources = nil, nil
	if chance(r, 40) {
		p.Status.AllocatedResources = statusList(r)
	}
	if chance(r, 40) {
		p.Status.Resources = &v1.ResourceRequirements{Requests: statusList(r)}
	}
	p.Status.Conditions = nil
	if chance(r, 50) {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: pick(r, v1.PodReasonInfeasible, v1.PodReasonDeferred),
		}}
	}
}

// containerStatuses leaves out some containers: not all have started.
func containerStatuses(r *rand.Rand, containers []v1.Container) []v1.ContainerStatus {
	var all []v1.ContainerStatus
	for _, c := range containers {
		if chance(r, 20) {
			continue
		}
		s := v1.ContainerStatus{Name: c.Name, Image: c.Image, AllocatedResources: statusList(r)}
		if chance(r, 60) {
			s.Resources = &v1.ResourceRequirements{Requests: statusList(r)}
		}
		all = append(all, s)
	}
	return all
}

// statusList may be nil, which differs from empty: nil is no report, empty reports that
// nothing is allocated.
func statusList(r *rand.Rand) v1.ResourceList {
	if chance(r, 20) {
		return nil
	}
	list := v1.ResourceList{}
	set(r, list, 85, v1.ResourceCPU, "0", "100m", "250m", "500m", "1", "2")
	set(r, list, 75, v1.ResourceMemory, "0", "64Mi", "200Mi", "512Mi", "1Gi")
	return list
}
