package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Verdict is kube-scheduler's result for a pod.
type Verdict struct {
	// Nodes are sorted by name. They are empty if the cycle fails before the filters.
	Nodes    []Node
	Feasible int
	// Message is the text of the FailedScheduling event, and MessageBefore is the text
	// without preemption's part. Both are empty if a node is feasible, or with Err.
	Message, MessageBefore string
	// Preemption is set if Message is.
	Preemption *Preemption
	// Gated is the reason why a PreEnqueue plugin holds the pod back, or empty. The cycle
	// runs in either case.
	Gated string
	// Deallocated is the ResourceClaim that PostFilter has deallocated, or nil.
	// Deallocatable are namespace/name of the claims that it chooses from.
	Deallocated   *resourcev1.ResourceClaim
	Deallocatable []string
	// Plugins are the plugins whose events can make the pod schedulable, sorted. Pending
	// are the plugins that returned Pending.
	Plugins, Pending []string
	// Best are the names of the nodes that kube-scheduler chooses from, sorted.
	Best []string
	// Err ends the cycle without a result. If filters fail on several nodes,
	// kube-scheduler reports a random one of the errors. Errs has all of them, and Err is
	// the first node's.
	Err  error
	Errs []error
	// Behind counts the errors in Errs on nodes that another filter rejects.
	Behind int
}

// Node is the plugins' result for a node.
type Node struct {
	Name     string
	Feasible bool
	// First is the rejection that kube-scheduler reports.
	First *Rejection
	// All are the rejections and errors of all filters, each run alone, in order.
	// kube-scheduler never reaches those after a rejection. All is nil unless the verdict
	// is explained. It is also nil if pods are nominated to the node, because filters
	// then run with and without them.
	All []Rejection
	// Scores are in the order of the profile. They are set only if several nodes are
	// feasible.
	Scores []Score
	Total  int64
	// Extended is the extenders' part of the total.
	Extended int64
}

// Rejection is a plugin's rejection of a node.
type Rejection struct {
	Plugin  string
	Code    string
	Reasons []string
}

// Score is a plugin's score of a node.
type Score struct {
	Plugin string
	Weight int64
	// Raw is the result of Score, Normalised that of NormalizeScore, and Weighted is
	// Normalised times the weight.
	Raw, Normalised, Weighted int64
}

// ErrNoNodes is the error in an empty cluster.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Explain is Judge, and also runs each filter alone to set All of the nodes.
func (s *Scheduler) Explain(pod *v1.Pod) (*Verdict, error) { return s.judge(pod, true) }

// Judge runs one scheduling cycle for a pod on the current cluster.
func (s *Scheduler) Judge(pod *v1.Pod) (*Verdict, error) { return s.judge(pod, false) }

func (s *Scheduler) judge(pod *v1.Pod, explained bool) (*Verdict, error) {
	p := s.profiles[pod.Spec.SchedulerName]
	if p == nil {
		return nil, fmt.Errorf("no profile of kube-scheduler has the name %q", pod.Spec.SchedulerName)
	}
	if s.stale {
		*s.snapshot, s.stale = *cache.NewEmptySnapshot(), false // the plugins hold the pointer
	}
	if err := s.cache.UpdateSnapshot(s.logger, s.snapshot); err != nil {
		return nil, fmt.Errorf("take a snapshot of kube-scheduler's cache: %w", err)
	}
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list the nodes of kube-scheduler's snapshot: %w", err)
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	c := &cycle{Scheduler: s, profile: p, pod: pod, state: framework.NewCycleState(), nodes: nodes, verdict: &Verdict{}, explained: explained, rejected: map[int]fwk.NodeInfo{}}
	s.last = c
	if c.gate(); len(nodes) == 0 {
		c.verdict.Err = ErrNoNodes
		return c.verdict, nil
	}
	c.run()
	if c.verdict.Err != nil || c.verdict.Feasible > 0 {
		c.explain()
		return c.verdict, nil
	}
	c.verdict.MessageBefore = c.fit.Error()
	c.verdict.Plugins, c.verdict.Pending = sets.List(c.fit.Diagnosis.UnschedulablePlugins), sets.List(c.fit.Diagnosis.PendingPlugins)
	if err := c.postFilter(); err != nil {
		return nil, err
	}
	c.verdict.Message = c.fit.Error()
	c.explain()
	return c.verdict, nil
}

