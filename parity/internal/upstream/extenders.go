package upstream

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// newExtenders returns the extenders of a configuration in kube-scheduler's order.
func newExtenders(source *config.KubeSchedulerConfiguration) ([]fwk.Extender, error) {
	var first, last []fwk.Extender
	var ignored []string
	for i := range source.Extenders {
		e, err := scheduler.NewHTTPExtender(&source.Extenders[i])
		if err != nil {
			return nil, fmt.Errorf("build an extender of kube-scheduler: %w", err)
		}
		if e.IsIgnorable() {
			last = append(last, e)
		} else {
			first = append(first, e)
		}
		for _, r := range source.Extenders[i].ManagedResources {
			if r.IgnoredByScheduler {
				ignored = append(ignored, r.Name)
			}
		}
	}
	for i := range source.Profiles {
		for _, of := range source.Profiles[i].PluginConfig {
			if args, ok := of.Args.(*config.NodeResourcesFitArgs); ok && len(ignored) > 0 {
				args.IgnoredResources = ignored
			}
		}
	}
	return slices.Concat(first, last), nil
}

// watched returns the extenders for a profile's plugins. Their candidates for preemption
// are recorded.
func (s *Scheduler) watched(p *profile) []fwk.Extender {
	all := make([]fwk.Extender, len(s.extenders))
	for i, e := range s.extenders {
		all[i] = watchedExtender{e, p}
	}
	return all
}

type watchedExtender struct {
	fwk.Extender
	profile *profile
}

// ProcessPreemption records the remaining candidates.
func (w watchedExtender) ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	left, err := w.Extender.ProcessPreemption(pod, victims, nodes)
	if err != nil || w.profile.evaluation == nil {
		return left, err
	}
	var kept []Candidate
	for name, of := range left {
		if len(of.Pods) > 0 {
			kept = append(kept, Candidate{NodeName: name, Victims: of.Pods, Violations: int(of.NumPDBViolations)})
		}
	}
	w.profile.evaluation.candidates = kept
	return left, nil
}

// extend runs the extenders' filters on the nodes that passed the filters, as the
// scheduler does.
func (c *cycle) extend() {
	passed, err := c.askExtenders(c.feasible)
	if err != nil {
		c.verdict.Err = err
		c.verdict.Errs = []error{err}
		return
	}
	if len(passed) != len(c.feasible) {
		if c.fit.Diagnosis.UnschedulablePlugins == nil {
			c.fit.Diagnosis.UnschedulablePlugins = sets.New[string]()
		}
		c.fit.Diagnosis.UnschedulablePlugins.Insert(framework.ExtenderName)
	}
	c.feasible = passed
	for i := range c.verdict.Nodes {
		node := &c.verdict.Nodes[i]
		if !node.Feasible || slices.ContainsFunc(passed, func(n fwk.NodeInfo) bool { return n.Node().Name == node.Name }) {
			continue
		}
		node.Feasible, node.First = false, rejection(c.fit.Diagnosis.NodeToStatus.Get(node.Name))
		node.First.Plugin = framework.ExtenderName
		if c.explained && len(c.nominated.on(node.Name)) == 0 {
			node.All = []Rejection{*node.First}
		}
	}
}

// askExtenders returns the nodes that pass, and records the reasons of the others.
func (c *cycle) askExtenders(nodes []fwk.NodeInfo) ([]fwk.NodeInfo, error) {
	statuses := c.fit.Diagnosis.NodeToStatus
	for _, e := range c.extenders {
		if len(nodes) == 0 {
			break
		}
		if !e.IsInterested(c.pod) {
			continue
		}
		passed, failed, never, err := e.Filter(c.pod, nodes)
		switch {
		case err != nil && e.IsIgnorable():
			continue
		case err != nil:
			return nil, err
		}
		for name, text := range failed {
			statuses.Set(name, fwk.NewStatus(fwk.Unschedulable, text))
		}
		for name, text := range never { // these take precedence
			statuses.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text))
		}
		nodes = passed
	}
	return nodes, nil
}

// prioritize adds the extenders' scores of the feasible nodes.
func (c *cycle) prioritize() {
	for _, e := range c.extenders {
		if !e.IsInterested(c.pod) {
			continue
		}
		scores, weight, err := e.Prioritize(c.pod, c.feasible)
		if err != nil {
			continue
		}
		for _, host := range *scores {
			at := slices.IndexFunc(c.verdict.Nodes, func(n Node) bool { return n.Name == host.Host && n.Feasible })
			if at >= 0 {
				c.verdict.Nodes[at].Extended += host.Score * weight * (fwk.MaxScore / extenderv1.MaxExtenderPriority)
			}
		}
	}
}
