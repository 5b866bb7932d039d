package state

import (
	"github.com/berth-scheduler/berth/internal/model"
)

// TermCounts is an affinity term of pods on nodes, with the number of its carriers in
// each domain. Pods of one Deployment have the same terms, so terms are far fewer than
// pods. In a list of many terms, all terms of a topology key are counted together, see
// termList.
type TermCounts struct {
	Kind   model.TermKind
	Weight int32
	Term   *model.Term // nil for a key of a list

	key   termKey
	label string // the topology key
	// Invariant: pods is the number of placed pods that carry the term, at least one;
	// counts has these pods by the domain of their slot.
	pods     int
	topology *topology
	counts   domainCounts
	filed    filing[labelKey]
	changed  uint64 // the stamp of the last change of counts
	// For a topology key of a list: terms has the positions of the key's terms in list,
	// and matcher sums up these terms. matcher is nil if no node has carried the key.
	list    *termList
	terms   []int32
	matcher *Matcher
}

func (t *TermCounts) filing() *filing[labelKey] { return &t.filed }

// Key returns the topology key.
func (t *TermCounts) Key() string { return t.label }

// AddTo adds weight × the number of carriers to the sum of each domain.
func (t *TermCounts) AddTo(sums []int64, weight int64) { t.counts.addTo(sums, weight) }

// Total returns the number of pods that carry the term on nodes with its topology key.
func (t *TermCounts) Total() int64 { return t.counts.total }

// TotalWith returns Total in a view with these differences.
func (t *TermCounts) TotalWith(differences []Difference) int64 {
	return t.counts.total + sumOf(differences)
}

// InState reports whether any pod of the state carries the term, on whatever node.
func (t *TermCounts) InState() bool { return t.pods > 0 }

// SumCarriers returns the number of carriers of the terms, which have the same topology
// key, by domain. The slice is valid until the next call for that key, or until the state
// changes.
func (s *State) SumCarriers(terms []*TermCounts) []int32 {
	if len(terms) == 1 && terms[0].counts.dense != nil {
		return terms[0].counts.dense
	}
	key := terms[0].topology
	key.counts = cleared(key.counts, len(key.value))
	for _, t := range terms {
		t.counts.each(func(domain, pods int32) { key.counts[domain] += pods })
	}
	return key.counts
}

// Domains returns the domain of each slot under the term's topology key, -1 for none.
func (t *TermCounts) Domains() []int32 { return t.topology.of }

// move moves one carrier from a domain to another.
func (t *TermCounts) move(m move) {
	t.counts.add(m.from, -1, len(t.topology.value))
	// The topology has a newer version already.
	t.counts.add(m.to, +1, len(t.topology.value))
}

// Matching is a term of pods on nodes that select a pod, or the terms of a list with the
// same topology key.
type Matching struct {
	*TermCounts
	Effect
}

type termKey struct {
	kind   model.TermKind
	weight int32
	text   string
}

// termStore holds the terms of all pods on nodes.
type termStore struct {
	// Invariant: byKey has exactly the terms that placed pods carry outside of lists,
	// each under its own key. index has the terms with a topology of their own.
	byKey map[termKey]*TermCounts
	index selectionIndex[*TermCounts]
	// Invariant: all has exactly the lists that placed pods carry, and lists has them by
	// hash.
	all   []*termList
	lists map[uint64][]*termList
	// Invariant: absent counts the terms of byKey and the keys of lists without a
	// topology of their own.
	absent map[string]int
	// Invariant: listBytes is the sum of bytes over all lists.
	listBytes int
	// memos is at least the number of effects that lists cache, for the namespaces as of
	// memosOf.
	memos   int
	memosOf uint64
	effects []Effect // working memory
	// version changes when a term is added or removed, or when the namespaces that a term
	// selects may have changed.
	version uint64
	// namespaces changes when the namespaces that a term selects may have changed.
	namespaces uint64
	// asked counts how often a term was matched against a pod.
	asked int64
}

