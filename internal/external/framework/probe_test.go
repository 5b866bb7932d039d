package framework_test

import (
	"context"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	st "github.com/berth-scheduler/berth/framework/testing"
)

// probe is a plugin with functions for the points at which a test uses the Handle; nil
// functions do nothing. It registers only for new nodes.
type probe struct {
	name       string
	h          fwk.Handle
	made       func(h fwk.Handle) // in the factory
	preFilter  func(state fwk.CycleState, pod *v1.Pod)
	filter     func(pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
	postFilter func(state fwk.CycleState, pod *v1.Pod)
	permit     func(pod *v1.Pod) (*fwk.Status, time.Duration)
	preBind    func(ctx context.Context, pod *v1.Pod) *fwk.Status

	mu       sync.Mutex
	extended []string // calls of AddPod and RemovePod
}

func (p *probe) Name() string { return p.name }

func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}, nil
}

func (p *probe) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.preFilter != nil {
		p.preFilter(state, pod)
	}
	return nil, nil
}

func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *probe) note(text string) *fwk.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.extended = append(p.extended, text)
	return nil
}

func (p *probe) AddPod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.note("+" + pod.GetPod().Name + " " + node.Node().Name)
}

func (p *probe) RemovePod(_ context.Context, _ fwk.CycleState, _ *v1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.note("-" + pod.GetPod().Name + " " + node.Node().Name)
}

func (p *probe) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.filter == nil {
		return nil
	}
	return p.filter(pod, node)
}

func (p *probe) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.postFilter != nil {
		p.postFilter(state, pod)
	}
	return nil, status(fwk.Unschedulable)
}

func (p *probe) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	if p.permit == nil {
		return nil, 0
	}
	return p.permit(pod)
}

func (p *probe) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (p *probe) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if p.preBind == nil {
		return nil
	}
	return p.preBind(ctx, pod)
}

// probed returns a cluster in memory with the nodes a and b, of 4 cpu each, and plugins.
func probed(t *testing.T, plugins []*probe, options ...st.Option) *st.Cluster {
	t.Helper()
	var nodes []*v1.Node
	for _, name := range []string{"a", "b"} {
		nodes = append(nodes, st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
	}
	for _, p := range plugins {
		options = append(options, st.WithPlugin(p.name, func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			p.h = h
			if p.made != nil {
				p.made(h)
			}
			return p, nil
		}, nil))
	}
	return st.NewCluster(t, nodes, nil, options...)
}

func one(p *probe) []*probe {
	p.name = "Probe"
	return []*probe{p}
}

func podOf(name, cpu string) *st.PodWrapper {
	return st.MakePod().Name(name).Namespace("shop").UID(name).Req(map[v1.ResourceName]string{"cpu": cpu})
}
