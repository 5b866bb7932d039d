package state

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
)

// Node is one node in a View, as plugins read it. It is valid as long as the view.
type Node struct {
	s    *State
	slot int32
	d    *draftNode // nil if the view has the pods of the state
}

// Slot returns the node's slot.
func (n Node) Slot() int32 { return n.slot }

// Meter counts the work done for decisions, see View.Meter.
func (n Node) Meter() *price.Meter { return &n.s.meter }

// Name returns the node's name.
func (n Node) Name() string { return n.s.node[n.slot].Name }

// Object returns the API object, for matching labels, taints and fields. It must not be
// changed.
func (n Node) Object() *v1.Node { return n.s.node[n.slot].Object }

// Model returns the compiled node.
func (n Node) Model() *model.Node { return n.s.node[n.slot] }

// Allocatable returns the node's resources for pods.
func (n Node) Allocatable() *model.Resources { return &n.s.node[n.slot].Allocatable }

// AllowedPods returns the maximum number of pods on the node.
func (n Node) AllowedPods() int64 { return n.s.node[n.slot].AllowedPods }

// Used returns the sum of Occupies over the pods on the node, including assumed ones.
func (n Node) Used() *model.Resources { return &n.sum().Resources }

// sum is Used without the limits of an amount.
func (n Node) sum() *model.Sum {
	if n.d != nil {
		return &n.d.used
	}
	return &n.s.used[n.slot]
}

// NonZeroUsed returns the cpu and memory in use as scoring assumes them.
func (n Node) NonZeroUsed() (cpuMilli, memoryBytes int64) {
	u := &n.s.nonZero[n.slot]
	if n.d != nil {
		u = &n.d.nonZero
	}
	return u.CPUMilli, u.MemoryBytes
}

// PodCount returns the number of pods on the node, including assumed ones.
func (n Node) PodCount() int {
	if n.d != nil {
		return n.d.pods
	}
	return len(n.s.pods[n.slot])
}

// PortInUse reports whether pods on the node use a port that conflicts with one of the
// wanted ports, which are in the order of HostPort.Compare.
func (n Node) PortInUse(wanted []model.HostPort) bool {
	if n.d != nil {
		return model.AnyPortConflicts(n.d.ports.ports, wanted)
	}
	return model.AnyPortConflicts(n.s.ports[n.slot].ports, wanted)
}

// Volumes returns the volumes in use on the node.
func (n Node) Volumes() storage.Usage {
	if n.d != nil {
		return n.d.volumes
	}
	return n.s.storage.At(n.slot).Usage()
}

// Changes calls yield with each pod that the view adds to the node (+1) or removes from
// it (-1), compared with the state, in the order of the changes. A pair that cancels out
// is included.
func (n Node) Changes(yield func(pod *model.Pod, n int32) bool) {
	if n.d == nil {
		return
	}
	for _, c := range n.d.changed {
		if !yield(c.pod, c.n) {
			return
		}
	}
}

// Storage returns the volume store, from which a plugin reads the volumes that the node
// can use. See Supply in package model for when these change.
func (n Node) Storage() *storage.Store { return n.s.storage }

// Devices returns the device store, from which a plugin reads the devices that the node
// can use. See Devices in package model for when these change.
func (n Node) Devices() *devices.Store { return n.s.devices }

// portCounts counts the pods of a node that use each port. ports is in the order of
// HostPort.Compare; pods has the count of each. A node has few ports.
//
// kube-scheduler keeps a set instead, which loses a port as soon as one of two pods with
// it leaves. The counts equal the view of a freshly started kube-scheduler, so results
// depend on the cluster and not on its history.
type portCounts struct {
	ports []model.HostPort
	pods  []int32
}

func (p *portCounts) clone() portCounts {
	return portCounts{slices.Clone(p.ports), slices.Clone(p.pods)}
}

// fewPorts is the maximum number of a pod's ports that are inserted one by one. Longer
// lists are merged, so that the node's ports are copied once and not once for each port
// of the pod.
const fewPorts = 16

// add adds a pod with these ports (+1) or removes it (-1).
func (p *portCounts) add(ports []model.HostPort, sign int32) {
	if len(ports) > fewPorts {
		sorted := slices.Clone(ports)
		slices.SortFunc(sorted, model.HostPort.Compare)
		p.merge(sorted, sign)
		return
	}
	for _, port := range ports {
		switch at, found := slices.BinarySearchFunc(p.ports, port, model.HostPort.Compare); {
		case !found:
			p.ports, p.pods = slices.Insert(p.ports, at, port), slices.Insert(p.pods, at, sign)
		case p.pods[at]+sign == 0:
			p.ports, p.pods = slices.Delete(p.ports, at, at+1), slices.Delete(p.pods, at, at+1)
		default:
			p.pods[at] += sign
		}
	}
}

// merge adds a sorted list.
func (p *portCounts) merge(ports []model.HostPort, sign int32) {
	all := portCounts{make([]model.HostPort, 0, len(p.ports)+len(ports)), make([]int32, 0, len(p.ports)+len(ports))}
	put := func(port model.HostPort, pods int32) {
		if pods != 0 {
			all.ports, all.pods = append(all.ports, port), append(all.pods, pods)
		}
	}
	i := 0
	for _, port := range ports {
		for ; i < len(p.ports) && p.ports[i].Compare(port) < 0; i++ {
			put(p.ports[i], p.pods[i])
		}
		if i < len(p.ports) && p.ports[i] == port {
			put(port, p.pods[i]+sign)
			i++
		} else {
			put(port, sign)
		}
	}
	for ; i < len(p.ports); i++ {
		put(p.ports[i], p.pods[i])
	}
	*p = all
}
