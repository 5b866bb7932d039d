package state

import (
	"maps"

	"github.com/berth-scheduler/berth/internal/model"
)

// TopologyKey is what defines the domains of nodes.
type TopologyKey struct {
	// Label is the node label whose values are the domains. Empty: each node is a domain of its own.
	Label string
	// AbsentIsEmpty puts nodes without the label into the domain of the empty value; otherwise they are in none.
	AbsentIsEmpty bool
}

// topology holds the domain of each node under one key. Domains are small integers that are reused when their last node has left.
type topology struct {
	key   TopologyKey
	of    []int32          // by slot; noDomain where the node is in none, or does not exist
	ids   map[string]int32 // by label value
	value []string         // by domain
	nodes []int32          // by domain
	free  []int32
	// counts and sums are working memory by domain, kept so that adding up for a decision allocates nothing.
	counts []int32
	sums   []int64
}

const noDomain int32 = -1

// fewTopologies is how many are not worth sweeping.
const fewTopologies = 64

// sweepTopologies removes the topologies that neither a tally nor a term uses any more, once there are many: the specs of pods choose the keys.
// It runs between decisions, when only tallies and terms refer to topologies.
func (s *State) sweepTopologies() {
	if len(s.topologies) <= max(fewTopologies, 2*s.topologiesUsed) {
		return
	}
	used := map[*topology]bool{}
	for _, t := range s.tallies.byKey {
		used[t.topology] = true
	}
	for _, g := range s.terms.byKey {
		used[g.topology] = true
	}
	maps.DeleteFunc(s.topologies, func(_ TopologyKey, t *topology) bool { return !used[t] })
	s.topologiesUsed = len(s.topologies)
}

// topology returns the topology of a key, which is updated from then on.
func (s *State) topology(key TopologyKey) *topology {
	if t := s.topologies[key]; t != nil {
		return t
	}
	t := newTopology(s, key)
	s.topologies[key] = t
	return t
}

// newTopology computes the domain of each node under a key.
func newTopology(s *State, key TopologyKey) *topology {
	t := &topology{key: key, ids: map[string]int32{}, of: make([]int32, 0, len(s.alive))}
	for slot := range s.alive {
		t.of = append(t.of, noDomain)
		t.enter(s, int32(slot))
	}
	return t
}

// Domains returns the domain of each slot under a key, -1 for none. The slice is the state's own and valid until the next change.
func (s *State) Domains(key TopologyKey) []int32 { return s.topology(key).of }

// Sums returns zeros by domain under a key, as working memory for a decision. They are the caller's until the next call for that key, or until
// the state changes.
func (s *State) Sums(key TopologyKey) []int64 {
	t := s.topology(key)
	t.sums = cleared(t.sums, len(t.value))
	return t.sums
}

// cleared returns n zeros, in the same memory if it is large enough.
func cleared[T int32 | int64](of []T, n int) []T {
	if cap(of) < n {
		return make([]T, n, n+n/4)
	}
	of = of[:n]
	clear(of)
	return of
}

// enter adds a node to its domain.
func (t *topology) enter(s *State, slot int32) {
	if !s.alive[slot] {
		return
	}
	value, ok := s.name[slot], true
	if t.key.Label != "" {
		value, ok = s.node[slot].Object.Labels[t.key.Label]
	}
	if !ok && !t.key.AbsentIsEmpty {
		return
	}
	id, known := t.ids[value]
	if !known {
		if n := len(t.free); n > 0 {
			id, t.free = t.free[n-1], t.free[:n-1]
		} else {
			id = int32(len(t.value))
			t.value, t.nodes = append(t.value, ""), append(t.nodes, 0)
		}
		t.ids[value], t.value[id] = id, value
	}
	t.of[slot] = id
	t.nodes[id]++
}

// leave removes a node from its domain.
func (t *topology) leave(slot int32) {
	id := t.of[slot]
	if id == noDomain {
		return
	}
	t.of[slot] = noDomain
	if t.nodes[id]--; t.nodes[id] == 0 {
		delete(t.ids, t.value[id])
		t.value[id] = ""
		t.free = append(t.free, id)
	}
}

// rejoin removes a node from everything that depends on its labels, taints or presence, calls change, and adds the node again.
func (s *State) rejoin(slot int32, change func()) {
	for _, t := range s.tallies.byKey {
		t.leave(slot)
	}
	s.countTermsOn(slot, -1)
	for _, t := range s.topologies {
		t.leave(slot)
	}
	change()
	for _, t := range s.topologies {
		t.enter(s, slot)
	}
	s.countTermsOn(slot, +1)
	for _, t := range s.tallies.byKey {
		t.enter(s, slot)
	}
}

func (s *State) countTermsOn(slot int32, sign int32) {
	if len(s.terms.byKey) == 0 {
		return
	}
	for _, p := range s.pods[slot] {
		for _, g := range p.terms {
			g.add(slot, sign)
		}
	}
}

// rejoins are the aspects that a node's place in topologies and tallies depends on.
const rejoins = model.Labels | model.Taints | model.Presence
