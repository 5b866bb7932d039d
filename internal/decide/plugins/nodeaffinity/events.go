package nodeaffinity

import (
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	affinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for nodes that start to match.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel, Hint: p.comesToMatch,
		Alike: p.alike, Cause: p.cause, Touches: touches,
	}}
}

// alike returns the pod's filter need.
func (p *Plugin) alike(pod *model.Pod) model.Need {
	if _, at, ok := plugin.Prepared[*requirements](pod); ok {
		return pod.Needs[at]
	}
	return plugin.NeedOf(p.FilterNeed(pod))
}

// Kinds of keys.
const (
	labelKey = "label"
	nameKey  = "name"
	noKey    = "" // for pods that no change of a label helps
)

// cause returns the condition under which an event about a node can help: the node has
// the labels that the pod requires. An update must also change a label that is named by
// the pod's requirements or by the profile's added affinity.
func (p *Plugin) cause(pod *model.Pod) model.Cause {
	cause := own(pod)
	if len(cause.Keys) > 0 {
		cause.Keys = append(cause.Keys, p.addedKeys...)
	}
	return cause
}

// own requires that a node meets the selector and one term. An update helps only if a
// label that they name changed, and to a required value if they list any.
func own(pod *model.Pod) model.Cause {
	selector, terms := pod.Object.Spec.NodeSelector, required(pod.Object)
	selected := wayOfSelector(selector)
	if terms == nil {
		return model.Cause{Wants: []model.Way{selected}, Keys: changesOf(selector, nil)}
	}
	if size := len(selector) * len(terms.NodeSelectorTerms); size > maxKeys || sizeOfTerms(terms) > maxKeys {
		return model.Cause{Wants: []model.Way{selected}, Keys: labelsNamed(selector, terms)}
	}
	if slices.ContainsFunc(terms.NodeSelectorTerms, func(t v1.NodeSelectorTerm) bool { return !isEmpty(&t) && !parses(&t) }) {
		// If the selector matches, its hint is always positive.
		return model.Cause{Wants: []model.Way{selected}}
	}
	wants := model.Never()
	for i := range terms.NodeSelectorTerms {
		if t := &terms.NodeSelectorTerms[i]; !isEmpty(t) {
			wants = append(wants, append(wayOf(t), selected...))
		}
	}
	return model.Cause{Wants: wants, Keys: changesOf(selector, terms)}
}

// maxKeys bounds the keys of a cause. For longer terms, the ways would cost more than
// hints without effect, so only the labels are keys.
const maxKeys = 256

// sizeOfTerms returns the number of requirements and values in terms.
func sizeOfTerms(terms *v1.NodeSelector) (size int) {
	for i := range terms.NodeSelectorTerms {
		t := &terms.NodeSelectorTerms[i]
		size += len(t.MatchExpressions) + len(t.MatchFields)
		for j := range t.MatchExpressions {
			size += len(t.MatchExpressions[j].Values)
		}
	}
	return size
}

// LabelsNamed returns the label names in the pod's node selector and required terms,
// sorted.
func LabelsNamed(pod *model.Pod) []string {
	return slices.Sorted(maps.Keys(labelNamesOf(pod.Object.Spec.NodeSelector, required(pod.Object))))
}

// labelsNamed returns a key for each label that the selector and the terms name, for any
// value.
func labelsNamed(selector map[string]string, terms *v1.NodeSelector) []model.Key {
	names := labelNamesOf(selector, terms)
	keys := append(make([]model.Key, 0, 1+len(names)), model.Key{Kind: noKey})
	for name := range names {
		keys = append(keys, model.Key{Kind: labelKey, Name: name, Present: true})
	}
	return keys
}

func labelNamesOf(selector map[string]string, terms *v1.NodeSelector) map[string]bool {
	names := map[string]bool{}
	for name := range selector {
		names[name] = true
	}
	if terms == nil {
		return names
	}
	for i := range terms.NodeSelectorTerms {
		for j := range terms.NodeSelectorTerms[i].MatchExpressions {
			names[terms.NodeSelectorTerms[i].MatchExpressions[j].Key] = true
		}
	}
	return names
}

// wayOfSelector returns a clause for each label. Labels that most nodes share come last,
// so that the index uses the others.
func wayOfSelector(selector map[string]string) model.Way {
	way, common := make(model.Way, 0, len(selector)), model.Way(nil)
	for _, l := range labelsOf(selector) {
		clause := model.Clause{{Kind: labelKey, Name: l.key, Value: l.value}}
		if l.key == v1.LabelOSStable || l.key == v1.LabelArchStable {
			common = append(common, clause)
		} else {
			way = append(way, clause)
		}
	}
	return append(way, common...)
}

