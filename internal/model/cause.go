package model

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Cause is what a plugin's rejection of a pod hinges on, as far as later events go. It lets an event find the pods it can help without
// looking at the others.
type Cause struct {
	// Alike is a canonical text: pods with equal texts get equal hints for every event that is not about themselves.
	Alike Need
	// Keys are what an event must touch one of to be of any help. None means that every event must be looked at.
	Keys []Key
}

// Key is one thing that an event can touch, such as a label of a node. What it means is between a plugin's causes and its interests.
type Key struct{ Kind, Name, Value string }

// Label is one label of an object.
type Label struct{ Key, Value string }

// Demanded returns labels of which every object that the selector matches has one, all of one key; none if the selector demands nothing
// of the kind.
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

// ChangedLabels calls yield with the key of each label that one version of a node has and the other has not, or with another value.
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
