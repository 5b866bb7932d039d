package kubelet

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rooms holds the admitted pods of every node. It is not safe for concurrent use.
type rooms struct {
	tenants   map[string]map[types.UID]*tenant // by node
	addresses addresses
}

// tenant is an admitted pod that has not ended.
type tenant struct {
	pod *v1.Pod
	ips []v1.PodIP // the pod's own; none before its start, and none on the host network
	// attached is set once its volumes are attached to the node.
	attached bool
	// reported is the obstacle of the pod's last event.
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

// on returns a node's admitted pods, in any order.
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

// observe follows a pod's status. An admitted pod, even of an earlier run, is a tenant;
// an ended pod is not.
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
