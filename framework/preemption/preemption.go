// Package preemption searches for victims, for PostFilter plugins that choose victims by
// their own rules.
//
// It takes a Handle, the plugin's choices (Interface), and the filter status of each
// node. It returns a node for the pod's nomination, and evicts the victims there in the
// background. The rules are those of kube-scheduler's evaluator. The plugin dry-runs
// nodes through the Handle until it has enough candidates. Then extenders filter the
// candidates, and the best one wins.
//
// Unlike kube-scheduler, it dry-runs one node after the other. SelectVictimsOnNode has
// the signature of kube-scheduler before 1.37, without pod groups. It owns only the
// goroutines of evictions, which end within half a minute. It never chooses victims.
package preemption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
)

// Candidate is a node on which a pod would fit without the victims.
type Candidate interface {
	Victims() *extenderv1.Victims
	Name() string
}

type candidate struct {
	name    string
	victims *extenderv1.Victims
}

func (c *candidate) Name() string                 { return c.name }
func (c *candidate) Victims() *extenderv1.Victims { return c.victims }

// Interface is the plugin's part of preemption.
type Interface interface {
	// GetOffsetAndNumCandidates returns the index of the first node to try, and the
	// number of candidates that is enough.
	GetOffsetAndNumCandidates(nodes int32) (offset, candidates int32)
	// CandidatesToVictimsMap returns the victims of candidates by node.
	CandidatesToVictimsMap(candidates []Candidate) map[string]*extenderv1.Victims
	// PodEligibleToPreemptOthers returns whether the pod may preempt, or the reason why
	// not. The status is the filter status of the pod's nominated node.
	PodEligibleToPreemptOthers(ctx context.Context, pod *v1.Pod, nominatedNodeStatus *fwk.Status) (bool, string)
	// SelectVictimsOnNode returns the victims that make the pod fit on the node, the most
	// important first, and how many of them a disruption budget protects.
	//
	// It may change the CycleState and the NodeInfo, which are copies, and runs the
	// filters through the Handle. For a node without victims it returns a status other
	// than Success.
	SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) (victims []*v1.Pod, violations int, status *fwk.Status)
	// OrderedScoreFuncs returns functions that compare candidates: the highest score
	// wins, and each function decides among candidates that are equal for the functions
	// before. If it returns none, kube-scheduler's order applies: fewest budget
	// violations, lowest maximum priority, lowest sum of priorities, fewest pods, and
	// latest start of the most important victim.
	OrderedScoreFuncs(ctx context.Context, victims map[string]*extenderv1.Victims) []func(node string) int64
}

// Evaluator searches for victims. Use it at PostFilter, where the Handle runs filters.
type Evaluator struct {
	PluginName string
	Handler    fwk.Handle
	PodLister  corelisters.PodLister
	PdbLister  policylisters.PodDisruptionBudgetLister
	Interface
}

// NewEvaluator returns an Evaluator. Call it in the plugin's factory, because it requests
// informers of pods and disruption budgets.
func NewEvaluator(pluginName string, handle fwk.Handle, i Interface) *Evaluator {
	informers := handle.SharedInformerFactory()
	return &Evaluator{
		PluginName: pluginName, Handler: handle, Interface: i,
		PodLister: informers.Core().V1().Pods().Lister(), PdbLister: informers.Policy().V1().PodDisruptionBudgets().Lister(),
	}
}

// Preempt returns the result of a PostFilter plugin.
//
//   - Success, with the pod's nominated node, whose victims are being evicted.
//   - Unschedulable, with the reason why preemption does not help. If all nodes were
//     tried, it also clears the pod's nomination.
//   - An error.
func (e *Evaluator) Preempt(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	pod, err := e.PodLister.Pods(pod.Namespace).Get(pod.Name) // the newest version
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if ok, why := e.PodEligibleToPreemptOthers(ctx, pod, m.Get(pod.Status.NominatedNodeName)); !ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, why)
	}
	candidates, nodes, statuses, err := e.candidates(ctx, state, pod, m)
	if err != nil && len(candidates) == 0 {
		return nil, fwk.AsStatus(err)
	}
	if len(candidates) == 0 {
		statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
		fit := &framework.FitError{Pod: pod, NumAllNodes: nodes, Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
		return nominate(""), fwk.NewStatus(fwk.Unschedulable, fit.Error())
	}
	if candidates, err = e.askExtenders(pod, candidates); err != nil {
		return nil, fwk.AsStatus(err)
	}
	best := e.SelectCandidate(ctx, candidates)
	if best == nil || best.Name() == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, "no candidate node for preemption")
	}
	e.evict(ctx, best, pod)
	return nominate(best.Name()), fwk.NewStatus(fwk.Success,
		fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", best.Name(), len(best.Victims().Pods)))
}

func nominate(nodeName string) *fwk.PostFilterResult {
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: nodeName}}
}

