package model

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// NodeSelector selects nodes by their labels, for a volume's node affinity or a
// StorageCapacity. It is safe for concurrent use.
type NodeSelector struct {
	// required, unless nil, is the complete condition: each label must have a listed
	// value.
	required []Zone
	terms    *nodeaffinity.LazyErrorNodeSelector
	selector labels.Selector
	demands  [][]Zone
	mentions []string
}

// The first byte of a selector's text is its form.
const (
	nodeSelectorForm  = 'n'
	labelSelectorForm = 'l'
)

// affinityOf returns the canonical text of a volume's node affinity.
func affinityOf(pv *v1.PersistentVolume) Need {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return Need{}
	}
	return textOfNodeSelector(pv.Spec.NodeAffinity.Required)
}

func textOfNodeSelector(selector *v1.NodeSelector) Need {
	encoded, _ := selector.Marshal() // cannot fail
	return NeedOf(string(append([]byte{nodeSelectorForm}, encoded...)))
}

func textOfLabelSelector(selector *metav1.LabelSelector) Need {
	encoded, _ := selector.Marshal() // sorts the labels; cannot fail
	return NeedOf(string(append([]byte{labelSelectorForm}, encoded...)))
}

// NodeSelectorOf compiles a canonical text of a Volume or StorageCapacity. For the zero
// text of a volume it returns nil, which selects every node.
func NodeSelectorOf(text Need) *NodeSelector {
	if text.IsZero() {
		return nil
	}
	encoded := text.String()
	if encoded[0] == labelSelectorForm {
		var source metav1.LabelSelector
		if err := source.Unmarshal([]byte(encoded[1:])); err != nil {
			return &NodeSelector{selector: labels.Nothing()}
		}
		selector, err := metav1.LabelSelectorAsSelector(&source)
		if err != nil {
			return &NodeSelector{selector: labels.Nothing()}
		}
		demands, mentions := demandsOf(&source)
		return &NodeSelector{selector: selector, required: exactly(&source), demands: demands, mentions: mentions}
	}
	source := NodeSelectorTerms(text)
	demands, mentions := demandsOfTerms(source)
	return &NodeSelector{terms: nodeaffinity.NewLazyErrorNodeSelector(source), required: inValues(source), demands: demands, mentions: mentions}
}

// NodeSelectorTerms decodes the canonical text of a Volume. For the zero text, the result
// has no terms.
func NodeSelectorTerms(text Need) *v1.NodeSelector {
	source := new(v1.NodeSelector)
	if !text.IsZero() && source.Unmarshal([]byte(text.String()[1:])) != nil {
		return new(v1.NodeSelector) // the text is not from this package
	}
	return source
}

func demandsOf(source *metav1.LabelSelector) (demands [][]Zone, mentions []string) {
	term := exactly(&metav1.LabelSelector{MatchLabels: source.MatchLabels})
	for _, zone := range term {
		mentions = append(mentions, zone.Label)
	}
	for _, r := range source.MatchExpressions {
		mentions = append(mentions, r.Key)
		if r.Operator == metav1.LabelSelectorOpIn && len(r.Values) > 0 {
			term = append(term, Zone{r.Key, r.Values})
		}
	}
	if term != nil {
		demands = [][]Zone{term}
	}
	return demands, distinct(mentions)
}

func demandsOfTerms(source *v1.NodeSelector) (demands [][]Zone, mentions []string) {
	general := false
	for i := range source.NodeSelectorTerms {
		expressions := source.NodeSelectorTerms[i].MatchExpressions
		if len(expressions) == 0 && len(source.NodeSelectorTerms[i].MatchFields) == 0 {
			continue // an empty term selects nothing
		}
		var term []Zone
		for _, r := range expressions {
			mentions = append(mentions, r.Key)
			if r.Operator == v1.NodeSelectorOpIn && len(r.Values) > 0 {
				term = append(term, Zone{r.Key, r.Values})
			}
		}
		demands = append(demands, term)
		general = general || term == nil
	}
	if general {
		demands = nil
	}
	return demands, distinct(mentions)
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// inValues returns the values that labels must have, or nil if the selector has other
// conditions.
func inValues(source *v1.NodeSelector) []Zone {
	if len(source.NodeSelectorTerms) != 1 || len(source.NodeSelectorTerms[0].MatchFields) > 0 {
		return nil
	}
	var required []Zone
	for _, r := range source.NodeSelectorTerms[0].MatchExpressions {
		if r.Operator != v1.NodeSelectorOpIn {
			return nil
		}
		if _, err := labels.NewRequirement(r.Key, selection.In, r.Values); err != nil {
			return nil // the library decides how to treat such a term
		}
		required = append(required, Zone{r.Key, r.Values})
	}
	return required
}

// exactly is inValues for label selectors.
func exactly(source *metav1.LabelSelector) []Zone {
	if len(source.MatchExpressions) > 0 {
		return nil
	}
	var required []Zone
	for key, value := range source.MatchLabels {
		required = append(required, Zone{key, []string{value}})
	}
	slices.SortFunc(required, func(a, b Zone) int { return strings.Compare(a.Label, b.Label) })
	return required
}

// Matches reports whether the selector selects a node with these labels. A term that
// cannot be parsed selects none. Fields are ignored. A nil selector selects every node.
func (s *NodeSelector) Matches(of labels.Set) bool {
	switch {
	case s == nil:
		return true
	case s.required != nil:
		for i := range s.required {
			value, ok := of[s.required[i].Label]
			if !ok || !slices.Contains(s.required[i].Values, value) {
				return false
			}
		}
		return true
	case s.selector != nil:
		return s.selector.Matches(of)
	}
	matches, err := s.terms.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: of}})
	return matches && err == nil
}

// Demands returns the required label values of each term. A selected node meets all
// requirements of at least one term: each label has a listed value. It returns nil if any
// term requires no label value. The slice must not be changed.
func (s *NodeSelector) Demands() [][]Zone {
	if s == nil {
		return nil
	}
	return s.demands
}

// Mentions returns the distinct labels that the selector reads. The slice must not be
// changed.
func (s *NodeSelector) Mentions() []string {
	if s == nil {
		return nil
	}
	return s.mentions
}
