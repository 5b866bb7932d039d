package interpodaffinity

import "github.com/berth-scheduler/berth/internal/model"

// Interests registers for pods that come, go or are relabelled, and for nodes that come or are relabelled.
//
// Hints do not know namespaces, as in kube-scheduler: a namespace selector is held against no labels at all. Nor do they know which pods the
// waiting pod is unwanted by, except for one that goes. A waiting pod whose terms cannot be parsed gets the benefit of the doubt.
func (p *Plugin) Interests() []model.Interest {
	return []model.Interest{
		{Resource: model.AssignedPodEvent, Actions: model.Add | model.Delete | model.UpdatePodLabel, Hint: p.podHelps},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel, Hint: p.nodeHelps},
	}
}

// podHelps reports whether a pod came to be wanted, or an unwanted or repelling one is out of the way.
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
		return p.shuns(waiting, e.OldPod) || p.isBroken(e.OldPod, model.RequiredAntiAffinity) || p.shuns(e.OldPod, waiting)
	}
	return !p.wants(waiting, e.OldPod) && p.wants(waiting, e.Pod) || p.shuns(waiting, e.OldPod) && !p.shuns(waiting, e.Pod)
}

// nodeHelps reports whether a node came into reach of a topology key that the waiting pod's affinity asks for, or left a domain of
// its anti-affinity.
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

// shuns reports whether a required anti-affinity term of the pod selects the other pod.
func (p *Plugin) shuns(pod, other *model.Pod) bool {
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
