package model

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Cause is what determines the hints of a pod that a plugin rejected. It lets an event find the pods that it can help without a look at the
// others.
type Cause struct {
	// Alike is a canonical text: pods with equal texts get equal hints for every event except those about the pods themselves.
	Alike Need
	// Keys: only events that touch one of them can help. Without keys every event must be checked.
	Keys []Key
}

// Key is one thing that an event can touch, such as a label of a node. Its meaning is private to the plugin that uses it in causes and events.
type Key struct{ Kind, Name, Value string }

// Label is one label of an object.
type Label struct{ Key, Value string }

// Demanded returns labels of which every object that the selector matches has one, all with one key; nil if the selector has no requirement that
// gives such labels.
func Demanded(s labels.Selector) []Label {
	requirements, selectable := s.Requirements()
	if !selectable {
		return nil
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			var some []Label
			for _, value := range r.ValuesUnsorted() {
				some = append(some, Label{r.Key(), value})
			}
			return some
		}
	}
	return nil
}

// ChangedLabels calls yield with the key of each label that differs between two versions of a node.
func ChangedLabels(before, after *Node, yield func(key string)) {
	a, b := before.Object.Labels, after.Object.Labels
	for key, value := range b {
		if had, ok := a[key]; !ok || had != value {
			yield(key)
		}
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			yield(key)
		}
	}
}
