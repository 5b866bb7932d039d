package upstream

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Commit runs the Reserve and Permit plugins for the last judged pod, on one of the best
// nodes. The verdict includes a refusal or an error as the scheduler reports it; no
// PostFilter plugin runs then. Commit returns the calls of external plugins, and the
// plugins for which the pod waits. Nothing is assumed.
func (s *Scheduler) Commit(nodeName string) (verdict *Verdict, calls, waits []string) {
	c := s.last
	s.outside.Calls()
	placed := c.pod.DeepCopy()
	placed.Spec.NodeName = nodeName
	status := c.profile.RunReservePluginsReserve(c.ctx, c.state, placed, nodeName)
	if status.IsSuccess() {
		timeouts, permitted := c.profile.RunPermitPlugins(c.ctx, c.state, placed, nodeName)
		if permitted.IsSuccess() || permitted.IsWait() {
			for _, of := range slices.Sorted(maps.Keys(timeouts)) {
				waits = append(waits, fmt.Sprintf("%s %v", of, timeouts[of]))
			}
			return c.verdict, s.outside.Calls(), waits
		}
		status = permitted
	}
	c.profile.RunReservePluginsUnreserve(c.ctx, c.state, placed, nodeName)
	c.refuse(status, nodeName)
	return c.verdict, s.outside.Calls(), nil
}

// refuse ends the cycle with a status of Reserve or Permit.
func (c *cycle) refuse(status *fwk.Status, nodeName string) {
	if !status.IsRejected() {
		c.verdict.Err = status.AsError()
		return
	}
	fit := framework.FitError{NumAllNodes: 1, Pod: c.pod, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
	fit.Diagnosis.NodeToStatus.Set(nodeName, status)
	fit.Diagnosis.AddPluginStatus(status)
	c.verdict.Message, c.verdict.MessageBefore = fit.Error(), fit.Error()
	c.verdict.Plugins, c.verdict.Pending = sets.List(fit.Diagnosis.UnschedulablePlugins), sets.List(fit.Diagnosis.PendingPlugins)
}
