package plugged

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// GangName is a Permit plugin: the pods of a group wait for each other. It is
// coscheduling without custom resources.
const GangName = "Gang"

// A group's pods have a label with its name, and annotations with its size and a member's
// timeout.
const (
	GroupLabel        = "plugged.example.com/group"
	SizeAnnotation    = "plugged.example.com/size"
	TimeoutAnnotation = "plugged.example.com/timeout"
	// PersistAnnotation retries a rejected group without a new member.
	PersistAnnotation = "plugged.example.com/persist"
)

type gang struct {
	handle fwk.Handle
	pods   listersv1.PodLister
}

var (
	_ fwk.PermitPlugin      = &gang{}
	_ fwk.ReservePlugin     = &gang{}
	_ fwk.EnqueueExtensions = &gang{}
)

func newGang(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &gang{handle: h, pods: h.SharedInformerFactory().Core().V1().Pods().Lister()}, nil
}

func (*gang) Name() string { return GangName }

// EventsToRegister registers no events: a rejected member is retried when another member
// activates it.
func (*gang) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }

func (g *gang) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

// Permit lets a pod wait until the group's size is reached. A pod of an incomplete group
// activates the rejected members.
func (g *gang) Permit(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if pod.Labels[GroupLabel] == "" {
		return nil, 0
	}
	size, err := strconv.Atoi(annotation(pod, SizeAnnotation))
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("size of the group: %w", err)), 0
	}
	timeout, err := time.ParseDuration(annotation(pod, TimeoutAnnotation))
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("timeout of the group: %w", err)), 0
	}
	var waiting []fwk.WaitingPod
	g.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if sameGroup(w.GetPod(), pod) {
			waiting = append(waiting, w)
		}
	})
	if len(waiting)+1 >= size {
		for _, w := range waiting {
			w.Allow(GangName)
		}
		return nil, 0
	}
	if err := g.activateOthers(ctx, pod); err != nil {
		return fwk.AsStatus(err), 0
	}
	return fwk.NewStatus(fwk.Wait), timeout
}

func (g *gang) activateOthers(ctx context.Context, pod *v1.Pod) error {
	members, err := g.pods.Pods(pod.Namespace).List(labels.SelectorFromSet(labels.Set{GroupLabel: pod.Labels[GroupLabel]}))
	if err != nil {
		return err
	}
	others := map[string]*v1.Pod{}
	for _, member := range members {
		// A pod that is activated while it waits at Permit is retried after its
		// rejection. It then activates the others, and the group never rests.
		skip := annotation(pod, PersistAnnotation) == "" && g.handle.GetWaitingPod(member.UID) != nil
		if member.UID != pod.UID && member.Spec.NodeName == "" && !skip {
			others[member.Namespace+"/"+member.Name] = member
		}
	}
	g.handle.Activate(klog.FromContext(ctx), others)
	return nil
}

// Unreserve rejects all waiting members after one was rejected.
func (g *gang) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if pod.Labels[GroupLabel] == "" {
		return
	}
	g.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if sameGroup(w.GetPod(), pod) {
			w.Reject(GangName, "the group is incomplete")
		}
	})
}

func sameGroup(a, b *v1.Pod) bool {
	return a.UID != b.UID && a.Namespace == b.Namespace && a.Labels[GroupLabel] == b.Labels[GroupLabel]
}
