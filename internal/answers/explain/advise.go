package explain

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Advise searches for changes that would help the pod of an explanation of this snapshot,
// and stores them in the explanation. pending is the number of other pending pods of its
// owner.
//
// It does nothing if a node is feasible and the pod is not gated, or if nodes are not the
// problem: the pod is being deleted or malformed, the cluster has no nodes, or a plugin
// fails. A selector of devices that cannot be evaluated is an exception, because the
// claim can be changed. For members of pod groups, Group searches for the whole group.
func (s *Snapshot) Advise(a *Explanation, pending int) {
	unschedulable := a.decision.Outcome == plan.Unschedulable || a.decision.Outcome == plan.Placed && a.Gated != "" || s.failsOnDevices(a)
	if a.PodGroup != "" || a.pod.Terminating || a.pod.Malformed != "" || !unschedulable {
		return
	}
	question := s.question(a)
	question.Preempts, question.Pending = a.Preemption != nil, pending
	found := s.advise(question)
	a.Advice = &found
}

// failsOnDevices reports whether the search for devices fails, for example because a
// selector reads an attribute that a device does not have. A search that ran out of time
// does not count: each change would repeat it.
func (s *Snapshot) failsOnDevices(a *Explanation) bool {
	var failed *plan.PluginError
	return a.decision.Outcome == plan.Failed && errors.As(a.decision.Err, &failed) && failed.Plugin == dynamicresources.Name &&
		!errors.Is(a.decision.Err, allocator.ErrTimeout) && !errors.Is(a.decision.Err, plugin.ErrUnfinished)
}

// question returns the question to package advice about the pod of an explanation.
func (s *Snapshot) question(a *Explanation) advice.Question {
	question := advice.Question{Pod: a.pod.Object, Objections: make([]advice.Objection, len(a.Nodes))}
	for i := range a.Nodes {
		question.Objections[i].Node = a.Nodes[i].Name
		for j := range a.Nodes[i].Rejections {
			question.Objections[i].Plugins = append(question.Objections[i].Plugins, a.Nodes[i].Rejections[j].Plugin)
		}
	}
	return question
}

func (s *Snapshot) advise(question advice.Question) advice.Advice {
	return advice.For(advice.Cluster{
		State: s.state, Engine: s.engine, In: s.in, Profiles: s.profiles, Nodes: s.nodes, Others: s.others, Reads: s.reads,
	}, question)
}

// PendingBeside returns the number of other pending pods with the same owner. Pods that
// are finished or being deleted do not count.
func PendingBeside(pod *v1.Pod, pods []*v1.Pod) int {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return 0
	}
	n := 0
	for _, other := range pods {
		if other.Spec.NodeName != "" || other.DeletionTimestamp != nil || other.Namespace != pod.Namespace || other.Name == pod.Name || other.Status.Phase == v1.PodSucceeded || other.Status.Phase == v1.PodFailed {
			continue
		}
		if o := metav1.GetControllerOfNoCopy(other); o != nil && o.UID == owner.UID && o.Kind == owner.Kind && o.Name == owner.Name {
			n++
		}
	}
	return n
}
