package state

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// Group is a term that pods on nodes carry, with how many of them carry it in each domain. Pods of one deployment carry the same
// terms, so there are far fewer groups than pods.
type Group struct {
	Kind   model.TermKind
	Weight int32
	Term   *model.Term

	key      groupKey
	pods     int
	topology *topology
	carriers sparse
}

// Carriers calls yield with each domain, and how many pods in it carry the term.
func (g *Group) Carriers(yield func(domain, pods int32)) {
	for i, domain := range g.carriers.domains {
		yield(domain, g.carriers.counts[i])
	}
}

// CarriedSomewhere reports whether a pod on a node that has the term's topology key carries the term.
func (g *Group) CarriedSomewhere() bool { return len(g.carriers.domains) > 0 }

// Domains returns the domain of each slot under the term's topology key, -1 for none.
func (g *Group) Domains() []int32 { return g.topology.of }

type groupKey struct {
	kind   model.TermKind
	weight int32
	text   string
}

// groups are the terms of all pods on nodes.
type groups struct {
	byKey map[groupKey]*Group
	index selectionIndex[*Group]
	// version changes when a term comes or goes, or when which namespaces a term selects may have changed.
	version uint64
	// asked counts how often a term was held against a pod.
	asked int64
}

// GroupsVersion changes whenever GroupsMatching may give another answer.
func (s *State) GroupsVersion() uint64 { return s.groups.version }

// GroupsMatching returns the groups whose term selects the pod, in no particular order. Terms that no pod carries are not there.
func (s *State) GroupsMatching(pod *model.Pod) []*Group {
	var matching []*Group
	namespace := s.namespaces[pod.Namespace]
	s.groups.index.candidates(pod, func(g *Group) {
		s.groups.asked++
		if g.Term.SelectsNamespace(pod.Namespace, namespace) && g.Term.Selector.Matches(labels.Set(pod.Object.Labels)) {
			matching = append(matching, g)
		}
	})
	return matching
}

// carry adds a pod's terms to its node's domains.
func (s *State) carry(p *placed) {
	for i := range p.pod.Terms {
		g := s.group(p.pod, &p.pod.Terms[i])
		if g == nil {
			continue
		}
		g.pods++
		g.carriers.add(g.topology.of[p.slot], +1)
		p.groups = append(p.groups, g)
	}
}

// uncarry takes a pod's terms out of its node's domains.
func (s *State) uncarry(p *placed) {
	for _, g := range p.groups {
		g.carriers.add(g.topology.of[p.slot], -1)
		if g.pods--; g.pods == 0 {
			delete(s.groups.byKey, g.key)
			s.groups.index.remove(g.Term.Selector, g)
			s.groups.version++
		}
	}
	p.groups = nil
}

// group returns the group of a pod's term. A term that cannot be parsed relates to nothing: the API server lets none through.
func (s *State) group(pod *model.Pod, ref *model.TermRef) *Group {
	key := groupKey{ref.Kind, ref.Weight, ref.Text.Value()}
	if g := s.groups.byKey[key]; g != nil {
		return g
	}
	term, err := model.NewTerm(pod.Namespace, ref.Source)
	if err != nil {
		return nil
	}
	g := &Group{Kind: ref.Kind, Weight: ref.Weight, Term: term, key: key, topology: s.topology(TopologyKey{Label: term.Key})}
	s.groups.byKey[key] = g
	s.groups.index.add(term.Selector, g)
	s.groups.version++
	return g
}

// sparse counts by domain where most domains have nothing to count: a list that is fast to walk, with a map to find a domain's place.
type sparse struct {
	at      map[int32]int32
	domains []int32
	counts  []int32
}

func (s *sparse) add(domain, n int32) {
	if domain == noDomain {
		return
	}
	if s.at == nil {
		s.at = map[int32]int32{}
	}
	i, ok := s.at[domain]
	if !ok {
		s.at[domain] = int32(len(s.domains))
		s.domains, s.counts = append(s.domains, domain), append(s.counts, n)
		return
	}
	if s.counts[i] += n; s.counts[i] != 0 {
		return
	}
	last := len(s.domains) - 1
	s.domains[i], s.counts[i] = s.domains[last], s.counts[last]
	s.at[s.domains[i]] = i
	delete(s.at, domain)
	s.domains, s.counts = s.domains[:last], s.counts[:last]
}
