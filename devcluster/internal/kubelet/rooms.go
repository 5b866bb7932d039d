package kubelet

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rooms holds the pods that every node has admitted. It is not safe for concurrent use.
type rooms struct {
	tenants   map[string]map[types.UID]*tenant // by node
	addresses addresses
}

// tenant is a pod that its node has admitted and that has not ended.
type tenant struct {
	pod *v1.Pod
	ips []v1.PodIP // the pod's own; none before it starts, and none on the host's network
	// attached is set once its volumes are attached to the node.
	attached bool
	// reported is the obstacle of the last event about the pod.
	reported obstacle
}

func newRooms(podCIDR string) *rooms {
	return &rooms{
		tenants:   map[string]map[types.UID]*tenant{},
		addresses: addresses{common: podCIDR, taken: map[netip.Addr]bool{}, last: map[string]netip.Addr{}},
	}
}

// tenant returns a pod's tenant, or nil if the pod's node has not admitted it.
func (r *rooms) tenant(pod *v1.Pod) *tenant { return r.tenants[pod.Spec.NodeName][pod.UID] }

// on returns the pods that a node has admitted, in any order.
func (r *rooms) on(node string) []*v1.Pod {
	var pods []*v1.Pod
	for _, t := range r.tenants[node] {
		pods = append(pods, t.pod)
	}
	return pods
}

// admit makes a pod a tenant of its node.
func (r *rooms) admit(pod *v1.Pod) *tenant {
	on := r.tenants[pod.Spec.NodeName]
	if on == nil {
		on = map[types.UID]*tenant{}
		r.tenants[pod.Spec.NodeName] = on
	}
	t := &tenant{pod: pod}
	on[pod.UID] = t
	return t
}

// observe follows a pod's status: a pod that was admitted, even by an earlier run of this program, is a tenant; a pod that has ended is
// not.
func (r *rooms) observe(pod *v1.Pod) {
	t := r.tenant(pod)
	switch {
	case finished(pod):
		r.release(pod)
		return
	case t == nil && admitted(pod):
		t = r.admit(pod)
	case t == nil:
		return
	}
	t.pod = pod
	if len(t.ips) == 0 && !pod.Spec.HostNetwork {
		t.ips = pod.Status.PodIPs
		r.addresses.mark(t.ips)
	}
}

// release frees a pod's room and addresses.
func (r *rooms) release(pod *v1.Pod) {
	t := r.tenant(pod)
	if t == nil {
		return
	}
	r.addresses.free(t.ips)
	delete(r.tenants[pod.Spec.NodeName], pod.UID)
	if len(r.tenants[pod.Spec.NodeName]) == 0 {
		delete(r.tenants, pod.Spec.NodeName)
	}
}