// gate runs the PreEnqueue plugins.
func (c *cycle) gate() {
	for _, p := range c.profile.PreEnqueuePlugins() {
		if status := p.PreEnqueue(c.ctx, c.pod); !status.IsSuccess() {
			c.verdict.Gated = status.Message()
			return
		}
	}
}

// explain runs each filter alone on the rejected nodes. It comes last, because
// DynamicResources keeps the results of its filter on each node for PostFilter.
func (c *cycle) explain() {
	if !c.explained {
		return
	}
	for i, info := range c.rejected {
		if len(c.nominated.on(c.verdict.Nodes[i].Name)) == 0 {
			c.verdict.Nodes[i].All = c.objections(info)
		}
	}
	for _, info := range c.failed {
		if len(c.objections(info)) > 1 {
			c.verdict.Behind++
		}
	}
}

// cycle is one scheduling cycle, with the state that its plugins share.
type cycle struct {
	*Scheduler
	profile  *profile
	pod      *v1.Pod
	state    fwk.CycleState
	nodes    []fwk.NodeInfo // by name
	feasible []fwk.NodeInfo
	rejected map[int]fwk.NodeInfo // by filters, by index in the verdict
	failed   []fwk.NodeInfo       // nodes with a failed filter
	fit      framework.FitError
	verdict  *Verdict
	// explained means that all filters run.
	explained bool
}

func (c *cycle) run() {
	c.fit = framework.FitError{Pod: c.pod, NumAllNodes: len(c.nodes), Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
	only, status, plugins := c.profile.RunPreFilterPlugins(c.ctx, c.state, c.pod)
	c.fit.Diagnosis.UnschedulablePlugins = plugins
	switch {
	case status.IsRejected():
		c.fit.Diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		c.fit.Diagnosis.PreFilterMsg = status.Message()
		c.fit.Diagnosis.AddPluginStatus(status)
		for _, n := range c.nodes {
			c.verdict.Nodes = append(c.verdict.Nodes, Node{Name: n.Node().Name, First: rejection(status)})
		}
	case !status.IsSuccess():
		c.verdict.Err = status.AsError()
		return
	default:
		if c.filter(only, plugins); c.verdict.Err != nil {
			return
		}
	}
	if c.verdict.Feasible == 0 {
		return
	}
	c.score()
	c.choose()
}

// filter runs the filters on every node that PreFilter has left, and on the pod's
// nominated node.
func (c *cycle) filter(only *fwk.PreFilterResult, narrowed sets.Set[string]) {
	diagnosis := &c.fit.Diagnosis
	nominated, passes := c.filterNominated()
	// By now the set also has the plugin that rejected the nominated node.
	outside := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowed)))
	if !only.AllNodes() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(outside)
	}
	for _, info := range c.nodes {
		node := Node{Name: info.Node().Name}
		if !only.AllNodes() && !only.NodeNames.Has(node.Name) && node.Name != nominated {
			node.First = rejection(outside)
			c.verdict.Nodes = append(c.verdict.Nodes, node)
			continue
		}
		status := c.profile.RunFilterPluginsWithNominatedPods(c.ctx, c.state, c.pod, info)
		switch {
		case status.IsSuccess():
			node.Feasible = true
			c.feasible = append(c.feasible, info)
		case !status.IsRejected():
			c.verdict.Errs, c.failed = append(c.verdict.Errs, status.AsError()), append(c.failed, info)
			if !passes { // otherwise no other node is visited
				c.verdict.Err = c.verdict.Errs[0]
			}
			continue
		default:
			node.First = rejection(status)
			c.rejected[len(c.verdict.Nodes)] = info
			diagnosis.NodeToStatus.Set(node.Name, status)
			diagnosis.AddPluginStatus(status)
		}
		c.verdict.Nodes = append(c.verdict.Nodes, node)
	}
	if c.verdict.Err == nil {
		c.extend()
	}
	c.verdict.Feasible = len(c.feasible)
}

