package framework

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// nominee is a nominated pod. Its PodInfo may be of a plugin's own type. Its methods are
// not called with the lock held, because the loop waits for the lock.
type nominee struct {
	uid  types.UID
	info fwk.PodInfo
	pod  *v1.Pod // of info
}

// nominator holds the nominations: those of the state at the beginning of a turn, and
// later changes by plugins. Any goroutine may use it.
//
// The queue applies plugins' changes between turns, and then the state's nominations are
// authoritative. So changes during a turn are dropped at its end, and changes between
// turns at the end of the next. A nomination stays if its pod is in the queue. Until then
// the engine gets the changes from nominations.
type nominator struct {
	queue Queue
	types *public.Types

	mu      sync.Mutex
	version uint64 // of the state's nominations
	known   bool
	byNode  map[string][]nominee
	nodeOf  map[types.UID]string
	// fresh are the plugins' changes since the end of the last turn; stale means that
	// earlier changes existed.
	fresh changed
	stale bool
	// changes counts the changes of fresh.
	changes uint64
	// seen is the last result of nominations. Only the loop uses it.
	seen struct {
		changes uint64
		list    []plan.Nomination
	}
}

// maxChanged is the maximum number of changes in fresh, equal to the number that can wait
// for the queue.
const maxChanged = 10_000

// changed are the last changes by plugins, by pod; an empty node name means that the
// nomination ended.
type changed struct {
	by    map[types.UID]changedNomination
	order []types.UID // keys of by
}

type changedNomination struct {
	nominee
	nodeName string
}

// begin copies the state's nominations, if they or those of plugins have changed.
func (n *nominator) begin(v state.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	version := v.NominationsVersion()
	if n.known && n.version == version && !n.stale && len(n.fresh.order) == 0 {
		return
	}
	n.version, n.known, n.stale = version, true, false
	n.byNode, n.nodeOf = map[string][]nominee{}, map[types.UID]string{}
	for name, pods := range v.NominatedPods() {
		// A group's reserved space is no nomination, so it cannot be cleared.
		pods, _ := v.WithoutRoomHolds(pods)
		for _, pod := range pods {
			n.put(nominee{uid: pod.UID, info: n.types.NewPodInfo(copyOf(pod))}, name)
		}
	}
	for _, uid := range n.fresh.order {
		c := n.fresh.by[uid]
		if n.nodeOf[uid] == c.nodeName {
			continue // the state has it, in its place
		}
		n.drop(uid)
		if c.nodeName != "" {
			n.put(c.nominee, c.nodeName)
		}
	}
}

// end marks the end of the turn: the queue applies the plugins' changes now.
func (n *nominator) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.fresh.order) > 0 {
		n.fresh, n.stale = changed{}, true
		n.changes++
	}
}

// nominations returns the changes that the state does not have yet. The loop's goroutine
// calls it.
func (n *nominator) nominations() []plan.Nomination {
	n.mu.Lock()
	if n.seen.changes == n.changes {
		n.mu.Unlock()
		return n.seen.list
	}
	n.seen.changes = n.changes
	fresh := make([]changedNomination, len(n.fresh.order))
	for i, uid := range n.fresh.order {
		fresh[i] = n.fresh.by[uid]
	}
	n.mu.Unlock()
	n.seen.list = nil
	for i := range fresh {
		p := plan.Nomination{Pod: model.NewPod(fresh[i].pod).WithNominatedNode(fresh[i].nodeName), Mode: plan.Clear}
		if fresh[i].nodeName != "" {
			p.Mode, p.NodeName = plan.Set, fresh[i].nodeName
		}
		n.seen.list = append(n.seen.list, p)
	}
	return n.seen.list
}

// note keeps a change until the state must have it. Beyond maxChanged, the oldest is
// dropped.
func (n *nominator) note(p nominee, nodeName string) {
	if n.fresh.by == nil {
		n.fresh.by = map[types.UID]changedNomination{}
	}
	if _, ok := n.fresh.by[p.uid]; !ok {
		n.fresh.order = append(n.fresh.order, p.uid)
	}
	n.fresh.by[p.uid] = changedNomination{p, nodeName}
	n.changes++
	if len(n.fresh.order) > maxChanged {
		oldest := n.fresh.order[0]
		n.fresh.order = n.fresh.order[1:]
		delete(n.fresh.by, oldest)
		n.drop(oldest)
	}
}

func (n *nominator) put(p nominee, nodeName string) {
	if n.byNode == nil {
		n.byNode, n.nodeOf = map[string][]nominee{}, map[types.UID]string{}
	}
	n.byNode[nodeName] = append(slices.Clip(n.byNode[nodeName]), p)
	n.nodeOf[p.uid] = nodeName
}

func (n *nominator) drop(uid types.UID) (was bool) {
	name, was := n.nodeOf[uid]
	if was {
		left := slices.DeleteFunc(slices.Clone(n.byNode[name]), func(p nominee) bool { return p.uid == uid })
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
	var pods []fwk.PodInfo
	for _, p := range n.byNode[nodeName] {
		pods = append(pods, p.info)
	}
	return pods
}

// AddNominatedPod nominates a pod to nominatingInfo's node or, without one, to the node
// in its status.
func (n *nominator) AddNominatedPod(_ klog.Logger, info fwk.PodInfo, nominatingInfo *fwk.NominatingInfo) {
	pod := info.GetPod()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(pod, info, nominatingInfo)
}

func (n *nominator) add(pod *v1.Pod, info fwk.PodInfo, nominatingInfo *fwk.NominatingInfo) {
	was := n.drop(pod.UID)
	name := pod.Status.NominatedNodeName
	if nominatingInfo.Mode() == fwk.ModeOverride {
		name = nominatingInfo.NominatedNodeName
	}
	p := nominee{pod.UID, info, pod}
	if name != "" {
		n.put(p, name)
	}
	if name != "" || was {
		n.note(p, name)
		n.tell(pod, name)
	}
}

// DeleteNominatedPodIfExists ends the nomination of a pod.
func (n *nominator) DeleteNominatedPodIfExists(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drop(pod.UID) {
		n.note(nominee{uid: pod.UID, pod: pod}, "")
		n.tell(pod, "")
	}
}

// UpdateNominatedPod replaces a pod by a new version. The nomination stays if neither
// version has a nominated node, because the API may not show it yet.
func (n *nominator) UpdateNominatedPod(_ klog.Logger, before *v1.Pod, after fwk.PodInfo) {
	pod := after.GetPod()
	n.mu.Lock()
	defer n.mu.Unlock()
	var nominatingInfo *fwk.NominatingInfo
	if before.Status.NominatedNodeName == "" && pod.Status.NominatedNodeName == "" {
		if name, ok := n.nodeOf[before.UID]; ok {
			nominatingInfo = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: name}
		}
	}
	n.drop(before.UID)
	n.add(pod, after, nominatingInfo)
}
