package app

import (
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// logged logs each decision as kube-scheduler does: same text, same level. The outcome of a binding is logged by commit.
type logged struct {
	loop.Committer
	log klog.Logger
}

// Start logs the decision and passes it to the next committer.
func (l logged) Start(decision plan.Decision, report report.Report) {
	switch {
	case decision.Settled():
	case decision.Err == plan.ErrTerminating:
		l.log.V(3).Info("Skip schedule deleting pod", "pod", decision.Pod)
	case decision.Err != nil:
		l.log.Error(decision.Err, "Error scheduling pod; retrying", "pod", decision.Pod)
	case decision.Nodes == 0:
		l.log.V(2).Info("Unable to schedule pod; no nodes are registered to the cluster; waiting", "pod", decision.Pod)
	default:
		if log := l.log.V(2); log.Enabled() {
			log.Info("Unable to schedule pod; no fit; waiting", "pod", decision.Pod, "err", report.Event.Note)
		}
	}
	l.Committer.Start(decision, report)
}
