package model

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodKey is a pod's namespace and name. Unlike a UID, it can be reused after the pod is
// gone.
type PodKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k PodKey) String() string { return k.Namespace + "/" + k.Name }

// Pod is a compiled pod, built by NewPod or package ingest. It is immutable.
type Pod struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *v1.Pod

	UID           types.UID
	Namespace     string
	Name          string
	SchedulerName string
	Priority      int32
	// Labels are the object's labels, stored here because selectors are matched against
	// many pods at a time.
	Labels labels.Set
	// labelSet identifies the namespace and the labels.
	labelSet LabelSet
	// NodeName is the node to which the pod is bound, empty while it is pending.
	NodeName string
	// NominatedNode is status.nominatedNodeName, which any client may write, or a later
	// decision of the scheduler. See WithNominatedNode.
	NominatedNode string
	// NominatedByPlugin means that a plugin made the nomination by its Handle. A later
	// decision for the same node clears it.
	NominatedByPlugin bool
	// Terminating pods have a deletion timestamp.
	Terminating bool

	// Occupies are the resources that the pod occupies on its node, including pod-level
	// requests, overhead and the resources in its status.
	Occupies Resources
	// occupiesAll means that Occupies is equivalent to the list of quantities, so that it
	// is sufficient for comparing versions.
	occupiesAll bool
	// NonZeroCPUMilli and NonZeroMemoryBytes are the resources that scoring assumes on
	// the pod's node: Occupies, with defaults for containers without requests.
	NonZeroCPUMilli    int64
	NonZeroMemoryBytes int64
	// Ports are the host ports that the pod uses, in canonical form.
	Ports []HostPort

	// Terms are the terms of the pod's affinity and anti-affinity to other pods.
	Terms []TermRef

	// Volumes are the pod's volumes that scheduling reads. It is nil for most pods.
	Volumes *PodVolumes
	// Devices are the pod's ResourceClaims. It is nil for most pods.
	Devices *PodDevices
	// Group is the pod group that the pod names. It is zero for most pods.
	Group GroupKey

	// Asks are the resources that the pod requests from a node, by the spec alone. They
	// are set for pending pods only.
	Asks Resources
	// Scored is the request that NodeResourcesFit assumes in scoring: container requests
	// with defaults, without pod-level requests. It is set for pending pods only.
	Scored Resources

	// Needs holds each plugin's need of a pending pod, by the plugin's position in the
	// pod's profile. They are computed when the pod is compiled, outside of the decision.
	// Pods on nodes have none.
	Needs []Need
	// Prepared holds the needs with long texts. Ordinary pods have none.
	Prepared PreparedNeeds
	// SkipsPreFilter has a bit for each of the first 64 PreFilter plugins of the pod's
	// profile, starting with the lowest. A set bit means that the plugin never restricts
	// the pod, whatever the cluster contains. It is computed with Needs.
	SkipsPreFilter uint64

	// Malformed explains why the pod cannot be scheduled as written. It is empty for
	// valid pods. A malformed pod is parked with this text and never preempts. The
	// resources that it occupies and its needs are not computed.
	Malformed string
}

// LabelSet identifies the pods of the namespace that have equal labels.
func (p *Pod) LabelSet() LabelSet {
	if p.labelSet == (LabelSet{}) { // not made by NewPod
		return labelSetOf(p.Namespace, p.Labels)
	}
	return p.labelSet
}

// WithNominatedNode returns a copy of the pod with another nominated node, or none if
// name is empty. It holds a decision that the API does not show yet.
func (p *Pod) WithNominatedNode(name string) *Pod {
	with := *p
	with.NominatedNode, with.NominatedByPlugin = name, false
	return &with
}

// Started returns the time at which the kubelet accepted the pod, in Unix seconds. ok is
// false if it has not.
func (p *Pod) Started() (seconds int64, ok bool) {
	if t := p.Object.Status.StartTime; t != nil {
		return t.Unix(), true
	}
	return 0, false
}

// NeverPreempts reports whether the pod must not preempt other pods.
func (p *Pod) NeverPreempts() bool { return p.PreemptionPolicy() == v1.PreemptNever }

// PreemptionPolicy returns the pod's policy, or the default.
func (p *Pod) PreemptionPolicy() v1.PreemptionPolicy {
	if policy := p.Object.Spec.PreemptionPolicy; policy != nil {
		return *policy
	}
	return v1.PreemptLowerPriority
}

// IsPreempted reports whether the pod is terminating because a scheduler preempted it.
func (p *Pod) IsPreempted() bool {
	if !p.Terminating {
		return false
	}
	for i := range p.Object.Status.Conditions {
		if c := &p.Object.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
		}
	}
	return false
}

// Key returns the pod's namespace and name.
func (p *Pod) Key() PodKey { return PodKey{p.Namespace, p.Name} }

// String returns namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// HostPort is a port used on a node's addresses. IP is "0.0.0.0" if the pod specifies
// none.
type HostPort struct {
	Port     int32
	Protocol v1.Protocol
	IP       string
}

// AnyIP is the address that conflicts with every other address.
const AnyIP = "0.0.0.0"

// Conflicts reports whether both ports cannot be in use on one node. Addresses are
// compared as text.
func (a HostPort) Conflicts(b HostPort) bool {
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.IP == b.IP || a.IP == AnyIP || b.IP == AnyIP)
}

