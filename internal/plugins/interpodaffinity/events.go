package interpodaffinity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for pods that come, go or are relabelled, and for nodes that come or are relabelled.
//
// Hints do not know the labels of namespaces, as in kube-scheduler: a namespace selector is matched against no labels. They ignore the
// anti-affinity of other pods, except that of a deleted pod. For a waiting pod whose terms cannot be parsed every hint is positive.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{
			Resource: model.AssignedPodEvent, Actions: model.Add | model.Delete | model.UpdatePodLabel, Hint: p.podHelps,
			Alike: requiredTerms, Cause: p.causeOfPods, Touches: touchesPods,
		},
		{
			Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: p.repellerWent,
			Alike: ownLabels, Cause: causeOfRepellers, Touches: p.touchesRepelled,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel, Hint: p.nodeHelps,
			Alike: p.topologies, Cause: p.causeOfNodes, Touches: touchesNodes,
		},
	}
}

// Kinds of keys.
const (
	wantedKey   = "wanted"   // a pod that all affinity terms select
	unwantedKey = "unwanted" // a pod that an anti-affinity term selects
	changedKey  = "changed"  // a label of pods that a selector names
	ownKey      = "own"      // a label of the waiting pod
	topologyKey = "topology" // a topology key
)

// podHelps reports whether a pod appeared that the affinity requires, or one was deleted that anti-affinity kept the waiting pod away from.
func (p *Plugin) podHelps(waiting *model.Pod, e model.Event) bool {
	if !hasPlace(e) {
		return false
	}
	if p.isBroken(waiting, model.RequiredAffinity) || p.isBroken(waiting, model.RequiredAntiAffinity) {
		return true
	}
	switch e.Action {
	case model.Add:
		return p.wants(waiting, e.Pod)
	case model.Delete:
		return p.repels(waiting, e.OldPod)
	}
	return !p.wants(waiting, e.OldPod) && p.wants(waiting, e.Pod) || p.repels(waiting, e.OldPod) && !p.repels(waiting, e.Pod)
}

// hasPlace reports whether the event's pod, in its last version, is on a node or nominated to one.
func hasPlace(e model.Event) bool {
	pod := e.Pod
	if pod == nil {
		pod = e.OldPod
	}
	return pod.NodeName != "" || pod.NominatedNode != ""
}

// requiredTerms is what hints about pods depend on.
func requiredTerms(pod *model.Pod) model.Need {
	terms := make([]string, 0, len(pod.Terms))
	for i := range pod.Terms {
		switch ref := &pod.Terms[i]; ref.Kind {
		case model.RequiredAffinity:
			terms = append(terms, "near "+ref.Text.Value())
		case model.RequiredAntiAffinity:
			terms = append(terms, "apart "+ref.Text.Value())
		}
	}
	slices.Sort(terms)
	return model.NeedOf("required " + strings.Join(terms, "\n"))
}

// causeOfPods returns that a pod must be selected by all affinity terms, or by one of the anti-affinity terms; and that a pod that is relabelled
// must change a label that a selector names.
func (p *Plugin) causeOfPods(pod *model.Pod) model.Cause {
	cause := model.Cause{Wants: append(make([]model.Way, 0, 2+len(pod.Terms)), model.Never()...), Keys: make([]model.Key, 1, 1+len(pod.Terms))}
	wanted := make(model.Way, 0, len(pod.Terms))
	wants := false
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		term, err := p.terms.parse(pod.Namespace, ref)
		if err != nil {
			return model.Cause{}
		}
		if ref.Kind == model.RequiredAffinity {
			wants, wanted = true, append(wanted, model.PodWay(wantedKey, namespacesOf(term), term.Selector)...)
		} else {
			cause.Wants = append(cause.Wants, model.PodWay(unwantedKey, namespacesOf(term), term.Selector))
		}
		requirements, _ := term.Selector.Requirements()
		cause.Keys = slices.Grow(cause.Keys, len(requirements))
		for j := range requirements {
			cause.Keys = append(cause.Keys, model.Key{Kind: changedKey, Name: requirements[j].Key(), Present: true})
		}
	}
	if wants {
		cause.Wants = append(cause.Wants, wanted)
	}
	return cause
}

// namespacesOf returns the namespaces in which a term selects pods as far as hints know, as PodWay takes them.
func namespacesOf(term *model.Term) []string {
	if term.NamespaceSelector != nil && term.NamespaceSelector.Matches(labels.Set{}) {
		return []string{""}
	}
	return term.Namespaces
}

