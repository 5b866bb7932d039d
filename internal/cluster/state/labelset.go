package state

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// labelSet is the placed pods of one namespace that have equal labels. A selector that
// matches one of them matches all, so selectors are matched once for all pods of a
// Deployment's revision.
type labelSet struct {
	namespace string
	labels    labels.Set
	// Invariant: pods are the placed pods with this namespace and these labels; each
	// records its position.
	pods []*placed
	// Invariant: sets has each tally that selects the namespace and the labels, once.
	sets  []*podCounts
	filed filing[labelKey]
	// Invariant: weighed are the sums of terms that select the namespace and the labels,
	// each once.
	weighed []weighedBy
	// anywhere is the filing in population.anywhere.
	anywhere filing[model.Label]
}

func (l *labelSet) filing() *filing[labelKey] { return &l.filed }

// anyLabelSet is a label set that is found by its labels, whatever its namespace.
type anyLabelSet struct{ *labelSet }

func (l anyLabelSet) filing() *filing[model.Label] { return &l.anywhere }

// labelKey is a label of pods in a namespace, or with an empty label the namespace alone.
type labelKey struct {
	namespace string
	label     model.Label
}

// population finds placed pods by namespace and label.
type population struct {
	// Invariant: sets has each label set under its own namespace and labels.
	sets map[model.LabelSet]*labelSet
	// Invariant: index has each label set under each of its labels, and under its
	// namespace.
	index index[labelKey, *labelSet]
	// Invariant: anywhere has each label set under each of its labels, once a term has
	// selected namespaces by label; it is empty before.
	anywhere   index[model.Label, anyLabelSet]
	isAnywhere bool
	// Invariant: namespaces counts the label sets of each namespace that has some.
	namespaces map[string]int
	// Invariant: empty is the number of label sets without pods.
	empty int
}

// fewEmpty is the number of label sets without pods that are always kept: the next pod of
// an app often comes when the last has gone.
const fewEmpty = 64

// enlist adds a placed pod to its label set.
func (s *State) enlist(p *placed) {
	of := p.pod.LabelSet()
	l := s.population.sets[of]
	if l == nil {
		l = s.newLabelSet(p.pod)
		s.population.sets[of] = l
		s.population.empty++
	}
	if len(l.pods) == 0 {
		s.population.empty--
	}
	p.like, p.likeAt = l, int32(len(l.pods))
	l.pods = append(l.pods, p)
}

func (s *State) newLabelSet(pod *model.Pod) *labelSet {
	l := &labelSet{namespace: pod.Namespace, labels: pod.Labels}
	keys := make([]labelKey, 0, len(pod.Labels)+1)
	keys = append(keys, labelKey{namespace: pod.Namespace})
	for key, value := range pod.Labels {
		if key == "" {
			continue // the API server rejects it, and no selector demands it
		}
		keys = append(keys, labelKey{pod.Namespace, model.Label{Key: key, Value: value}})
	}
	s.population.index.add(l, keys)
	s.population.addAnywhere(l)
	s.population.namespaces[pod.Namespace]++
	s.tallies.index.candidates(pod, func(set *podCounts) {
		s.tallies.asked++
		if s.selects(set.set, l.namespace, l.labels) {
			l.sets = append(l.sets, set)
		}
	})
	s.weighNewSet(l)
	return l
}

// delist removes a pod from its label set.
func (s *State) delist(p *placed) {
	l := p.like
	last := len(l.pods) - 1
	l.pods[p.likeAt] = l.pods[last]
	l.pods[p.likeAt].likeAt = p.likeAt
	l.pods[last] = nil
	l.pods = l.pods[:last]
	if last == 0 {
		s.population.empty++
	}
}

// sweepPopulation removes the label sets without pods, once they outnumber the others.
func (s *State) sweepPopulation() {
	x := &s.population
	if x.empty <= max(fewEmpty, len(x.sets)/2) {
		return
	}
	for of, l := range x.sets {
		if len(l.pods) > 0 {
			continue
		}
		delete(x.sets, of)
		x.index.remove(l)
		if x.isAnywhere {
			x.anywhere.remove(anyLabelSet{l})
		}
		s.unlistSet(l)
		if x.namespaces[l.namespace]--; x.namespaces[l.namespace] == 0 {
			delete(x.namespaces, l.namespace)
		}
	}
	x.empty = 0
}

// likely calls yield with each label set that a term may select, found by the rarest
// label.
func (s *State) likely(term *model.Term, yield func(*labelSet)) {
	namespaces := term.Namespaces
	if term.NamespaceSelector != nil {
		if s.likelyAnywhere(term, yield) {
			return
		}
		namespaces = s.selectedNamespaces(term)
	}
	for _, key := range s.population.fewest(namespaces, model.Demands(term.Selector)) {
		for _, l := range s.population.index.under.Get(key) {
			s.tallies.visited++
			yield(l)
		}
	}
}

// likelyAnywhere yields the label sets that a term may select, like likely, for a term
// that selects namespaces by label. It finds them by a label that few label sets have in
// all namespaces together. It returns false if the term can select fewer namespaces than
// that. Without it, each of many terms would look up each of thousands of namespaces.
func (s *State) likelyAnywhere(term *model.Term, yield func(*labelSet)) bool {
	x := &s.population
	most := len(x.namespaces)
	if _, listed, demands := s.namespaceLabels.fewest(term.NamespaceSelector); demands {
		most = min(most, listed+len(term.Namespaces))
	}
	x.listAnywhere()
	var rarest []model.Label
	found := false
	for _, some := range model.Demands(term.Selector) {
		if n := x.anywhere.listed(some); n <= most {
			rarest, most, found = some, n, true
		}
	}
	for _, label := range rarest {
		for _, l := range x.anywhere.under.Get(label) {
			s.tallies.visited++
			yield(l.labelSet)
		}
	}
	return found
}

// listAnywhere files all label sets in anywhere.
func (x *population) listAnywhere() {
	if x.isAnywhere {
		return
	}
	x.isAnywhere = true
	for _, l := range x.sets {
		x.addAnywhere(l)
	}
}

func (x *population) addAnywhere(l *labelSet) {
	if !x.isAnywhere {
		return
	}
	keys := make([]model.Label, 0, len(l.labels))
	for key, value := range l.labels {
		keys = append(keys, model.Label{Key: key, Value: value})
	}
	x.anywhere.add(anyLabelSet{l}, keys)
}

// fewest returns the keys with the fewest label sets, among alternatives that each cover
// all matches of a selector.
func (x *population) fewest(namespaces []string, demands [][]model.Label) []labelKey {
	best := keysOf(namespaces, []model.Label{{}})
	least := x.index.listed(best)
	for _, some := range demands {
		keys := keysOf(namespaces, some)
		if n := x.index.listed(keys); n < least {
			best, least = keys, n
		}
	}
	return best
}

func keysOf(namespaces []string, some []model.Label) []labelKey {
	keys := make([]labelKey, 0, len(namespaces)*len(some))
	for _, namespace := range namespaces {
		for _, label := range some {
			keys = append(keys, labelKey{namespace, label})
		}
	}
	return keys
}
