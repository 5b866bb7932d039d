package app

import (
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// logged logs each decision with the text and level of kube-scheduler. Package commit
// logs the result of each binding.
type logged struct {
	loop.Committer
	log klog.Logger
}

// Start logs the decision and passes it on.
func (l logged) Start(decision plan.Decision) {
	l.say(&decision)
	l.Committer.Start(decision)
}

func (l logged) say(decision *plan.Decision) {
	pod := decision.Pod
	if log := l.log.V(3); log.Enabled() && decision.Outcome != plan.Terminating {
		log.Info("Attempting to schedule pod", "pod", pod)
	}
	switch decision.Outcome {
	case plan.Terminating:
		l.log.V(3).Info("Skip schedule deleting pod", "pod", pod)
	case plan.Failed:
		l.log.Error(decision.Err, "Error scheduling pod; retrying", "pod", pod)
	case plan.NoNodes:
		l.log.V(2).Info("Unable to schedule pod; no nodes are registered to the cluster; waiting", "pod", pod)
	case plan.Unschedulable:
		if log := l.log.V(2); log.Enabled() {
			log.Info("Unable to schedule pod; no fit; waiting", "pod", pod, "err", report.Message(decision))
		}
	}
}
