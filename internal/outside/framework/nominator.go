package framework

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/state"
)

// nominator is which pods are nominated to which nodes: what the state says at the beginning of a turn, and what plugins have changed since. Any goroutine
// may use it.
type nominator struct {
	queue Queue

	mu      sync.Mutex
	version uint64 // of the state's nominations
	known   bool
	byNode  map[string][]fwk.PodInfo
	nodeOf  map[types.UID]string
}

// begin takes over the state's nominations if they have changed.
func (n *nominator) begin(v state.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	version := v.NominationsVersion()
	if n.known && n.version == version {
		return
	}
	n.version, n.known = version, true
	n.byNode, n.nodeOf = map[string][]fwk.PodInfo{}, map[types.UID]string{}
	for name, pods := range v.NominatedPods() {
		for _, pod := range pods {
			info, _ := public.NewPodInfo(copyOf(pod))
			n.put(info, name)
		}
	}
}

func (n *nominator) put(info fwk.PodInfo, nodeName string) {
	if n.byNode == nil {
		n.byNode, n.nodeOf = map[string][]fwk.PodInfo{}, map[types.UID]string{}
	}
	n.byNode[nodeName] = append(slices.Clip(n.byNode[nodeName]), info)
	n.nodeOf[info.GetPod().UID] = nodeName
}

func (n *nominator) drop(uid types.UID) (was bool) {
	name, was := n.nodeOf[uid]
	if was {
		left := slices.DeleteFunc(slices.Clone(n.byNode[name]), func(p fwk.PodInfo) bool { return p.GetPod().UID == uid })
		n.byNode[name] = left
		delete(n.nodeOf, uid)
		if len(left) == 0 {
			delete(n.byNode, name)
		}
	}
	return was
}

func (n *nominator) tell(pod *v1.Pod, nodeName string) {
	if n.queue != nil {
		n.queue.Nominate(pod, nodeName)
	}
}

// NominatedPodsForNode returns the pods that are nominated to a node.
func (n *nominator) NominatedPodsForNode(nodeName string) []fwk.PodInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.byNode[nodeName])
}

// AddNominatedPod nominates a pod: to the node that nominatingInfo names or, without one, to that of its status.
func (n *nominator) AddNominatedPod(_ klog.Logger, info fwk.PodInfo, nominatingInfo *fwk.NominatingInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(info, nominatingInfo)
}

func (n *nominator) add(info fwk.PodInfo, nominatingInfo *fwk.NominatingInfo) {
	pod := info.GetPod()
	was := n.drop(pod.UID)
	name := pod.Status.NominatedNodeName
	if nominatingInfo.Mode() == fwk.ModeOverride {
		name = nominatingInfo.NominatedNodeName
	}
	if name != "" {
		n.put(info, name)
	}
	if name != "" || was {
		n.tell(pod, name)
	}
}

// DeleteNominatedPodIfExists ends the nomination of a pod.
func (n *nominator) DeleteNominatedPodIfExists(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drop(pod.UID) {
		n.tell(pod, "")
	}
}

// UpdateNominatedPod takes in a new version of a pod. It keeps its nomination if neither version names a node: the API may not show it yet.
func (n *nominator) UpdateNominatedPod(_ klog.Logger, before *v1.Pod, after fwk.PodInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var nominatingInfo *fwk.NominatingInfo
	if before.Status.NominatedNodeName == "" && after.GetPod().Status.NominatedNodeName == "" {
		if name, ok := n.nodeOf[before.UID]; ok {
			nominatingInfo = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: name}
		}
	}
	n.drop(before.UID)
	n.add(after, nominatingInfo)
}
