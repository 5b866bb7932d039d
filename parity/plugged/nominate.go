package plugged

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// NominatorName is a custom PostFilter plugin. On the pod's wanted node it deletes the
// pods with VictimLabel, whatever their priority, and nominates the pod to the node.
const NominatorName = "Nominator"

// WantsAnnotation is a pod's wanted node, and VictimLabel marks victims.
const (
	WantsAnnotation = "plugged.example.com/wants"
	VictimLabel     = "plugged.example.com/victim"
)

type nominator struct{ handle fwk.Handle }

var _ fwk.PostFilterPlugin = &nominator{}

func newNominator(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &nominator{h}, nil
}

func (*nominator) Name() string { return NominatorName }

func (n *nominator) PostFilter(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, verdicts fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	node := annotation(pod, WantsAnnotation)
	if node == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod asks for no node")
	}
	if code := verdicts.Get(node).Code(); code != fwk.Unschedulable {
		return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("node %s is %s", node, code))
	}
	at, err := n.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	victims := 0
	for _, p := range at.GetPods() {
		if victim := p.GetPod(); victim.Labels[VictimLabel] != "" {
			victims++
			err := n.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fwk.AsStatus(err)
			}
		}
	}
	if victims == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, "nothing may go")
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride}}, nil
}
