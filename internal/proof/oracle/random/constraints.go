package random

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spreadConstraints returns one to three, each key at most once per action, as the API
// requires.
func spreadConstraints(r *rand.Rand, labels map[string]string) []v1.TopologySpreadConstraint {
	var all []v1.TopologySpreadConstraint
	for range 1 + r.IntN(3) {
		c := bareConstraint(r)
		c.LabelSelector = labelSelector(r)
		if chance(r, 25) {
			c.MatchLabelKeys = matchKeys(r)
			if chance(r, 70) { // as the API server does since 1.34
				c.LabelSelector = merged(c.LabelSelector, labels, c.MatchLabelKeys, metav1.LabelSelectorOpIn)
			}
		}
		all = append(all, c)
	}
	return withoutRepetition(all)
}

func bareConstraint(r *rand.Rand) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		TopologyKey:        topologyKey(r),
		MaxSkew:            pick(r, int32(1), 1, 1, 1, 2, 3, 5),
		WhenUnsatisfiable:  pick(r, v1.DoNotSchedule, v1.ScheduleAnyway),
		NodeAffinityPolicy: inclusion(r),
		NodeTaintsPolicy:   inclusion(r),
	}
	if c.WhenUnsatisfiable == v1.DoNotSchedule && chance(r, 35) {
		c.MinDomains = ptr(pick(r, int32(1), 2, 3, 4, 10))
	}
	return c
}

func inclusion(r *rand.Rand) *v1.NodeInclusionPolicy {
	return pick(r, nil, nil, ptr(v1.NodeInclusionPolicyHonor), ptr(v1.NodeInclusionPolicyIgnore))
}

func topologyKey(r *rand.Rand) string {
	if chance(r, 4) {
		return nowhereKey
	}
	return pick(r, zoneKey, zoneKey, zoneKey, hostKey, hostKey, rackKey)
}

func withoutRepetition(constraints []v1.TopologySpreadConstraint) []v1.TopologySpreadConstraint {
	var kept []v1.TopologySpreadConstraint
	for _, c := range constraints {
		same := func(other v1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}
		if !slices.ContainsFunc(kept, same) {
			kept = append(kept, c)
		}
	}
	return kept
}

// addPodAffinity adds terms of any of the four kinds, possibly none: then the stanza is
// empty.
func addPodAffinity(r *rand.Rand, p *v1.Pod) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if chance(r, 70) {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  podTerms(r, p, 35),
			PreferredDuringSchedulingIgnoredDuringExecution: weightedTerms(r, p),
		}
	}
	if chance(r, 70) {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  podTerms(r, p, 35),
			PreferredDuringSchedulingIgnoredDuringExecution: weightedTerms(r, p),
		}
	}
}

func podTerms(r *rand.Rand, p *v1.Pod, percent int) []v1.PodAffinityTerm {
	var terms []v1.PodAffinityTerm
	for len(terms) < 2 && chance(r, percent) {
		terms = append(terms, podTerm(r, p))
	}
	return terms
}

func weightedTerms(r *rand.Rand, p *v1.Pod) []v1.WeightedPodAffinityTerm {
	var weighted []v1.WeightedPodAffinityTerm
	for _, t := range podTerms(r, p, 45) {
		weighted = append(weighted, v1.WeightedPodAffinityTerm{Weight: pick(r, int32(1), 5, 10, 29, 100), PodAffinityTerm: t})
	}
	return weighted
}

func podTerm(r *rand.Rand, p *v1.Pod) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: topologyKey(r), LabelSelector: labelSelector(r)}
	if chance(r, 25) {
		t.Namespaces = append(some(r, 40, "other", "third"), "default")
	}
	if chance(r, 35) {
		t.NamespaceSelector = namespaceSelector(r)
	}
	if chance(r, 15) {
		t.MatchLabelKeys = matchKeys(r)
		t.LabelSelector = merged(t.LabelSelector, p.Labels, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	if chance(r, 10) {
		t.MismatchLabelKeys = []string{"tier"}
		t.LabelSelector = merged(t.LabelSelector, p.Labels, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	}
	return t
}

func matchKeys(r *rand.Rand) []string { return append(some(r, 20, "absent"), "version") }

// merged returns the selector as the API server extends it with the pod's labels of these
// keys.
func merged(s *metav1.LabelSelector, labels map[string]string, keys []string, operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	s = s.DeepCopy()
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
	return s
}

// labelSelector selects pods; rarely none or all.
func labelSelector(r *rand.Rand) *metav1.LabelSelector {
	switch n := r.IntN(100); {
	case n < 5:
		return nil
	case n < 10:
		return &metav1.LabelSelector{}
	case n < 55:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "web", "db")}}
	case n < 65:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "web", "db"), "tier": pick(r, "front", "back")}}
	}
	s := &metav1.LabelSelector{}
	for range 1 + r.IntN(2) {
		s.MatchExpressions = append(s.MatchExpressions, podRequirement(r))
	}
	if chance(r, 20) {
		s.MatchLabels = map[string]string{"tier": "front"}
	}
	return s
}

func podRequirement(r *rand.Rand) metav1.LabelSelectorRequirement {
	if chance(r, 35) {
		return metav1.LabelSelectorRequirement{Key: pick(r, "app", "tier"), Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
	}
	values := append(some(r, 40, "db", "gone"), "web")
	if chance(r, 10) {
		values = append(values, "web") // the API server accepts repeated values
	}
	return metav1.LabelSelectorRequirement{Key: "app", Operator: pick(r, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: values}
}

func namespaceSelector(r *rand.Rand) *metav1.LabelSelector {
	switch r.IntN(5) {
	case 0:
		return &metav1.LabelSelector{}
	case 1, 2:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(r, "x", "y")}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "env", Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
	}}
}

// WithBrokenSelector returns a copy of a pod with a malformed constraint or term. A
// malformed hard constraint fails the pod's cycle. A soft constraint does so with two or
// more feasible nodes. A malformed term of any kind rejects the pod.
func WithBrokenSelector(r *rand.Rand, p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn}}}
	if chance(r, 50) {
		c := v1.TopologySpreadConstraint{TopologyKey: nowhereKey + "-else", MaxSkew: 1, WhenUnsatisfiable: pick(r, v1.DoNotSchedule, v1.ScheduleAnyway), LabelSelector: broken}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		return p
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.PodAffinity == nil {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
	}
	a, t := p.Spec.Affinity.PodAffinity, v1.PodAffinityTerm{TopologyKey: zoneKey, LabelSelector: broken}
	if chance(r, 50) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t)
	} else {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: t})
	}
	return p
}
