package app

import (
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// logged logs each decision without a node, with the text and level of kube-scheduler.
// verbose logs the attempt before it. Package commit logs the result of each binding.
type logged struct {
	loop.Committer
	log klog.Logger
}

// Start logs a decision without a node, and passes every decision on.
func (l logged) Start(decision plan.Decision) {
	l.say(&decision)
	l.Committer.Start(decision)
}

func (l logged) say(decision *plan.Decision) {
	pod := decision.Pod
	switch decision.Outcome {
	case plan.Terminating:
		l.log.V(3).Info("Skip schedule deleting pod", "pod", pod)
	case plan.Failed:
		l.log.Error(decision.Err, "Error scheduling pod; retrying", "pod", pod)
	case plan.NoNodes:
		l.log.V(2).Info("Unable to schedule pod; no nodes are registered to the cluster; waiting", "pod", pod)
	case plan.Unschedulable:
		if log := l.log.V(2); log.Enabled() {
			text := "Unable to schedule pod; no fit; waiting"
			if decision.Rejection.Group != "" {
				text = "Unable to schedule pod belonging to a pod group; waiting"
			}
			log.Info(text, "pod", pod, "err", report.Message(decision))
		}
	}
}
