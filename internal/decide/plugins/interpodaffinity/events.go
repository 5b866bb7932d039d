package interpodaffinity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for everything that the filter reads: pods that come, go or
// are relabelled, nodes likewise, and labels of namespaces. For a waiting pod whose terms
// cannot be parsed every hint is positive, as in kube-scheduler.
//
// kube-scheduler matches namespace selectors against no labels, and its hints about nodes
// look at the waiting pod's own terms only. A pod that the anti-affinity of running pods
// keeps out of all nodes then waits beside a new node until the flush.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{
			Resource: model.AssignedPodEvent, Actions: model.Add | model.Delete | model.UpdatePodLabel, Hint: p.podHelps,
			Alike: p.requiredTerms, Cause: p.causeOfPods, Touches: touchesPods,
		},
		{
			Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: p.repellerWent,
			Alike: ownLabels, Cause: causeOfRepellers, Touches: p.touchesRepelled,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.Delete | model.UpdateNodeLabel, Hint: p.nodeHelps,
			Alike: p.topologies, Cause: p.causeOfNodes, Touches: touchesNodes,
		},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.Delete | model.UpdateNodeLabel,
			Asked: &model.AskedHint{Hint: opensDomain, Cause: causeOfRepelled}, Touches: touchesDomains,
		},
		{
			Resource: model.NamespaceEvent, Actions: model.Update, Hint: p.namespaceHelps,
			Alike: p.namespaceTerms, Cause: p.causeOfNamespaces, Touches: touchesNamespace,
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
	leftKey     = "left"     // a topology key of a node that is gone, or that lost the label
	labelKey    = "label"    // a label of the namespace of a pod
)

// podHelps reports whether a pod appeared that the affinity requires, or one was deleted that anti-affinity kept the waiting pod away from.
func (p *Plugin) podHelps(waiting *model.Pod, e model.Event) bool {
	if !hasPlace(e) {
		return false
	}
	if p.isBroken(waiting, model.RequiredAffinity) || p.isBroken(waiting, model.RequiredAntiAffinity) {
		return true
	}
	wanted, wants := p.wants(waiting, e.OldPod, &e), p.wants(waiting, e.Pod, &e)
	if wants != wanted && (wants || p.mayBeFirst(waiting)) {
		return true
	}
	return p.repelsNoMore(waiting, &e)
}

// repelsNoMore reports whether a required anti-affinity term of the pod ceases to select the
// pod of an event. Another term may select it now: in domains of another key.
func (p *Plugin) repelsNoMore(pod *model.Pod, e *model.Event) bool {
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		term, err := p.terms.parse(pod.Namespace, ref)
		if err == nil && selects(term, e.OldPod, e) && !selects(term, e.Pod, e) {
			return true
		}
	}
	return false
}

// selects reports whether a term of the waiting pod selects a pod, which may be nil.
func selects(term *model.Term, pod *model.Pod, e *model.Event) bool {
	return pod != nil && term.Selector.Matches(pod.Labels) && selectsNamespace(term, pod.Namespace, e.NamespaceLabels(pod.Namespace))
}

// mayBeFirst reports whether the affinity terms may select the pod itself. If the last pod
// goes that they select, such a pod may go anywhere.
func (p *Plugin) mayBeFirst(pod *model.Pod) bool {
	terms := 0
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != model.RequiredAffinity {
			continue
		}
		terms++
		term, err := p.terms.parse(pod.Namespace, ref)
		if err != nil || !term.Selector.Matches(pod.Labels) ||
			term.NamespaceSelector == nil && !slices.Contains(term.Namespaces, pod.Namespace) {
			return false
		}
	}
	return terms > 0
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
func (p *Plugin) requiredTerms(pod *model.Pod) model.Need {
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
	text := "required "
	if p.mayBeFirst(pod) {
		text = "first " + text
	}
	return model.NeedOf(text + strings.Join(terms, "\n"))
}

