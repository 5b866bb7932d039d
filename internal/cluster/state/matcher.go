package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/internal/model"
)

// Effect is the sum of affinity terms that select a pod.
type Effect struct {
	// Repelling, Near and Preferred count terms of required anti-affinity, of required
	// affinity, and preferred terms of either.
	Repelling, Near, Preferred int32
	// Weights sums up the weights of preferred terms, negative for anti-affinity.
	Weights int64
}

// EffectOf returns the effect of one term.
func EffectOf(kind model.TermKind, weight int32) Effect {
	switch kind {
	case model.RequiredAntiAffinity:
		return Effect{Repelling: 1}
	case model.RequiredAffinity:
		return Effect{Near: 1}
	case model.PreferredAntiAffinity:
		return Effect{Preferred: 1, Weights: -int64(weight)}
	}
	return Effect{Preferred: 1, Weights: int64(weight)}
}

// plus returns the sum of an effect and sign × another.
func (e Effect) plus(other Effect, sign int32) Effect {
	return Effect{
		e.Repelling + sign*other.Repelling, e.Near + sign*other.Near,
		e.Preferred + sign*other.Preferred, e.Weights + int64(sign)*other.Weights,
	}
}

// Matcher sums up the terms that select a pod, without checking every term.
//
// A term that demands a label is looked up by a label of the pod. A term that only
// excludes labels selects every pod of its namespaces without these labels. So the sum
// over all such terms is stored, and terms that exclude a label of the pod are subtracted
// from the sum.
//
// A Matcher does not change after the last Add, so several goroutines may use it.
type Matcher struct {
	terms []matched
	// under lists positions in terms. A demanding term is listed under a single
	// requirement, an excluding term under each key that it excludes.
	under map[matchKey][]int32
	// everywhere sums up the excluding terms that select all namespaces, inNamespace
	// those that list namespaces, and scopes those that select namespaces by label.
	everywhere  Effect
	inNamespace map[string]Effect
	scopes      []scope
	// size is the number of all terms. all is the sum over the terms that can select a
	// pod.
	size int
	all  Effect
	// byNamespaceLabels means that a term selects namespaces by label.
	byNamespaceLabels bool
}

type matched struct {
	term   *model.Term
	effect Effect
}

// scope sums up the excluding terms that select the same namespaces.
type scope struct {
	term   *model.Term
	effect Effect
}

// matchKey is a requirement: a label, or its key alone if any is set.
type matchKey struct {
	label    model.Label
	any      bool
	excluded bool
}

// NewMatcher returns an empty matcher, for Add.
func NewMatcher() *Matcher {
	return &Matcher{under: map[matchKey][]int32{}, inNamespace: map[string]Effect{}}
}

// Add adds a term. All terms must have been added before the matcher is used.
func (m *Matcher) Add(term *model.Term, effect Effect) {
	m.size++
	requirements, selectable := term.Selector.Requirements()
	if !selectable {
		return
	}
	m.all = m.all.plus(effect, +1)
	m.byNamespaceLabels = m.byNamespaceLabels || selectsNamespaces(term)
	at := int32(len(m.terms))
	m.terms = append(m.terms, matched{term, effect})
	keys := demandOf(requirements)
	if keys == nil {
		m.addToNamespaces(term, effect)
		keys = exclusionsOf(requirements)
	}
	for _, key := range keys {
		m.under[key] = append(m.under[key], at)
	}
}

// addToNamespaces adds an excluding term to the sum of its namespaces.
func (m *Matcher) addToNamespaces(term *model.Term, effect Effect) {
	switch {
	case term.NamespaceSelector == nil:
		for _, name := range term.Namespaces {
			m.inNamespace[name] = m.inNamespace[name].plus(effect, +1)
		}
	case term.NamespaceSelector.Empty():
		m.everywhere = m.everywhere.plus(effect, +1)
	default:
		last := len(m.scopes) - 1
		if last >= 0 && m.scopes[last].sameNamespaces(term) {
			m.scopes[last].effect = m.scopes[last].effect.plus(effect, +1)
			return
		}
		m.scopes = append(m.scopes, scope{term, effect})
	}
}

// sameNamespaces reports whether a term certainly selects the same namespaces.
func (s *scope) sameNamespaces(term *model.Term) bool {
	return slices.Equal(s.term.Namespaces, term.Namespaces) && s.term.NamespaceSelector.String() == term.NamespaceSelector.String()
}

