package upstream

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Preemption is the result of the PostFilter plugins after a rejection.
type Preemption struct {
	// Message is the plugins' part of the FailedScheduling event.
	Message string
	// Mode is the change of the pod's nominated node. NodeName is its new value if Mode
	// is Set.
	Mode     Nomination
	NodeName string
	// Candidates are the nodes on which preemption makes room, by name.
	Candidates []Candidate
	// Outranked are the pods that lose their nomination to NodeName, by namespace and
	// name.
	Outranked []string
}

// Nomination is a change of a pod's status.nominatedNodeName.
type Nomination string

// The values of Nomination.
const (
	Keep  Nomination = "keep"
	Clear Nomination = "clear"
	Set   Nomination = "set"
)

// Candidate is a node that is feasible for a pod after preemption.
type Candidate struct {
	NodeName string
	// Victims are the pods to evict, the most important one first.
	Victims []*v1.Pod
	// Violations is the number of evictions that violate a PodDisruptionBudget.
	Violations int
}

// VictimNames returns namespace/name of the victims, sorted.
func (c *Candidate) VictimNames() []string { return sortedNames(c.Victims) }

func sortedNames(pods []*v1.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	return names
}

// Candidate returns the candidate of that name, or nil.
func (p *Preemption) Candidate(nodeName string) *Candidate {
	at := slices.IndexFunc(p.Candidates, func(c Candidate) bool { return c.NodeName == nodeName })
	if at < 0 {
		return nil
	}
	return &p.Candidates[at]
}

// Best returns the names of the candidates that kube-scheduler's criteria rank equally,
// sorted. Pods that have not started count as started now, so candidates that differ only
// in these are equal. kube-scheduler then takes the node that it visited last.
func (p *Preemption) Best() []string {
	var best []string
	var least [5]int64
	for i := range p.Candidates {
		c := &p.Candidates[i]
		rungs := c.rungs()
		switch d := slices.Compare(rungs[:], least[:]); {
		case d < 0 || best == nil:
			best, least = []string{c.NodeName}, rungs
		case d == 0:
			best = append(best, c.NodeName)
		}
	}
	return best
}

// rungs returns the criteria of kube-scheduler's choice; less is better.
func (c *Candidate) rungs() [5]int64 {
	highest := int64(corev1helpers.PodPriority(c.Victims[0]))
	sum, earliest := int64(0), int64(math.MaxInt64)
	for _, p := range c.Victims {
		sum += int64(corev1helpers.PodPriority(p)) + math.MaxInt32 + 1
		if started := p.Status.StartTime; started != nil && int64(corev1helpers.PodPriority(p)) == highest {
			earliest = min(earliest, started.UnixNano())
		}
	}
	return [5]int64{int64(c.Violations), highest, sum, int64(len(c.Victims)), -earliest}
}

// evaluation is an instrumented DefaultPreemption plugin of kube-scheduler. Its results
// for each node are recorded, and its writes to the API server are suppressed. All
// potential nodes are candidates, in any configuration.
type evaluation struct {
	preemption.Interface
	scheduler  *Scheduler
	candidates []Candidate
	executions chan context.Context // of the goroutines that evict, one for each victim
}

// watch makes the evaluation for a newly built plugin.
func watch(plugin *defaultpreemption.DefaultPreemption) *evaluation {
	e := &evaluation{Interface: plugin}
	plugin.Evaluator.Interface = e
	orderVictims(plugin)
	executor(plugin).PreemptPod = func(ctx context.Context, _ victimsOnNode, _ preemption.ExecutorPreemptor, _ *v1.Pod, _ string) (bool, error) {
		e.executions <- ctx
		return deleted, nil
	}
	return e
}

// GetOffsetAndNumCandidates makes all nodes candidates, from the first on.
func (e *evaluation) GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32) {
	return 0, nodes
}

// SelectVictimsOnNode records the results of the plugin's method.
func (e *evaluation) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, preemptor *v1.Pod, node fwk.NodeInfo,
	possible []*preemption.DomainVictim, budgets []*policyv1.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, status := e.Interface.SelectVictimsOnNode(ctx, state, preemptor, node, possible, budgets)
	if status.IsSuccess() && len(victims) > 0 {
		e.candidates = append(e.candidates, Candidate{NodeName: node.Node().Name, Victims: victims, Violations: violations})
	}
	return victims, violations, status
}

