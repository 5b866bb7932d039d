// Package gang is a plugin that places all pods of a gang or none.
//
// A gang is the pods of a namespace with the same label gang.example.com/name. The label
// gang.example.com/min-available is the number of pods that must be placed together.
// Gangs are placed one after the other, so that two incomplete gangs never hold resources
// that each needs:
//
//   - PreFilter lets a member pass if enough members exist and no other gang is being
//     placed.
//   - Reserve counts the member. Permit makes it wait and activates its siblings. Once
//     enough members have nodes, Permit allows all of them.
//   - If a member finds no node (PostFilter), loses its node (Unreserve), or the time is
//     over, all waiting members are rejected. The gang is retried later, and the next
//     gang has its turn.
package gang

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name in configurations.
const Name = "Gang"

// The labels of a gang's pods.
const (
	NameLabel = "gang.example.com/name"
	MinLabel  = "gang.example.com/min-available"
)

// Gang is the plugin of one profile. All members of a gang name the same profile.
type Gang struct {
	handle fwk.Handle
	pods   corelisters.PodLister
	permit time.Duration
	turns  *turns
}

var (
	_ fwk.PreFilterPlugin   = (*Gang)(nil)
	_ fwk.PostFilterPlugin  = (*Gang)(nil)
	_ fwk.ReservePlugin     = (*Gang)(nil)
	_ fwk.PermitPlugin      = (*Gang)(nil)
	_ fwk.EnqueueExtensions = (*Gang)(nil)
)

// New builds the plugin of a profile.
func New(_ context.Context, object runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	args, ok := object.(*GangArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of plugin %s: got %T, want *GangArgs: give the program app.WithScheme(gang.AddToScheme)", Name, object)
	}
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods()
	g := &Gang{handle: handle, pods: pods.Lister(), permit: time.Duration(*args.PermitSeconds) * time.Second}
	g.turns = newTurns(g.permit, time.Duration(*args.MaxBackoffSeconds)*time.Second, g.release)
	// Members are listed by namespace. Plugins of other profiles share the informer, and
	// may have added the index before.
	if _, has := pods.Informer().GetIndexer().GetIndexers()[cache.NamespaceIndex]; !has {
		if err := pods.Informer().AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}); err != nil {
			return nil, fmt.Errorf("index pods by namespace: %w", err)
		}
	}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) {
			if pod := object.(*v1.Pod); pod.Spec.NodeName != "" {
				g.turns.bound(keyOf(pod), pod.UID)
			}
		},
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if pod, ok := object.(*v1.Pod); ok {
				g.left(pod)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return g, nil
}

// Name returns the plugin's name.
func (g *Gang) Name() string { return Name }

// Close stops the timers.
func (g *Gang) Close() error {
	g.turns.close()
	return nil
}

// key names a gang; the zero value means no gang.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

func keyOf(pod *v1.Pod) key {
	if name := pod.Labels[NameLabel]; name != "" {
		return key{pod.Namespace, name}
	}
	return key{}
}

// minOf returns how many pods of a gang must be placed together.
func minOf(pod *v1.Pod) (int, error) {
	n, err := strconv.Atoi(pod.Labels[MinLabel])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("label %s is %q: must be a whole number from 1 on", MinLabel, pod.Labels[MinLabel])
	}
	return n, nil
}

// members returns the unfinished pods of a gang by UID.
func (g *Gang) members(k key) (map[types.UID]*v1.Pod, error) {
	list, err := g.pods.Pods(k.namespace).List(labels.SelectorFromSet(labels.Set{NameLabel: k.name}))
	if err != nil {
		return nil, fmt.Errorf("list the pods of gang %s: %w", k, err)
	}
	members := make(map[types.UID]*v1.Pod, len(list))
	for _, pod := range list {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			members[pod.UID] = pod
		}
	}
	return members, nil
}

// placed returns how many of the members are bound or reserved.
func (g *Gang) placed(k key, members map[types.UID]*v1.Pod) int {
	n := 0
	reserved := g.turns.reservedBy(k)
	for uid, pod := range members {
		if pod.Spec.NodeName != "" || reserved[uid] {
			n++
		}
	}
	return n
}

