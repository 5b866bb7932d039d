package interpodaffinity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	operator "k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// AskedIn returns the topology keys of running pods' anti-affinity terms that select the
// pod. They can make the pod unschedulable, and its own object does not show them. A
// later term matters only after an event that wakes the pod.
func (p *Plugin) AskedIn(v state.View, pod *model.Pod) model.Need {
	var keys []string
	for _, t := range v.TermsMatching(pod) {
		if t.Repelling > 0 && !slices.Contains(keys, t.Key()) {
			keys = append(keys, t.Key())
		}
	}
	if len(keys) == 0 {
		return model.Need{}
	}
	slices.Sort(keys)
	return model.NeedOf(strings.Join(keys, "\n"))
}

// repellingKeys returns the topology keys of AskedIn. Label names have no line breaks.
func repellingKeys(asked model.Need) []string {
	if asked == (model.Need{}) {
		return nil
	}
	return strings.Split(asked.String(), "\n")
}

// opensDomain reports whether a node was added, or a node left a domain of a key by which
// running pods repel the waiting pod.
func opensDomain(asked model.Need, e model.Event) bool {
	keys := repellingKeys(asked)
	if e.OldNode == nil {
		return len(keys) > 0
	}
	before, after := labelsOf(e.OldNode), labelsOf(e.Node)
	return slices.ContainsFunc(keys, func(key string) bool {
		was, had := before[key]
		value, has := after[key]
		return had && (!has || value != was)
	})
}

// newNode is the kind of the key of added nodes.
const newNode = "new"

func causeOfRepelled(asked model.Need) model.Cause {
	keys := repellingKeys(asked)
	if len(keys) == 0 {
		return model.Cause{Wants: model.Never()}
	}
	any := model.Clause{{Kind: newNode}}
	for _, key := range keys {
		any = append(any, model.Key{Kind: leftKey, Name: key, Present: true})
	}
	return model.Cause{Wants: []model.Way{{any}}}
}

// touchesDomains adds that the node is new, or the labels whose domains it left.
func touchesDomains(e model.Event, to *model.Touch) {
	before, after := labelsOf(e.OldNode), labelsOf(e.Node)
	if e.OldNode == nil {
		to.Has = append(to.Has, model.Key{Kind: newNode})
	}
	for name, was := range before {
		if value, has := after[name]; !has || value != was {
			to.Has = append(to.Has, model.Key{Kind: leftKey, Name: name, Present: true})
		}
	}
}

// selectingNamespaces yields the pod's required terms that select namespaces by label.
func (p *Plugin) selectingNamespaces(pod *model.Pod, yield func(ref *model.TermRef, term *model.Term)) {
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		if term, err := p.terms.parse(pod.Namespace, ref); err == nil && term.NamespaceSelector != nil {
			yield(ref, term)
		}
	}
}

// namespaceHelps reports whether a change of a namespace's labels may help the waiting
// pod. If it is the pod's own namespace, terms of other pods may change their selection
// of the pod. Otherwise the pod's terms must start or stop selecting pods of the
// namespace.
func (p *Plugin) namespaceHelps(waiting *model.Pod, e model.Event) bool {
	change := e.Labels
	helps := change.Ref.Name == waiting.Namespace
	p.selectingNamespaces(waiting, func(ref *model.TermRef, term *model.Term) {
		selected := selectsNamespace(term, change.Ref.Name, change.Before)
		selects := selectsNamespace(term, change.Ref.Name, change.After)
		starts := ref.Kind == model.RequiredAffinity
		helps = helps || selected != selects && (selects == starts || starts && p.mayBeFirst(waiting))
	})
	return helps
}

// namespaceTerms returns the part of a pod that hints about namespaces depend on.
func (p *Plugin) namespaceTerms(pod *model.Pod) model.Need {
	var terms []string
	p.selectingNamespaces(pod, func(ref *model.TermRef, _ *model.Term) {
		kind := "near "
		if ref.Kind == model.RequiredAntiAffinity {
			kind = "apart "
		}
		terms = append(terms, kind+ref.Text.Value())
	})
	slices.Sort(terms)
	text := model.AppendQuote(nil, pod.Namespace)
	if p.mayBeFirst(pod) {
		text = append(text, " first"...)
	}
	return model.NeedOf(string(text) + strings.Join(terms, "\n"))
}

// causeOfNamespaces requires that the namespace is the pod's own, or that a label named
// by a namespace selector changes from or to a demanded value.
func (p *Plugin) causeOfNamespaces(pod *model.Pod) model.Cause {
	keys := model.Clause{{Kind: ownKey, Namespace: pod.Namespace}}
	p.selectingNamespaces(pod, func(_ *model.TermRef, term *model.Term) {
		keys = appendLabelsNamed(keys, term.NamespaceSelector)
	})
	slices.SortFunc(keys, model.Key.Compare)
	return model.Cause{Wants: []model.Way{{slices.Compact(keys)}}}
}

// appendLabelsNamed appends the labels that must change for a selector to start or stop
// selecting a namespace. A selector that demands no label can also select a new namespace
// without labels.
func appendLabelsNamed(keys model.Clause, selector labels.Selector) model.Clause {
	requirements, _ := selector.Requirements()
	demands := false
	for i := range requirements {
		r := &requirements[i]
		switch r.Operator() {
		case operator.In, operator.Equals, operator.DoubleEquals:
			demands = true
			if values := r.ValuesUnsorted(); len(values) <= maxNamespaces {
				for _, value := range values {
					keys = append(keys, model.Key{Kind: labelKey, Name: r.Key(), Value: value})
				}
				continue
			}
		case operator.Exists:
			demands = true
		}
		keys = append(keys, model.Key{Kind: labelKey, Name: r.Key(), Present: true})
	}
	if !demands {
		keys = append(keys, model.Key{Kind: labelKey})
	}
	return keys
}

func touchesNamespace(e model.Event, to *model.Touch) {
	to.Has = append(to.Has, model.Key{Kind: ownKey, Namespace: e.Labels.Ref.Name})
	// A selector can match without any label.
	if e.Labels.Before == nil || e.Labels.After == nil {
		to.Has = append(to.Has, model.Key{Kind: labelKey})
	}
	model.ChangedLabels(e.Labels.Before, e.Labels.After, func(name, value string, has bool) {
		to.Has = append(to.Has, model.Key{Kind: labelKey, Name: name, Present: true})
		if has {
			to.Has = append(to.Has, model.Key{Kind: labelKey, Name: name, Value: value})
		}
		if was, had := e.Labels.Before[name]; had {
			to.Has = append(to.Has, model.Key{Kind: labelKey, Name: name, Value: was})
		}
	})
}