// candidates dry-runs the nodes where preemption may help, starting at the plugin's
// offset, until it has enough candidates. It also returns the number of nodes, and the
// status of nodes that are no candidates.
func (e *Evaluator) candidates(ctx context.Context, state fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) ([]Candidate, int, *framework.NodeToStatus, error) {
	statuses := framework.NewDefaultNodeToStatus()
	lister := e.Handler.SnapshotSharedLister().NodeInfos()
	all, err := lister.List()
	if err != nil {
		return nil, 0, nil, err
	}
	if len(all) == 0 {
		return nil, 0, nil, errors.New("no nodes available")
	}
	nodes, err := m.NodesForStatusCode(lister, fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, len(all), statuses, err
	}
	budgets, err := e.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, 0, nil, err
	}
	offset, enough := e.GetOffsetAndNumCandidates(int32(len(nodes)))
	var free, violating []Candidate
	var errs []error
	for i := range nodes {
		node := nodes[(int(max(offset, 0))+i)%len(nodes)]
		if err := ctx.Err(); err != nil {
			return nil, 0, nil, context.Cause(ctx)
		}
		victims, violations, status := e.SelectVictimsOnNode(ctx, state.Clone(), pod, node.Snapshot(), budgets)
		switch {
		case status.IsSuccess() && len(victims) == 0:
			status = fwk.AsStatus(fmt.Errorf("expected at least one victim pod on node %q", node.Node().Name))
			fallthrough
		case !status.IsSuccess():
			if status.Code() == fwk.Error {
				errs = append(errs, status.AsError())
			}
			statuses.Set(node.Node().Name, status)
			continue
		}
		c := &candidate{node.Node().Name, &extenderv1.Victims{Pods: victims, NumPDBViolations: int64(violations)}}
		if violations == 0 {
			free = append(free, c)
		} else {
			violating = append(violating, c)
		}
		// At least one candidate must violate no budget.
		if len(free) > 0 && len(free)+len(violating) >= int(enough) {
			break
		}
	}
	return append(free, violating...), len(all), statuses, errors.Join(errs...)
}

// askExtenders lets the extenders that support preemption remove candidates and change
// victims.
func (e *Evaluator) askExtenders(pod *v1.Pod, candidates []Candidate) ([]Candidate, error) {
	extenders := slices.DeleteFunc(e.Handler.Extenders(), func(x fwk.Extender) bool { return !x.SupportsPreemption() || !x.IsInterested(pod) })
	victims := map[string]*extenderv1.Victims{}
	if len(extenders) > 0 {
		victims = e.CandidatesToVictimsMap(candidates)
	}
	if len(victims) == 0 {
		return candidates, nil
	}
	for _, x := range extenders {
		left, err := x.ProcessPreemption(pod, victims, e.Handler.SnapshotSharedLister().NodeInfos())
		switch {
		case err != nil && x.IsIgnorable():
			continue
		case err != nil:
			return nil, err
		}
		for _, nodeName := range slices.Sorted(maps.Keys(left)) {
			if v := left[nodeName]; v != nil && len(v.Pods) > 0 {
				continue
			}
			if !x.IsIgnorable() {
				return nil, fmt.Errorf("expected at least one victim pod on node %q", nodeName)
			}
			delete(left, nodeName)
		}
		if victims = left; len(victims) == 0 {
			break
		}
	}
	var list []Candidate
	for _, nodeName := range slices.Sorted(maps.Keys(victims)) {
		list = append(list, &candidate{nodeName, victims[nodeName]})
	}
	return list, nil
}

// SelectCandidate returns the best candidate, or nil. Equal candidates are ordered by
// name.
func (e *Evaluator) SelectCandidate(ctx context.Context, candidates []Candidate) Candidate {
	if len(candidates) == 0 {
		return nil
	}
	if len(candidates) == 1 {
		return candidates[0]
	}
	victims := e.CandidatesToVictimsMap(candidates)
	scores := e.OrderedScoreFuncs(ctx, victims)
	if len(scores) == 0 {
		scores = ladder(victims)
	}
	names := slices.Sorted(maps.Keys(victims))
	for _, score := range scores {
		var best []string
		highest := int64(math.MinInt64)
		for _, name := range names {
			s := score(name)
			if s > highest {
				highest, best = s, nil
			}
			if s == highest {
				best = append(best, name)
			}
		}
		if names = best; len(names) == 1 {
			break
		}
	}
	if len(names) == 0 {
		return candidates[0]
	}
	return &candidate{names[0], victims[names[0]]}
}

// ladder returns kube-scheduler's comparisons of candidates.
func ladder(victims map[string]*extenderv1.Victims) []func(node string) int64 {
	return []func(string) int64{
		func(node string) int64 { return -victims[node].NumPDBViolations },
		func(node string) int64 { return -int64(priorityOf(victims[node].Pods[0])) },
		func(node string) (sum int64) {
			for _, pod := range victims[node].Pods {
				// The term is more than 0, so that each pod counts.
				sum -= int64(priorityOf(pod)) + math.MaxInt32 + 1
			}
			return sum
		},
		func(node string) int64 { return -int64(len(victims[node].Pods)) },
		func(node string) int64 { return earliest(victims[node].Pods) },
	}
}

// earliest returns the earliest start among the pods with the highest priority. A pod
// that has not started counts as later than all others.
func earliest(pods []*v1.Pod) int64 {
	highest, start := int32(math.MinInt32), int64(math.MaxInt64)
	for _, pod := range pods {
		began := int64(math.MaxInt64)
		if pod.Status.StartTime != nil {
			began = pod.Status.StartTime.UnixNano()
		}
		switch p := priorityOf(pod); {
		case p > highest:
			highest, start = p, began
		case p == highest:
			start = min(start, began)
		}
	}
	return start
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
