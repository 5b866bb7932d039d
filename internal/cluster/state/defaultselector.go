package state

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// selectorSources are the inputs of default selectors.
type selectorSources struct {
	services services
	// Invariant: every controller here has a selector.
	controllers map[model.Ref]controller
	// Invariant: no version of a part is later.
	version uint64 // changes with every part
}

// controller is the selector of a ReplicaSet or StatefulSet, or the labels that a
// ReplicationController selects.
type controller struct {
	selector *metav1.LabelSelector
	labels   labels.Set
	version  uint64 // version of the sources at its last change
}

// SelectorVersion is the version of the inputs of a pod's default selector. The zero
// value belongs to no pod.
type SelectorVersion struct {
	seen uint64 // version of all sources when it was read
	// parts and newest show whether an input of the selector changed. parts is the number
	// of inputs that exist: lists of services, and the controller. newest is the newest
	// of their versions. A changed or added input has a newer version, a removed input
	// leaves fewer parts.
	parts  int
	newest uint64
}

// DefaultSelectorVersion returns the version of the inputs of the pod's default selector,
// and whether DefaultSelector returns the same as at the version before. Changes of
// unrelated services and controllers leave the selector the same.
func (s *State) DefaultSelectorVersion(pod *model.Pod, before SelectorVersion) (now SelectorVersion, same bool) {
	sources := &s.selectorSources
	now.seen = sources.version + 1 // so that no version is the zero value
	if before.seen == now.seen {
		return before, true
	}
	part := func(version uint64) {
		now.parts++
		now.newest = max(now.newest, version)
	}
	sources.services.each(pod.Namespace, pod.Labels, func(l *labelled) { part(l.version) })
	if ref, ok := controllerRef(pod); ok {
		if c, known := sources.controllers[ref]; known {
			part(c.version)
		}
	}
	return now, before.seen != 0 && before.parts == now.parts && before.newest == now.newest
}

func (s *State) setObject(ref model.Ref, object runtime.Object, delta *Delta) {
	switch o := object.(type) {
	case *v1.Namespace:
		s.setNamespace(ref, o.Labels, true, delta)
	case *v1.Service:
		s.setService(ref, o.Spec.Selector, delta)
	case *v1.ReplicationController:
		s.setController(ref, controller{labels: o.Spec.Selector}, delta)
	case *appsv1.ReplicaSet:
		s.setController(ref, controller{selector: o.Spec.Selector}, delta)
	case *appsv1.StatefulSet:
		s.setController(ref, controller{selector: o.Spec.Selector}, delta)
	}
}

func (s *State) removeObject(ref model.Ref, delta *Delta) {
	if _, stored := compiledEvents[ref.Kind]; stored {
		s.removeCompiled(ref, delta)
		return
	}
	switch ref.Kind {
	case model.PodDisruptionBudgetKind:
		s.removeBudget(ref)
	case model.PodGroupKind:
		s.removeGroup(ref, delta)
	case model.CompositePodGroupKind:
		s.removeComposite(ref, delta)
	case model.NamespaceKind:
		s.setNamespace(ref, nil, false, delta)
	case model.ServiceKind:
		s.setService(ref, nil, delta)
	default:
		s.setController(ref, controller{}, delta)
	}
}

func (s *State) setService(ref model.Ref, selector labels.Set, delta *Delta) {
	var before labels.Set
	if known := s.selectorSources.services.byName[ref]; known != nil {
		before = known.labels
	}
	if sources := &s.selectorSources; sources.services.set(ref, selector, sources.version+1) {
		sources.version++
		delta.selectorChanged(ref, before, selector)
	}
}

// selectorChanged adds the event that a service or a controller selects other pods.
func (d *Delta) selectorChanged(ref model.Ref, before, after labels.Set) {
	change := &model.LabelsChange{Ref: ref, Before: before, After: after}
	d.Events = append(d.Events, model.Event{Resource: model.SelectorEvent, Action: model.Update, Labels: change})
}

