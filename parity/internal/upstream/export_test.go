package upstream

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Without runs the filters for a node in a dry run that removes pods from it, as in
// preemption. It returns nil if the node passes. The pod must have been judged last.
func (s *Scheduler) Without(nodeName string, victims ...*v1.Pod) (*Rejection, error) {
	c := s.last
	state := c.state.Clone()
	for _, info := range c.nodes {
		if info.Node().Name != nodeName {
			continue
		}
		node := info.Snapshot()
		for _, victim := range victims {
			removed, err := framework.NewPodInfo(victim)
			if err != nil {
				return nil, err
			}
			if err := node.RemovePod(s.logger, victim); err != nil {
				return nil, err
			}
			if status := c.profile.RunPreFilterExtensionRemovePod(s.ctx, state, c.pod, removed, node); !status.IsSuccess() {
				return nil, status.AsError()
			}
		}
		status := c.profile.RunFilterPlugins(s.ctx, state, c.pod, node)
		if status.IsSuccess() || status.IsRejected() {
			if status.IsSuccess() {
				return nil, nil
			}
			return rejection(status), nil
		}
		return nil, status.AsError()
	}
	return nil, fmt.Errorf("there is no node %s", nodeName)
}

// Plugin returns a plugin of the default profile.
func (s *Scheduler) Plugin(of string) fwk.Plugin {
	return s.profiles[v1.DefaultSchedulerName].plugins[of]
}

// Hint reports whether a plugin's hints queue a pod that it has rejected, for an event.
func (s *Scheduler) Hint(plugin string, pod *v1.Pod, resource fwk.EventResource, action fwk.ActionType, old, now any) (bool, error) {
	registered, err := s.Plugin(plugin).(fwk.EnqueueExtensions).EventsToRegister(context.Background())
	if err != nil {
		return false, err
	}
	for _, r := range registered {
		if r.Event.Resource != resource || r.Event.ActionType&action == 0 {
			continue
		}
		if r.QueueingHintFn == nil {
			return true, nil
		}
		if hint, err := r.QueueingHintFn(s.logger, pod, old, now); err != nil || hint == fwk.Queue {
			return true, nil
		}
	}
	return false, nil
}
