package explain

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
)

// Objects are the objects of one cluster, as New expects them.
type Objects struct {
	Nodes  []*v1.Node
	Pods   []*v1.Pod
	Others []runtime.Object
}

// Since explains why the answer about a pod differs from the answer in an older snapshot
// of the cluster. A pod on a node is judged as if it were pending. The objects must not
// be changed.
func Since(scheduler *config.Config, then, now Objects, pod model.PodKey, at time.Time) (*attribution.Result, error) {
	return since(scheduler, Differences(scheduler, then, now, pod), now, at)
}

// SinceForGroup is Since for a pod group whose members are scheduled together. Members on
// nodes are judged as if they were pending. The group must not belong to a
// CompositePodGroup.
func SinceForGroup(scheduler *config.Config, then, now Objects, group model.GroupKey, at time.Time) (*attribution.Result, error) {
	return since(scheduler, DifferencesForGroup(scheduler, then, now, group), now, at)
}

func since(scheduler *config.Config, d *attribution.Differences, now Objects, at time.Time) (*attribution.Result, error) {
	occupying := slices.DeleteFunc(slices.Clone(now.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p.Status.NominatedNodeName == "" })
	s, err := New(scheduler, now.Nodes, occupying, now.Others, at)
	if err != nil {
		return nil, err
	}
	// The snapshot is not usable afterwards, because For changes its state.
	result, err := attribution.For(attribution.Cluster{State: s.state, Engine: s.engine, In: s.in, Profiles: s.profiles}, d)
	if err != nil {
		return nil, fmt.Errorf("explain what has changed: %w", err)
	}
	return result, nil
}

// Differences returns the differences between two snapshots that can change the answer
// about a pod.
func Differences(scheduler *config.Config, then, now Objects, pod model.PodKey) *attribution.Differences {
	return attribution.Between(then.readBy(scheduler), now.readBy(scheduler), pod)
}

// DifferencesForGroup returns the differences between two snapshots that can change the
// answer about a pod group.
func DifferencesForGroup(scheduler *config.Config, then, now Objects, group model.GroupKey) *attribution.Differences {
	return attribution.BetweenForGroup(then.readBy(scheduler), now.readBy(scheduler), group)
}

func (o Objects) readBy(scheduler *config.Config) attribution.Objects {
	return attribution.Objects{Nodes: o.Nodes, Pods: o.Pods, Others: readOf(scheduler.Reads(), o.Pods, o.Others)}
}
