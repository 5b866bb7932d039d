package interpodaffinity

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// EventsToRegister registers for everything that the filter reads: added, deleted and
// relabelled pods and nodes, and labels of namespaces. As in kube-scheduler, every hint
// is positive for a waiting pod with malformed terms.
//
// kube-scheduler matches namespace selectors against no labels, and its node hints check
// only the waiting pod's own terms. If the anti-affinity of running pods makes all nodes
// infeasible, a new node does not wake the pod there until the flush.
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
	wantedKey   = "wanted"   // a pod that all affinity terms select.
	unwantedKey = "unwanted" // a pod that an anti-affinity term selects.
	changedKey  = "changed"  // a label of pods that a selector names.
	ownKey      = "own"      // a label of the waiting pod.
	topologyKey = "topology" // a topology key.
	// A topology key of a deleted node, or of a node that lost the label.
	leftKey  = "left"
	labelKey = "label" // a label of the namespace of a pod.
)

// podHelps reports whether the event adds a pod that the affinity requires, or removes a
// pod that the anti-affinity forbids. Relabelling can do both. If the waiting pod may be
// the first, removing a required pod also helps.
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

// repelsNoMore reports whether a required anti-affinity term of the pod no longer selects
// the event's pod. Another term may select it now: that term has domains of another key.
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

// mayBeFirst reports whether the affinity terms may select the pod itself. Such a pod may
// go anywhere once no other selected pod exists.
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

// hasPlace reports whether the event's pod, in its last version, is placed or nominated.
func hasPlace(e model.Event) bool {
	pod := e.Pod
	if pod == nil {
		pod = e.OldPod
	}
	return pod.NodeName != "" || pod.NominatedNode != ""
}

// requiredTerms returns the part of a pod that hints about pods depend on.
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

// causeOfPods returns the condition under which an event about a pod can help: all
// affinity terms, or an anti-affinity term, select that pod. A relabelled pod must have
// changed a label that a selector names. If the waiting pod may be the first of its
// series, a deleted pod that the affinity selected also counts.
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

// wayOf returns the way that the pods selected by a term meet. Namespace labels are keys
// of a separate kind: thousands of tenants can have pods with the same labels.
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

// anywhere means all namespaces, for PodWay.
var anywhere = []string{""}

// touchesPods adds the new pod for affinity, and the deleted pod for anti-affinity. A
// relabelled pod counts as both.
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

// repellerWent reports whether a deleted pod's anti-affinity repelled the waiting pod.
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

// selectsNamespace reports whether a term of the waiting pod selects a namespace. Labels
// are nil for an unknown namespace, which only the empty selector selects. For terms of
// placed pods, an unknown namespace has no labels.
func selectsNamespace(term *model.Term, name string, of labels.Set) bool {
	known := of != nil || term.NamespaceSelector != nil && term.NamespaceSelector.Empty()
	return slices.Contains(term.Namespaces, name) || known && term.SelectsNamespace(name, of)
}

// maxNamespaces bounds the namespaces whose pods are indexed by namespace.
const maxNamespaces = 64

// selected returns the namespaces that a term of a placed pod selects, for PodWay.
// Without them, an event would match the pods of thousands of tenants with the same
// labels.
func selected(term *model.Term, e *model.Event) []string {
	switch {
	case term.NamespaceSelector == nil:
		return term.Namespaces
	// Also unknown namespaces
	case e.Cluster == nil || term.NamespaceSelector.Matches(labels.Set{}):
		return anywhere
	}
	names, ok := e.Cluster.NamespacesSelected(term.NamespaceSelector, maxNamespaces)
	if !ok {
		return anywhere
	}
	slices.Sort(names)
	return append(names, term.Namespaces...)
}

// ownLabels returns the part of a pod that the terms of other pods select by.
func ownLabels(pod *model.Pod) model.Need {
	return model.NeedOf(string(model.AppendLabels(model.AppendQuote(make([]byte, 0, 128), pod.Namespace), pod.Labels)))
}

// causeOfRepellers returns the pod's own keys. A deleted pod's anti-affinity must select
// some.
func causeOfRepellers(pod *model.Pod) model.Cause {
	return model.Cause{Keys: model.AppendPodKeys(nil, ownKey, pod)}
}

// touchesRepelled seeks the pods that a deleted pod's anti-affinity selects.
func (p *Plugin) touchesRepelled(e model.Event, to *model.Touch) {
	to.Seeks = slices.Grow(model.Never(), len(e.OldPod.Terms))
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

// topologies returns the part of a pod that hints about nodes depend on: the topology
// keys of the required terms of each kind, and whether all terms can be parsed.
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

// causeOfNodes returns the condition under which an event about a node can help. A new
// node must have a topology key of the pod; for anti-affinity any new node counts. An
// update must change a key. A node that is deleted or loses a key matters to
// anti-affinity, and to a pod that may be the first of its series.
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

// labelsOf returns the labels of a node, or nil for a nil node.
func labelsOf(node *model.Node) labels.Set {
	if node == nil {
		return nil
	}
	return node.Object.Labels
}

// nodeHelps reports whether a change of nodes may help the waiting pod:
//
//   - A node with a topology key of its terms was added.
//   - An update added the key of an affinity term, or changed the value of a key.
//   - A node was deleted or lost a key, and the pod has an anti-affinity term with the
//     key or may be the first. Pods on the node then no longer count in its domains.
//
// For anti-affinity any added node helps.
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

// wants reports whether the pod has required affinity terms and all of them select other.
func (p *Plugin) wants(pod, other *model.Pod, e *model.Event) bool {
	terms, selecting := p.count(pod, model.RequiredAffinity, other, e)
	return terms > 0 && selecting == terms
}

// count returns the number of the pod's terms of a kind, and how many of them select
// other.
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

// isBroken reports whether the pod has a malformed term of the kind.
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
