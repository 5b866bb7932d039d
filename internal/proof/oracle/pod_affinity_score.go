package oracle

import v1 "k8s.io/api/core/v1"

// podAffinityScore adds up, per domain, the weights of the terms between the pending pod
// and the pods placed there, in both directions.
func podAffinityScore(cy *cycle) (scores, error) {
	own := podTermsOf(cy.pod)
	hasPreferences := len(own.preferredAffinity) > 0 || len(own.preferredAntiAffinity) > 0
	if cy.profile.PodAffinity.IgnorePreferredTermsOfExistingPods && !hasPreferences {
		return scores{}, nil
	}
	sum := tally{}
	for _, n := range cy.nodes {
		for _, p := range n.pods {
			cy.addOwn(sum, n, p, own.preferredAffinity, 1)
			cy.addOwn(sum, n, p, own.preferredAntiAffinity, -1)
			cy.addTheirs(sum, n, p)
		}
	}
	if len(sum) == 0 {
		return scores{}, nil
	}
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		for key, value := range n.Labels {
			raw[i] += sum[domain{key, value}]
		}
	}
	return scores{raw: raw, normalised: stretched(raw)}, nil
}

// addOwn adds the weights of the pending pod's terms that select a placed pod.
func (cy *cycle) addOwn(sum tally, n node, p *v1.Pod, terms []v1.WeightedPodAffinityTerm, sign int64) {
	for _, t := range terms {
		if cy.matchedByOwn(t.PodAffinityTerm, p) {
			sum.add(n, t.PodAffinityTerm.TopologyKey, sign*int64(t.Weight))
		}
	}
}

// addTheirs adds the weights of a placed pod's terms that select the pending pod.
// Required affinity counts as a preference. Required anti-affinity does not, because it
// is a filter.
func (cy *cycle) addTheirs(sum tally, n node, p *v1.Pod) {
	theirs := podTermsOf(p)
	hardWeight := int64(1)
	if w := cy.profile.PodAffinity.HardPodAffinityWeight; w != nil {
		hardWeight = int64(*w)
	}
	for _, t := range theirs.affinity {
		if hardWeight > 0 && cy.matchesTheirs(t, p) {
			sum.add(n, t.TopologyKey, hardWeight)
		}
	}
	for _, t := range theirs.preferredAffinity {
		if cy.matchesTheirs(t.PodAffinityTerm, p) {
			sum.add(n, t.PodAffinityTerm.TopologyKey, int64(t.Weight))
		}
	}
	for _, t := range theirs.preferredAntiAffinity {
		if cy.matchesTheirs(t.PodAffinityTerm, p) {
			sum.add(n, t.PodAffinityTerm.TopologyKey, -int64(t.Weight))
		}
	}
}

// stretched scales the lowest score to 0 and the highest to 100. The order of the
// operations matters: 29 of 100 becomes 28.
func stretched(raw []int64) []int64 {
	lowest, highest := raw[0], raw[0]
	for _, s := range raw {
		lowest, highest = min(lowest, s), max(highest, s)
	}
	normalised := make([]int64, len(raw))
	for i, s := range raw {
		if highest > lowest {
			normalised[i] = int64(maxScore * (float64(s-lowest) / float64(highest-lowest)))
		}
	}
	return normalised
}
