package oracle

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
)

// spreadScore scores nodes by the number of pods in their domains. The weight of a
// constraint grows with its number of domains.
func spreadScore(cy *cycle) (scores, error) {
	soft, err := cy.constraints(v1.ScheduleAnyway)
	if err != nil {
		return scores{}, fmt.Errorf("running PreScore plugin %q: %w", spreadName, err)
	}
	if len(soft) == 0 {
		return scores{}, nil
	}
	total := make([]float64, len(cy.feasible))
	for _, c := range soft {
		weight := math.Log(float64(cy.domainSize(c, soft) + 2))
		counts := cy.countSoftDomains(c, soft)
		for i, n := range cy.feasible {
			value, ok := n.Labels[c.TopologyKey]
			if !ok || cy.ignored(n, soft) {
				continue
			}
			count := counts[value]
			if c.TopologyKey == v1.LabelHostname {
				count = c.count(cy.pod, n) // on this node, whatever the policies
			}
			// The conversion rounds the product, and so prevents fused multiply-add.
			total[i] += float64(float64(count)*weight) + float64(c.MaxSkew-1)
		}
	}
	raw := make([]int64, len(cy.feasible))
	for i := range raw {
		raw[i] = int64(math.Round(total[i])) // half away from zero
	}
	return scores{raw: raw, normalised: cy.normaliseSpread(raw, soft)}, nil
}

// keysRequired reports whether nodes without all soft keys are left out. With the System
// defaults they are not.
func (cy *cycle) keysRequired() bool {
	return len(cy.pod.Spec.TopologySpreadConstraints) > 0 || cy.listDefaults()
}

// ignored reports whether the node gets no score and its pods do not count.
func (cy *cycle) ignored(n node, soft []constraint) bool {
	return cy.keysRequired() && !hasKeys(n, soft)
}

// domainSize is the number of the constraint's domains with a feasible node. If labels
// are not required, an absent label is a domain too. For host names it is the number of
// nodes, whatever their labels.
func (cy *cycle) domainSize(c constraint, soft []constraint) int {
	nodes := 0
	domains := map[string]bool{}
	for _, n := range cy.feasible {
		if !cy.ignored(n, soft) {
			nodes++
			domains[n.Labels[c.TopologyKey]] = true
		}
	}
	if c.TopologyKey == v1.LabelHostname {
		return nodes
	}
	return len(domains)
}

// countSoftDomains counts pods per domain of a soft constraint. An absent label and an
// empty one are the same domain.
func (cy *cycle) countSoftDomains(c constraint, soft []constraint) map[string]int64 {
	counts := map[string]int64{}
	for _, n := range cy.nodes {
		if !cy.ignored(n, soft) && c.includes(cy.pod, n) {
			counts[n.Labels[c.TopologyKey]] += c.count(cy.pod, n)
		}
	}
	return counts
}

func (cy *cycle) normaliseSpread(raw []int64, soft []constraint) []int64 {
	smallest, largest := int64(math.MaxInt64), int64(0)
	for i, n := range cy.feasible {
		if !cy.ignored(n, soft) {
			smallest, largest = min(smallest, raw[i]), max(largest, raw[i])
		}
	}
	normalised := make([]int64, len(raw))
	for i, n := range cy.feasible {
		switch {
		case cy.ignored(n, soft):
			normalised[i] = 0
		case largest == 0:
			normalised[i] = maxScore
		default:
			normalised[i] = maxScore * (largest + smallest - raw[i]) / largest
		}
	}
	return normalised
}
