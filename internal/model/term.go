package model

import (
	"slices"
	"unique"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// TermKind is the list of a pod's affinity that contains a term.
type TermKind uint8

// The kinds of term.
const (
	RequiredAffinity TermKind = iota
	RequiredAntiAffinity
	PreferredAffinity
	PreferredAntiAffinity
)

// TermRef is an unparsed term of a pod's affinity. Most pods share their terms with many
// other pods, so each term is parsed only once.
type TermRef struct {
	Kind TermKind
	// Weight is set for preferred terms.
	Weight int32
	// Text is the canonical form of the term, including the owner's namespace. Terms with
	// equal texts select the same pods.
	Text unique.Handle[string]
	// Source is the term in the pod's object.
	Source *v1.PodAffinityTerm
}

// Term selects pods by namespace and labels, and relates them by a topology key.
type Term struct {
	// Namespaces are the listed namespaces, sorted. If the term has neither a list nor a
	// selector of namespaces, they are the owner's namespace.
	Namespaces []string
	// NamespaceSelector selects additional namespaces by their labels. Nil selects none.
	NamespaceSelector labels.Selector
	Selector          labels.Selector
	Key               string
}

// NewTerm parses a term of a pod in the owner's namespace.
func NewTerm(owner string, source *v1.PodAffinityTerm) (*Term, error) {
	selector, err := metav1.LabelSelectorAsSelector(source.LabelSelector)
	if err != nil {
		return nil, err
	}
	term := &Term{Namespaces: termNamespaces(owner, source), Selector: selector, Key: source.TopologyKey}
	if source.NamespaceSelector != nil {
		if term.NamespaceSelector, err = metav1.LabelSelectorAsSelector(source.NamespaceSelector); err != nil {
			return nil, err
		}
	}
	return term, nil
}

func termNamespaces(owner string, source *v1.PodAffinityTerm) []string {
	if len(source.Namespaces) == 0 && source.NamespaceSelector == nil {
		return []string{owner}
	}
	names := slices.Clone(source.Namespaces)
	slices.Sort(names)
	return slices.Compact(names)
}

// SelectsNamespace reports whether the term selects the namespace with these labels.
func (t *Term) SelectsNamespace(name string, of labels.Set) bool {
	return slices.Contains(t.Namespaces, name) || t.NamespaceSelector != nil && t.NamespaceSelector.Matches(of)
}

// Matches reports whether the term selects a pod, whose namespace has the given labels.
func (t *Term) Matches(pod *Pod, namespace labels.Set) bool {
	return t.SelectsNamespace(pod.Namespace, namespace) && t.Selector.Matches(pod.Labels)
}

// termsOf lists a pod's affinity terms, of all kinds.
func termsOf(pod *v1.Pod) []TermRef {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.PodAffinity == nil && affinity.PodAntiAffinity == nil {
		return nil
	}
	var refs []TermRef
	add := func(kind TermKind, weight int32, source *v1.PodAffinityTerm) {
		refs = append(refs, TermRef{Kind: kind, Weight: weight, Text: unique.Make(string(appendTerm(nil, pod.Namespace, source))), Source: source})
	}
	if a := affinity.PodAffinity; a != nil {
		for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			add(RequiredAffinity, 0, &a.RequiredDuringSchedulingIgnoredDuringExecution[i])
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
			add(PreferredAffinity, p.Weight, &p.PodAffinityTerm)
		}
	}
	if a := affinity.PodAntiAffinity; a != nil {
		for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
			add(RequiredAntiAffinity, 0, &a.RequiredDuringSchedulingIgnoredDuringExecution[i])
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
			add(PreferredAntiAffinity, p.Weight, &p.PodAffinityTerm)
		}
	}
	return refs
}

func appendTerm(b []byte, owner string, source *v1.PodAffinityTerm) []byte {
	b = AppendQuote(b, source.TopologyKey)
	for _, name := range termNamespaces(owner, source) {
		b = AppendQuote(append(b, ' '), name)
	}
	b = AppendSelector(append(b, '/'), source.NamespaceSelector)
	return AppendSelector(append(b, '/'), source.LabelSelector)
}

// Demands returns necessary conditions of a selector, each of which suffices to look
// objects up. Every object that the selector matches has at least one label of each
// condition. Example: for app in (a, b), tier=web these are [app=a, app=b] and
// [tier=web]. The labels of a condition are distinct and have the same key. The result is
// empty if no requirement lists values, or if the selector matches nothing.
func Demands(s labels.Selector) [][]Label {
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil
	}
	var all [][]Label
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			values := r.ValuesUnsorted() // a copy, which may contain duplicates
			slices.Sort(values)
			var some []Label
			for _, value := range slices.Compact(values) {
				some = append(some, Label{r.Key(), value})
			}
			all = append(all, some)
		}
	}
	return all
}

// AppendSelector appends the canonical form of a label selector with additional required
// labels. Selectors with equal texts select the same objects. A nil selector selects
// nothing; its text differs from an empty selector's, which selects everything.
func AppendSelector(b []byte, s *metav1.LabelSelector, besides ...Label) []byte {
	if s == nil {
		return append(b, "nil"...)
	}
	parts := make([]string, 0, len(s.MatchLabels)+len(s.MatchExpressions)+len(besides))
	part := func(key string, operator metav1.LabelSelectorOperator, values ...string) {
		text := append(AppendQuote(make([]byte, 0, 64), key), operator...)
		for _, value := range values {
			text = AppendQuote(text, value)
		}
		parts = append(parts, string(text))
	}
	for key, value := range s.MatchLabels {
		part(key, metav1.LabelSelectorOpIn, value)
	}
	for _, l := range besides {
		part(l.Key, metav1.LabelSelectorOpIn, l.Value)
	}
	for i := range s.MatchExpressions {
		r := &s.MatchExpressions[i]
		part(r.Key, r.Operator, slices.Compact(SortedCopy(r.Values))...)
	}
	slices.Sort(parts)
	for _, text := range slices.Compact(parts) {
		b = append(append(b, '&'), text...)
	}
	return b
}

// LabelSet identifies the pods of one namespace that have equal labels: a selector
// matches all of them or none. Comparing is as cheap as for a pointer.
type LabelSet struct{ text unique.Handle[string] }

func labelSetOf(namespace string, labels map[string]string) LabelSet {
	var memory [256]byte
	return LabelSet{unique.Make(string(AppendLabels(AppendQuote(memory[:0], namespace), labels)))}
}

// AppendLabels appends labels in canonical form.
func AppendLabels(b []byte, set map[string]string) []byte {
	var few [16]string
	keys := slices.Grow(few[:0], len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		b = AppendQuote(append(b, ','), key)
		b = AppendQuote(append(b, '='), set[key])
	}
	return b
}
