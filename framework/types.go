package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Types passes values of kube-scheduler's concrete types, instead of Berth's, to plugins
// that assert them. Package compat, a module of its own, has the only implementation. A
// nil *Types means Berth's types; otherwise all fields are set.
type Types struct {
	// CycleState returns an empty CycleState, PodsToActivate an empty list.
	CycleState     func() fwk.CycleState
	PodsToActivate func() fwk.StateData
	// PodInfo converts a PodInfo. Several goroutines may use the result.
	PodInfo func(from fwk.PodInfo) fwk.PodInfo
	// NodeInfo converts a NodeInfo, with the converted PodInfos of its pods.
	NodeInfo func(from fwk.NodeInfo, pods []fwk.PodInfo) fwk.NodeInfo
	// NodeToStatus returns the statuses of nodes by name, and the status of all others.
	NodeToStatus func(byName map[string]*fwk.Status, absent *fwk.Status) fwk.NodeToStatusReader
	// Queued converts a queued pod, with its converted PodInfo.
	Queued func(from fwk.QueuedEntityInfo, pod fwk.PodInfo) fwk.QueuedEntityInfo
	// Handle wraps the Handle that factories get.
	Handle func(fwk.Handle) fwk.Handle
	// Scheme has the types of arguments that packages register with kube-scheduler.
	Scheme *runtime.Scheme
}

// NewCycleState returns an empty CycleState with an empty list of pods to activate.
func (t *Types) NewCycleState() fwk.CycleState {
	var state fwk.CycleState
	if t == nil {
		state = NewCycleState()
		state.Write(PodsToActivateKey, NewPodsToActivate())
	} else {
		state = t.CycleState()
		state.Write(PodsToActivateKey, t.PodsToActivate())
	}
	return state
}

// NewPodInfo returns the PodInfo of a pod, which must not change.
func (t *Types) NewPodInfo(pod *v1.Pod) fwk.PodInfo {
	info, _ := NewPodInfo(pod) // omits malformed terms, which API servers may accept
	return t.ShownPod(info)
}

// ShownPod returns a PodInfo for plugins. It is converted once.
func (t *Types) ShownPod(p fwk.PodInfo) fwk.PodInfo {
	own, ok := p.(*PodInfo)
	if t == nil || !ok {
		return p
	}
	return *once(&own.shown, func() *fwk.PodInfo {
		shown := t.PodInfo(own)
		return &shown
	})
}

// NewNodeInfo returns a NodeInfo without pods.
func (t *Types) NewNodeInfo(node *v1.Node) fwk.NodeInfo {
	info := NewNodeInfo()
	info.SetNode(node)
	return t.ShownNode(info)
}

// ShownNode returns a NodeInfo for plugins. It is converted once.
func (t *Types) ShownNode(n *NodeInfo) fwk.NodeInfo {
	if t == nil {
		return n
	}
	return *once(&n.shown, func() *fwk.NodeInfo {
		pods := make([]fwk.PodInfo, len(n.pods))
		for i, p := range n.pods {
			pods[i] = t.ShownPod(p)
		}
		shown := t.NodeInfo(n, pods)
		return &shown
	})
}

// NewNodeToStatus returns the statuses of nodes by name, and the status of all others.
func (t *Types) NewNodeToStatus(byName map[string]*fwk.Status, absent *fwk.Status) fwk.NodeToStatusReader {
	if t == nil {
		return NewNodeToStatus(byName, absent)
	}
	return t.NodeToStatus(byName, absent)
}

// ShownHandle returns a Handle for factories.
func (t *Types) ShownHandle(h fwk.Handle) fwk.Handle {
	if t == nil {
		return h
	}
	return t.Handle(h)
}
