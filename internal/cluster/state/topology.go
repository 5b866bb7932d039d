package state

import (
	"maps"
	"slices"
)

// TopologyKey defines the domains of nodes.
type TopologyKey struct {
	// Label is the node label whose values are the domains. Empty: each node is a domain
	// of its own.
	Label string
	// AbsentIsEmpty puts nodes without the label into the domain of the empty value;
	// otherwise they are in none.
	AbsentIsEmpty bool
}

// topology holds the domain of each node under one key. Domains are small integers that
// are reused when their last node has left.
type topology struct {
	key TopologyKey
	// Invariant: each node is in the domain of its value, if it has a value; a slot
	// without a node is in none.
	of []int32 // by slot; noDomain if the node is in none, or does not exist
	// Invariant: ids has exactly the values of domains with nodes.
	ids   map[string]int32 // by label value
	value []string         // by domain
	// Invariant: nodes counts the slots in the domain; shared is the number of domains
	// with more than one slot.
	nodes  []int32 // by domain
	shared int
	// Invariant: a domain is in free, once, if and only if it has no nodes.
	free []int32
	// counts and sums are working memory by domain, kept so that adding up for a decision
	// allocates nothing.
	counts []int32
	sums   []int64
	// expansions are arrays for the lists of counts that a turn reads.
	expansions []*expansion
	moved      move
	id         uint64 // the stamp of its creation
	changed    uint64 // the stamp of the last change of a node's domain, 0 if none
	// none counts no pod in any domain; nil until it is needed.
	none *Tally
}

// domains numbers the nodes' label values, one topology for each key that is read.
//
// Pods choose the keys, and most keys of a malicious author are on no node. All of these
// share one topology, so a key that no node has takes no memory by slot.
type domains struct {
	// Invariant: topologies has each topology under its key. A key that no node carries
	// has a topology only if a node carried the key before.
	topologies map[TopologyKey]*topology
	// topologiesUsed is the number of topologies in use at the last sweep.
	topologiesUsed int
	// Invariant: absent has no node in any domain. It stands for keys without a topology.
	absent *topology
	// Invariant: everywhere are the topologies in which a node without the label is in a
	// domain.
	everywhere []*topology
	// Invariant: labelled counts the existing nodes by the keys of their labels, without
	// zeros.
	labelled map[string]int32
}

const noDomain int32 = -1

// fewTopologies is the maximum number of topologies without a sweep.
const fewTopologies = 64

// sweepTopologies removes unused topologies beyond a limit, because the specs of pods
// choose the keys. It runs between decisions, when only memberships, terms and weighed
// sums refer to topologies.
func (s *State) sweepTopologies() {
	if len(s.topologies) <= max(fewTopologies, 2*s.topologiesUsed) {
		return
	}
	used := map[*topology]bool{}
	for _, m := range s.tallies.memberships {
		used[m.topology] = true
	}
	s.terms.eachCounts(func(t *TermCounts) { used[t.topology] = true })
	for _, w := range s.weighed.byName {
		used[w.topology] = true
	}
	maps.DeleteFunc(s.topologies, func(_ TopologyKey, t *topology) bool { return !used[t] })
	s.everywhere = slices.DeleteFunc(s.everywhere, func(t *topology) bool { return !used[t] })
	s.topologiesUsed = len(s.topologies)
}

// topology returns the topology of a key, which is kept up to date from then on.
func (s *State) topology(key TopologyKey) *topology {
	if t := s.topologies[key]; t != nil {
		return t
	}
	if !key.isEverywhere() && s.labelled[key.Label] == 0 {
		return s.absent
	}
	return s.addTopology(newTopology(s, key))
}

func (s *State) addTopology(t *topology) *topology {
	s.topologies[t.key] = t
	if t.key.isEverywhere() {
		s.everywhere = append(s.everywhere, t)
	}
	return t
}

// isEverywhere reports whether a node without the label is in a domain.
func (k TopologyKey) isEverywhere() bool { return k.Label == "" || k.AbsentIsEmpty }

// Carried reports whether a node has a label with this key.
func (v View) Carried(label string) bool { return v.s.labelled[label] > 0 }

// None returns a tally without pods over the domains of a key.
func (v View) None(key TopologyKey) *Tally { return v.s.topology(key).nothing(v.s) }

// nothing returns a tally without pods over the domains.
func (t *topology) nothing(s *State) *Tally {
	if t.none == nil {
		t.none = &Tally{
			pods: &podCounts{set: PodSet{Uncounted: true}}, id: s.stamp(),
			nodes: &membership{nodes: NodeSet{Match: func(Node) bool { return false }}, topology: t},
		}
		t.none.changed = t.none.id
	}
	return t.none
}

// emptyTopology returns a topology without nodes in its domains.
func emptyTopology(s *State, key TopologyKey) *topology {
	t := &topology{key: key, ids: map[string]int32{}, of: make([]int32, len(s.alive)), id: s.stamp()}
	for slot := range t.of {
		t.of[slot] = noDomain
	}
	return t
}

