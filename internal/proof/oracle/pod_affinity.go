package oracle

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podTerms are a pod's four kinds of terms about other pods. matchLabelKeys and
// mismatchLabelKeys are not read: the API server has merged them into the label
// selectors.
type podTerms struct {
	affinity, antiAffinity                   []v1.PodAffinityTerm // required
	preferredAffinity, preferredAntiAffinity []v1.WeightedPodAffinityTerm
}

func podTermsOf(p *v1.Pod) podTerms {
	var t podTerms
	if p.Spec.Affinity == nil {
		return t
	}
	if a := p.Spec.Affinity.PodAffinity; a != nil {
		t.affinity, t.preferredAffinity = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := p.Spec.Affinity.PodAntiAffinity; a != nil {
		t.antiAffinity, t.preferredAntiAffinity = a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return t
}

// all are the terms of every kind, without their weights.
func (t podTerms) all() []v1.PodAffinityTerm {
	all := slices.Concat(t.affinity, t.antiAffinity)
	for _, weighted := range slices.Concat(t.preferredAffinity, t.preferredAntiAffinity) {
		all = append(all, weighted.PodAffinityTerm)
	}
	return all
}

// matchedByOwn reports whether a term of the pending pod selects the other pod. A
// namespace selector matches only namespaces that exist, except that {} matches any.
func (cy *cycle) matchedByOwn(t v1.PodAffinityTerm, other *v1.Pod) bool {
	inside := slices.Contains(listedNamespaces(cy.pod, t), other.Namespace)
	if s := selectorOf(t.NamespaceSelector); s.everything() {
		inside = true
	} else if ns := named(cy.cluster.Namespaces, "", other.Namespace); ns != nil && s.matches(ns.Labels) {
		inside = true
	}
	return inside && selectorOf(t.LabelSelector).matches(other.Labels)
}

// matchesTheirs reports whether a term of a placed pod selects the pending pod. Here a
// namespace that does not exist has no labels, so NotIn and DoesNotExist match it. Terms
// of placed pods are assumed to parse.
func (cy *cycle) matchesTheirs(t v1.PodAffinityTerm, owner *v1.Pod) bool {
	var labels map[string]string
	if ns := named(cy.cluster.Namespaces, "", cy.pod.Namespace); ns != nil {
		labels = ns.Labels
	}
	inside := slices.Contains(listedNamespaces(owner, t), cy.pod.Namespace) || selectorOf(t.NamespaceSelector).matches(labels)
	return inside && selectorOf(t.LabelSelector).matches(cy.pod.Labels)
}

// listedNamespaces are the namespaces that a term names. The owner's own is included only
// if the term has neither namespaces nor a namespace selector.
func listedNamespaces(owner *v1.Pod, t v1.PodAffinityTerm) []string {
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return []string{owner.Namespace}
	}
	return t.Namespaces
}

// domain is a value of a topology key. A node without the label is in no domain.
type domain struct{ key, value string }

// tally holds a sum per domain. A domain to which nothing was added is absent.
type tally map[domain]int64

func (t tally) add(n node, key string, amount int64) {
	if value, ok := n.Labels[key]; ok {
		t[domain{key, value}] += amount
	}
}

func podAffinityPreFilter(cy *cycle) ([]string, *Rejection, error) {
	for _, t := range podTermsOf(cy.pod).all() {
		for _, s := range []*metav1.LabelSelector{t.LabelSelector, t.NamespaceSelector} {
			if err := parseSelector(s); err != nil {
				return nil, &Rejection{Unresolvable: true, Reasons: []string{"parsing pod: " + err.Error()}}, nil
			}
		}
	}
	return nil, nil, nil
}

func podAffinityFilter(cy *cycle) func(node) *Rejection {
	own := podTermsOf(cy.pod)
	if len(own.affinity) == 0 && len(own.antiAffinity) == 0 && len(cy.antiAffinity(cy.nodes)) == 0 {
		// PreFilter's Skip also applies if the dry run adds a pod with anti-affinity to
		// this pod.
		return func(node) *Rejection { return nil }
	}
	nodes := cy.filtered()
	matching, repelling, antiAffinity := cy.matchingAll(nodes, own.affinity), cy.matchingAny(nodes, own.antiAffinity), cy.antiAffinity(nodes)
	return func(n node) *Rejection {
		switch {
		case !cy.satisfiesAffinity(n, own.affinity, matching):
			return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match pod affinity rules"}}
		case inDomain(n, repelling):
			return &Rejection{Reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
		case inDomain(n, antiAffinity):
			return &Rejection{Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
		}
		return nil
	}
}

// matchingAll counts, in the domains of all the terms, the pods that every term selects.
func (cy *cycle) matchingAll(nodes []node, terms []v1.PodAffinityTerm) tally {
	sum := tally{}
	for _, n := range nodes {
		for _, p := range n.pods {
			for _, t := range terms {
				if cy.meantByAll(terms, p) {
					sum.add(n, t.TopologyKey, 1)
				}
			}
		}
	}
	return sum
}

func (cy *cycle) meantByAll(terms []v1.PodAffinityTerm, p *v1.Pod) bool {
	for _, t := range terms {
		if !cy.matchedByOwn(t, p) {
			return false
		}
	}
	return true
}

// matchingAny counts, in each term's domains, the pods that the term selects.
func (cy *cycle) matchingAny(nodes []node, terms []v1.PodAffinityTerm) tally {
	sum := tally{}
	for _, n := range nodes {
		for _, p := range n.pods {
			for _, t := range terms {
				if cy.matchedByOwn(t, p) {
					sum.add(n, t.TopologyKey, 1)
				}
			}
		}
	}
	return sum
}

// antiAffinity counts, in their domains, the required anti-affinity terms of placed pods
// that select the pending pod.
func (cy *cycle) antiAffinity(nodes []node) tally {
	sum := tally{}
	for _, n := range nodes {
		for _, p := range n.pods {
			for _, t := range podTermsOf(p).antiAffinity {
				if cy.matchesTheirs(t, p) {
					sum.add(n, t.TopologyKey, 1)
				}
			}
		}
	}
	return sum
}

// satisfiesAffinity reports whether, for every term, the node is in a domain with
// matching pods. The first of a series of pods with affinity to each other fits any node
// with the labels.
func (cy *cycle) satisfiesAffinity(n node, terms []v1.PodAffinityTerm, matching tally) bool {
	together := true
	for _, t := range terms {
		value, ok := n.Labels[t.TopologyKey]
		if !ok {
			return false
		}
		if matching[domain{t.TopologyKey, value}] == 0 {
			together = false
		}
	}
	return together || len(matching) == 0 && cy.meantByAll(terms, cy.pod)
}

func inDomain(n node, sum tally) bool {
	for key, value := range n.Labels {
		if sum[domain{key, value}] > 0 {
			return true
		}
	}
	return false
}