// demandOf returns the keys of the most selective requirement, judged by its number of
// values; nil if no requirement demands a label.
func demandOf(requirements labels.Requirements) []matchKey {
	var best, exists []matchKey
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			if values := valuesOf(r); best == nil || len(values) < len(best) {
				best = make([]matchKey, 0, max(len(values), 1))
				for _, value := range values {
					best = append(best, matchKey{label: model.Label{Key: r.Key(), Value: value}})
				}
			}
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
		default:
			exists = []matchKey{{label: model.Label{Key: r.Key()}, any: true}}
		}
	}
	if best != nil {
		return best
	}
	return exists
}

func valuesOf(r *labels.Requirement) []string {
	values := r.ValuesUnsorted() // a copy
	slices.Sort(values)
	return slices.Compact(values)
}

// exclusionsOf returns the excluded labels, and the keys whose labels are all excluded. A
// pod has at most a single excluded label of each key.
func exclusionsOf(requirements labels.Requirements) []matchKey {
	keys := map[matchKey]struct{}{}
	for i := range requirements {
		if r := &requirements[i]; r.Operator() == selection.DoesNotExist {
			keys[matchKey{model.Label{Key: r.Key()}, true, true}] = struct{}{}
		}
	}
	for i := range requirements {
		r := &requirements[i]
		if _, all := keys[matchKey{model.Label{Key: r.Key()}, true, true}]; all {
			continue
		}
		for _, value := range valuesOf(r) {
			keys[matchKey{model.Label{Key: r.Key(), Value: value}, false, true}] = struct{}{}
		}
	}
	list := make([]matchKey, 0, len(keys))
	for key := range keys {
		list = append(list, key)
	}
	return list
}

// inNamespace is a pod's namespace, as selectors of namespaces see it.
type inNamespace struct {
	name   string
	labels labels.Set
	// byName means that the namespace is unknown: only its name and an empty selector
	// select it.
	byName bool
}

func (n *inNamespace) selectedBy(term *model.Term) bool {
	if slices.Contains(term.Namespaces, n.name) {
		return true
	}
	selector := term.NamespaceSelector
	return selector != nil && (!n.byName || selector.Empty()) && selector.Matches(n.labels)
}

// effect sums up the terms that select pods with these labels in a namespace. It also
// returns the number of checked terms and scopes.
func (m *Matcher) effect(in inNamespace, of labels.Set) (sum Effect, asked int64) {
	sum = m.everywhere.plus(m.inNamespace[in.name], +1)
	for i := range m.scopes {
		asked++
		if in.selectedBy(m.scopes[i].term) {
			sum = sum.plus(m.scopes[i].effect, +1)
		}
	}
	for key, value := range of {
		for _, any := range [...]bool{false, true} {
			label := model.Label{Key: key, Value: value}
			if any {
				label.Value = ""
			}
			for _, at := range m.under[matchKey{label, any, false}] {
				asked++
				if t := &m.terms[at]; in.selectedBy(t.term) && t.term.Selector.Matches(of) {
					sum = sum.plus(t.effect, +1)
				}
			}
			for _, at := range m.under[matchKey{label, any, true}] {
				asked++
				if t := &m.terms[at]; in.selectedBy(t.term) && failsFirst(t.term.Selector, key, of) {
					sum = sum.plus(t.effect, -1)
				}
			}
		}
	}
	return sum, asked
}

// failsFirst reports whether the first requirement that the labels do not meet is about a
// key. So a term that excludes several labels of a pod is subtracted once.
func failsFirst(selector labels.Selector, key string, of labels.Set) bool {
	requirements, _ := selector.Requirements()
	for i := range requirements {
		if !requirements[i].Matches(of) {
			return requirements[i].Key() == key
		}
	}
	return false
}

// A parsed term takes about matchedBytes, and each key in under about matchKeyBytes.
const (
	matchedBytes  = 1 << 8
	matchKeyBytes = 1 << 7
)

func (m *Matcher) bytes() int {
	if m == nil {
		return 0
	}
	return matchedBytes*len(m.terms) + matchKeyBytes*len(m.under)
}

// theirNamespace is a pod's namespace for the terms of pods on nodes. An unknown
// namespace has no labels.
func (s *State) theirNamespace(name string) inNamespace {
	return inNamespace{name: name, labels: s.namespaces[name]}
}

// ownNamespace is a namespace for the terms of the pod to place.
func (s *State) ownNamespace(name string) inNamespace {
	of, known := s.namespaces[name]
	return inNamespace{name: name, labels: of, byName: !known}
}
