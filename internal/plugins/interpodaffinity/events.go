package interpodaffinity

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for pods that come, go or are relabelled, and for nodes that come or are relabelled.
//
// Hints do not know the labels of namespaces, as in kube-scheduler: a namespace selector is matched against no labels. They ignore the
// anti-affinity of other pods, except that of a deleted pod. For a waiting pod whose terms cannot be parsed every hint is positive.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.AssignedPodEvent, Actions: model.Add | model.Delete | model.UpdatePodLabel, Hint: p.podHelps, Touches: p.touchesPods},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel, Hint: p.nodeHelps, Touches: touchesTopologies},
	}
}

// Kinds of keys.
const (
	wantedKey   = "wanted"   // a label of every pod that all its affinity terms select; empty: no such label is known
	unwantedKey = "unwanted" // a label of every pod that one of its anti-affinity terms selects; empty: no such label is known
	ownKey      = "own"      // one of its own labels, which the terms of other pods may select; empty: any pod
	topologyKey = "topology" // a topology key of its terms; empty: it has anti-affinity, so any new node may help
)

// Cause is the namespace, the labels and the required terms.
func (p *Plugin) Cause(pod *model.Pod) model.Cause {
	cause := model.Cause{Alike: plugin.NeedOf(p.CountNeed(pod))}
	if p.isBroken(pod, model.RequiredAffinity) || p.isBroken(pod, model.RequiredAntiAffinity) {
		return cause
	}
	add := func(kind string, l model.Label) {
		cause.Keys = append(cause.Keys, model.Key{Kind: kind, Name: l.Key, Value: l.Value})
	}
	add(ownKey, model.Label{})
	for key, value := range pod.Labels {
		add(ownKey, model.Label{Key: key, Value: value})
	}
	wants := false
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		add(topologyKey, model.Label{Key: ref.Source.TopologyKey})
		kind := wantedKey
		if ref.Kind == model.RequiredAntiAffinity {
			kind = unwantedKey
			add(topologyKey, model.Label{})
		} else if wants {
			continue // only a pod that all terms select helps, so a label of the first term suffices
		} else {
			wants = true
		}
		p.eachDemanded(pod, ref, func(l model.Label) { add(kind, l) })
	}
	return cause
}

// eachDemanded calls yield with labels of which every pod that the term selects has one, or with the empty label if there are none.
func (p *Plugin) eachDemanded(owner *model.Pod, ref *model.TermRef, yield func(model.Label)) {
	term, err := p.terms.parse(owner.Namespace, ref)
	var some []model.Label
	if err == nil {
		some = model.Demanded(term.Selector)
	}
	for _, l := range some {
		yield(l)
	}
	if len(some) == 0 {
		yield(model.Label{})
	}
}

// touchesPods calls touch with the keys of pods whose terms may select the pod and, if it was deleted, of pods that its terms selected.
func (p *Plugin) touchesPods(e model.Event, touch func(model.Key)) {
	touchLabels := func(kind string, pod *model.Pod) {
		touch(model.Key{Kind: kind})
		for key, value := range pod.Labels {
			touch(model.Key{Kind: kind, Name: key, Value: value})
		}
	}
	if e.Pod != nil {
		touchLabels(wantedKey, e.Pod)
	}
	if e.OldPod == nil {
		return
	}
	touchLabels(unwantedKey, e.OldPod)
	if e.Action != model.Delete {
		return
	}
	for i := range e.OldPod.Terms {
		if ref := &e.OldPod.Terms[i]; ref.Kind == model.RequiredAntiAffinity {
			p.eachDemanded(e.OldPod, ref, func(l model.Label) { touch(model.Key{Kind: ownKey, Name: l.Key, Value: l.Value}) })
		}
	}
}

func touchesTopologies(e model.Event, touch func(model.Key)) {
	if e.OldNode != nil {
		model.ChangedLabels(e.OldNode, e.Node, func(key string) { touch(model.Key{Kind: topologyKey, Name: key}) })
		return
	}
	touch(model.Key{Kind: topologyKey})
	for key := range e.Node.Object.Labels {
		touch(model.Key{Kind: topologyKey, Name: key})
	}
}

// podHelps reports whether a pod appeared that the affinity requires, or one was deleted that anti-affinity kept the waiting pod away from.
func (p *Plugin) podHelps(waiting *model.Pod, e model.Event) bool {
	pod := e.Pod
	if pod == nil {
		pod = e.OldPod
	}
	if pod.NodeName == "" && pod.NominatedNode == "" {
		return false
	}
	if p.isBroken(waiting, model.RequiredAffinity) || p.isBroken(waiting, model.RequiredAntiAffinity) {
		return true
	}
	switch e.Action {
	case model.Add:
		return p.wants(waiting, e.Pod)
	case model.Delete:
		return p.repels(waiting, e.OldPod) || p.isBroken(e.OldPod, model.RequiredAntiAffinity) || p.repels(e.OldPod, waiting)
	}
	return !p.wants(waiting, e.OldPod) && p.wants(waiting, e.Pod) || p.repels(waiting, e.OldPod) && !p.repels(waiting, e.Pod)
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
