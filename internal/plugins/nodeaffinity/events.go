package nodeaffinity

import (
	v1 "k8s.io/api/core/v1"
	affinity "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for nodes that start to match.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel, Hint: p.comesToMatch,
		Alike: func(pod *model.Pod) model.Need { return plugin.NeedOf(p.FilterNeed(pod)) }, Cause: cause, Touches: touches,
	}}
}

// Kinds of keys.
const (
	labelKey = "label"
	nameKey  = "name"
	noKey    = "" // of pods that no change of a label helps
)

// cause returns that a node must have what the selector and one of the terms require. A change of labels helps only if a label that they name
// changed, to a value that they require if they require any.
func cause(pod *model.Pod) model.Cause {
	selector, terms := pod.Object.Spec.NodeSelector, required(pod.Object)
	selected := wayOfSelector(selector)
	if terms == nil {
		return model.Cause{Wants: []model.Way{selected}, Keys: changesOf(selector, nil)}
	}
	if _, err := affinity.NewNodeSelector(terms); err != nil {
		return model.Cause{Wants: []model.Way{selected}} // if the selector matches, its hint is always positive
	}
	wants := model.Never()
	for i := range terms.NodeSelectorTerms {
		if t := &terms.NodeSelectorTerms[i]; !isEmpty(t) {
			wants = append(wants, append(wayOf(t), selected...))
		}
	}
	return model.Cause{Wants: wants, Keys: changesOf(selector, terms)}
}

// wayOfSelector returns a clause for each label. Labels that tell few nodes apart are last, so that the others are looked up.
func wayOfSelector(selector map[string]string) model.Way {
	var way, common model.Way
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

// wayOf returns the clauses of a term. Requirements that a node without the label can meet give none.
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
	keys := []model.Key{{Kind: noKey}}
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

// valuesMax bounds how many values of one requirement are keys: beyond that the label is.
const valuesMax = 64

// appendChanges appends the keys of changes with which the requirement can start to be met.
func appendChanges(to []model.Key, r *v1.NodeSelectorRequirement) []model.Key {
	if r.Operator != v1.NodeSelectorOpIn || len(r.Values) > valuesMax {
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

// comesToMatch reports whether the node matches what the pod requires, and did not before. An update that makes only the added affinity match is
// ignored, as in kube-scheduler. For terms that cannot be parsed it returns true.
func (p *Plugin) comesToMatch(waiting *model.Pod, e model.Event) bool {
	if p.addedRequired != nil && !p.addedRequired.matches(e.Node.Object) {
		return false
	}
	wanted := affinity.GetRequiredNodeAffinity(waiting.Object)
	matches, err := wanted.Match(e.Node.Object)
	if err != nil {
		return true
	}
	if !matches || e.OldNode == nil {
		return matches
	}
	matched, _ := wanted.Match(e.OldNode.Object)
	return !matched
}
