package state

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// services are the selectors of services, found by the labels of the pods that they may
// select. A service without a selector selects nothing, and an empty selector adds
// nothing to a default selector; neither is stored.
//
// Each selector is listed under a single label, the label with the fewest selectors at
// the time. So only a few of the thousands of services in a namespace are checked for a
// pod, even if they have labels in common.
type services struct {
	// Invariant: byName has the selector of each service, and bySet the same selectors by
	// namespace and text.
	byName map[model.Ref]*serviceSelector
	bySet  map[serviceSet]*serviceSelector
	// Invariant: each selector is listed once, under one of its labels and at its
	// position. No list is empty.
	byLabel map[serviceLabel]*labelled
	// asked counts how often a selector was matched against a pod.
	asked int64
}

// serviceSet identifies the selector of services of a namespace.
type serviceSet struct{ namespace, text string }

// serviceSelector is a selector that one or more services of a namespace have.
type serviceSelector struct {
	serviceSet
	labels labels.Set
	// Invariant: services counts the services with this selector.
	services int
	under    serviceLabel
	at       int // position in byLabel[under]
}

// serviceLabel is a label of pods in a namespace.
type serviceLabel struct {
	namespace string
	model.Label
}

// labelled are the selectors that are listed under a label.
type labelled struct {
	selectors []*serviceSelector
	version   uint64 // of the sources of default selectors when the list last changed
}

func newServices() services {
	return services{
		byName: map[model.Ref]*serviceSelector{}, bySet: map[serviceSet]*serviceSelector{}, byLabel: map[serviceLabel]*labelled{},
	}
}

// set stores the selector of a service, nil if the service is gone. It reports whether a
// distinct selector was added or removed; the changed lists then get the version.
func (x *services) set(ref model.Ref, selector labels.Set, version uint64) (changed bool) {
	before := x.byName[ref]
	if before != nil && maps.Equal(before.labels, selector) {
		return false
	}
	if before != nil {
		delete(x.byName, ref)
		if before.services--; before.services == 0 {
			changed = true
			x.unlist(before, version)
		}
	}
	if len(selector) == 0 {
		return changed
	}
	name := serviceSet{ref.Namespace, string(model.AppendLabels(nil, selector))}
	s := x.bySet[name]
	if s == nil {
		changed = true
		s = &serviceSelector{serviceSet: name, labels: selector}
		x.list(s, version)
	}
	s.services++
	x.byName[ref] = s
	return changed
}

// list adds a selector under its rarest label.
func (x *services) list(s *serviceSelector, version uint64) {
	fewest := -1
	for _, key := range slices.Sorted(maps.Keys(s.labels)) {
		under, n := serviceLabel{s.namespace, model.Label{Key: key, Value: s.labels[key]}}, 0
		if l := x.byLabel[under]; l != nil {
			n = len(l.selectors)
		}
		if fewest < 0 || n < fewest {
			fewest, s.under = n, under
		}
	}
	l := x.byLabel[s.under]
	if l == nil {
		l = &labelled{}
		x.byLabel[s.under] = l
	}
	s.at = len(l.selectors)
	l.selectors, l.version = append(l.selectors, s), version
	x.bySet[s.serviceSet] = s
}

func (x *services) unlist(s *serviceSelector, version uint64) {
	delete(x.bySet, s.serviceSet)
	l := x.byLabel[s.under]
	last := len(l.selectors) - 1
	if last == 0 {
		delete(x.byLabel, s.under)
		return
	}
	l.selectors[s.at] = l.selectors[last]
	l.selectors[s.at].at = s.at
	l.selectors[last] = nil
	l.selectors, l.version = l.selectors[:last], version
}

// each calls yield with each list that may have a selector of a pod with these labels.
func (x *services) each(namespace string, of labels.Set, yield func(*labelled)) {
	if len(x.byLabel) == 0 {
		return
	}
	for key, value := range of {
		if l := x.byLabel[serviceLabel{namespace, model.Label{Key: key, Value: value}}]; l != nil {
			yield(l)
		}
	}
}

// merge adds the labels that the selectors of a pod's services demand. The pod has all of
// them, so the order does not matter.
func (x *services) merge(namespace string, of, merged labels.Set) {
	x.each(namespace, of, func(l *labelled) {
		for _, s := range l.selectors {
			x.asked++
			if within(s.labels, of) {
				maps.Copy(merged, s.labels)
			}
		}
	})
}

// within reports whether all labels of a selector are among the labels of a pod.
func within(selector, of labels.Set) bool {
	for key, value := range selector {
		if have, ok := of[key]; !ok || have != value {
			return false
		}
	}
	return true
}
