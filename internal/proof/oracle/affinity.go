package oracle

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const nodeNameField = "metadata.name"

// requiredOf returns the hard node selector of an affinity, or nil.
func requiredOf(a *v1.NodeAffinity) *v1.NodeSelector {
	if a == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution
}

func preferredOf(a *v1.NodeAffinity) []v1.PreferredSchedulingTerm {
	if a == nil {
		return nil
	}
	return a.PreferredDuringSchedulingIgnoredDuringExecution
}

func nodeAffinityOf(p *v1.Pod) *v1.NodeAffinity {
	if p.Spec.Affinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity
}

// nodeAffinityPreFilter returns the nodes that the required terms name by metadata.name,
// if every term names some. Only "metadata.name In" counts; within a term such
// requirements intersect, and the terms are united.
func nodeAffinityPreFilter(cy *cycle) ([]string, *Rejection, error) {
	required := requiredOf(nodeAffinityOf(cy.pod))
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		return nil, nil, nil
	}
	union := []string{}
	for _, term := range required.NodeSelectorTerms {
		names, named := namedNodes(term)
		if !named {
			return nil, nil, nil
		}
		union = append(union, names...)
	}
	if len(union) == 0 {
		return nil, &Rejection{Unresolvable: true, Reasons: []string{"pod affinity terms conflict"}}, nil
	}
	return union, nil, nil
}

func namedNodes(term v1.NodeSelectorTerm) (names []string, named bool) {
	for _, r := range term.MatchFields {
		if r.Key != nodeNameField || r.Operator != v1.NodeSelectorOpIn {
			continue
		}
		if !named {
			names, named = r.Values, true
		} else {
			names = intersection(names, r.Values)
		}
	}
	return names, named
}

func nodeAffinityFilter(cy *cycle, n node) *Rejection {
	if added := requiredOf(cy.profile.AddedAffinity); added != nil && !selects(added, n) {
		return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match scheduler-enforced node affinity"}}
	}
	if !wantedBy(cy.pod, n) {
		return &Rejection{Unresolvable: true, Reasons: []string{"node(s) didn't match Pod's node affinity/selector"}}
	}
	return nil
}

// wantedBy reports whether the node satisfies the pod's own node selector and required
// node affinity.
func wantedBy(p *v1.Pod, n node) bool {
	required := requiredOf(nodeAffinityOf(p))
	return hasLabels(n.Labels, p.Spec.NodeSelector) && (required == nil || selects(required, n))
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// selects reports whether at least one term matches. A malformed term matches nothing and
// has no effect on the others.
func selects(s *v1.NodeSelector, n node) bool {
	for _, term := range s.NodeSelectorTerms {
		if parse(term) == nil && termMatches(term, n) {
			return true
		}
	}
	return false
}

// nodeAffinityScore adds up the weights of the matching preferred terms of the profile
// and the pod. A term without weight or content is not even parsed; any other malformed
// term of the pod fails the cycle.
func nodeAffinityScore(cy *cycle) (scores, error) {
	own := preferredOf(nodeAffinityOf(cy.pod))
	added := preferredOf(cy.profile.AddedAffinity)
	if len(own) == 0 && len(added) == 0 {
		return scores{}, nil
	}
	for i, t := range own {
		if t.Weight == 0 || empty(t.Preference) {
			continue
		}
		if err := parse(t.Preference); err != nil {
			return scores{}, fmt.Errorf("running PreScore plugin %q: preferred term %d: %w", "NodeAffinity", i, err)
		}
	}
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		for _, t := range slices.Concat(added, own) {
			if t.Weight != 0 && termMatches(t.Preference, n) {
				raw[i] += int64(t.Weight)
			}
		}
	}
	return byLargest(raw, false), nil
}

func empty(t v1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}

// termMatches expects a term that parses. All requirements of a term must match; an empty
// term matches no node.
func termMatches(t v1.NodeSelectorTerm, n node) bool {
	for _, r := range t.MatchExpressions {
		value, present := n.Labels[r.Key]
		if !labelMatches(r, value, present) {
			return false
		}
	}
	for _, r := range t.MatchFields {
		value := ""
		if r.Key == nodeNameField {
			value = n.Name
		}
		if (value == r.Values[0]) != (r.Operator == v1.NodeSelectorOpIn) {
			return false
		}
	}
	return !empty(t)
}

func labelMatches(r v1.NodeSelectorRequirement, value string, present bool) bool {
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		return present && slices.Contains(r.Values, value)
	case v1.NodeSelectorOpNotIn:
		return !present || !slices.Contains(r.Values, value)
	case v1.NodeSelectorOpExists:
		return present
	case v1.NodeSelectorOpDoesNotExist:
		return !present
	}
	label, err := strconv.ParseInt(value, 10, 64)
	if !present || err != nil {
		return false
	}
	bound, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return false
	}
	if r.Operator == v1.NodeSelectorOpGt {
		return label > bound
	}
	return label < bound
}

// parse returns an error for the first part of a term that upstream could not turn into a
// selector.
func parse(t v1.NodeSelectorTerm) error {
	for _, r := range t.MatchExpressions {
		if err := parseExpression(r); err != nil {
			return err
		}
	}
	for _, r := range t.MatchFields {
		if r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn {
			return fmt.Errorf("field %q: operator %q is not In or NotIn", r.Key, r.Operator)
		}
		if len(r.Values) != 1 {
			return fmt.Errorf("field %q: %d values instead of one", r.Key, len(r.Values))
		}
	}
	return nil
}

func parseExpression(r v1.NodeSelectorRequirement) error {
	if wrong := validation.IsQualifiedName(r.Key); len(wrong) > 0 {
		return fmt.Errorf("label key %q: %s", r.Key, wrong[0])
	}
	if err := parseValueCount(r); err != nil {
		return err
	}
	for _, value := range r.Values {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			return fmt.Errorf("label %q: value %q: %s", r.Key, value, wrong[0])
		}
	}
	return nil
}

func parseValueCount(r v1.NodeSelectorRequirement) error {
	count := len(r.Values)
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		if count == 0 {
			return fmt.Errorf("label %q: %s without values", r.Key, r.Operator)
		}
	case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		if count != 0 {
			return fmt.Errorf("label %q: %s with values", r.Key, r.Operator)
		}
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if count != 1 {
			return fmt.Errorf("label %q: %s with %d values", r.Key, r.Operator, count)
		}
		if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			return fmt.Errorf("label %q: %s: %w", r.Key, r.Operator, err)
		}
	default:
		return fmt.Errorf("label %q: unknown operator %q", r.Key, r.Operator)
	}
	return nil
}
