package oracle

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selector selects objects by their labels. Its operators are those in node affinity.
type selector struct {
	nothing      bool // an absent selector selects nothing
	requirements []v1.NodeSelectorRequirement
}

// selectorOf expects a selector that parses.
func selectorOf(from *metav1.LabelSelector) selector {
	if from == nil {
		return selector{nothing: true}
	}
	s := equal(from.MatchLabels)
	for _, r := range from.MatchExpressions {
		s.requirements = append(s.requirements, v1.NodeSelectorRequirement{Key: r.Key, Operator: v1.NodeSelectorOperator(r.Operator), Values: r.Values})
	}
	return s
}

// equal selects objects that have all the labels.
func equal(labels map[string]string) selector {
	var s selector
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		s.requirements = append(s.requirements, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{labels[key]}})
	}
	return s
}

// and returns the conjunction of two selectors.
func (s selector) and(other selector) selector {
	return selector{nothing: s.nothing || other.nothing, requirements: slices.Concat(s.requirements, other.requirements)}
}

// everything reports whether the selector is the empty one, {}, which selects every pod.
func (s selector) everything() bool { return !s.nothing && len(s.requirements) == 0 }

func (s selector) matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		value, present := labels[r.Key]
		if !labelMatches(r, value, present) {
			return false
		}
	}
	return !s.nothing
}

// parseSelector returns an error for the first part that upstream could not turn into a
// selector.
func parseSelector(from *metav1.LabelSelector) error {
	for _, r := range selectorOf(from).requirements {
		switch r.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
		default:
			return fmt.Errorf("label %q: unknown operator %q", r.Key, r.Operator)
		}
		if err := parseExpression(r); err != nil {
			return err
		}
	}
	return nil
}