// EventsToRegister returns the only event that can help a rejected member: a change of
// its labels. Otherwise it is activated: by a missing sibling in the sibling's attempt,
// or by the gang's turn.
func (g *Gang) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel}}}, nil
}

func rejection(text string, args ...any) *fwk.Status {
	// The status is unresolvable, because preemption does not help.
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(text, args...))
}

// PreFilter rejects a member whose gang lacks pods, or that must wait for another gang.
func (g *Gang) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	k := keyOf(pod)
	if k == (key{}) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	want, err := minOf(pod)
	if err != nil {
		return nil, rejection("%v", err)
	}
	members, err := g.members(k)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if members[pod.UID] == nil { // the informer has not received it yet
		members[pod.UID] = pod
	}
	if len(members) < want {
		return nil, rejection("gang %s has %d of %d pods", k, len(members), want)
	}
	if g.placed(k, members) >= want {
		return nil, nil // the gang is already complete without this pod
	}
	if why := g.turns.take(k); why != "" {
		return nil, rejection("%s", why)
	}
	return nil, nil
}

// PreFilterExtensions returns nil: the plugin has no Filter.
func (g *Gang) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// PostFilter ends the turn of a gang if a member finds no node.
func (g *Gang) PostFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	k := keyOf(pod)
	if k != (key{}) && g.turns.fails(k) {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("gang %s does not fit", k))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// Reserve counts a member.
func (g *Gang) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if k := keyOf(pod); k != (key{}) {
		g.turns.reserve(k, pod.UID)
	}
	return nil
}

// Unreserve ends the turn of a gang that loses a member before it is complete. A member
// of a complete gang is only subtracted, and is retried alone.
func (g *Gang) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if k := keyOf(pod); k != (key{}) {
		g.turns.unreserve(k, pod.UID)
	}
}

// Permit makes a member wait until enough members of its gang have nodes.
func (g *Gang) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	k := keyOf(pod)
	if k == (key{}) {
		return nil, 0
	}
	want, err := minOf(pod)
	if err != nil {
		return rejection("%v", err), 0
	}
	members, err := g.members(k)
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	members[pod.UID] = pod
	if g.placed(k, members) < want {
		g.activate(members)
		return fwk.NewStatus(fwk.Wait), g.permit
	}
	g.waiting(k, func(member fwk.WaitingPod) { member.Allow(Name) })
	g.turns.completes(k)
	return nil, 0
}

// release is called when the turn of a gang has ended, or when a gang may be retried.
// failed is the gang whose members are rejected, and next the gang that has the turn.
// Either may be zero.
func (g *Gang) release(failed, next key) (found bool) {
	if failed != (key{}) {
		g.waiting(failed, func(member fwk.WaitingPod) { member.Reject(Name, fmt.Sprintf("gang %s does not fit", failed)) })
	}
	if next == (key{}) {
		return false
	}
	members, err := g.members(next)
	if err != nil {
		klog.Background().Error(err, "A gang is not tried again", "gang", next)
	}
	return g.activate(members)
}

// activate activates the members without node, and reports whether any exist.
func (g *Gang) activate(members map[types.UID]*v1.Pod) bool {
	pods := map[string]*v1.Pod{}
	for _, pod := range members {
		if pod.Spec.NodeName == "" {
			pods[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if len(pods) > 0 {
		g.handle.Activate(klog.Background(), pods)
	}
	return len(pods) > 0
}

// waiting calls do with the members of a gang that wait at Permit.
func (g *Gang) waiting(k key, do func(fwk.WaitingPod)) {
	var members []fwk.WaitingPod
	g.handle.IterateOverWaitingPods(func(p fwk.WaitingPod) {
		if keyOf(p.GetPod()) == k {
			members = append(members, p)
		}
	})
	for _, member := range members {
		do(member)
	}
}

// left removes a gang with its last pod.
func (g *Gang) left(pod *v1.Pod) {
	k := keyOf(pod)
	if k == (key{}) {
		return
	}
	g.turns.unreserve(k, pod.UID)
	if members, err := g.members(k); err == nil && len(members) == 0 {
		g.turns.forget(k)
	}
}