// Evict records the decision to evict a pod on a node. kube-scheduler sees the eviction
// when the watch shows the deletion. From then on it evicts no further pods for a pod
// that is nominated to the node. Here that holds at once.
func (s *Scheduler) Evict(pod *v1.Pod) {
	if on := s.pods[name{pod.Namespace, pod.Name}]; on != nil && on.UID == pod.UID && on.DeletionTimestamp == nil {
		s.evicted[pod.UID]++
	}
}

// Kept records that an eviction has failed.
func (s *Scheduler) Kept(pod types.UID) {
	if s.evicted[pod]--; s.evicted[pod] <= 0 {
		delete(s.evicted, pod)
	}
}

// PodEligibleToPreemptOthers is the plugin's method, with evicted pods counted as
// terminating.
func (e *evaluation) PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, onNominated *fwk.Status) (bool, string) {
	eligible, why := e.Interface.PodEligibleToPreemptOthers(ctx, pod, onNominated)
	if !eligible || pod.Status.NominatedNodeName == "" || onNominated.Code() == fwk.UnschedulableAndUnresolvable {
		return eligible, why
	}
	for _, other := range e.scheduler.pods {
		if other.Spec.NodeName == pod.Status.NominatedNodeName && e.scheduler.evicted[other.UID] > 0 &&
			corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod) {
			return false, "not eligible due to a terminating pod on the nominated node."
		}
	}
	return true, ""
}

// postFilter runs the PostFilter plugins as the scheduler does after a rejection, and
// waits for their goroutines.
func (c *cycle) postFilter() error {
	made := &Preemption{Mode: Clear}
	c.verdict.Preemption = made
	if !c.profile.HasPostFilterPlugins() {
		return nil
	}
	// DefaultPreemption reads the pod again.
	pods := c.informers.Core().V1().Pods().Informer().GetStore()
	if err := pods.Add(c.pod); err != nil {
		return fmt.Errorf("put pod %s/%s into kube-scheduler's stores: %w", c.pod.Namespace, c.pod.Name, err)
	}
	defer func() { _ = pods.Delete(c.pod) }() // fails only for objects without a key
	watched := c.profile.evaluation
	if watched == nil { // DefaultPreemption is disabled
		watched = &evaluation{}
	}
	watched.candidates, watched.executions, c.client.cleared, c.client.writes = nil, make(chan context.Context, len(c.pods)), nil, nil
	c.verdict.Deallocatable = c.deallocatable()
	result, status := c.profile.RunPostFilterPlugins(c.ctx, c.state, c.pod, c.fit.Diagnosis.NodeToStatus)
	made.Message = status.Message()
	for _, written := range c.client.writes {
		if claim, ok := written.(*resourcev1.ResourceClaim); ok {
			c.verdict.Deallocated = claim
		}
	}
	c.fit.Diagnosis.PostFilterMsg = made.Message
	slices.SortFunc(watched.candidates, func(a, b Candidate) int { return strings.Compare(a.NodeName, b.NodeName) })
	made.Candidates = watched.candidates
	switch {
	case result == nil || result.NominatingInfo.Mode() == fwk.ModeNoop:
		made.Mode = Keep
	case result.NominatingInfo.NominatedNodeName != "":
		made.Mode, made.NodeName = Set, result.NominatingInfo.NominatedNodeName
	}
	if made.Mode != Set {
		return nil
	}
	return made.finish(watched, c)
}

// finish waits until the plugin has evicted the victims, and checks that Best agrees with
// kube-scheduler's choice.
func (p *Preemption) finish(watched *evaluation, c *cycle) error {
	chosen := p.Candidate(p.NodeName)
	if chosen == nil || !slices.Contains(p.Best(), p.NodeName) {
		return fmt.Errorf("kube-scheduler evicts pods from %s for %s/%s; the best candidates are %v", p.NodeName, c.pod.Namespace, c.pod.Name, p.Best())
	}
	if slices.ContainsFunc(chosen.Victims, func(p *v1.Pod) bool { return p.DeletionTimestamp == nil }) {
		<-(<-watched.executions).Done() // the goroutine ends its context
	}
	p.Outranked = c.client.cleared
	slices.SortFunc(p.Outranked, cmp.Compare[string])
	return nil
}
