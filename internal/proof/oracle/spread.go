package oracle

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// constraint is a spread constraint of the pod and the pods that it counts.
type constraint struct {
	v1.TopologySpreadConstraint
	selector selector
}

// constraints are the pod's own constraints of the action. If the pod has none of either
// action, these are the profile's.
func (cy *cycle) constraints(action v1.UnsatisfiableConstraintAction) ([]constraint, error) {
	own := cy.pod.Spec.TopologySpreadConstraints
	if len(own) == 0 {
		return cy.defaultsOf(action), nil
	}
	var all []constraint
	for _, c := range own {
		if c.WhenUnsatisfiable != action {
			continue
		}
		if err := parseSelector(c.LabelSelector); err != nil {
			return nil, err
		}
		all = append(all, constraint{c, selectorOf(c.LabelSelector).and(equal(cy.present(c.MatchLabelKeys)))})
	}
	return all, nil
}

// present are the pod's labels among the keys.
func (cy *cycle) present(keys []string) map[string]string {
	labels := map[string]string{}
	for _, key := range keys {
		if value, ok := cy.pod.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

func (cy *cycle) defaultsOf(action v1.UnsatisfiableConstraintAction) []constraint {
	derived := cy.defaultSelector()
	if derived.everything() {
		return nil
	}
	var all []constraint
	for _, c := range cy.defaultConstraints() {
		if c.WhenUnsatisfiable == action {
			all = append(all, constraint{c, derived})
		}
	}
	return all
}

// includes reports whether the node counts by the constraint's policies. The profile's
// addedAffinity and a cordon have no effect.
func (c constraint) includes(p *v1.Pod, n node) bool {
	honorAffinity := c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor
	if honorAffinity && !wantedBy(p, n) {
		return false
	}
	honorTaints := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
	return !honorTaints || toleratesAll(p, n)
}

// count is the number of pods on the node that count for the constraint. The empty
// selector counts nothing, by definition.
func (c constraint) count(p *v1.Pod, n node) int64 {
	if c.selector.everything() {
		return 0
	}
	count := int64(0)
	for _, other := range n.pods {
		if other.Namespace == p.Namespace && other.DeletionTimestamp == nil && c.selector.matches(other.Labels) {
			count++
		}
	}
	return count
}

// hasKeys reports whether the node has the topology keys of all the constraints.
// Otherwise it counts for none.
func hasKeys(n node, constraints []constraint) bool {
	for _, c := range constraints {
		if _, ok := n.Labels[c.TopologyKey]; !ok {
			return false
		}
	}
	return true
}

func spreadPreFilter(cy *cycle) ([]string, *Rejection, error) {
	if _, err := cy.constraints(v1.DoNotSchedule); err != nil {
		return nil, nil, fmt.Errorf("get constraints from pod: %w", err)
	}
	return nil, nil, nil
}

func spreadFilter(cy *cycle) func(node) *Rejection {
	// spreadPreFilter has checked that they parse.
	hard, _ := cy.constraints(v1.DoNotSchedule)
	counts := make([]map[string]int64, len(hard))
	for i, c := range hard {
		counts[i] = cy.countDomains(c, hard)
	}
	return func(n node) *Rejection {
		for i, c := range hard {
			value, ok := n.Labels[c.TopologyKey]
			if !ok {
				return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"}}
			}
			self := int64(0)
			if c.selector.matches(cy.pod.Labels) {
				self = 1
			}
			if counts[i][value]+self-c.fewest(counts[i]) > int64(c.MaxSkew) {
				return &Rejection{Reasons: []string{"node(s) didn't match pod topology spread constraints"}}
			}
		}
		return nil
	}
}

// countDomains counts pods per domain of a hard constraint, as of PreFilter, and then
// adjusts for the dry run.
func (cy *cycle) countDomains(c constraint, hard []constraint) map[string]int64 {
	counts := map[string]int64{}
	for _, n := range cy.nodes {
		if !hasKeys(n, hard) || !c.includes(cy.pod, n) {
			continue
		}
		value := n.Labels[c.TopologyKey]
		counts[value] += c.count(cy.pod, n)
		if n.Name != cy.dryRun.Node {
			continue
		}
		for _, p := range cy.dryRun.Removed {
			counts[value] -= c.adjustment(cy.pod, p)
		}
		for _, p := range cy.dryRun.Added {
			counts[value] += c.adjustment(cy.pod, p)
		}
	}
	return counts
}

// adjustment is the change of a count by a pod of a dry run. Unlike in count, terminating
// pods count and the empty selector matches. So a count can be less than the number of
// pods, even negative.
func (c constraint) adjustment(p, changed *v1.Pod) int64 {
	if changed.Namespace == p.Namespace && c.selector.matches(changed.Labels) {
		return 1
	}
	return 0
}

// fewest is the global minimum that skew is measured from: the count of the smallest
// domain, or 0 with fewer than minDomains domains.
func (c constraint) fewest(counts map[string]int64) int64 {
	wanted := 1
	if c.MinDomains != nil {
		wanted = int(*c.MinDomains)
	}
	if len(counts) < wanted {
		return 0
	}
	first := true
	fewest := int64(0)
	for _, count := range counts {
		if first || count < fewest {
			fewest = count
		}
		first = false
	}
	return fewest
}