// newTopology computes the domain of each node under a key.
func newTopology(s *State, key TopologyKey) *topology {
	t := emptyTopology(s, key)
	for slot := range s.alive {
		t.update(s, int32(slot))
	}
	return t
}

// Domains returns the domain of each slot under a key, -1 for none. The slice is the
// state's own and valid until the next change.
func (s *State) Domains(key TopologyKey) []int32 { return s.topology(key).of }

// Sums returns zeros by domain under a key, as working memory for a decision. They are
// the caller's until the next call for that key, or until the state changes.
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

// update recomputes the domain of a node. The node enters its new domain before a domain
// without nodes is freed, so that the two differ.
func (t *topology) update(s *State, slot int32) (changed bool) {
	from := t.of[slot]
	value, in := t.valueOf(s, slot)
	if !in && from == noDomain || in && from != noDomain && t.value[from] == value {
		return false
	}
	to := noDomain
	if in {
		to = t.domain(value)
		if t.nodes[to]++; t.nodes[to] == 2 {
			t.shared++
		}
	}
	t.of[slot] = to
	if from != noDomain {
		t.leave(from)
	}
	t.moved = move{s.moves, from, to}
	return true
}

// domain returns the domain of a value, a new one if no node has it.
func (t *topology) domain(value string) int32 {
	id, known := t.ids[value]
	if known {
		return id
	}
	if n := len(t.free); n > 0 {
		id, t.free = t.free[n-1], t.free[:n-1]
	} else {
		id = int32(len(t.value))
		t.value, t.nodes = append(t.value, ""), append(t.nodes, 0)
	}
	t.ids[value], t.value[id] = id, value
	return id
}

// valueOf returns the value of a node's domain; ok is false if the node is in none, or
// does not exist.
func (t *topology) valueOf(s *State, slot int32) (value string, ok bool) {
	switch {
	case !s.alive[slot]:
		return "", false
	case t.key.Label == "":
		return s.name[slot], true
	}
	value, ok = s.node[slot].Object.Labels[t.key.Label]
	return value, ok || t.key.AbsentIsEmpty
}

// leave removes a node from a domain.
func (t *topology) leave(id int32) {
	switch t.nodes[id]--; t.nodes[id] {
	case 0:
		delete(t.ids, t.value[id])
		t.value[id] = ""
		t.free = append(t.free, id)
	case 1:
		t.shared--
	}
}

// Layout is the distribution of nodes over the domains of a topology key.
type Layout struct {
	// ID identifies the topology and is not 0. Any other topology, even a later topology
	// of the same key, has another ID.
	ID uint64
	// Size bounds the numbers of domains: they are from 0 to Size-1.
	Size int32
	// Own means that no two nodes share a domain.
	Own bool
}

func (t *topology) layout() Layout { return Layout{t.id, int32(len(t.value)), t.shared == 0} }

// Layout returns the distribution of nodes over the domains of a key.
func (v View) Layout(key TopologyKey) Layout { return v.s.topology(key).layout() }

// Counted identifies the input of counts by domain. While it is the same, the count in a
// domain changes only with its nodes and the pods on them, and the journal lists all of
// these changes. No count has the zero value.
type Counted struct {
	tally, namespaces uint64
}

// Counted identifies the pods and nodes that the tally counts.
func (t *Tally) Counted() Counted { return Counted{tally: t.id} }

// Layout returns the distribution of nodes over the domains of the tally's key.
func (t *Tally) Layout() Layout { return t.topology().layout() }

// CountedCarriers identifies the carriers of all terms that select a pod, for one
// topology key and kind of terms. It is meant for pods in one namespace with the same
// labels. The value for other pods may be equal: see IsByPod.
func (v View) CountedCarriers() Counted { return Counted{namespaces: v.s.terms.namespaces + 1} }

// IsByPod reports whether the counts depend on the pod that they are for. Equal values
// then mean equal counts only for pods of one namespace with the same labels.
func (c Counted) IsByPod() bool { return c.tally == 0 && c.namespaces > 0 }

// Layout returns the distribution of nodes over the domains of the term's key.
func (t *TermCounts) Layout() Layout { return t.topology.layout() }

// SlotsWith appends the slots of the nodes whose label has the value, ascending; ok is
// false if more than most have it.
func (s *State) SlotsWith(label, value string, most int, to []int32) (slots []int32, ok bool) {
	t := s.topology(TopologyKey{Label: label})
	domain, known := t.ids[value]
	switch {
	case !known:
		return to, true
	case int(t.nodes[domain]) > most:
		return to, false
	}
	left := t.nodes[domain]
	for slot, of := range t.of {
		if of == domain {
			to = append(to, int32(slot))
			if left--; left == 0 {
				break
			}
		}
	}
	return to, true
}
