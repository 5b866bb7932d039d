package plugged

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// QuotaName is a plugin that limits the total requests of a namespace's pods. Its
// arguments have no registered type: {"cpus": 4}.
const QuotaName = "Quota"

const quotaKey = "plugged.example.com/quota"

type quota struct {
	handle     fwk.Handle
	limitMilli int64
}

var (
	_ fwk.PreFilterPlugin     = &quota{}
	_ fwk.PreFilterExtensions = &quota{}
	_ fwk.FilterPlugin        = &quota{}
	_ fwk.EnqueueExtensions   = &quota{}
)

func newQuota(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	var read struct{ CPUs int64 }
	unknown, ok := args.(*runtime.Unknown)
	if !ok {
		return nil, fmt.Errorf("arguments of %s: %T is not the JSON of arguments without a registered type", QuotaName, args)
	}
	if err := json.Unmarshal(unknown.Raw, &read); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", QuotaName, err)
	}
	return &quota{h, 1000 * read.CPUs}, nil
}

func (*quota) Name() string { return QuotaName }

func (*quota) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}}}, nil
}

// used is the total CPU request of a namespace's pods, in millicores.
type used struct{ milli int64 }

func (u *used) Clone() fwk.StateData { c := *u; return &c }

func (q *quota) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	nodes, err := q.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	u := &used{}
	for _, node := range nodes {
		for _, p := range node.GetPods() {
			if p.GetPod().Namespace == pod.Namespace {
				u.milli += cpuMilli(p.GetPod())
			}
		}
	}
	state.Write(quotaKey, u)
	return nil, nil
}

func (q *quota) PreFilterExtensions() fwk.PreFilterExtensions { return q }

func (q *quota) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return q.change(state, pod, other.GetPod(), 1)
}

func (q *quota) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return q.change(state, pod, other.GetPod(), -1)
}

func (q *quota) change(state fwk.CycleState, pod, other *v1.Pod, sign int64) *fwk.Status {
	u, err := state.Read(quotaKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if other.Namespace == pod.Namespace {
		u.(*used).milli += sign * cpuMilli(other)
	}
	return nil
}

func (q *quota) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	u, err := state.Read(quotaKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if u.(*used).milli+cpuMilli(pod) > q.limitMilli {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) of a namespace over its quota")
	}
	return nil
}
