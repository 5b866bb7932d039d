package model

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Cause is what an event must touch to be of any help to a pod that a plugin rejected. It lets an event find the pods that it can help without a
// look at the others. An event that meets it need not help: that is for the hint to say.
type Cause struct {
	// Wants is what the object of the event must have, by Touch.Has. Without ways it need have nothing.
	Wants []Way
	// Keys are those of which the event must seek one, by Touch.Seeks. Without keys every event may help.
	Keys []Key
}

// Touch is what an event touches, in two ways. The event can help a pod only if both agree with the pod's Cause, so it suffices to look up one.
type Touch struct {
	// Has are the keys of the object that the event is about, before and after the event.
	Has []Key
	// Seeks is what the Keys of a cause must contain. Without ways they need contain nothing.
	Seeks []Way
}

// Way is clauses that must all be met, of which a lookup needs only one. A way without clauses is always met.
type Way []Clause

// Clause is met by each of its keys. A clause without keys is never met.
type Clause []Key

// Key is one thing that an object can have or an event can change, such as a label of a node. Kind separates the keys of one plugin from each
// other; keys of different registrations never meet.
type Key struct {
	Kind string
	// Namespace is that of a pod; empty for any.
	Namespace string
	// Name and Value are of a label or another thing with a value. Present means that the value does not matter; it is empty then. Without a
	// name the key is of the object, whatever its labels.
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

// Never are ways that are never met.
func Never() []Way { return []Way{{{}}} }

// AppendLabelKeys appends the keys of an object's labels: each with its value, and as present.
func AppendLabelKeys(to []Key, kind string, set map[string]string) []Key {
	to = slices.Grow(to, 2*len(set))
	for name, value := range set {
		to = append(to, Key{Kind: kind, Name: name, Value: value}, Key{Kind: kind, Name: name, Present: true})
	}
	return to
}

// AppendPodKeys appends the keys of a pod, as PodWay asks for them: its namespace, and of each of its labels the value, in its namespace and in
// any, and the presence.
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

// clauseMax bounds the keys of a clause that PodWay makes: a clause of more would cost more than it tells.
const clauseMax = 64

// PodWay returns the way that is met, by AppendPodKeys, by the pods in some namespaces that a selector selects; all namespaces are meant by [""].
// Requirements that pods without the label can meet give no clause.
func PodWay(kind string, namespaces []string, s labels.Selector) Way {
	requirements, selectable := s.Requirements()
	if !selectable || len(namespaces) == 0 {
		return Way{{}}
	}
	if len(namespaces) > clauseMax {
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

// labelClause is met by a pod in one of the namespaces whose label has one of the values; if these are too many, by any pod that has the label.
func labelClause(kind string, namespaces []string, name string, values []string) Clause {
	if len(namespaces)*len(values) > clauseMax {
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

// ChangedLabels calls yield with the name of each label that differs between two versions of an object, and the value that it has now; has is
// false if it is gone.
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
