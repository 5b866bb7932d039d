package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Preemption is the result of DefaultPreemption for a pod without a feasible node.
type Preemption struct {
	// Candidates are equally good nodes, by name; any of them may be chosen. It is empty
	// if nothing is to be evicted.
	Candidates []Candidate
	// Text is added to the message if no candidate exists.
	Text string
	// Clears means that the pod loses its nomination. Without candidates it otherwise
	// keeps the nomination.
	Clears bool
}

// Candidate is a node that the pod fits after the victims are deleted.
type Candidate struct {
	Node       string
	Victims    []*v1.Pod // the most important first
	Violations int       // number of victims that a disruption budget protects
	// Outranked are the pods that lose their nomination to the node, by namespace and
	// name.
	Outranked []*v1.Pod
}

// Text is added to the message if the candidate is chosen.
func (c Candidate) Text() string {
	return fmt.Sprintf("preemption: found a potential placement for pod on node %s, preempting %d victims", c.Node, len(c.Victims))
}

// Outcome returns the candidate with the name, and the whole message if it is chosen.
// Without candidates the name must be empty.
func (a *Judgment) Outcome(node string) (chosen Candidate, message string, ok bool) {
	if a.Preemption == nil || len(a.Preemption.Candidates) == 0 {
		return Candidate{}, a.Message, node == ""
	}
	for _, c := range a.Preemption.Candidates {
		if c.Node == node {
			return c, a.Rejected + " " + c.Text(), true
		}
	}
	return Candidate{}, a.Message, false
}

// preempt runs PostFilter for a pod without a feasible node.
func (cy *cycle) preempt(a *Judgment) {
	a.Preemption = cy.preemption(a)
	a.Message = a.Rejected + " " + a.Preemption.Text
	if c := a.Preemption.Candidates; len(c) > 0 {
		a.Message = a.Rejected + " " + c[0].Text()
	}
}

func (cy *cycle) preemption(a *Judgment) *Preemption {
	if why := cy.ineligible(a); why != "" {
		return &Preemption{Text: "preemption: " + why}
	}
	var candidates []Candidate
	var errs []error
	reasons := map[string][]string{}
	for _, n := range cy.nodes {
		if a.status(n.Name).Unresolvable {
			reasons[n.Name] = []string{"Preemption is not helpful for scheduling"}
			continue
		}
		candidate, no, err := cy.victims(n)
		switch {
		case err != nil:
			errs = append(errs, err)
		case no != nil:
			reasons[n.Name] = no.Reasons
		default:
			candidate.Outranked = cy.outranked(candidate)
			candidates = append(candidates, candidate)
		}
	}
	switch {
	case len(candidates) > 0:
		return &Preemption{Candidates: bestCandidates(candidates)}
	case len(errs) > 0:
		return &Preemption{Text: "preemption: " + aggregated(errs)}
	}
	return &Preemption{Text: "preemption: " + histogram(len(cy.nodes), reasons), Clears: true}
}

// status is the first rejection of a node. A missing node counts as unresolvable.
func (a *Judgment) status(name string) Rejection {
	for _, n := range a.Nodes {
		if n.Node == name {
			return n.Rejections[0]
		}
	}
	return Rejection{Unresolvable: true}
}

// ineligible returns why the pod may not preempt now, or "".
func (cy *cycle) ineligible(a *Judgment) string {
	if policy := cy.pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	nominated := cy.pod.Status.NominatedNodeName
	if nominated == "" || a.status(nominated).Unresolvable {
		return ""
	}
	for _, p := range placedOn(cy.cluster.Pods, nominated) {
		if priority(p) < priority(cy.pod) && cy.leaving(p) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// leaving reports whether a pod is terminating because a scheduler preempted it.
func (cy *cycle) leaving(p *v1.Pod) bool {
	if slices.Contains(cy.cluster.Evicted, p.UID) {
		return true
	}
	if p.DeletionTimestamp == nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == "PreemptionByScheduler"
		}
	}
	return false
}

// victims chooses the pods to evict from a node. All pods of lower priority are removed.
// Then each is put back in turn if the pod still fits.
func (cy *cycle) victims(n node) (Candidate, *Rejection, error) {
	var lower []*v1.Pod
	for _, p := range n.pods {
		if priority(p) < priority(cy.pod) {
			lower = append(lower, p)
		}
	}
	if len(lower) == 0 {
		return Candidate{}, &Rejection{Unresolvable: true, Reasons: []string{"No preemption victims found for incoming pod"}}, nil
	}
	if no, err := cy.without(n, lower); no != nil || err != nil {
		return Candidate{}, no, err
	}
	slices.SortFunc(lower, moreImportant)
	violating, others := cy.protected(lower)
	gone := slices.Clone(lower)
	violations := 0
	for i, p := range slices.Concat(violating, others) {
		back := slices.DeleteFunc(slices.Clone(gone), func(other *v1.Pod) bool { return other == p })
		if no, err := cy.without(n, back); no == nil && err == nil {
			gone = back
		} else if i < len(violating) {
			violations++
		}
	}
	if len(gone) == 0 {
		return Candidate{}, nil, fmt.Errorf("expected at least one victim pod on node %q", n.Name)
	}
	return Candidate{Node: n.Name, Victims: gone, Violations: violations}, nil, nil
}

