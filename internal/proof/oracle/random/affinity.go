package random

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
)

// brokenBound is malformed: a term with it matches nothing, and a preferred term with it
// fails the cycle.
func brokenBound() v1.NodeSelectorRequirement {
	return v1.NodeSelectorRequirement{Key: "cores", Operator: v1.NodeSelectorOpGt, Values: []string{"abc"}}
}

func nodeSelector(r *rand.Rand) map[string]string {
	switch {
	case chance(r, 85):
		return nil
	case chance(r, 20):
		return map[string]string{}
	case chance(r, 50):
		return map[string]string{"disk": pick(r, "ssd", "hdd")}
	}
	return map[string]string{"zone": pick(r, "a", "b"), "disk": "ssd"}
}

func affinity(r *rand.Rand) *v1.Affinity {
	if chance(r, 45) {
		return nil
	}
	na := &v1.NodeAffinity{}
	if chance(r, 40) {
		na.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: requiredTerms(r)}
	}
	if chance(r, 75) {
		na.PreferredDuringSchedulingIgnoredDuringExecution = preferredTerms(r)
	}
	return &v1.Affinity{NodeAffinity: na}
}

// requiredTerms draws any of four kinds: contradicting names, which reject the pod before
// any node is filtered; terms on names only, which narrow the node set; a mixture; and
// terms on labels.
func requiredTerms(r *rand.Rand) []v1.NodeSelectorTerm {
	if chance(r, 4) {
		return []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"node-0"}},
			{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"node-1"}},
		}}}
	}
	var terms []v1.NodeSelectorTerm
	kind := r.IntN(6)
	for range 1 + r.IntN(3) {
		switch {
		case kind == 0, kind == 1 && chance(r, 50):
			terms = append(terms, nameTerm(r))
		case chance(r, 6):
			terms = append(terms, v1.NodeSelectorTerm{})
		case chance(r, 8):
			terms = append(terms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{brokenBound()}})
		default:
			terms = append(terms, labelTerm(r))
		}
	}
	return terms
}

// preferredTerms are never malformed if they are parsed: a term of weight 0 is not
// parsed.
func preferredTerms(r *rand.Rand) []v1.PreferredSchedulingTerm {
	var terms []v1.PreferredSchedulingTerm
	for range 1 + r.IntN(3) {
		term := v1.PreferredSchedulingTerm{Weight: pick(r, int32(1), 5, 10, 50, 100), Preference: labelTerm(r)}
		switch {
		case chance(r, 8):
			term.Preference = v1.NodeSelectorTerm{}
		case chance(r, 8):
			term.Preference = v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{nameRequirement(r)}}
		case chance(r, 10):
			term.Weight = 0
			term.Preference.MatchExpressions = append(term.Preference.MatchExpressions, brokenBound())
		}
		terms = append(terms, term)
	}
	return terms
}

func labelTerm(r *rand.Rand) v1.NodeSelectorTerm {
	var term v1.NodeSelectorTerm
	for range 1 + r.IntN(2) {
		term.MatchExpressions = append(term.MatchExpressions, labelRequirement(r))
	}
	return term
}

func labelRequirement(r *rand.Rand) v1.NodeSelectorRequirement {
	switch r.IntN(4) {
	case 0:
		return v1.NodeSelectorRequirement{Key: "cores", Operator: pick(r, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt), Values: []string{pick(r, "3", "4", "8")}}
	case 1:
		return v1.NodeSelectorRequirement{Key: pick(r, "zone", "disk", "cores"), Operator: pick(r, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist)}
	case 2:
		return v1.NodeSelectorRequirement{Key: "disk", Operator: pick(r, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{pick(r, "ssd", "hdd")}}
	}
	values := append(some(r, 40, "b", "c", "d"), "a")
	return v1.NodeSelectorRequirement{Key: "zone", Operator: pick(r, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: values}
}

// nameTerm names nodes by field. Two requirements in a term can contradict each other. A
// list of two names is malformed (but still narrows), and a term without "In" does not
// narrow.
func nameTerm(r *rand.Rand) v1.NodeSelectorTerm {
	term := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{nameRequirement(r)}}
	if chance(r, 35) {
		term.MatchFields = append(term.MatchFields, nameRequirement(r))
	}
	if chance(r, 10) {
		term.MatchFields[0].Values = append(term.MatchFields[0].Values, nodeName(r))
	}
	if chance(r, 25) {
		term.MatchExpressions = []v1.NodeSelectorRequirement{labelRequirement(r)}
	}
	return term
}

func nameRequirement(r *rand.Rand) v1.NodeSelectorRequirement {
	operator := v1.NodeSelectorOpIn
	if chance(r, 20) {
		operator = v1.NodeSelectorOpNotIn
	}
	return v1.NodeSelectorRequirement{Key: "metadata.name", Operator: operator, Values: []string{nodeName(r)}}
}

// nodeName is mostly a name of the first nodes, which most clusters have. Sometimes no
// cluster has the node.
func nodeName(r *rand.Rand) string {
	if chance(r, 10) {
		return "nowhere"
	}
	return fmt.Sprintf("node-%d", r.IntN(5))
}