// wayOf returns the clauses of a term. A requirement that a node without the label can
// meet has no clause.
func wayOf(t *v1.NodeSelectorTerm) model.Way {
	var way model.Way
	for i := range t.MatchFields {
		if r := &t.MatchFields[i]; r.Key == nameField && r.Operator == v1.NodeSelectorOpIn {
			way = append(way, model.Clause{{Kind: nameKey, Name: r.Values[0]}})
		}
	}
	for i := range t.MatchExpressions {
		r := &t.MatchExpressions[i]
		if r.Operator != v1.NodeSelectorOpNotIn && r.Operator != v1.NodeSelectorOpDoesNotExist {
			way = append(way, appendChanges(nil, r))
		}
	}
	return way
}

// changesOf returns the keys of the labels that the selector and the terms name.
func changesOf(selector map[string]string, terms *v1.NodeSelector) []model.Key {
	keys := append(make([]model.Key, 0, 1+len(selector)), model.Key{Kind: noKey})
	for name, value := range selector {
		keys = append(keys, model.Key{Kind: labelKey, Name: name, Value: value})
	}
	if terms == nil {
		return keys
	}
	for i := range terms.NodeSelectorTerms {
		for j := range terms.NodeSelectorTerms[i].MatchExpressions {
			keys = appendChanges(keys, &terms.NodeSelectorTerms[i].MatchExpressions[j])
		}
	}
	return keys
}

// maxValues bounds the values of a requirement that are keys. Beyond it, the label is the
// key.
const maxValues = 64

// appendChanges appends the keys of changes after which the requirement may be met.
func appendChanges(to []model.Key, r *v1.NodeSelectorRequirement) []model.Key {
	if r.Operator != v1.NodeSelectorOpIn || len(r.Values) > maxValues {
		return append(to, model.Key{Kind: labelKey, Name: r.Key, Present: true})
	}
	for _, value := range r.Values {
		to = append(to, model.Key{Kind: labelKey, Name: r.Key, Value: value})
	}
	return to
}

func touches(e model.Event, to *model.Touch) {
	to.Has = append(to.Has, model.Key{Kind: nameKey, Name: e.Node.Name})
	to.Has = model.AppendLabelKeys(to.Has, labelKey, e.Node.Object.Labels)
	if e.OldNode == nil {
		return
	}
	var changed model.Clause
	model.ChangedLabels(e.OldNode.Object.Labels, e.Node.Object.Labels, func(name, value string, has bool) {
		changed = append(changed, model.Key{Kind: labelKey, Name: name, Present: true})
		if has {
			changed = append(changed, model.Key{Kind: labelKey, Name: name, Value: value})
		}
	})
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// comesToMatch reports whether the node now meets the requirements of the pod and the
// profile, and did not before. kube-scheduler ignores an update that makes only the added
// affinity match. Malformed terms return true.
func (p *Plugin) comesToMatch(waiting *model.Pod, e model.Event) bool {
	matches, err := p.Matches(waiting, e.Node.Object)
	if err != nil {
		return true
	}
	if !matches || e.OldNode == nil {
		return matches
	}
	matched, _ := p.Matches(waiting, e.OldNode.Object)
	return !matched
}

// Matches reports whether the node meets the requirements of the profile and the pod. It
// fails if no term matches and one is malformed.
func (p *Plugin) Matches(waiting *model.Pod, node *v1.Node) (bool, error) {
	if p.addedRequired != nil && !p.addedRequired.matches(node) {
		return false, nil
	}
	var match func(*v1.Node) (bool, error)
	if prepared, _, ok := plugin.Prepared[*requirements](waiting); ok {
		match = prepared.matcher()
	} else {
		match = affinity.GetRequiredNodeAffinity(waiting.Object).Match
	}
	return match(node)
}

var errTerm = errors.New("a term cannot be parsed")

// matcher returns the library's Match, which fails if no term matches and one is
// malformed.
func (r *requirements) matcher() func(*v1.Node) (bool, error) {
	labels := labelsOf(r.labels)
	if r.compiled == nil {
		return func(node *v1.Node) (bool, error) { return haveAll(node.Labels, labels), nil }
	}
	terms := r.compiled.matching()
	return func(node *v1.Node) (bool, error) {
		switch {
		case !haveAll(node.Labels, labels):
			return false, nil
		case terms.matches(node):
			return true, nil
		case r.compiled.unreadable:
			return false, errTerm
		}
		return false, nil
	}
}