// without returns the first rejection of a node after removing pods, with the pods
// nominated to it or without them.
func (cy *cycle) without(n node, gone []*v1.Pod) (*Rejection, error) {
	dryRun := DryRun{Node: n.Name, Removed: gone}
	if nominated := nominatedBefore(cy.cluster, cy.pod, n.Name); len(nominated) > 0 {
		beside := dryRun
		beside.Added = nominated
		if all, err := JudgeDryRun(cy.cluster, cy.pod, cy.profile, beside); err != nil || len(all) > 0 {
			return first(all), err
		}
	}
	all, err := JudgeDryRun(cy.cluster, cy.pod, cy.profile, dryRun)
	return first(all), err
}

func first(all []Rejection) *Rejection {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// moreImportant orders pods by importance, the most important first. Ties, which
// kube-scheduler leaves open, are broken by namespace and name.
func moreImportant(a, b *v1.Pod) int {
	return cmp.Or(-cmp.Compare(priority(a), priority(b)), cmp.Compare(started(a), started(b)), byName(a, b))
}

func byName(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// started is the pod's start time in Unix seconds. A pod that has not started is younger
// than any other.
func started(p *v1.Pod) int64 {
	if p.Status.StartTime == nil {
		return math.MaxInt64
	}
	return p.Status.StartTime.Unix()
}

// protected splits the pods, given in the order of importance. violating are pods whose
// eviction would violate a disruption budget if all pods before them were evicted too.
func (cy *cycle) protected(pods []*v1.Pod) (violating, others []*v1.Pod) {
	budgets := slices.Clone(cy.cluster.DisruptionBudgets)
	slices.SortFunc(budgets, func(a, b *Budget) int { return cmp.Compare(a.Name, b.Name) })
	left := make([]int64, len(budgets))
	for i, b := range budgets {
		left[i] = int64(b.Status.DisruptionsAllowed)
	}
	for _, p := range pods {
		violates := false
		for i, b := range budgets {
			if !violates && covers(b, p) {
				left[i]--
				violates = left[i] < 0
			}
		}
		if violates {
			violating = append(violating, p)
		} else {
			others = append(others, p)
		}
	}
	return violating, others
}

// covers reports whether a disruption of the pod counts for the budget.
func covers(b *Budget, p *v1.Pod) bool {
	if b.Namespace != p.Namespace || len(p.Labels) == 0 || parseSelector(b.Spec.Selector) != nil {
		return false
	}
	selector := selectorOf(b.Spec.Selector)
	_, counted := b.Status.DisruptedPods[p.Name]
	return !counted && !selector.everything() && selector.matches(p.Labels)
}

// bestCandidates keeps the best candidates by each criterion in turn.
func bestCandidates(all []Candidate) []Candidate {
	for _, rung := range []func(Candidate) int64{
		func(c Candidate) int64 { return int64(c.Violations) },
		func(c Candidate) int64 { return int64(priority(c.Victims[0])) },
		func(c Candidate) (sum int64) {
			for _, p := range c.Victims {
				sum += int64(priority(p)) + 1<<31
			}
			return sum
		},
		func(c Candidate) int64 { return int64(len(c.Victims)) },
		func(c Candidate) int64 { return -earliest(c.Victims) },
	} {
		lowest := rung(all[0])
		for _, c := range all {
			lowest = min(lowest, rung(c))
		}
		all = slices.DeleteFunc(all, func(c Candidate) bool { return rung(c) != lowest })
	}
	return all
}

// earliest is the earliest start time of the victims with the highest priority.
func earliest(victims []*v1.Pod) int64 {
	highest := priority(victims[0])
	for _, p := range victims {
		highest = max(highest, priority(p))
	}
	earliest := int64(math.MaxInt64)
	for _, p := range victims {
		if priority(p) == highest {
			earliest = min(earliest, started(p))
		}
	}
	return earliest
}

// outranked are the pods of lower priority that lose their nomination to the candidate's
// node. If all victims are terminating already, no pod loses its nomination.
func (cy *cycle) outranked(c Candidate) []*v1.Pod {
	if !slices.ContainsFunc(c.Victims, func(p *v1.Pod) bool { return p.DeletionTimestamp == nil }) {
		return nil
	}
	var all []*v1.Pod
	for _, p := range cy.cluster.Pods {
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName == c.Node && priority(p) < priority(cy.pod) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// aggregated is the text of several errors as one; equal ones count once.
func aggregated(errs []error) string {
	var texts []string
	for _, err := range errs {
		if !slices.Contains(texts, err.Error()) {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return "[" + joined(texts) + "]"
}
