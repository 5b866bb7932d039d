package state

import (
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
	carriers carriers
}

// Carriers calls yield with each domain, and how many pods in it carry the term.
func (g *Group) Carriers(yield func(domain, pods int32)) {
	for domain, pods := range g.carriers.dense {
		if pods != 0 {
			yield(int32(domain), pods)
		}
	}
	for i, domain := range g.carriers.domains {
		yield(domain, g.carriers.counts[i])
	}
}

// CarriedSomewhere reports whether a pod on a node that has the term's topology key carries the term.
func (g *Group) CarriedSomewhere() bool { return g.carriers.carried > 0 }

// Counts returns how many pods carry the term, by domain. It is nil while that is known as a list only, because few domains have any;
// Carriers is fast then.
func (g *Group) Counts() []int32 { return g.carriers.dense }

// SumCarriers returns how many pods carry a term of the groups, which have the same topology key, by domain. It is true until it is asked
// for under that key again, or the state changes.
func (s *State) SumCarriers(groups []*Group) []int32 {
	if len(groups) == 1 && groups[0].carriers.dense != nil {
		return groups[0].carriers.dense
	}
	t := groups[0].topology
	t.counts = cleared(t.counts, len(t.value))
	for _, g := range groups {
		g.Carriers(func(domain, pods int32) { t.counts[domain] += pods })
	}
	return t.counts
}

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
		if g.Term.SelectsNamespace(pod.Namespace, namespace) && g.Term.Selector.Matches(pod.Labels) {
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
		g.add(p.slot, +1)
		p.groups = append(p.groups, g)
	}
}

// uncarry takes a pod's terms out of its node's domains.
func (s *State) uncarry(p *placed) {
	for _, g := range p.groups {
		g.add(p.slot, -1)
		if g.pods--; g.pods == 0 {
			delete(s.groups.byKey, g.key)
			s.groups.index.remove(g.Term.Selector, g)
			s.groups.version++
		}
	}
	p.groups = nil
}

// add counts carriers on a node.
func (g *Group) add(slot, n int32) { g.carriers.add(g.topology.of[slot], n, len(g.topology.value)) }

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

// carriers counts by domain: where most domains have nothing to count in a list that is fast to walk, with a map to find a domain's place;
// otherwise in an array, which is then smaller than the map and needs no walk.
type carriers struct {
	at      map[int32]int32
	domains []int32
	counts  []int32 // by position in domains
	dense   []int32 // by domain; instead of the list
	carried int     // domains that have any
}

// A list of more than fewCarried domains, and of more than one in listedUpTo, becomes an array. It stays one while the group lasts.
const (
	fewCarried = 16
	listedUpTo = 8
)

// add counts n more in one of so many domains.
func (c *carriers) add(domain, n int32, domains int) {
	if domain == noDomain {
		return
	}
	if c.dense == nil && len(c.domains) > max(fewCarried, domains/listedUpTo) {
		c.spread(domains)
	}
	if c.dense == nil {
		c.addListed(domain, n)
		c.carried = len(c.domains)
		return
	}
	for int(domain) >= len(c.dense) {
		c.dense = append(c.dense, 0)
	}
	before := c.dense[domain]
	c.dense[domain] += n
	switch {
	case before == 0:
		c.carried++
	case before+n == 0:
		c.carried--
	}
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
