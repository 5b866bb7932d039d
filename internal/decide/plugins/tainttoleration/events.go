package tainttoleration

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for nodes that lose their untolerated taints, and for
// tolerations that the waiting pod gains or loses.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{
			Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeTaint, Hint: p.becomesTolerated,
			Alike: p.alike, Cause: p.cause, Touches: touches,
		},
		{Resource: model.TargetPodEvent, Actions: model.UpdatePodToleration},
	}
}

// Kinds of keys.
const (
	// A taint that a toleration may tolerate; any taint if nameless.
	toleratedKey = "tolerated"
	noKey        = "" // for pods that tolerate nothing
)

// cause returns the taints that the pod's tolerations may tolerate.
func (p *Plugin) cause(pod *model.Pod) model.Cause {
	cause := model.Cause{Keys: append(make([]model.Key, 0, 1+len(pod.Object.Spec.Tolerations)), model.Key{Kind: noKey})}
	for _, t := range tolerationsOf(pod.Object.Spec.Tolerations, forbids, p.operators) {
		key := model.Key{Kind: toleratedKey, Name: t.key}
		switch {
		case t.key == "":
		case t.operator == v1.TolerationOpEqual:
			key.Value = t.value
		default:
			key.Present = true
		}
		cause.Keys = append(cause.Keys, key)
	}
	return cause
}

// touches limits an event about a node to pods that tolerate each taint of the node. If
// no taint was removed, the event helps no pod: a pod that tolerates all taints now
// tolerated all taints before.
func touches(e model.Event, to *model.Touch) {
	if e.OldNode != nil && !someWent(e.OldNode.Object.Spec.Taints, e.Node.Object.Spec.Taints) {
		to.Seeks = model.Never()
		return
	}
	var way model.Way
	for i := range e.Node.Object.Spec.Taints {
		if t := &e.Node.Object.Spec.Taints[i]; forbids(t.Effect) {
			way = append(way, model.Clause{
				{Kind: toleratedKey}, {Kind: toleratedKey, Name: t.Key, Value: t.Value}, {Kind: toleratedKey, Name: t.Key, Present: true},
			})
		}
	}
	to.Seeks = append(to.Seeks, way)
}

// someWent reports whether a forbidding taint was removed from the node.
func someWent(before, now []v1.Taint) bool {
	return slices.ContainsFunc(before, func(t v1.Taint) bool {
		return forbids(t.Effect) && !slices.ContainsFunc(now, func(o v1.Taint) bool { return t.Key == o.Key && t.Value == o.Value && t.Effect == o.Effect })
	})
}

// alike returns the pod's filter need.
func (p *Plugin) alike(pod *model.Pod) model.Need {
	if _, at, ok := plugin.Prepared[*filter](pod); ok {
		return pod.Needs[at]
	}
	return plugin.NeedOf(p.FilterNeed(pod))
}

func (p *Plugin) becomesTolerated(waiting *model.Pod, e model.Event) bool {
	tolerated, _, ok := plugin.Prepared[*filter](waiting)
	if !ok {
		tolerated = &filter{tolerated: tolerationsOf(waiting.Object.Spec.Tolerations, forbids, p.operators)}
	}
	return tolerated.allow(e.Node.Object.Spec.Taints) &&
		(e.OldNode == nil || !tolerated.allow(e.OldNode.Object.Spec.Taints))
}
