package podtopologyspread

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for pods that start or stop counting, for nodes that add or
// remove domains, and for updates of the waiting pod. Hints cannot see the default
// selector. So a pod with default constraints is requeued for every pod of its namespace
// that the selector might select.
//
// kube-scheduler's hints ignore three cases: a pod being deleted no longer counts, a
// node's labels can exclude it from a constraint, and the inputs of default selectors can
// change.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	events := []model.EventToRegister{
		{
			Resource: model.AssignedPodEvent, Actions: model.AllActions, Hint: p.changesCounts,
			Alike: p.selectors, Cause: p.causeOfPods, Touches: touchesPods,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel | model.UpdatePodToleration, Hint: p.changesItself},
		{
			Resource: model.NodeEvent, Actions: model.Add | model.Delete | model.UpdateNodeLabel | model.UpdateNodeTaint, Hint: p.changesDomains,
			Alike: p.topologies, Cause: p.causeOfNodes, Touches: touchesNodes,
		},
	}
	if len(p.hardDefaults) > 0 {
		events = append(events, model.EventToRegister{
			Resource: model.SelectorEvent, Actions: model.Update, Hint: p.changesDefaults,
			Alike: p.defaultsOf, Cause: p.causeOfSelectors, Touches: touchesSelectors,
		})
	}
	return events
}

// maxKeys is the number of hard constraints up to which all their topology keys are keys
// of a cause.
const maxKeys = 64

// Kinds of keys.
const (
	podKey = "pod" // a pod that a constraint may count
	// A label in a selector for pods of a namespace; any label if nameless.
	changedKey  = "changed"
	topologyKey = "topology" // a node label that is a topology key
)

// selectors returns the part of a pod that hints about pods depend on: the namespace and
// the selectors of the hard constraints.
func (p *Plugin) selectors(pod *model.Pod) model.Need {
	if _, at, ok := plugin.Prepared[hard](pod); ok {
		return pod.Needs[at]
	}
	text := model.AppendQuote(make([]byte, 0, 128), pod.Namespace)
	hard, own := p.specs(pod.Object, v1.DoNotSchedule)
	if !own {
		return model.NeedOf(string(append(text, " defaults"...)))
	}
	for i := range hard {
		text = model.AppendSelector(append(text, ' '), hard[i].LabelSelector, matchLabels(&hard[i], pod.Object.Labels)...)
	}
	return model.NeedOf(string(text))
}

// causeOfPods requires that a hard constraint selects the pod, in the same namespace. A
// relabelled pod must change a label that a selector names.
func (p *Plugin) causeOfPods(pod *model.Pod) model.Cause {
	cause := model.Cause{Wants: model.Never(), Keys: []model.Key{{}}}
	changes := func(name string) {
		cause.Keys = append(cause.Keys, model.Key{Kind: changedKey, Namespace: pod.Namespace, Name: name})
	}
	hard, own := p.specs(pod.Object, v1.DoNotSchedule)
	if !own && len(hard) > 0 {
		changes("")
		cause.Wants = append(cause.Wants, model.PodWay(podKey, []string{pod.Namespace}, labels.Everything()))
		return cause
	}
	for selector, err := range selectorsOf(pod, hard) {
		if err != nil {
			return model.Cause{}
		}
		cause.Wants = append(cause.Wants, model.PodWay(podKey, []string{pod.Namespace}, selector))
		requirements, _ := selector.Requirements()
		for j := range requirements {
			changes(requirements[j].Key())
		}
	}
	return cause
}

// selectorsOf returns the selectors of a pod's own hard constraints, up to the first
// error. It may omit repetitions.
func selectorsOf(pod *model.Pod, constraints []v1.TopologySpreadConstraint) iter.Seq2[labels.Selector, error] {
	return func(yield func(labels.Selector, error) bool) {
		if ready, _, ok := plugin.Prepared[hard](pod); ok && ready.prepared != nil {
			seen := map[*selected]bool{}
			for i := range ready.prepared.own {
				if of := ready.prepared.own[i].selected; !seen[of] {
					seen[of] = true
					if !yield(of.pods.Terms[0].Selector, nil) {
						return
					}
				}
			}
			return
		}
		for i := range constraints {
			if selector, err := selectorOf(&constraints[i], pod.Object.Labels); !yield(selector, err) {
				return
			}
		}
	}
}