// touchesPods adds the pod that comes as one that affinity can want, and the pod that goes as one that anti-affinity can repel. A pod that is
// relabelled does both.
func touchesPods(e model.Event, to *model.Touch) {
	if e.Pod != nil {
		to.Has = model.AppendPodKeys(to.Has, wantedKey, e.Pod)
	}
	if e.OldPod != nil {
		to.Has = model.AppendPodKeys(to.Has, unwantedKey, e.OldPod)
	}
	if e.OldPod == nil || e.Pod == nil {
		return
	}
	var changed model.Clause
	model.ChangedLabels(e.OldPod.Labels, e.Pod.Labels, func(name, _ string, _ bool) {
		changed = append(changed, model.Key{Kind: changedKey, Name: name, Present: true})
	})
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// repellerWent reports whether a pod was deleted whose anti-affinity kept the waiting pod away.
func (p *Plugin) repellerWent(waiting *model.Pod, e model.Event) bool {
	return hasPlace(e) && (p.isBroken(e.OldPod, model.RequiredAntiAffinity) || p.repels(e.OldPod, waiting))
}

// ownLabels is what the terms of other pods select by.
func ownLabels(pod *model.Pod) model.Need {
	return model.NeedOf(string(model.AppendLabels(model.AppendQuote(make([]byte, 0, 128), pod.Namespace), pod.Labels)))
}

// causeOfRepellers returns the pod's own keys, of which a deleted pod's anti-affinity must select some.
func causeOfRepellers(pod *model.Pod) model.Cause {
	return model.Cause{Keys: model.AppendPodKeys(nil, ownKey, pod)}
}

// touchesRepelled seeks the pods that a deleted pod's anti-affinity selects.
func (p *Plugin) touchesRepelled(e model.Event, to *model.Touch) {
	to.Seeks = model.Never()
	for i := range e.OldPod.Terms {
		ref := &e.OldPod.Terms[i]
		if ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		term, err := p.terms.parse(e.OldPod.Namespace, ref)
		if err != nil {
			to.Seeks = nil
			return
		}
		to.Seeks = append(to.Seeks, model.PodWay(ownKey, namespacesOf(term), term.Selector))
	}
}

// topologies is what hints about nodes depend on: the topology keys of the required terms of each kind, and whether they can be parsed.
func (p *Plugin) topologies(pod *model.Pod) model.Need {
	if p.isBroken(pod, model.RequiredAffinity) || p.isBroken(pod, model.RequiredAntiAffinity) {
		return model.NeedOf("broken")
	}
	text := append(make([]byte, 0, 128), "topologies"...)
	for _, kind := range [...]model.TermKind{model.RequiredAffinity, model.RequiredAntiAffinity} {
		text = append(text, '/')
		for _, name := range keysOf(pod, kind) {
			text = model.AppendQuote(text, name)
		}
	}
	return model.NeedOf(string(text))
}

// keysOf returns the topology keys of the pod's terms of a kind, sorted and distinct.
func keysOf(pod *model.Pod, kind model.TermKind) []string {
	keys := make([]string, 0, len(pod.Terms))
	for i := range pod.Terms {
		if ref := &pod.Terms[i]; ref.Kind == kind {
			keys = append(keys, ref.Source.TopologyKey)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// causeOfNodes returns that a new node must have one of the topology keys, or may be any if there is anti-affinity; and that an update must
// change one of the keys.
func (p *Plugin) causeOfNodes(pod *model.Pod) model.Cause {
	if p.isBroken(pod, model.RequiredAffinity) || p.isBroken(pod, model.RequiredAntiAffinity) {
		return model.Cause{}
	}
	cause := model.Cause{Wants: model.Never(), Keys: []model.Key{{}}}
	for _, name := range keysOf(pod, model.RequiredAffinity) {
		key := model.Key{Kind: topologyKey, Name: name, Present: true}
		cause.Wants, cause.Keys = append(cause.Wants, model.Way{{key}}), append(cause.Keys, key)
	}
	for _, name := range keysOf(pod, model.RequiredAntiAffinity) {
		cause.Wants = nil
		cause.Keys = append(cause.Keys, model.Key{Kind: topologyKey, Name: name, Present: true})
	}
	return cause
}

func touchesNodes(e model.Event, to *model.Touch) {
	for name := range e.Node.Object.Labels {
		to.Has = append(to.Has, model.Key{Kind: topologyKey, Name: name, Present: true})
	}
	if e.OldNode == nil {
		return
	}
	var changed model.Clause
	model.ChangedLabels(e.OldNode.Object.Labels, e.Node.Object.Labels, func(name, _ string, _ bool) {
		changed = append(changed, model.Key{Kind: topologyKey, Name: name, Present: true})
	})
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// nodeHelps reports whether a node with a topology key of the waiting pod's terms was added, or an update gave a node the key of an affinity
// term, took away that of an anti-affinity term, or changed a key's value. For anti-affinity any added node helps.
func (p *Plugin) nodeHelps(waiting *model.Pod, e model.Event) bool {
	if p.isBroken(waiting, model.RequiredAffinity) || p.isBroken(waiting, model.RequiredAntiAffinity) {
		return true
	}
	for i := range waiting.Terms {
		ref := &waiting.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		value, has := e.Node.Object.Labels[ref.Source.TopologyKey]
		if e.OldNode == nil {
			if has || ref.Kind == model.RequiredAntiAffinity {
				return true
			}
			continue
		}
		before, had := e.OldNode.Object.Labels[ref.Source.TopologyKey]
		entered, left := has && !had, had && !has
		if has && had && value != before || entered && ref.Kind == model.RequiredAffinity || left && ref.Kind == model.RequiredAntiAffinity {
			return true
		}
	}
	return false
}

// wants reports whether the pod has required affinity terms and all of them select the other pod.
func (p *Plugin) wants(pod, other *model.Pod) bool {
	terms, selecting := p.count(pod, model.RequiredAffinity, other)
	return terms > 0 && selecting == terms
}

// repels reports whether a required anti-affinity term of the pod selects the other pod.
func (p *Plugin) repels(pod, other *model.Pod) bool {
	_, selecting := p.count(pod, model.RequiredAntiAffinity, other)
	return selecting > 0
}

// count returns how many terms of a kind the pod has, and how many of them select the other pod.
func (p *Plugin) count(pod *model.Pod, kind model.TermKind, other *model.Pod) (terms, selecting int) {
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != kind {
			continue
		}
		terms++
		if term, err := p.terms.parse(pod.Namespace, ref); err == nil && term.Matches(other, nil) {
			selecting++
		}
	}
	return terms, selecting
}

// isBroken reports whether the pod has a term of the kind that cannot be parsed.
func (p *Plugin) isBroken(pod *model.Pod, kind model.TermKind) bool {
	for i := range pod.Terms {
		if ref := &pod.Terms[i]; ref.Kind == kind {
			if _, err := p.terms.parse(pod.Namespace, ref); err != nil {
				return true
			}
		}
	}
	return false
}
