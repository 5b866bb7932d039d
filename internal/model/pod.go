package model

import (
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodKey names a pod the way people do. Unlike a UID it can be used again after the pod is gone.
type PodKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k PodKey) String() string { return k.Namespace + "/" + k.Name }

// Pod is a pod as scheduling sees it. It is built once, by NewPod or ingest, and never changed afterwards.
type Pod struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.Pod

	UID           types.UID
	Namespace     string
	Name          string
	SchedulerName string
	Priority      int32
	// Labels are those of the object, at hand because selectors are held against many pods at a time.
	Labels labels.Set
	// NodeName is the node the pod is bound to, empty while it is pending.
	NodeName string
	// NominatedNode is status.nominatedNodeName, whoever wrote it.
	NominatedNode string
	// Terminating pods have a deletion timestamp.
	Terminating bool

	// Occupies is what the pod takes away from the node it is on: status-aware, pod-level, with overhead.
	Occupies Resources
	// occupiesAll says that Occupies holds all that the list of quantities said, so that versions can be compared by it.
	occupiesAll bool
	// NonZeroCPUMilli and NonZeroMemoryBytes are what scoring believes the pod takes on its node: Occupies with the
	// defaults for containers that ask for nothing.
	NonZeroCPUMilli    int64
	NonZeroMemoryBytes int64
	// Ports are the host ports the pod wants or holds, in canonical form.
	Ports []HostPort

	// Terms are the terms of the pod's affinity to other pods, of all kinds.
	Terms []TermRef

	// Asks is what the pod needs of a node to fit: from the spec alone. Only pending pods have it.
	Asks Resources
	// Scored is what NodeResourcesFit believes the pod asks for when it scores: container requests with defaults, pod-level
	// requests ignored. Only pending pods have it.
	Scored Resources

	// Needs holds each plugin's need of a pending pod, by the position that the pod's profile gave the plugin. It is
	// computed where the pod is compiled, off the decision path, and is empty for pods that already run.
	Needs []Need

	// Malformed says why the pod cannot be scheduled as written; empty for sound pods. Such a pod is parked with this text.
	Malformed string
}

// Key returns the pod's namespace and name.
func (p *Pod) Key() PodKey { return PodKey{p.Namespace, p.Name} }

// String returns namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// HostPort is a port a pod takes on its node's addresses. IP is "0.0.0.0" where the pod names none.
type HostPort struct {
	Port     int32
	Protocol v1.Protocol
	IP       string
}

// AnyIP is the address that conflicts with every other address.
const AnyIP = "0.0.0.0"

// Conflicts reports whether both ports cannot be held on one node. Addresses are compared as text.
func (a HostPort) Conflicts(b HostPort) bool {
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.IP == b.IP || a.IP == AnyIP || b.IP == AnyIP)
}

// HostPortsOf lists the distinct host ports of containers and restartable init containers. Ordinary init containers have
// finished before the pod's containers need their ports, and are left out.
func HostPortsOf(pod *v1.Pod) []HostPort {
	var ports []HostPort
	add := func(c *v1.Container) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.HostPort > 0 {
				ports = appendPort(ports, p)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return ports
}

func appendPort(ports []HostPort, p *v1.ContainerPort) []HostPort {
	port := HostPort{Port: p.HostPort, Protocol: p.Protocol, IP: p.HostIP}
	if port.Protocol == "" {
		port.Protocol = v1.ProtocolTCP
	}
	if port.IP == "" {
		port.IP = AnyIP
	}
	for _, have := range ports {
		if have == port {
			return ports
		}
	}
	return append(ports, port)
}

// Interned makes equal strings share memory; used for texts that repeat over many pods.
func Interned(s string) string { return unique.Make(s).Value() }

// NewPod compiles an API object. The object is kept and must not be changed afterwards.
func NewPod(object *v1.Pod) *Pod {
	pod := &Pod{
		Object:        object,
		UID:           object.UID,
		Namespace:     Interned(object.Namespace),
		Name:          object.Name,
		Labels:        object.Labels,
		SchedulerName: Interned(object.Spec.SchedulerName),
		NodeName:      Interned(object.Spec.NodeName),
		NominatedNode: object.Status.NominatedNodeName,
		Terminating:   object.DeletionTimestamp != nil,
		Ports:         HostPortsOf(object),
		Terms:         termsOf(object),
	}
	if object.Spec.Priority != nil {
		pod.Priority = *object.Spec.Priority
	}
	pod.request(object)
	return pod
}

// request works out what the pod takes and asks for. Adding up containers is what compiling a pod costs most, and for most pods all
// answers come from one sum: where nobody has resized the pod, it occupies what it asks for; and where every container says how much
// cpu and memory it needs, scoring has nothing to assume.
func (p *Pod) request(object *v1.Pod) {
	if isResized(object) || resourcehelper.IsPodLevelRequestsSet(object) {
		occupied := occupiedList(object)
		p.Occupies, p.occupiesAll = ResourcesOf(occupied), saysAll(occupied)
		p.NonZeroCPUMilli, p.NonZeroMemoryBytes = NonZero(object)
		if p.NodeName == "" {
			p.Asks, p.Scored = Asked(object), Scored(object)
		}
		return
	}
	asked := askedList(object)
	p.Occupies, p.occupiesAll = ResourcesOf(asked), saysAll(asked)
	scored := p.Occupies
	if !saysCPUAndMemory(object) {
		scored = Scored(object)
	}
	p.NonZeroCPUMilli, p.NonZeroMemoryBytes = scored.CPUMilli, scored.MemoryBytes
	if p.NodeName == "" {
		p.Asks, p.Scored = p.Occupies, scored
	}
}