// causeOfPods returns that a pod must be selected by all affinity terms, or by one of the anti-affinity terms; and that a pod that is relabelled
// must change a label that a selector names. For a pod that may be the first, the pod may
// also be one that goes.
func (p *Plugin) causeOfPods(pod *model.Pod) model.Cause {
	cause := model.Cause{Wants: append(make([]model.Way, 0, 2+len(pod.Terms)), model.Never()...), Keys: make([]model.Key, 1, 1+len(pod.Terms))}
	wanted := make(model.Way, 0, len(pod.Terms))
	var last model.Way
	wants, first := false, p.mayBeFirst(pod)
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
			wants, wanted = true, append(wanted, wayOf(wantedKey, term)...)
			if first {
				last = append(last, wayOf(unwantedKey, term)...)
			}
		} else {
			cause.Wants = append(cause.Wants, wayOf(unwantedKey, term))
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
	if first {
		cause.Wants = append(cause.Wants, last)
	}
	return cause
}

// wayOf returns the way that is met by the pods that a term selects. The labels of their
// namespaces are keys of a kind of their own: thousands of tenants can have pods with the
// same labels.
func wayOf(kind string, term *model.Term) model.Way {
	if term.NamespaceSelector == nil {
		return model.PodWay(kind, term.Namespaces, term.Selector)
	}
	var way model.Way // of equal clauses the first is looked up
	if len(term.Namespaces) == 0 {
		way = model.PodWay(kind+labelKey, anywhere, term.NamespaceSelector)
	}
	return append(way, model.PodWay(kind, anywhere, term.Selector)...)
}

// anywhere are all namespaces, as PodWay takes them.
var anywhere = []string{""}

// touchesPods adds the pod that comes as one that affinity can want, and the pod that goes as one that anti-affinity can repel. A pod that is
// relabelled does both.
func touchesPods(e model.Event, to *model.Touch) {
	if e.Pod != nil {
		to.Has = model.AppendPodKeys(to.Has, wantedKey, e.Pod)
		to.Has = model.AppendLabelKeys(to.Has, wantedKey+labelKey, e.NamespaceLabels(e.Pod.Namespace))
	}
	if e.OldPod != nil {
		to.Has = model.AppendPodKeys(to.Has, unwantedKey, e.OldPod)
		to.Has = model.AppendLabelKeys(to.Has, unwantedKey+labelKey, e.NamespaceLabels(e.OldPod.Namespace))
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
	if !hasPlace(e) {
		return false
	}
	for i := range e.OldPod.Terms {
		ref := &e.OldPod.Terms[i]
		if ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		term, err := p.terms.parse(e.OldPod.Namespace, ref)
		if err != nil || term.Matches(waiting, e.NamespaceLabels(waiting.Namespace)) {
			return true
		}
	}
	return false
}

// selectsNamespace reports whether a term of the waiting pod selects a namespace. Labels are
// nil for one that is not known, which only the empty selector selects. To the terms of pods
// on nodes such a namespace has no labels.
func selectsNamespace(term *model.Term, name string, of labels.Set) bool {
	known := of != nil || term.NamespaceSelector != nil && term.NamespaceSelector.Empty()
	return slices.Contains(term.Namespaces, name) || known && term.SelectsNamespace(name, of)
}

// mostNamespaces bounds the namespaces of which the pods are found one namespace at a time.
const mostNamespaces = 64

// selected returns the namespaces that a term of a pod on a node selects, as PodWay takes
// them. Without this, an event would find the pods of thousands of tenants that have the
// same labels.
func selected(term *model.Term, e *model.Event) []string {
	switch {
	case term.NamespaceSelector == nil:
		return term.Namespaces
	case e.Cluster == nil || term.NamespaceSelector.Matches(labels.Set{}): // also namespaces that are not known
		return anywhere
	}
	names, ok := e.Cluster.NamespacesSelected(term.NamespaceSelector, mostNamespaces)
	if !ok {
		return anywhere
	}
	slices.Sort(names)
	return append(names, term.Namespaces...)
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
		to.Seeks = append(to.Seeks, model.PodWay(ownKey, selected(term, &e), term.Selector))
	}
}

