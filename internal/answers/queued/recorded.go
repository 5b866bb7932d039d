package queued

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/queue"
)

// The places of pods in a snapshot, by their condition PodScheduled.
const (
	placeRejected = "unschedulable"
	placeGated    = "gated"
	placeNew      = "pending"
)

// Recorded answers questions about the pods of a snapshot, by their conditions. Attempts,
// positions and events are unknown there. at is the time of the snapshot.
func Recorded(pods []*v1.Pod, profiles []string, at time.Time) func(context.Context, Question) (*Answer, error) {
	s := &snapshot{at: at, wall: at}
	var others []*v1.Pod
	for _, pod := range pods {
		switch {
		case pod.Spec.NodeName != "":
			continue
		case !slices.Contains(profiles, pod.Spec.SchedulerName):
			others = append(others, pod)
			continue
		}
		place, reason := recordedReason(pod)
		s.pods = append(s.pods, waiting{pod: pod, brief: queue.Brief{Place: place}, recorded: reason})
	}
	slices.SortStableFunc(s.pods, func(a, b waiting) int {
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time),
			cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return func(ctx context.Context, q Question) (*Answer, error) {
		selector, err := labels.Parse(q.Selector)
		if err != nil {
			return nil, &SelectorError{q.Selector, err}
		}
		answer, err := s.answer(ctx, q, selector)
		if err != nil {
			return nil, err
		}
		for _, pod := range others {
			if (q.Namespace == "" || q.Namespace == pod.Namespace) && selector.Matches(labels.Set(pod.Labels)) {
				answer.OtherSchedulers++
			}
		}
		return answer, nil
	}
}

// recordedReason returns the place and the reason in the condition of a pod.
func recordedReason(pod *v1.Pod) (place, reason string) {
	place = placeNew
	if len(pod.Spec.SchedulingGates) > 0 {
		place = placeGated
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != v1.PodScheduled || c.Status != v1.ConditionFalse {
			continue
		}
		if c.Reason != v1.PodReasonSchedulingGated {
			place = placeRejected
		}
		return place, c.Message
	}
	return place, ""
}
