package plugged

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// GateName is a PreEnqueue plugin: it holds a namespace's pods until a node has the
// namespace's label or the pod has the annotation.
const GateName = "Gate"

// OpenLabel on a node opens a namespace's gate. OpenAnnotation lets a single pod pass.
const (
	OpenLabel      = "plugged.example.com/open"
	OpenAnnotation = "plugged.example.com/open"
)

type gate struct {
	mu   sync.Mutex
	open map[string]bool
}

var (
	_ fwk.PreEnqueuePlugin  = &gate{}
	_ fwk.EnqueueExtensions = &gate{}
)

func newGate(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &gate{open: map[string]bool{}}, nil
}

func (*gate) Name() string { return GateName }

func (g *gate) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[pod.Namespace] || annotation(pod, OpenAnnotation) != "" {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the gate of the namespace is closed")
}

func (g *gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, _, newObj any) (fwk.QueueingHint, error) {
			node, ok := newObj.(*v1.Node)
			if !ok || node.Labels[OpenLabel] != pod.Namespace {
				return fwk.QueueSkip, nil
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.open[pod.Namespace] = true
			return fwk.Queue, nil
		},
	}, {
		Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update},
	}}, nil
}
