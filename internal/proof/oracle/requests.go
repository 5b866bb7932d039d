package oracle

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// requestRules chooses a variant of a pod's requests.
type requestRules struct {
	// Count in-place resizes: include allocated and actual resources.
	status   bool
	podLevel bool            // honour spec.resources
	defaults v1.ResourceList // for a container that lacks the key; scoring only
}

// scoringDefaults are the requests that scoring assumes for keys that a container lacks.
var scoringDefaults = v1.ResourceList{
	v1.ResourceCPU:    resource.MustParse("100m"),
	v1.ResourceMemory: resource.MustParse("200Mi"),
}

// requests is the pod's exact request: nothing is rounded, and unknown names are
// included.
func requests(p *v1.Pod, rules requestRules) v1.ResourceList {
	total := containerRequests(p, rules)
	if rules.podLevel && hasPodLevelRequests(p) {
		for name, q := range podLevelRequests(p, rules.status) {
			if podLevelResource(name) {
				total[name] = q
			}
		}
	}
	add(total, p.Spec.Overhead)
	return total
}

// containerRequests is the part of the request that comes from containers. During a
// resize it is the largest of three sums (desired, allocated, actual). A resize that the
// node found infeasible is ignored.
func containerRequests(p *v1.Pod, rules requestRules) v1.ResourceList {
	desired := aggregate(p, rules.defaults, func(c v1.Container) v1.ResourceList { return c.Resources.Requests })
	if !rules.status {
		return desired
	}
	total := v1.ResourceList{}
	if !resizeInfeasible(p) {
		raise(total, desired)
	}
	if p.Status.AllocatedResources != nil && p.Status.Resources != nil && p.Status.Resources.Requests != nil {
		raise(total, p.Status.AllocatedResources)
		raise(total, p.Status.Resources.Requests)
		return total
	}
	raise(total, aggregate(p, rules.defaults, func(c v1.Container) v1.ResourceList { return allocated(p, c) }))
	raise(total, aggregate(p, rules.defaults, func(c v1.Container) v1.ResourceList { return actual(p, c) }))
	return total
}

// aggregate combines the requests of containers, each as ask returns it. All containers
// and sidecars run together. Each init container runs with the sidecars declared before
// it. The pod needs the maximum over these phases.
func aggregate(p *v1.Pod, defaults v1.ResourceList, ask func(v1.Container) v1.ResourceList) v1.ResourceList {
	sum, sidecars, peak := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	for _, c := range p.Spec.Containers {
		add(sum, withDefaults(ask(c), defaults))
	}
	for _, c := range p.Spec.InitContainers {
		asked := withDefaults(ask(c), defaults)
		if restartable(c) {
			add(sum, asked)
			add(sidecars, asked)
			raise(peak, sidecars)
		} else {
			moment := v1.ResourceList{}
			add(moment, asked)
			add(moment, sidecars)
			raise(peak, moment)
		}
	}
	raise(sum, peak)
	return sum
}

func restartable(c v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// allocated is the kubelet's allocation to a container, or the spec's request if none is
// reported.
func allocated(p *v1.Pod, c v1.Container) v1.ResourceList {
	if s := containerStatus(p, c.Name); s != nil && s.AllocatedResources != nil {
		return s.AllocatedResources
	}
	if resizeInfeasible(p) {
		return nil
	}
	return c.Resources.Requests
}

// actual is the reported actual resources of a container.
func actual(p *v1.Pod, c v1.Container) v1.ResourceList {
	if s := containerStatus(p, c.Name); s != nil && s.Resources != nil && s.Resources.Requests != nil {
		return s.Resources.Requests
	}
	return allocated(p, c)
}

func containerStatus(p *v1.Pod, name string) *v1.ContainerStatus {
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if s.Name == name {
			return &s
		}
	}
	return nil
}

// resizeInfeasible reads the reason of the first PodResizePending condition, whatever its
// status.
func resizeInfeasible(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizePending {
			return c.Reason == v1.PodReasonInfeasible
		}
	}
	return false
}

func hasPodLevelRequests(p *v1.Pod) bool {
	if p.Spec.Resources == nil {
		return false
	}
	for name := range p.Spec.Resources.Requests {
		if podLevelResource(name) {
			return true
		}
	}
	return false
}

func podLevelResource(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// podLevelRequests is the list that overrides the containers. Without a pod-wide status
// an infeasible spec still counts.
func podLevelRequests(p *v1.Pod, status bool) v1.ResourceList {
	if !status || p.Status.Resources == nil {
		return p.Spec.Resources.Requests
	}
	most := v1.ResourceList{}
	if !resizeInfeasible(p) {
		raise(most, p.Spec.Resources.Requests)
	}
	raise(most, p.Status.Resources.Requests)
	raise(most, p.Status.AllocatedResources)
	return most
}

// add adds src to dst, key by key. Keys with value zero are kept.
func add(dst, src v1.ResourceList) {
	for name, q := range src {
		total := dst[name].DeepCopy()
		total.Add(q)
		dst[name] = total
	}
}

// raise sets dst to src for each key that dst lacks or whose value in src is larger.
func raise(dst, src v1.ResourceList) {
	for name, q := range src {
		if have, ok := dst[name]; !ok || q.Cmp(have) > 0 {
			dst[name] = q.DeepCopy()
		}
	}
}

// withDefaults fills in missing keys; an explicit zero stays zero.
func withDefaults(asked, defaults v1.ResourceList) v1.ResourceList {
	full := v1.ResourceList{}
	add(full, asked)
	for name, q := range defaults {
		if _, ok := asked[name]; !ok {
			full[name] = q
		}
	}
	return full
}
