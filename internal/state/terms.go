package state

import (
	"github.com/berth-scheduler/berth/internal/model"
)

// TermCounts is an affinity term of pods on nodes, with the number of its carriers in each domain. Pods of one deployment have the same terms,
// so there are far fewer terms than pods.
type TermCounts struct {
	Kind   model.TermKind
	Weight int32
	Term   *model.Term

	key      termKey
	pods     int
	topology *topology
	carriers carriers
}

// Carriers calls yield with each domain that has carriers of the term, and their number.
func (t *TermCounts) Carriers(yield func(domain, pods int32)) {
	for domain, pods := range t.carriers.dense {
		if pods != 0 {
			yield(int32(domain), pods)
		}
	}
	for i, domain := range t.carriers.domains {
		yield(domain, t.carriers.counts[i])
	}
}

// Total returns how many pods carry the term on nodes that have its topology key.
func (t *TermCounts) Total() int64 { return t.carriers.total }

// TotalWith returns Total in a view with these differences.
func (t *TermCounts) TotalWith(differences []Difference) int64 {
	return t.carriers.total + sumOf(differences)
}

// InState reports whether any pod of the state carries the term, on whatever node.
func (t *TermCounts) InState() bool { return t.pods > 0 }

// Counts returns how many pods carry the term, by domain. It is nil while few domains have carriers and they are kept as a list; Carriers is
// fast then.
func (t *TermCounts) Counts() []int32 { return t.carriers.dense }

// SumCarriers returns how many pods carry one of the terms, which have the same topology key, by domain. The slice is valid until the next call
// for that key, or until the state changes.
func (s *State) SumCarriers(terms []*TermCounts) []int32 {
	if len(terms) == 1 && terms[0].carriers.dense != nil {
		return terms[0].carriers.dense
	}
	key := terms[0].topology
	key.counts = cleared(key.counts, len(key.value))
	for _, t := range terms {
		t.Carriers(func(domain, pods int32) { key.counts[domain] += pods })
	}
	return key.counts
}

// Domains returns the domain of each slot under the term's topology key, -1 for none.
func (t *TermCounts) Domains() []int32 { return t.topology.of }

type termKey struct {
	kind   model.TermKind
	weight int32
	text   string
}

// termStore holds the terms of all pods on nodes.
type termStore struct {
	byKey map[termKey]*TermCounts
	index selectionIndex[*TermCounts]
	// version changes when a term is added or removed, or when the namespaces that a term selects may have changed.
	version uint64
	// asked counts how often a term was matched against a pod.
	asked int64
}

// TermsVersion changes whenever TermsMatching may return other terms.
func (s *State) TermsVersion() uint64 { return s.terms.version }

// TermsMatching returns the terms that select the pod, in no particular order. Only terms that a pod carries exist.
func (s *State) TermsMatching(pod *model.Pod) []*TermCounts {
	var matching []*TermCounts
	namespace := s.namespaces[pod.Namespace]
	s.terms.index.candidates(pod, func(t *TermCounts) {
		s.terms.asked++
		if t.Term.Matches(pod, namespace) {
			matching = append(matching, t)
		}
	})
	return matching
}

// carry adds a pod's terms to its node's domains.
func (s *State) carry(p *placed) {
	for i := range p.pod.Terms {
		t := s.termCounts(p.pod, &p.pod.Terms[i])
		if t == nil {
			continue
		}
		t.pods++
		t.add(p.slot, +1)
		p.terms = append(p.terms, t)
	}
}

// uncarry removes a pod's terms from its node's domains.
func (s *State) uncarry(p *placed) {
	for _, t := range p.terms {
		t.add(p.slot, -1)
		if t.pods--; t.pods == 0 {
			delete(s.terms.byKey, t.key)
			s.terms.index.remove(t.Term.Selector, t)
			s.terms.version++
		}
	}
	p.terms = nil
}

// add adds n carriers on a node.
func (t *TermCounts) add(slot, n int32) {
	t.carriers.add(t.topology.of[slot], n, len(t.topology.value))
}

// termCounts returns the counts of a pod's term. A term that cannot be parsed selects no pod; the API server rejects such terms.
func (s *State) termCounts(pod *model.Pod, ref *model.TermRef) *TermCounts {
	key := termKey{ref.Kind, ref.Weight, ref.Text.Value()}
	if t := s.terms.byKey[key]; t != nil {
		return t
	}
	term, err := model.NewTerm(pod.Namespace, ref.Source)
	if err != nil {
		return nil
	}
	t := &TermCounts{Kind: ref.Kind, Weight: ref.Weight, Term: term, key: key, topology: s.topology(TopologyKey{Label: term.Key})}
	s.terms.byKey[key] = t
	s.terms.index.add(term.Selector, t)
	s.terms.version++
	return t
}

// carriers counts by domain: while most domains have no carriers, in a list that is fast to walk, with a map from domain to position; otherwise
// in an array, which is then smaller than the map and needs no walk.
type carriers struct {
	at      map[int32]int32
	domains []int32
	counts  []int32 // by position in domains
	dense   []int32 // by domain; instead of the list
	total   int64   // over all domains
}

// A list becomes an array when it has more than fewCarried domains, and more than one in listedUpTo of all. It stays an array as long as the
// term is counted.
const (
	fewCarried = 16
	listedUpTo = 8
)

// add adds n carriers in a domain, of so many domains.
func (c *carriers) add(domain, n int32, domains int) {
	if domain == noDomain {
		return
	}
	c.total += int64(n)
	if c.dense == nil && len(c.domains) > max(fewCarried, domains/listedUpTo) {
		c.spread(domains)
	}
	if c.dense == nil {
		c.addListed(domain, n)
		return
	}
	for int(domain) >= len(c.dense) {
		c.dense = append(c.dense, 0)
	}
	c.dense[domain] += n
}

func (c *carriers) spread(domains int) {
	c.dense = make([]int32, domains)
	for i, domain := range c.domains {
		c.dense[domain] = c.counts[i]
	}
	c.at, c.domains, c.counts = nil, nil, nil
}

func (c *carriers) addListed(domain, n int32) {
	if c.at == nil {
		c.at = map[int32]int32{}
	}
	i, ok := c.at[domain]
	if !ok {
		c.at[domain] = int32(len(c.domains))
		c.domains, c.counts = append(c.domains, domain), append(c.counts, n)
		return
	}
	if c.counts[i] += n; c.counts[i] != 0 {
		return
	}
	last := len(c.domains) - 1
	c.domains[i], c.counts[i] = c.domains[last], c.counts[last]
	c.at[c.domains[i]] = i
	delete(c.at, domain)
	c.domains, c.counts = c.domains[:last], c.counts[:last]
}
