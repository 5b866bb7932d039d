package nodeaffinity

import (
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// The library k8s.io/component-helpers decides which terms can be parsed. Its matching
// allocates for every node. This file gives the same results without allocating; a test
// compares both.

// label is an entry of a node selector.
type label struct{ key, value string }

func labelsOf(selector map[string]string) []label {
	if len(selector) == 0 {
		return nil
	}
	labels := make([]label, 0, len(selector))
	for key, value := range selector {
		labels = append(labels, label{key, value})
	}
	slices.SortFunc(labels, func(a, b label) int { return strings.Compare(a.key, b.key) })
	return labels
}

func haveAll(have map[string]string, wanted []label) bool {
	for i := range wanted {
		if value, ok := have[wanted[i].key]; !ok || value != wanted[i].value {
			return false
		}
	}
	return true
}

// selector matches if any of its terms does; without terms it never matches. It is
// immutable.
type selector struct {
	terms []term
	many  *index // instead of terms, if they are many
	// unreadable means that a term is malformed.
	unreadable bool
}

// selectorOf omits empty and malformed terms: they match nothing.
func selectorOf(from *v1.NodeSelector) (s selector) {
	for i := range from.NodeSelectorTerms {
		switch t := &from.NodeSelectorTerms[i]; {
		case isEmpty(t):
		case parses(t):
			s.terms = append(s.terms, termOf(t))
		default:
			s.unreadable = true
		}
	}
	if sizeOf(s.terms) >= indexFrom {
		s.terms, s.many = nil, indexOf(s.terms, nil)
	}
	return s
}

func isEmpty(t *v1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}

// matching matches nodes against a selector.
type matching struct {
	terms []term
	many  *matcher
}

func (s *selector) matching() *matching {
	m := &matching{terms: s.terms}
	if s.many != nil {
		m.many = matcherOf(s.many)
	}
	return m
}

func (m *matching) matches(node *v1.Node) bool {
	if m.many != nil {
		return m.many.matches(node)
	}
	for i := range m.terms {
		if m.terms[i].matches(node) {
			return true
		}
	}
	return false
}

// weightedTerm is a preferred term.
type weightedTerm struct {
	term
	weight int32
}

// weightedTermsOf compiles terms that can be parsed. It omits terms without weight or
// requirements.
func weightedTermsOf(terms []v1.PreferredSchedulingTerm) []weightedTerm {
	var compiled []weightedTerm
	for i := range terms {
		if t := &terms[i]; counts(t) {
			compiled = append(compiled, weightedTerm{termOf(&t.Preference), t.Weight})
		}
	}
	return compiled
}

func counts(t *v1.PreferredSchedulingTerm) bool { return t.Weight != 0 && !isEmpty(&t.Preference) }

// term matches if all of its requirements do.
type term struct {
	labels []labelRequirement
	fields []fieldRequirement
}

// termOf compiles a term that can be parsed.
func termOf(t *v1.NodeSelectorTerm) term {
	var compiled term
	for i := range t.MatchExpressions {
		compiled.labels = append(compiled.labels, labelRequirementOf(&t.MatchExpressions[i]))
	}
	for i := range t.MatchFields {
		r := &t.MatchFields[i]
		compiled.fields = append(compiled.fields,
			fieldRequirement{isName: r.Key == nameField, equal: r.Operator == v1.NodeSelectorOpIn, value: r.Values[0]})
	}
	return compiled
}

func (t *term) matches(node *v1.Node) bool {
	for i := range t.labels {
		if !t.labels[i].matches(node.Labels) {
			return false
		}
	}
	for i := range t.fields {
		if !t.fields[i].matches(node.Name) {
			return false
		}
	}
	return true
}

// fieldRequirement compares a field with a value. Fields other than the name have the
// value "".
type fieldRequirement struct {
	isName, equal bool
	value         string
}

func (r *fieldRequirement) matches(name string) bool {
	if !r.isName {
		name = ""
	}
	return (name == r.value) == r.equal
}

// labelRequirement checks the presence or the value of a label.
type labelRequirement struct {
	key      string
	operator v1.NodeSelectorOperator
	values   []string // sorted; for In and NotIn
	bound    int64    // for Gt and Lt
}

func labelRequirementOf(r *v1.NodeSelectorRequirement) labelRequirement {
	compiled := labelRequirement{key: r.Key, operator: r.Operator}
	switch r.Operator {
	case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
		compiled.values = model.SortedCopy(r.Values)
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		compiled.bound, _ = integer(r.Values[0])
	}
	return compiled
}

func (r *labelRequirement) matches(labels map[string]string) bool {
	value, present := labels[r.key]
	switch r.operator {
	case v1.NodeSelectorOpIn:
		return present && r.lists(value)
	case v1.NodeSelectorOpNotIn:
		return !present || !r.lists(value)
	case v1.NodeSelectorOpExists:
		return present
	case v1.NodeSelectorOpDoesNotExist:
		return !present
	}
	number, ok := integer(value)
	if r.operator == v1.NodeSelectorOpGt {
		return ok && number > r.bound
	}
	return ok && number < r.bound
}

func (r *labelRequirement) lists(value string) bool {
	if len(r.values) == 1 {
		return r.values[0] == value
	}
	_, found := slices.BinarySearch(r.values, value)
	return found
}

// integer parses like strconv.ParseInt in base 10 and 64 bits. strconv would allocate an
// error for every label that is not a number.
func integer(text string) (value int64, ok bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	var magnitude uint64
	for i := range len(digits) {
		digit := uint64(digits[i]) - '0'
		if digit > 9 || magnitude > (limit-digit)/10 {
			return 0, false
		}
		magnitude = 10*magnitude + digit
	}
	if negative {
		return -int64(magnitude), digits != ""
	}
	return int64(magnitude), digits != ""
}
