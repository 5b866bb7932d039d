package state

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// labelledNamespaces finds the known namespaces by label. A cluster can have thousands,
// and the term of a pod often selects a few of them.
type labelledNamespaces struct {
	// Invariant: index has each known namespace under each of its labels, and under each
	// label's key with an empty value.
	index index[model.Label, *labelledNamespace]
	// Invariant: byName has exactly the known namespaces.
	byName map[string]*labelledNamespace
	// matched counts the namespaces that selectors were compared with.
	matched int64
}

type labelledNamespace struct {
	name  string
	filed filing[model.Label]
}

func (n *labelledNamespace) filing() *filing[model.Label] { return &n.filed }

// set stores the labels of a known namespace.
func (x *labelledNamespaces) set(name string, of labels.Set) {
	x.remove(name)
	n := &labelledNamespace{name: name}
	x.byName[name] = n
	x.index.add(n, keysOfNamespace(of))
}

func keysOfNamespace(of labels.Set) []model.Label {
	keys := make([]model.Label, 0, 2*len(of))
	for key, value := range of {
		keys = append(keys, model.Label{Key: key})
		if value != "" {
			keys = append(keys, model.Label{Key: key, Value: value})
		}
	}
	return keys
}

// remove removes a namespace, if it is known.
func (x *labelledNamespaces) remove(name string) {
	if n := x.byName[name]; n != nil {
		x.index.remove(n)
		delete(x.byName, name)
	}
}

// fewest returns keys under which each namespace is listed that the selector can select,
// and the number of namespaces there. ok is false if the selector demands no label.
func (x *labelledNamespaces) fewest(by labels.Selector) (keys []model.Label, listed int, ok bool) {
	requirements, _ := by.Requirements()
	for i := range requirements {
		var some []model.Label
		switch r := &requirements[i]; r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			some = keysOfValues(r.Key(), r.ValuesUnsorted())
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			some = []model.Label{{Key: r.Key()}}
		default:
			continue
		}
		if n := x.index.listed(some); !ok || n < listed {
			keys, listed, ok = some, n, true
		}
	}
	return keys, listed, ok
}

// keysOfValues returns keys with each namespace once whose label has one of the values.
func keysOfValues(key string, values []string) []model.Label {
	slices.Sort(values)
	values = slices.Compact(values)
	keys := make([]model.Label, 0, len(values))
	for _, value := range values {
		keys = append(keys, model.Label{Key: key, Value: value})
	}
	if slices.Contains(values, "") {
		return []model.Label{{Key: key}}
	}
	return keys
}

// NamespacesSelected returns the known namespaces that a selector selects; ok is false if
// more than most are selected.
func (s *State) NamespacesSelected(by labels.Selector, most int) (names []string, ok bool) {
	x := &s.namespaceLabels
	add := func(name string) bool {
		x.matched++
		if by.Matches(s.namespaces[name]) {
			names = append(names, name)
		}
		return len(names) <= most
	}
	keys, _, demands := x.fewest(by)
	for _, key := range keys {
		for _, n := range x.index.under.Get(key) {
			if !add(n.name) {
				return nil, false
			}
		}
	}
	if demands {
		return names, true
	}
	for name := range s.namespaces {
		if !add(name) {
			return nil, false
		}
	}
	return names, true
}

// NamespacesMatched returns how often a selector was compared with a namespace to find
// the namespaces that it selects.
func (s *State) NamespacesMatched() int64 { return s.namespaceLabels.matched }

// selectedNamespaces returns the namespaces with placed pods that a term selects, sorted.
func (s *State) selectedNamespaces(term *model.Term) []string {
	var names []string
	add := func(name string) {
		s.namespaceLabels.matched++
		if s.inNamespaces(term, name) {
			names = append(names, name)
		}
	}
	keys, listed, demands := s.namespaceLabels.fewest(term.NamespaceSelector)
	if !demands || listed >= len(s.population.namespaces) {
		for name := range s.population.namespaces {
			add(name)
		}
	} else {
		for _, key := range keys {
			for _, n := range s.namespaceLabels.index.under.Get(key) {
				if s.population.namespaces[n.name] > 0 {
					add(n.name)
				}
			}
		}
		for _, name := range term.Namespaces {
			if s.population.namespaces[name] > 0 {
				add(name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// auditNamespaces compares the namespaces listed by label with the known namespaces.
func (s *State) auditNamespaces(v *audit.Violations) {
	x := &s.namespaceLabels
	known := map[*labelledNamespace]string{}
	for name, of := range s.namespaces {
		n := x.byName[name]
		if n == nil {
			v.Add("namespace %s is not listed by label", name)
			continue
		}
		known[n] = name
		if !sameKeys(n.filed.keys, keysOfNamespace(of)) {
			v.Add("namespace %s is filed under %v, want %v", name, n.filed.keys, keysOfNamespace(of))
		}
	}
	if len(x.byName) != len(s.namespaces) {
		v.Add("%d namespaces are listed by label, %d are known", len(x.byName), len(s.namespaces))
	}
	x.index.audit(v, "namespace", known)
}