// filterNominated filters the pod's nominated node, as kube-scheduler does before it
// visits any other node, whatever PreFilter has left. It returns the node's name and
// whether the node passes. The status stays. The name is "" if the node does not exist,
// or if a filter fails, which kube-scheduler only logs.
func (c *cycle) filterNominated() (nodeName string, passes bool) {
	at := slices.IndexFunc(c.nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == c.pod.Status.NominatedNodeName })
	if at < 0 {
		return "", false
	}
	status := c.profile.RunFilterPluginsWithNominatedPods(c.ctx, c.state, c.pod, c.nodes[at])
	switch {
	case status.IsRejected():
		c.fit.Diagnosis.AddPluginStatus(status)
	case !status.IsSuccess():
		return "", false
	default:
		passed, err := c.askExtenders(c.nodes[at : at+1])
		if err != nil {
			return "", false
		}
		passes = len(passed) > 0
	}
	return c.pod.Status.NominatedNodeName, passes
}

// objections runs each filter alone, where kube-scheduler stops at the first rejection.
func (c *cycle) objections(info fwk.NodeInfo) []Rejection {
	var all []Rejection
	for _, of := range c.profile.filters {
		if c.state.GetSkipFilterPlugins().Has(of) {
			continue
		}
		status := c.profile.plugins[of].(fwk.FilterPlugin).Filter(c.ctx, c.state, c.pod, info)
		switch {
		case status.IsSuccess():
			continue
		case !status.IsRejected(): // in the words of the framework
			status = fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", of, status.AsError()))
		}
		no := *rejection(status)
		no.Plugin = of
		all = append(all, no)
	}
	return all
}

func rejection(status *fwk.Status) *Rejection {
	return &Rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: slices.Clone(status.Reasons())}
}

// score skips scoring for a single feasible node, as kube-scheduler does.
func (c *cycle) score() {
	if len(c.feasible) < 2 || !c.profile.HasScorePlugins() && len(c.extenders) == 0 {
		return
	}
	if status := c.profile.RunPreScorePlugins(c.ctx, c.state, c.pod, c.feasible); !status.IsSuccess() {
		c.verdict.Err = status.AsError()
		return
	}
	scored, status := c.profile.RunScorePlugins(c.ctx, c.state, c.pod, c.feasible)
	if !status.IsSuccess() {
		c.verdict.Err = status.AsError()
		return
	}
	at := 0
	for i := range c.verdict.Nodes {
		if node := &c.verdict.Nodes[i]; node.Feasible {
			node.Scores, node.Total = c.scores(&scored[at]), scored[at].TotalScore
			at++
		}
	}
	c.prioritize()
}

func (c *cycle) scores(of *fwk.NodePluginScores) []Score {
	scores := make([]Score, len(of.Scores))
	for i, weighted := range of.Scores {
		weight := c.profile.weights[weighted.Name]
		scores[i] = Score{Plugin: weighted.Name, Weight: weight, Raw: of.RawScores[i].Score, Normalised: weighted.Score / weight, Weighted: weighted.Score}
	}
	return scores
}

// choose finds the nodes with the highest total, or takes the pod's nominated node.
func (c *cycle) choose() {
	if c.verdict.Err != nil {
		return
	}
	var best int64
	for i := range c.verdict.Nodes {
		node := &c.verdict.Nodes[i]
		switch {
		case !node.Feasible:
			continue
		case node.Name == c.pod.Status.NominatedNodeName:
			c.verdict.Best = []string{node.Name}
			return
		case len(c.verdict.Best) == 0 || node.Total+node.Extended > best:
			best, c.verdict.Best = node.Total+node.Extended, nil
		}
		if node.Total+node.Extended == best {
			c.verdict.Best = append(c.verdict.Best, node.Name)
		}
	}
}