// eachCounts calls yield with the counts of each term, and of each key of a list.
func (x *termStore) eachCounts(yield func(*TermCounts)) {
	for _, t := range x.byKey {
		yield(t)
	}
	for _, l := range x.all {
		for _, t := range l.keys {
			yield(t)
		}
	}
}

// TermsMatching returns the terms that select the pod, in no particular order. Only terms
// that a pod carries exist. Terms whose topology key no node carries are left out.
func (s *State) TermsMatching(pod *model.Pod) []Matching {
	var matching []Matching
	namespace := s.namespaces[pod.Namespace]
	s.terms.index.candidates(pod, func(t *TermCounts) {
		s.terms.asked++
		if t.Term.Matches(pod, namespace) {
			matching = append(matching, Matching{t, EffectOf(t.Kind, t.Weight)})
		}
	})
	return s.listsMatching(pod, matching)
}

// carry adds a pod's terms to its node's domains.
func (s *State) carry(p *placed) {
	if isLong(p.pod) {
		s.carryList(p)
		return
	}
	for i := range p.pod.Terms {
		t := s.termCounts(p.pod, &p.pod.Terms[i])
		if t == nil {
			continue
		}
		t.pods++
		s.addCarriers(t, p.slot, +1)
		p.terms = append(p.terms, t)
	}
}

// uncarry removes a pod's terms from its node's domains.
func (s *State) uncarry(p *placed) {
	for _, t := range p.terms {
		s.addCarriers(t, p.slot, -1)
		if t.pods--; t.pods == 0 {
			delete(s.terms.byKey, t.key)
			s.terms.index.remove(t)
			s.unlistAbsent(t)
			s.terms.version++
		}
	}
	p.terms = nil // a displaced pod carries them anew when it returns
	s.uncarryList(p)
}

// addCarriers adds n carriers of a term on a node.
func (s *State) addCarriers(t *TermCounts, slot, n int32) {
	t.counts.add(t.topology.of[slot], n, len(t.topology.value))
	t.changed = s.stamp()
}

// termCounts returns the counts of a pod's term. An invalid term selects no pod; the API
// server rejects such terms.
func (s *State) termCounts(pod *model.Pod, ref *model.TermRef) *TermCounts {
	key := termKey{ref.Kind, ref.Weight, ref.Text.Value()}
	if t := s.terms.byKey[key]; t != nil {
		return t
	}
	term, err := model.NewTerm(pod.Namespace, ref.Source)
	if err != nil {
		return nil
	}
	t := &TermCounts{
		Kind: ref.Kind, Weight: ref.Weight, Term: term, key: key, label: term.Key,
		topology: s.topology(TopologyKey{Label: term.Key}), changed: s.stamp(),
	}
	s.terms.byKey[key] = t
	if !s.listAbsent(t) {
		s.terms.index.add(term, t)
	}
	s.terms.version++
	return t
}

// listAbsent reports whether no node carries the topology key of a term, and counts such
// terms.
func (s *State) listAbsent(t *TermCounts) bool {
	if t.topology != s.absent {
		return false
	}
	s.terms.absent[t.label]++
	return true
}

func (s *State) unlistAbsent(t *TermCounts) {
	if t.topology != s.absent {
		return
	}
	if s.terms.absent[t.label]--; s.terms.absent[t.label] == 0 {
		delete(s.terms.absent, t.label)
	}
}

// appear gives the terms of a key a topology of their own, just before the first node
// carries the key.
func (s *State) appear(label string) {
	if s.terms.absent[label] == 0 {
		return
	}
	delete(s.terms.absent, label)
	key := TopologyKey{Label: label}
	t := s.topologies[key]
	if t == nil {
		t = s.addTopology(emptyTopology(s, key))
	}
	s.terms.eachCounts(func(c *TermCounts) {
		if c.label != label || c.topology != s.absent {
			return
		}
		c.topology, c.changed = t, s.stamp()
		if c.list == nil {
			s.terms.index.add(c.Term, c)
			return
		}
		s.terms.listBytes -= c.list.bytes()
		c.list.prepare(c)
		s.terms.listBytes += c.list.bytes()
	})
	s.terms.version++
}
