package model

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Cause is a necessary condition for an event to help a pod that a plugin rejected. It
// lets an event find the pods that it may help without visiting the others. A matching
// event need not help; the hint decides.
type Cause struct {
	// Wants are alternatives. The event's object must meet at least one, through
	// Touch.Has. Empty Wants are always met.
	Wants []Way
	// Keys match if the event seeks any of them, through Touch.Seeks. Empty Keys match
	// every event.
	Keys []Key
}

// Touch describes an event in two ways. Both must match the pod's Cause, so a lookup by
// either is sufficient.
type Touch struct {
	// Has are the keys of the event's object, before and after the event.
	Has []Key
	// Seeks are alternatives. The Keys of a cause must meet at least one. Empty Seeks are
	// always met.
	Seeks []Way
}

// Way is a conjunction of clauses. Since all must be met, a lookup needs only one clause.
// A way without clauses is always met.
type Way []Clause

// Clause is a disjunction of keys. A clause without keys is never met.
type Clause []Key

// Key is a property that an object can have or an event can change, such as a label of a
// node. Kind separates the keys of one plugin. Keys of different registrations never
// match.
type Key struct {
	Kind string
	// Namespace is a pod's namespace, or empty for any.
	Namespace string
	// Name and Value are a label, or another property with a value. Present matches any
	// value, and Value is then empty. Without a Name, the key matches the object
	// regardless of labels.
	Name, Value string
	Present     bool
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	present := func(k Key) int {
		if k.Present {
			return 1
		}
		return 0
	}
	return cmp.Or(
		strings.Compare(k.Kind, o.Kind), strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name),
		strings.Compare(k.Value, o.Value), cmp.Compare(present(k), present(o)),
	)
}

// Never returns ways that are never met.
func Never() []Way { return []Way{{{}}} }

// AppendLabelKeys appends two keys for each label of an object: with its value, and as
// present.
func AppendLabelKeys(to []Key, kind string, set map[string]string) []Key {
	to = slices.Grow(to, 2*len(set))
	for name, value := range set {
		to = append(to, Key{Kind: kind, Name: name, Value: value}, Key{Kind: kind, Name: name, Present: true})
	}
	return to
}

// AppendPodKeys appends the keys of a pod that PodWay looks up: the namespace, and three
// keys for each label. These are the value in the namespace, the value in any namespace,
// and the presence.
func AppendPodKeys(to []Key, kind string, pod *Pod) []Key {
	to = append(slices.Grow(to, 1+3*len(pod.Labels)), Key{Kind: kind, Namespace: pod.Namespace})
	for name, value := range pod.Labels {
		to = append(to,
			Key{Kind: kind, Namespace: pod.Namespace, Name: name, Value: value},
			Key{Kind: kind, Name: name, Value: value}, Key{Kind: kind, Name: name, Present: true},
		)
	}
	return to
}

// maxClause limits the keys of a clause in PodWay. A longer clause costs more than it
// saves.
const maxClause = 64

// PodWay returns the way that each pod meets which the selector selects in these
// namespaces, by the keys of AppendPodKeys. [""] means all namespaces. Requirements that
// pods without the label can meet yield no clause.
func PodWay(kind string, namespaces []string, s labels.Selector) Way {
	requirements, selectable := s.Requirements()
	if !selectable || len(namespaces) == 0 {
		return Way{{}}
	}
	if len(namespaces) > maxClause {
		namespaces = []string{""}
	}
	way := make(Way, 0, 1+len(requirements))
	for i := range requirements {
		switch r := &requirements[i]; r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			way = append(way, labelClause(kind, namespaces, r.Key(), r.ValuesUnsorted()))
		case selection.Exists:
			way = append(way, Clause{{Kind: kind, Name: r.Key(), Present: true}})
		}
	}
	if namespaces[0] != "" {
		var in Clause
		for _, namespace := range namespaces {
			in = append(in, Key{Kind: kind, Namespace: namespace})
		}
		way = append(way, in)
	}
	return way
}

// labelClause is met by pods in the namespaces whose label has any of the values. If the
// combinations exceed maxClause, it is met by any pod with the label.
func labelClause(kind string, namespaces []string, name string, values []string) Clause {
	if len(namespaces)*len(values) > maxClause {
		return Clause{{Kind: kind, Name: name, Present: true}}
	}
	clause := make(Clause, 0, len(namespaces)*len(values))
	for _, namespace := range namespaces {
		for _, value := range values {
			clause = append(clause, Key{Kind: kind, Namespace: namespace, Name: name, Value: value})
		}
	}
	return clause
}

// Label is one label of an object.
type Label struct{ Key, Value string }

// ChangedLabels calls yield for each label that differs between two versions of an
// object, with its name and new value. has is false if the label was removed.
func ChangedLabels(before, after map[string]string, yield func(name, value string, has bool)) {
	for name, value := range after {
		if had, ok := before[name]; !ok || had != value {
			yield(name, value, true)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			yield(name, "", false)
		}
	}
}