func touchesPods(e model.Event, to *model.Touch) {
	if e.OldPod != nil && e.Pod != nil && !beginsToEnd(&e) && maps.Equal(e.OldPod.Labels, e.Pod.Labels) {
		to.Seeks = append(to.Seeks, model.Never()...)
		return
	}
	for _, pod := range []*model.Pod{e.OldPod, e.Pod} {
		if pod != nil {
			to.Has = model.AppendPodKeys(to.Has, podKey, pod)
		}
	}
	if e.OldPod == nil || e.Pod == nil || beginsToEnd(&e) {
		return
	}
	var changed model.Clause
	model.ChangedLabels(e.OldPod.Labels, e.Pod.Labels, func(name, _ string, _ bool) {
		changed = append(changed, model.Key{Kind: changedKey, Namespace: e.Pod.Namespace, Name: name})
	})
	if len(changed) > 0 {
		changed = append(changed, model.Key{Kind: changedKey, Namespace: e.Pod.Namespace})
	}
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// beginsToEnd reports whether the deletion of a pod has begun. Such a pod no longer
// counts.
func beginsToEnd(e *model.Event) bool { return !e.OldPod.Terminating && e.Pod.Terminating }

// topologies returns the part of a pod that hints about nodes depend on: the topology
// keys of the hard constraints, and the node affinity that they honor.
func (p *Plugin) topologies(pod *model.Pod) model.Need {
	if _, at, ok := plugin.Prepared[hard](pod); ok {
		return pod.Needs[at]
	}
	text := append(make([]byte, 0, 64), "topologies"...)
	for _, key := range p.hardKeys(pod) {
		text = model.AppendQuote(append(text, ' '), key)
	}
	if p.honorsAffinity(pod) {
		text = p.affinity.FilterNeed(pod).AppendText(append(text, " of "...))
	}
	return model.NeedOf(string(text))
}

// honorsAffinity reports whether a hard constraint counts only nodes that the pod's own
// node affinity allows.
func (p *Plugin) honorsAffinity(pod *model.Pod) bool {
	hard, _ := p.specs(pod.Object, v1.DoNotSchedule)
	return slices.ContainsFunc(hard, func(c v1.TopologySpreadConstraint) bool {
		return honored(&c)&honorsAffinity != 0
	}) && p.affinity.FilterNeed(pod) != nil
}

// hardKeys returns the topology keys of the hard constraints, sorted and distinct.
func (p *Plugin) hardKeys(pod *model.Pod) []string {
	hard, _ := p.specs(pod.Object, v1.DoNotSchedule)
	keys := make([]string, len(hard))
	for i := range hard {
		keys[i] = hard[i].TopologyKey
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// causeOfNodes returns the condition under which an event about a node can help: the node
// has or had all topology keys. An update must change a key, the taints, or labels that
// the pod's node affinity names, which can exclude a node. With more than maxKeys
// constraints, the first keys suffice to find the pod: the hint stops at the first
// missing key.
func (p *Plugin) causeOfNodes(pod *model.Pod) model.Cause {
	cause := model.Cause{Keys: []model.Key{{}}}
	var way model.Way
	if hard, _ := p.specs(pod.Object, v1.DoNotSchedule); len(hard) > maxKeys {
		for i := range hard[:maxKeys] {
			way = append(way, model.Clause{{Kind: topologyKey, Name: hard[i].TopologyKey, Present: true}})
		}
		return model.Cause{Wants: []model.Way{way}}
	}
	for _, name := range p.hardKeys(pod) {
		key := model.Key{Kind: topologyKey, Name: name, Present: true}
		way, cause.Keys = append(way, model.Clause{key}), append(cause.Keys, key)
	}
	cause.Wants = []model.Way{way}
	if p.honorsAffinity(pod) {
		for _, name := range nodeaffinity.LabelsNamed(pod) {
			cause.Keys = append(cause.Keys, model.Key{Kind: topologyKey, Name: name, Present: true})
		}
	}
	return cause
}

func touchesNodes(e model.Event, to *model.Touch) {
	for _, node := range []*model.Node{e.OldNode, e.Node} {
		if node != nil {
			for name := range node.Object.Labels {
				to.Has = append(to.Has, model.Key{Kind: topologyKey, Name: name, Present: true})
			}
		}
	}
	if e.OldNode == nil || e.Node == nil || !equality.Semantic.DeepEqual(e.OldNode.Object.Spec.Taints, e.Node.Object.Spec.Taints) {
		return
	}
	var changed model.Clause
	model.ChangedLabels(e.OldNode.Object.Labels, e.Node.Object.Labels, func(name, _ string, _ bool) {
		changed = append(changed, model.Key{Kind: topologyKey, Name: name, Present: true})
	})
	to.Seeks = append(to.Seeks, model.Way{changed})
}

// changesCounts reports whether some hard constraint starts or stops counting an assigned
// pod.
func (p *Plugin) changesCounts(waiting *model.Pod, e model.Event) bool {
	for _, pod := range []*model.Pod{e.OldPod, e.Pod} {
		if pod != nil && (pod.Namespace != waiting.Namespace || pod.NodeName == "" && pod.NominatedNode == "") {
			return false
		}
	}
	if e.OldPod != nil && e.Pod != nil && !beginsToEnd(&e) {
		return p.selectsDifferently(waiting.Object, e.OldPod.Object, e.Pod.Object)
	}
	changed := e.OldPod // as it was counted
	if changed == nil {
		changed = e.Pod
	}
	hard, own := p.specs(waiting.Object, v1.DoNotSchedule)
	if !own {
		return len(hard) > 0
	}
	for i := range hard {
		if selects(&hard[i], waiting.Object.Labels, changed.Object.Labels) {
			return true
		}
	}
	return false
}

// changesItself reports whether a new version of the waiting pod may fit where the old
// one did not. Either its tolerations include other nodes, or its own constraints start
// or stop selecting it.
func (p *Plugin) changesItself(_ *model.Pod, e model.Event) bool {
	before, after := e.OldPod.Object, e.Pod.Object
	if !equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations) {
		hard, _ := p.specs(after, v1.DoNotSchedule)
		if slices.ContainsFunc(hard, func(c v1.TopologySpreadConstraint) bool {
			return c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor
		}) {
			return true
		}
	}
	return p.selectsDifferently(after, before, after)
}

// selectsDifferently reports whether some hard constraint of a pod selects only one of
// two versions of a pod.
func (p *Plugin) selectsDifferently(of, before, after *v1.Pod) bool {
	if maps.Equal(before.Labels, after.Labels) {
		return false
	}
	hard, own := p.specs(of, v1.DoNotSchedule)
	if !own {
		return len(hard) > 0
	}
	for i := range hard {
		if selects(&hard[i], of.Labels, before.Labels) != selects(&hard[i], of.Labels, after.Labels) {
			return true
		}
	}
	return false
}

// changesDomains reports whether a node enters or leaves a domain of the hard
// constraints. As in kube-scheduler, taints count even if no constraint honors them.
func (p *Plugin) changesDomains(waiting *model.Pod, e model.Event) bool {
	hard, _ := p.specs(waiting.Object, v1.DoNotSchedule)
	had := e.OldNode != nil && hasKeys(e.OldNode.Object, hard)
	has := e.Node != nil && hasKeys(e.Node.Object, hard)
	if had != has || e.OldNode == nil || e.Node == nil {
		return had || has
	}
	if !has {
		return false
	}
	before, after := e.OldNode.Object, e.Node.Object
	return moves(before, after, hard) || !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
		p.honorsAffinity(waiting) && p.isIncluded(waiting, before) != p.isIncluded(waiting, after)
}

// isIncluded reports whether the pod's node affinity allows a node.
func (p *Plugin) isIncluded(pod *model.Pod, node *v1.Node) bool {
	matches, err := p.affinity.Matches(pod, node)
	return err == nil && matches
}

func hasKeys(node *v1.Node, constraints []v1.TopologySpreadConstraint) bool {
	for i := range constraints {
		if _, ok := node.Labels[constraints[i].TopologyKey]; !ok {
			return false
		}
	}
	return true
}

func moves(before, after *v1.Node, constraints []v1.TopologySpreadConstraint) bool {
	for i := range constraints {
		if key := constraints[i].TopologyKey; before.Labels[key] != after.Labels[key] {
			return true
		}
	}
	return false
}

// selects reports whether a constraint of a pod with the labels own selects a pod with
// other labels. It agrees with selectorOf's selector without building it, which would be
// most of a hint's cost. For a malformed selector the result is arbitrary: this plugin
// never rejects such a pod.
func selects(c *v1.TopologySpreadConstraint, own, other map[string]string) bool {
	if c.LabelSelector == nil {
		return false
	}
	for key, value := range c.LabelSelector.MatchLabels {
		if have, ok := other[key]; !ok || have != value {
			return false
		}
	}
	for _, key := range c.MatchLabelKeys {
		if value, ok := own[key]; ok {
			if have, ok := other[key]; !ok || have != value {
				return false
			}
		}
	}
	for i := range c.LabelSelector.MatchExpressions {
		if !satisfied(&c.LabelSelector.MatchExpressions[i], other) {
			return false
		}
	}
	return true
}

func satisfied(r *metav1.LabelSelectorRequirement, set map[string]string) bool {
	value, ok := set[r.Key]
	switch r.Operator {
	case metav1.LabelSelectorOpIn:
		return ok && slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case metav1.LabelSelectorOpExists:
		return ok
	}
	return !ok
}