// setController stores a controller, or removes it if it has no selector.
func (s *State) setController(ref model.Ref, c controller, delta *Delta) {
	sources := &s.selectorSources
	before, known := sources.controllers[ref]
	exists := c.selector != nil || len(c.labels) > 0
	switch {
	case !exists && !known:
		return
	case known && exists && maps.Equal(before.labels, c.labels) && equality.Semantic.DeepEqual(before.selector, c.selector):
		c.version = before.version // share the selector of the newer object
		sources.controllers[ref] = c
		return
	}
	sources.version++
	delta.selectorChanged(ref, nil, nil)
	if !exists {
		delete(sources.controllers, ref)
		return
	}
	c.version = sources.version
	sources.controllers[ref] = c
}

// setNamespace stores a namespace's labels, or its deletion. Tallies whose namespace
// selectors gain or lose the namespace are dropped: this is rare, and counting again is
// simple.
func (s *State) setNamespace(ref model.Ref, set labels.Set, exists bool, delta *Delta) {
	name := ref.Name
	before, existed := s.namespaces[name]
	change := &model.LabelsChange{Ref: ref, Before: s.NamespaceLabels(name)}
	if existed == exists && maps.Equal(before, set) {
		return
	}
	for counts := range s.tallies.selectNamespaces {
		if counts.set.Matcher != nil {
			s.dropSet(counts)
			continue
		}
		for _, term := range counts.set.Terms {
			if sel := term.NamespaceSelector; sel != nil && !sel.Empty() && (existed && sel.Matches(before)) != (exists && sel.Matches(set)) {
				s.dropSet(counts)
				break
			}
		}
	}
	s.dropByNamespaceLabels()
	if exists {
		s.namespaces[name] = set
		s.namespaceLabels.set(name, set)
	} else {
		delete(s.namespaces, name)
		s.namespaceLabels.remove(name)
	}
	s.terms.version++
	s.terms.namespaces++
	change.After = s.NamespaceLabels(name)
	delta.Events = append(delta.Events, model.Event{Resource: model.NamespaceEvent, Action: model.Update, Labels: change})
}

// NamespaceLabels returns the labels of a namespace, nil only if the namespace is
// unknown.
func (s *State) NamespaceLabels(name string) labels.Set {
	of, known := s.namespaces[name]
	if known && of == nil {
		return labels.Set{}
	}
	return of
}

// Attachable returns the driver and the handle of a claim's volume, see storage.Store.
func (s *State) Attachable(key model.ClaimKey) (driver, handle string) {
	driver, handle, _ = s.storage.Attachable(key)
	return driver, handle
}

// Namespace returns the labels of a namespace, nil if it has none or is unknown.
func (s *State) Namespace(name string) labels.Set { return s.namespaces[name] }

// DefaultSelector returns the selector of the pod's default topology spread constraints.
// It combines the selectors of the services that select the pod and of its controller,
// and is empty without them. An invalid selector of a controller is ignored.
func (s *State) DefaultSelector(pod *model.Pod) labels.Selector {
	merged := labels.Set{}
	s.selectorSources.services.merge(pod.Namespace, pod.Labels, merged)
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

// ServicesAsked returns how often the selector of a service was matched against a pod.
func (s *State) ServicesAsked() int64 { return s.selectorSources.services.asked }

// controllerSelector returns the selector of the pod's controller. The labels of a
// ReplicationController are merged into the services' instead, and override them.
func (s *State) controllerSelector(pod *model.Pod, merged labels.Set) labels.Selector {
	ref, ok := controllerRef(pod)
	if !ok {
		return nil
	}
	c, known := s.selectorSources.controllers[ref]
	if !known {
		return nil
	}
	maps.Copy(merged, c.labels)
	if c.selector == nil {
		return nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(c.selector)
	if err != nil {
		return nil // as in kube-scheduler
	}
	return parsed
}

// controllerRef returns the pod's controller, if its kind has a selector.
func controllerRef(pod *model.Pod) (ref model.Ref, ok bool) {
	owner := metav1.GetControllerOfNoCopy(pod.Object)
	if owner == nil {
		return ref, false
	}
	ref = model.Ref{Namespace: pod.Namespace, Name: owner.Name}
	switch {
	case owner.APIVersion == "v1" && owner.Kind == "ReplicationController":
		ref.Kind = model.ReplicationControllerKind
	case owner.APIVersion == "apps/v1" && owner.Kind == "ReplicaSet":
		ref.Kind = model.ReplicaSetKind
	case owner.APIVersion == "apps/v1" && owner.Kind == "StatefulSet":
		ref.Kind = model.StatefulSetKind
	default:
		return ref, false
	}
	return ref, true
}