// topologies is what hints about nodes depend on: the topology keys of the required terms of each kind, and whether they can be parsed.
func (p *Plugin) topologies(pod *model.Pod) model.Need {
	if p.isBroken(pod, model.RequiredAffinity) || p.isBroken(pod, model.RequiredAntiAffinity) {
		return model.NeedOf("broken")
	}
	text := append(make([]byte, 0, 128), "topologies"...)
	if p.mayBeFirst(pod) {
		text = append(text, " first"...)
	}
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
// change one of the keys. A node that goes, or that loses a key, matters to anti-affinity
// and to a pod that may be the first.
func (p *Plugin) causeOfNodes(pod *model.Pod) model.Cause {
	if p.isBroken(pod, model.RequiredAffinity) || p.isBroken(pod, model.RequiredAntiAffinity) {
		return model.Cause{}
	}
	cause := model.Cause{Wants: model.Never(), Keys: []model.Key{{}}}
	first := p.mayBeFirst(pod)
	for _, name := range keysOf(pod, model.RequiredAffinity) {
		key := model.Key{Kind: topologyKey, Name: name, Present: true}
		cause.Wants, cause.Keys = append(cause.Wants, model.Way{{key}}), append(cause.Keys, key)
		if first {
			cause.Wants = append(cause.Wants, model.Way{{{Kind: leftKey, Name: name, Present: true}}})
		}
	}
	for _, name := range keysOf(pod, model.RequiredAntiAffinity) {
		cause.Wants = nil
		cause.Keys = append(cause.Keys, model.Key{Kind: topologyKey, Name: name, Present: true})
	}
	return cause
}

func touchesNodes(e model.Event, to *model.Touch) {
	before, after := labelsOf(e.OldNode), labelsOf(e.Node)
	for name := range after {
		to.Has = append(to.Has, model.Key{Kind: topologyKey, Name: name, Present: true})
	}
	if e.OldNode == nil {
		return
	}
	var changed model.Clause
	model.ChangedLabels(before, after, func(name, _ string, has bool) {
		changed = append(changed, model.Key{Kind: topologyKey, Name: name, Present: true})
		if !has {
			to.Has = append(to.Has, model.Key{Kind: leftKey, Name: name, Present: true})
		}
	})
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// labelsOf returns the labels of a node, none if it is nil.
func labelsOf(node *model.Node) labels.Set {
	if node == nil {
		return nil
	}
	return node.Object.Labels
}

// nodeHelps reports whether a node with a topology key of the waiting pod's terms was added, or an update gave a node the key of an affinity
// term, took away that of an anti-affinity term, or changed a key's value. For anti-affinity any added node helps.
// Pods on a node that goes count no more in its domains.
func (p *Plugin) nodeHelps(waiting *model.Pod, e model.Event) bool {
	if p.isBroken(waiting, model.RequiredAffinity) || p.isBroken(waiting, model.RequiredAntiAffinity) {
		return true
	}
	for i := range waiting.Terms {
		ref := &waiting.Terms[i]
		if ref.Kind != model.RequiredAffinity && ref.Kind != model.RequiredAntiAffinity {
			continue
		}
		value, has := labelsOf(e.Node)[ref.Source.TopologyKey]
		if e.OldNode == nil {
			if has || ref.Kind == model.RequiredAntiAffinity {
				return true
			}
			continue
		}
		before, had := labelsOf(e.OldNode)[ref.Source.TopologyKey]
		entered, left := has && !had, had && !has
		if has && had && value != before || entered && ref.Kind == model.RequiredAffinity ||
			left && (ref.Kind == model.RequiredAntiAffinity || p.mayBeFirst(waiting)) {
			return true
		}
	}
	return false
}

// wants reports whether the pod has required affinity terms and all of them select the other pod.
func (p *Plugin) wants(pod, other *model.Pod, e *model.Event) bool {
	terms, selecting := p.count(pod, model.RequiredAffinity, other, e)
	return terms > 0 && selecting == terms
}

// count returns how many terms of a kind the pod has, and how many of them select the other pod.
func (p *Plugin) count(pod *model.Pod, kind model.TermKind, other *model.Pod, e *model.Event) (terms, selecting int) {
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if ref.Kind != kind {
			continue
		}
		terms++
		if term, err := p.terms.parse(pod.Namespace, ref); err == nil && selects(term, other, e) {
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
