package podtopologyspread

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for pods that become counted or are counted no longer, for nodes that add or remove domains, and for updates of the
// waiting pod. Hints cannot see the default selector, so a pod that waits for default constraints is requeued for every pod of its namespace
// that the selector might select.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.AssignedPodEvent, Actions: model.Add | model.Delete | model.UpdatePodLabel, Hint: p.changesCounts, Touches: touchesPods},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel | model.UpdatePodToleration, Hint: p.changesItself},
		{Resource: model.NodeEvent, Actions: model.Add | model.Delete | model.UpdateNodeLabel | model.UpdateNodeTaint, Hint: p.changesDomains, Touches: touchesTopologies},
	}
}

// Cause is the namespace and the hard constraints. Pods help only in the same namespace, with a label that some constraint demands; nodes only
// if they have, or had, a label with one of the topology keys.
func (p *Plugin) Cause(pod *model.Pod) model.Cause {
	cause := model.Cause{Alike: plugin.NeedOf(p.CountNeed(pod))}
	hard, own := p.specs(pod.Object, v1.DoNotSchedule)
	for i := range hard {
		c := &hard[i]
		cause.Keys = append(cause.Keys, topologyKey(c.TopologyKey))
		var some []model.Label
		if own {
			if selector, err := selectorOf(c, pod.Object.Labels); err == nil {
				some = model.Demanded(selector)
			}
		}
		for _, l := range some {
			cause.Keys = append(cause.Keys, podKey(pod.Namespace, l))
		}
		if len(some) == 0 {
			cause.Keys = append(cause.Keys, podKey(pod.Namespace, model.Label{}))
		}
	}
	return cause
}

func topologyKey(name string) model.Key { return model.Key{Kind: "topology", Name: name} }

// podKey is the key of pods of a namespace with a label; of all its pods if the label is empty.
func podKey(namespace string, l model.Label) model.Key {
	return model.Key{Kind: "pod in " + namespace, Name: l.Key, Value: l.Value}
}

func touchesPods(e model.Event, touch func(model.Key)) {
	for _, pod := range []*model.Pod{e.OldPod, e.Pod} {
		if pod == nil {
			continue
		}
		touch(podKey(pod.Namespace, model.Label{}))
		for key, value := range pod.Labels {
			touch(podKey(pod.Namespace, model.Label{Key: key, Value: value}))
		}
	}
}

func touchesTopologies(e model.Event, touch func(model.Key)) {
	if e.OldNode != nil && e.Node != nil && equality.Semantic.DeepEqual(e.OldNode.Object.Spec.Taints, e.Node.Object.Spec.Taints) {
		model.ChangedLabels(e.OldNode, e.Node, func(key string) { touch(topologyKey(key)) })
		return
	}
	for _, node := range []*model.Node{e.OldNode, e.Node} {
		if node == nil {
			continue
		}
		for key := range node.Object.Labels {
			touch(topologyKey(key))
		}
	}
}

// changesCounts reports whether some hard constraint starts or ceases to select an assigned pod.
func (p *Plugin) changesCounts(waiting *model.Pod, e model.Event) bool {
	for _, pod := range []*model.Pod{e.OldPod, e.Pod} {
		if pod != nil && (pod.Namespace != waiting.Namespace || pod.NodeName == "" && pod.NominatedNode == "") {
			return false
		}
	}
	if e.OldPod != nil && e.Pod != nil {
		return p.selectsDifferently(waiting.Object, e.OldPod.Object, e.Pod.Object)
	}
	changed := e.Pod
	if changed == nil {
		changed = e.OldPod
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

// changesItself reports whether a new version of the waiting pod may fit where the old one did not: its tolerations include other nodes, or its
// own constraints start or cease to select it.
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

// selectsDifferently reports whether some hard constraint of a pod selects one version of a pod but not the other.
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

// changesDomains reports whether a node enters or leaves a domain of the hard constraints. Taints count even where no constraint honours them,
// as in kube-scheduler.
func (p *Plugin) changesDomains(waiting *model.Pod, e model.Event) bool {
	hard, _ := p.specs(waiting.Object, v1.DoNotSchedule)
	had := e.OldNode != nil && hasKeys(e.OldNode.Object, hard)
	has := e.Node != nil && hasKeys(e.Node.Object, hard)
	if had != has || e.OldNode == nil || e.Node == nil {
		return had || has
	}
	return has && (moves(e.OldNode.Object, e.Node.Object, hard) || !equality.Semantic.DeepEqual(e.OldNode.Object.Spec.Taints, e.Node.Object.Spec.Taints))
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

// selects reports whether a constraint of a pod with the labels own selects a pod with other labels. It returns what selectorOf's selector
// would, without building it, which would be most of a hint's cost. For a selector that cannot be parsed the result is arbitrary: this plugin
// never rejects a pod that has one.
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
