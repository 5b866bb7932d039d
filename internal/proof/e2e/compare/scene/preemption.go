package scene

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// preemptionAsync measures plain pods while five preemptors arrive per second.
func preemptionAsync(s *Scene, c counts) {
	low := victims(c)
	s.Fresh = []Pods{low}
	s.Churn = []Churn{created(200*time.Millisecond, preemptor)}
	s.Answer = answerPreemptors(c.nodes, low)
}

// preemptionBurst measures pods that all preempt.
func preemptionBurst(s *Scene, c counts) {
	low := victims(c)
	s.Fresh = []Pods{low}
	s.Measured.Pod = preemptor
	s.Answer = answerPreemptors(c.nodes, low)
}

// victims are pods of low priority, four to a default node, which they fill. They are
// created again for the next round. Without kubelets, evicted ones are gone at once.
func victims(c counts) Pods {
	now := int64(0)
	return Pods{Namespace: before, Count: c.before, Node: evenly(c.nodes, 1), Pod: func(i int) *v1.Pod {
		p := pod(numbered("low", i), "900m", "500Mi", nil)
		p.Spec.TerminationGracePeriodSeconds = &now
		return p
	}}
}

// perPreemptor is the number of victims that a preemptor needs.
const perPreemptor = 3

// preemptorPrefix and tooLargePrefix are prefixes of pod names.
const (
	preemptorPrefix = "preemptor"
	tooLargePrefix  = "too-large"
)

// preemptor is a pod that needs the room of three victims.
func preemptor(i int) *v1.Pod {
	p := pod(numbered(preemptorPrefix, i), "3", "500Mi", nil)
	p.Spec.PriorityClassName = HighPriority
	return p
}

func unschedulable(s *Scene, c counts) {
	s.Standing = []Pods{standing(c, 1, defaultPod)}
	s.Churn = []Churn{created(200*time.Millisecond, tooLarge)}
	s.Answer = answerTooLarge(c.nodes)
}

// tooLarge returns a pod of high priority that fits on no default node.
func tooLarge(i int) *v1.Pod {
	p := pod(numbered(tooLargePrefix, i), "9", "500Mi", nil)
	p.Spec.PriorityClassName = HighPriority
	return p
}
