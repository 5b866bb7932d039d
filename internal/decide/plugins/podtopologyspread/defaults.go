package podtopologyspread

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// Hints about the inputs of default selectors: services and controllers.

const (
	serviceKey    = "service"    // a label by which services select
	controllerKey = "controller" // a controller of the waiting pod
)

// hasDefaults reports whether default constraints can make nodes infeasible for the pod.
func (p *Plugin) hasDefaults(pod *model.Pod) bool {
	hard, own := p.specs(pod.Object, v1.DoNotSchedule)
	return !own && len(hard) > 0
}

// changesDefaults reports whether a service selects or selected the pod, or the selector
// of the pod's controller has changed.
func (p *Plugin) changesDefaults(waiting *model.Pod, e model.Event) bool {
	change := e.Labels
	if change.Ref.Namespace != waiting.Namespace || !p.hasDefaults(waiting) {
		return false
	}
	if change.Ref.Kind == model.ServiceKind {
		selects := func(s labels.Set) bool { return len(s) > 0 && s.AsSelectorPreValidated().Matches(waiting.Labels) }
		return selects(change.Before) || selects(change.After)
	}
	ref, ok := controllerRefOf(waiting)
	return ok && ref == change.Ref
}

// controllerRefOf returns the pod's controller, if it is of a kind that has a selector.
func controllerRefOf(pod *model.Pod) (ref model.Ref, ok bool) {
	owner := controllerOf(pod.Object)
	if owner == nil {
		return ref, false
	}
	ref = model.Ref{Namespace: pod.Namespace, Name: owner.Name}
	switch owner.Kind {
	case "ReplicationController":
		ref.Kind = model.ReplicationControllerKind
	case "ReplicaSet":
		ref.Kind = model.ReplicaSetKind
	default:
		ref.Kind = model.StatefulSetKind
	}
	return ref, true
}

// defaultsOf returns the part of a pod that hints about selectors depend on.
func (p *Plugin) defaultsOf(pod *model.Pod) model.Need {
	if !p.hasDefaults(pod) {
		return model.Need{}
	}
	return model.NeedOf(string(appendDefaultSelector(model.AppendQuote(nil, pod.Namespace), pod.Object)))
}

// causeOfSelectors requires that a service selects by labels of the pod, or that the
// controller is the pod's own.
func (p *Plugin) causeOfSelectors(pod *model.Pod) model.Cause {
	cause := model.Cause{Keys: []model.Key{{}}}
	if !p.hasDefaults(pod) {
		return cause
	}
	for name, value := range pod.Labels {
		cause.Keys = append(cause.Keys, model.Key{Kind: serviceKey, Namespace: pod.Namespace, Name: name, Value: value})
	}
	slices.SortFunc(cause.Keys, model.Key.Compare)
	if ref, ok := controllerRefOf(pod); ok {
		cause.Keys = append(cause.Keys, keyOfController(ref))
	}
	return cause
}

func keyOfController(ref model.Ref) model.Key {
	return model.Key{Kind: controllerKey, Namespace: ref.Namespace, Name: ref.Name}
}

func touchesSelectors(e model.Event, to *model.Touch) {
	if e.Labels.Ref.Kind != model.ServiceKind {
		to.Seeks = append(to.Seeks, model.Way{{keyOfController(e.Labels.Ref)}})
		return
	}
	to.Seeks = append(to.Seeks, model.Never()...)
	for _, selector := range []labels.Set{e.Labels.Before, e.Labels.After} {
		var way model.Way
		for name, value := range selector {
			way = append(way, model.Clause{{Kind: serviceKey, Namespace: e.Labels.Ref.Namespace, Name: name, Value: value}})
		}
		if len(way) > 0 {
			to.Seeks = append(to.Seeks, way)
		}
	}
}
