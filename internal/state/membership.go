package state

import "github.com/berth-scheduler/berth/internal/model"

// membership is the nodes of a node set by the domains of a topology key: what all tallies over these nodes and domains share, so that a node's
// change is matched once for them all.
type membership struct {
	nodes    NodeSet
	topology *topology
	// Invariant: in is the domain of each node of the node set.
	in []int32 // by slot: the domain in which the node's pods are counted, noDomain if they are not
	// Invariant: members counts the nodes by the domain that they are in, present the domains with members.
	members []int32 // by domain
	present int32
	tallies int // that use it
	moved   move
	changed uint64 // the stamp of its last change, 0 if there was none
}

type membershipKey struct {
	nodes    string
	topology TopologyKey
}

func (m *membership) key() membershipKey { return membershipKey{m.nodes.Text, m.topology.key} }

// membership returns the nodes of a set by the domains of a key, which are updated from then on.
func (s *State) membership(nodes NodeSet, key TopologyKey) *membership {
	name := membershipKey{nodes.Text, key}
	m := s.tallies.memberships[name]
	if m != nil {
		return m
	}
	m = &membership{nodes: nodes, topology: s.topology(key), in: make([]int32, s.Slots())}
	for slot := range m.in {
		m.in[slot] = noDomain
		m.update(s, int32(slot))
	}
	s.tallies.memberships[name] = m
	s.tallies.bytes += m.bytes()
	return m
}

// forgetMembership drops the membership when no tally uses it any more.
func (s *State) forgetMembership(m *membership) {
	if m.tallies--; m.tallies == 0 {
		delete(s.tallies.memberships, m.key())
		s.tallies.bytes -= m.bytes()
	}
}

// update finds the domain of a node again.
func (m *membership) update(s *State, slot int32) (changed bool) {
	from, to := m.in[slot], m.topology.of[slot]
	if to != noDomain && m.nodes.Match != nil && !m.nodes.Match(s.Node(slot)) {
		to = noDomain
	}
	if from == to {
		return false
	}
	m.in[slot] = to
	if missing := len(m.topology.value) - len(m.members); missing > 0 {
		m.members = append(m.members, make([]int32, missing)...)
	}
	if to != noDomain {
		if m.members[to]++; m.members[to] == 1 {
			m.present++
		}
	}
	if from != noDomain {
		if m.members[from]--; m.members[from] == 0 {
			m.present--
		}
	}
	m.moved = move{s.moves, from, to}
	return true
}

// has reports whether a domain has members.
func (m *membership) has(domain int32) bool {
	return int(domain) < len(m.members) && m.members[domain] > 0
}

// membershipBytes is about what a membership uses besides its arrays.
const membershipBytes = 1 << 9

func (m *membership) bytes() int { return membershipBytes + 4*(cap(m.in)+cap(m.members)) }

// move is the domains that a node left and entered.
type move struct {
	number   uint64 // of the change of the node
	from, to int32
}

// rejoin calls change, which changes a node's labels, taints or presence, and moves the node's pods to other domains where that is necessary. It
// costs a look at each topology and membership, and at the node's pods if any of these changed.
func (s *State) rejoin(slot int32, change func()) {
	change()
	if !s.findDomains(slot) {
		return
	}
	for _, p := range s.pods[slot] {
		s.movePod(p)
	}
}

// findDomains finds the domains of a node again. It does not change what is counted there.
func (s *State) findDomains(slot int32) (changed bool) {
	s.moves++
	s.turn.changes++
	for _, t := range s.topologies {
		if t.update(s, slot) {
			t.changed, changed = s.stamp(), true
		}
	}
	for _, m := range s.tallies.memberships {
		before := m.bytes()
		if m.update(s, slot) {
			m.changed, changed = s.stamp(), true
		}
		s.tallies.bytes += m.bytes() - before
	}
	return changed
}

// movePod moves a pod to the domains that its node entered by the last move.
func (s *State) movePod(p *placed) {
	for _, t := range p.terms {
		if m := t.topology.moved; m.number == s.moves {
			t.counts.add(m.from, -1, len(t.topology.value))
			t.counts.add(m.to, +1, len(t.topology.value)) // the topology has a newer version already
		}
	}
	for _, set := range p.like.sets {
		if !set.counts(p.pod) {
			continue
		}
		for _, t := range set.tallies {
			if m := t.nodes.moved; m.number == s.moves {
				s.tallies.updates++
				s.add(t, m.from, -1)
				s.add(t, m.to, +1)
			}
		}
	}
}

// rejoins are the aspects that a node's place in topologies and memberships depends on.
const rejoins = model.Labels | model.Taints | model.Presence
