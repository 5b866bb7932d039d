package plugged

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// TrivialName is a plugin with the cheapest possible Filter and Score.
const TrivialName = "Trivial"

// trivial passes every node and scores nodes with more pods slightly lower.
type trivial struct{}

var (
	_ fwk.FilterPlugin = trivial{}
	_ fwk.ScorePlugin  = trivial{}
)

func newTrivial(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return trivial{}, nil
}

func (trivial) Name() string { return TrivialName }

func (trivial) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if node.Node() == nil {
		return fwk.NewStatus(fwk.Error, "the node is not there")
	}
	return nil
}

func (trivial) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return max(0, fwk.MaxScore-int64(len(node.GetPods()))), nil
}

func (trivial) ScoreExtensions() fwk.ScoreExtensions { return nil }
