package model

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// manyContainers is the number of containers from which this package adds up a pod's
// requests itself. The library compares the whole sum of the previous sidecars with each
// init container, and searches all statuses for each container. Both are quadratic in the
// number of containers.
const manyContainers = 32

// podRequests is resourcehelper.PodRequests in time linear in the containers and amounts.
func podRequests(pod *v1.Pod, opts resourcehelper.PodResourcesOptions) v1.ResourceList {
	if len(pod.Spec.Containers)+len(pod.Spec.InitContainers) >= manyContainers {
		pod = inOneContainer(pod, opts)
		opts.NonMissingContainerRequests = nil
	}
	return resourcehelper.PodRequests(pod, opts)
}

// inOneContainer returns a pod with a single container and, by the library, the same
// requests. The library still handles pod-level requests, overhead and resizes.
func inOneContainer(pod *v1.Pod, opts resourcehelper.PodResourcesOptions) *v1.Pod {
	const name = "all"
	sum := aggregate{pod: pod, defaults: opts.NonMissingContainerRequests}
	one := &v1.Pod{Spec: v1.PodSpec{Resources: pod.Spec.Resources, Overhead: pod.Spec.Overhead}}
	one.Spec.Containers = []v1.Container{{Name: name, Resources: v1.ResourceRequirements{Requests: sum.of(specRequests)}}}
	if !opts.UseStatusResources {
		return one
	}
	one.Status = v1.PodStatus{
		Conditions: pod.Status.Conditions, Resources: pod.Status.Resources, AllocatedResources: pod.Status.AllocatedResources,
	}
	sum.readStatuses()
	one.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name:               name,
		AllocatedResources: sum.of(sum.allocatedRequests),
		Resources:          &v1.ResourceRequirements{Requests: sum.of(sum.actuatedRequests)},
	}}
	return one
}

// aggregate adds up the requests of a pod's containers.
type aggregate struct {
	pod *v1.Pod
	// defaults apply to containers without a request of the resource.
	defaults v1.ResourceList
	// statuses are indexed by container name.
	statuses   map[string]*v1.ContainerStatus
	infeasible bool
}

func (a *aggregate) readStatuses() {
	a.infeasible = resourcehelper.IsPodResizeInfeasible(a.pod)
	a.statuses = map[string]*v1.ContainerStatus{}
	for _, statuses := range [...][]v1.ContainerStatus{a.pod.Status.ContainerStatuses, a.pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if _, known := a.statuses[statuses[i].Name]; !known {
				a.statuses[statuses[i].Name] = &statuses[i]
			}
		}
	}
}

func specRequests(c *v1.Container) v1.ResourceList { return c.Resources.Requests }

// allocatedRequests returns the resources that the node has allocated to a container.
func (a *aggregate) allocatedRequests(c *v1.Container) v1.ResourceList {
	status := a.statuses[c.Name]
	switch {
	case status != nil && status.AllocatedResources != nil:
		return status.AllocatedResources
	case a.infeasible:
		return nil
	}
	return c.Resources.Requests
}

// actuatedRequests returns the resources that are in effect for a container.
func (a *aggregate) actuatedRequests(c *v1.Container) v1.ResourceList {
	if status := a.statuses[c.Name]; status != nil && status.Resources != nil && status.Resources.Requests != nil {
		return status.Resources.Requests
	}
	return a.allocatedRequests(c)
}

// of returns, for each resource, the larger of two amounts. One is the sum over
// containers and sidecars. The other is the maximum over init containers, each with the
// sidecars before it.
//
// An init container changes the maximum only in resources that it requests: the sum of
// the sidecars before it has been compared already.
func (a *aggregate) of(requests func(*v1.Container) v1.ResourceList) v1.ResourceList {
	sum, sidecars, largest := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	for i := range a.pod.Spec.Containers {
		a.each(requests(&a.pod.Spec.Containers[i]), func(name v1.ResourceName, q resource.Quantity) { addTo(sum, name, q) })
	}
	for i := range a.pod.Spec.InitContainers {
		c := &a.pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		a.each(requests(c), func(name v1.ResourceName, q resource.Quantity) {
			beside, some := sidecars[name]
			if sidecar {
				addTo(sum, name, q)
				addTo(sidecars, name, q)
			}
			running := q.DeepCopy()
			if some {
				running.Add(beside)
			}
			raise(largest, name, running)
		})
	}
	for name, q := range largest {
		raise(sum, name, q)
	}
	return sum
}

// each calls yield with the requests, and with the defaults of the missing resources.
func (a *aggregate) each(requests v1.ResourceList, yield func(v1.ResourceName, resource.Quantity)) {
	for name, q := range requests {
		yield(name, q)
	}
	for name, q := range a.defaults {
		if _, ok := requests[name]; !ok {
			yield(name, q)
		}
	}
}

func addTo(list v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	have, ok := list[name]
	if !ok {
		list[name] = q.DeepCopy()
		return
	}
	have.Add(q)
	list[name] = have
}

func raise(list v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
	if have, ok := list[name]; !ok || q.Cmp(have) > 0 {
		list[name] = q
	}
}
