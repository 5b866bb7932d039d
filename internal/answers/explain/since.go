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

// Objects is the objects of one cluster, as New takes them.
type Objects struct {
	Nodes  []*v1.Node
	Pods   []*v1.Pod
	Others []runtime.Object
}

// Since says why the answer about a pod in a cluster is another one than it was in an older snapshot of it. Pods may be on nodes: the pod is judged as if it waited. The objects must not be changed.
func Since(scheduler *config.Config, then, now Objects, pod model.PodKey, at time.Time) (*attribution.Result, error) {
	return since(scheduler, Differences(scheduler, then, now, pod), now, at)
}

// SinceForGroup is Since for a pod group, whose members are decided about together: those that wait, and those on nodes as if they waited. The group must not belong to a composite one.
func SinceForGroup(scheduler *config.Config, then, now Objects, group model.GroupKey, at time.Time) (*attribution.Result, error) {
	return since(scheduler, DifferencesForGroup(scheduler, then, now, group), now, at)
}

func since(scheduler *config.Config, d *attribution.Differences, now Objects, at time.Time) (*attribution.Result, error) {
	occupying := slices.DeleteFunc(slices.Clone(now.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName == "" && p.Status.NominatedNodeName == "" })
	s, err := New(scheduler, now.Nodes, occupying, now.Others, at)
	if err != nil {
		return nil, err
	}
	// The snapshot is of no use afterwards: its state is another one then.
	result, err := attribution.For(attribution.Cluster{State: s.state, Engine: s.engine, In: s.in, Profiles: s.profiles}, d)
	if err != nil {
		return nil, fmt.Errorf("explain what has changed: %w", err)
	}
	return result, nil
}

// Differences returns what differs between two snapshots that can change the answer about a pod.
func Differences(scheduler *config.Config, then, now Objects, pod model.PodKey) *attribution.Differences {
	return attribution.Between(then.readBy(scheduler), now.readBy(scheduler), pod)
}

// DifferencesForGroup returns what differs between two snapshots that can change the answer about a pod group.
func DifferencesForGroup(scheduler *config.Config, then, now Objects, group model.GroupKey) *attribution.Differences {
	return attribution.BetweenForGroup(then.readBy(scheduler), now.readBy(scheduler), group)
}

func (o Objects) readBy(scheduler *config.Config) attribution.Objects {
	return attribution.Objects{Nodes: o.Nodes, Pods: o.Pods, Others: readOf(scheduler.Reads(), o.Pods, o.Others)}
}
