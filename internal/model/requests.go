package model

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Defaults that scoring assumes for each container without requests.
const (
	DefaultCPUMilli    int64 = 100
	DefaultMemoryBytes int64 = 200 * 1024 * 1024
)

// Occupied returns the resources that a pod occupies on its node: the maximum of
// requested, allocated and actuated amounts, with pod-level requests and overhead.
func Occupied(pod *v1.Pod) Resources {
	return ResourcesOf(occupiedList(pod))
}

func occupiedList(pod *v1.Pod) v1.ResourceList {
	return podRequests(pod, statusAware())
}

// Asked returns the resources that a pending pod requests from a node, by its spec, with
// pod-level requests and overhead.
func Asked(pod *v1.Pod) Resources { return ResourcesOf(askedList(pod)) }

func askedList(pod *v1.Pod) v1.ResourceList {
	return podRequests(pod, resourcehelper.PodResourcesOptions{})
}

// Scored returns the request used by NodeResourcesFit to score a pending pod: container
// requests with defaults, and overhead. As in kube-scheduler 1.37, pod-level requests are
// ignored.
func Scored(pod *v1.Pod) Resources {
	return ResourcesOf(podRequests(pod, resourcehelper.PodResourcesOptions{
		SkipPodLevelResources:       true,
		NonMissingContainerRequests: containerDefaults(true, true),
	}))
}

// ScoredAsPod is Scored with pod-level requests instead of container requests, for each
// resource that has them.
func ScoredAsPod(pod *v1.Pod) Resources {
	return ResourcesOf(podRequests(pod, resourcehelper.PodResourcesOptions{NonMissingContainerRequests: containerDefaults(true, true)}))
}

// NonZero returns the cpu and memory that scoring assumes a pod on a node occupies:
// Occupied, with a default for each container without requests. If the pod has pod-level
// requests, defaults apply only to resources without a pod-level request.
func NonZero(pod *v1.Pod) (cpuMilli, memoryBytes int64) {
	opts := statusAware()
	if !resourcehelper.IsPodLevelRequestsSet(pod) {
		opts.NonMissingContainerRequests = containerDefaults(true, true)
	} else {
		have := podRequests(pod, opts)
		_, cpu := have[v1.ResourceCPU]
		_, memory := have[v1.ResourceMemory]
		if cpu && memory {
			return cpuAndMemory(have)
		}
		opts.NonMissingContainerRequests = containerDefaults(!cpu, !memory)
	}
	return cpuAndMemory(podRequests(pod, opts))
}

func statusAware() resourcehelper.PodResourcesOptions {
	return resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}
}

func containerDefaults(cpu, memory bool) v1.ResourceList {
	list := make(v1.ResourceList, 2)
	if cpu {
		list[v1.ResourceCPU] = *resource.NewMilliQuantity(DefaultCPUMilli, resource.DecimalSI)
	}
	if memory {
		list[v1.ResourceMemory] = *resource.NewQuantity(DefaultMemoryBytes, resource.BinarySI)
	}
	return list
}

func cpuAndMemory(list v1.ResourceList) (cpuMilli, memoryBytes int64) {
	cpu, memory := list[v1.ResourceCPU], list[v1.ResourceMemory]
	return amount.Milli(cpu), amount.Whole(memory)
}

// isResized reports whether the status has resources of its own, or a condition that a
// resize is pending.
func isResized(pod *v1.Pod) bool {
	if pod.Status.Resources != nil || pod.Status.AllocatedResources != nil ||
		resourcehelper.IsPodResizeInfeasible(pod) || resourcehelper.IsPodResizeDeferred(pod) {
		return true
	}
	for _, statuses := range [...][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Resources != nil || statuses[i].AllocatedResources != nil {
				return true
			}
		}
	}
	return false
}

// requestsCPUAndMemory reports whether every container requests cpu and memory, even 0.
func requestsCPUAndMemory(pod *v1.Pod) bool {
	for _, containers := range [...][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			requests := containers[i].Resources.Requests
			if _, ok := requests[v1.ResourceCPU]; !ok {
				return false
			}
			if _, ok := requests[v1.ResourceMemory]; !ok {
				return false
			}
		}
	}
	return true
}
