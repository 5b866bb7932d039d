package state

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// selectorSources are the objects that default selectors are built from.
type selectorSources struct {
	// Invariant: services has no empty map, and each service under its own namespace and name.
	services map[string]map[string]*v1.Service // by namespace and name
	// controllers by reference: *v1.ReplicationController, *appsv1.ReplicaSet or *appsv1.StatefulSet.
	controllers map[model.Ref]runtime.Object
	version     uint64
}

// DefaultSelectorVersion changes whenever DefaultSelector may return another selector.
func (s *State) DefaultSelectorVersion() uint64 { return s.selectorSources.version }

func (s *State) setObject(ref model.Ref, object runtime.Object) {
	switch o := object.(type) {
	case *v1.Namespace:
		s.setNamespace(o.Name, o.Labels, true)
	case *v1.Service:
		if s.selectorSources.services[ref.Namespace] == nil {
			s.selectorSources.services[ref.Namespace] = map[string]*v1.Service{}
		}
		s.selectorSources.services[ref.Namespace][ref.Name] = o
		s.selectorSources.version++
	default:
		s.selectorSources.controllers[ref] = object
		s.selectorSources.version++
	}
}

func (s *State) removeObject(ref model.Ref) {
	switch ref.Kind {
	case model.NamespaceKind:
		s.setNamespace(ref.Name, nil, false)
	case model.ServiceKind:
		if delete(s.selectorSources.services[ref.Namespace], ref.Name); len(s.selectorSources.services[ref.Namespace]) == 0 {
			delete(s.selectorSources.services, ref.Namespace)
		}
		s.selectorSources.version++
	default:
		delete(s.selectorSources.controllers, ref)
		s.selectorSources.version++
	}
}

// setNamespace stores a namespace's labels, or that it is gone. Tallies that select namespaces by label are dropped if the change makes them
// select the namespace or no longer select it: this is rare, and counting again is simple.
func (s *State) setNamespace(name string, set labels.Set, exists bool) {
	before, existed := s.namespaces[name]
	if existed == exists && maps.Equal(before, set) {
		return
	}
	for counts := range s.tallies.selectNamespaces {
		for _, term := range counts.set.Terms {
			if sel := term.NamespaceSelector; sel != nil && !sel.Empty() && (existed && sel.Matches(before)) != (exists && sel.Matches(set)) {
				s.dropSet(counts)
				break
			}
		}
	}
	if exists {
		s.namespaces[name] = set
	} else {
		delete(s.namespaces, name)
	}
	s.terms.version++
}

// Namespace returns the labels of a namespace, nil if it has none or is not known.
func (s *State) Namespace(name string) labels.Set { return s.namespaces[name] }

// DefaultSelector returns the selector of the pod's default topology spread constraints: what the services that select the pod and the
// controller that owns it select. It is empty if there are none. A controller's selector that cannot be parsed is ignored.
func (s *State) DefaultSelector(pod *model.Pod) labels.Selector {
	merged := labels.Set{}
	for _, name := range sortedKeys(s.selectorSources.services[pod.Namespace]) {
		selector := s.selectorSources.services[pod.Namespace][name].Spec.Selector
		if selector != nil && labels.SelectorFromSet(selector).Matches(pod.Labels) {
			maps.Copy(merged, selector)
		}
	}
	more := s.controllerSelector(pod, merged)
	selector := labels.NewSelector()
	if len(merged) > 0 {
		selector = labels.SelectorFromSet(merged)
	}
	if more == nil {
		return selector
	}
	if requirements, ok := more.Requirements(); ok {
		selector = selector.Add(requirements...)
	}
	return selector
}

// controllerSelector returns the selector of the pod's controller; that of a ReplicationController is merged into the services' instead.
func (s *State) controllerSelector(pod *model.Pod, merged labels.Set) labels.Selector {
	owner := metav1.GetControllerOfNoCopy(pod.Object)
	if owner == nil {
		return nil
	}
	var selector *metav1.LabelSelector
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController":
		if c, ok := s.selectorSources.controllers[model.Ref{Kind: model.ReplicationControllerKind, Namespace: pod.Namespace, Name: owner.Name}]; ok {
			maps.Copy(merged, c.(*v1.ReplicationController).Spec.Selector)
		}
	case "apps/v1 ReplicaSet":
		if c, ok := s.selectorSources.controllers[model.Ref{Kind: model.ReplicaSetKind, Namespace: pod.Namespace, Name: owner.Name}]; ok {
			selector = c.(*appsv1.ReplicaSet).Spec.Selector
		}
	case "apps/v1 StatefulSet":
		if c, ok := s.selectorSources.controllers[model.Ref{Kind: model.StatefulSetKind, Namespace: pod.Namespace, Name: owner.Name}]; ok {
			selector = c.(*appsv1.StatefulSet).Spec.Selector
		}
	}
	if selector == nil {
		return nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // as in kube-scheduler
	}
	return parsed
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