// HostPortsOf returns the distinct host ports of containers and sidecars. Ordinary init
// containers are left out: they finish before the pod's containers need their ports.
func HostPortsOf(pod *v1.Pod) []HostPort {
	var ports distinctPorts
	add := func(c *v1.Container) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.HostPort > 0 {
				ports.add(p)
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
	return ports.list
}

// fewPorts is the limit for comparing ports one at a time.
const fewPorts = 16

// distinctPorts lists distinct ports in the order of their addition.
type distinctPorts struct {
	list []HostPort
	seen map[HostPort]struct{} // nil below fewPorts
}

func (d *distinctPorts) add(p *v1.ContainerPort) {
	port := HostPort{Port: p.HostPort, Protocol: p.Protocol, IP: p.HostIP}
	if port.Protocol == "" {
		port.Protocol = v1.ProtocolTCP
	}
	if port.IP == "" {
		port.IP = AnyIP
	}
	if !d.has(port) {
		d.list = append(d.list, port)
		if d.seen != nil {
			d.seen[port] = struct{}{}
		}
	}
}

func (d *distinctPorts) has(port HostPort) bool {
	if len(d.list) < fewPorts {
		return slices.Contains(d.list, port)
	}
	if d.seen == nil {
		d.seen = make(map[HostPort]struct{}, 2*fewPorts)
		for _, have := range d.list {
			d.seen[have] = struct{}{}
		}
	}
	_, ok := d.seen[port]
	return ok
}

// Compare orders ports by number, protocol and address.
func (a HostPort) Compare(b HostPort) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(string(a.Protocol), string(b.Protocol)), strings.Compare(a.IP, b.IP))
}

// PortConflicts reports whether a port conflicts with any port of a list sorted by
// Compare. It needs at most two binary searches.
func PortConflicts(sorted []HostPort, port HostPort) bool {
	if port.IP == AnyIP { // conflicts with every address
		i, found := slices.BinarySearchFunc(sorted, HostPort{port.Port, port.Protocol, ""}, HostPort.Compare)
		return found || i < len(sorted) && sorted[i].Port == port.Port && sorted[i].Protocol == port.Protocol
	}
	if _, found := slices.BinarySearchFunc(sorted, port, HostPort.Compare); found {
		return true
	}
	_, found := slices.BinarySearchFunc(sorted, HostPort{port.Port, port.Protocol, AnyIP}, HostPort.Compare)
	return found
}

// AnyPortConflicts reports whether two lists, sorted by Compare, have conflicting ports.
// Each port of the shorter list is looked up in the longer list.
func AnyPortConflicts(a, b []HostPort) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for i := range a {
		if PortConflicts(b, a[i]) {
			return true
		}
	}
	return false
}

// NonZero returns NonZeroCPUMilli and NonZeroMemoryBytes as amounts.
func (p *Pod) NonZero() *Resources {
	return &Resources{CPUMilli: p.NonZeroCPUMilli, MemoryBytes: p.NonZeroMemoryBytes}
}

// Interned makes equal strings share memory. It is used for texts repeated in many pods.
func Interned(s string) string { return unique.Make(s).Value() }

// NewPod compiles an API object. It keeps the object, which must not be changed
// afterwards.
func NewPod(object *v1.Pod) *Pod {
	pod := &Pod{
		Object:        object,
		UID:           object.UID,
		Namespace:     Interned(object.Namespace),
		Name:          object.Name,
		Labels:        object.Labels,
		labelSet:      labelSetOf(object.Namespace, object.Labels),
		SchedulerName: Interned(object.Spec.SchedulerName),
		NodeName:      Interned(object.Spec.NodeName),
		NominatedNode: object.Status.NominatedNodeName,
		Terminating:   object.DeletionTimestamp != nil,
		Ports:         HostPortsOf(object),
		Terms:         termsOf(object),
		Volumes:       volumesOf(object),
		Devices:       devicesOf(object),
		Group:         groupOf(object),
	}
	if object.Spec.Priority != nil {
		pod.Priority = *object.Spec.Priority
	}
	pod.request(object)
	return pod
}

// request computes the resources that the pod occupies and requests.
//
// Adding up containers is the most expensive part of compiling a pod, and for most pods
// one sum is sufficient. A pod that was never resized occupies its requests. If every
// container requests cpu and memory, scoring has no defaults to add.
func (p *Pod) request(object *v1.Pod) {
	if isResized(object) || resourcehelper.IsPodLevelRequestsSet(object) {
		occupied := occupiedList(object)
		p.Occupies, p.occupiesAll = ResourcesOf(occupied), isComplete(occupied)
		p.NonZeroCPUMilli, p.NonZeroMemoryBytes = NonZero(object)
		if p.NodeName == "" {
			p.Asks, p.Scored = Asked(object), Scored(object)
		}
		return
	}
	asked := askedList(object)
	p.Occupies, p.occupiesAll = ResourcesOf(asked), isComplete(asked)
	scored := p.Occupies
	if !requestsCPUAndMemory(object) {
		scored = Scored(object)
	}
	p.NonZeroCPUMilli, p.NonZeroMemoryBytes = scored.CPUMilli, scored.MemoryBytes
	if p.NodeName == "" {
		p.Asks, p.Scored = p.Occupies, scored
	}
}
