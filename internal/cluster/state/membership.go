package state

import "github.com/berth-scheduler/berth/internal/model"

// membership is the nodes of a node set by the domains of a topology key. All tallies
// over these nodes and domains share it, so that a change of a node is matched once for
// all of them.
type membership struct {
	nodes NodeSet
	// chosen are the nodes of the set, which memberships of other keys share; nil for
	// every node.
	chosen   *chosenNodes
	topology *topology
	// Invariant: in is the domain of each node of the node set.
	// by slot: the domain in which the node's pods count, noDomain if they do not count
	in []int32
	// Invariant: members counts the nodes by their domain, present the domains with
	// members.
	members []int32 // by domain
	present int32
	tallies int // number of tallies that use it
	moved   move
	changed uint64 // the stamp of its last change, 0 if none
}

type membershipKey struct {
	nodes    string
	topology TopologyKey
}

func (m *membership) key() membershipKey { return membershipKey{m.nodes.Text, m.topology.key} }

// membership returns the nodes of a set by the domains of a key, which are kept up to
// date from then on.
func (s *State) membership(nodes NodeSet, key TopologyKey) *membership {
	name := membershipKey{nodes.Text, key}
	m := s.tallies.memberships[name]
	if m != nil {
		return m
	}
	m = &membership{nodes: nodes, chosen: s.choose(nodes), topology: s.topology(key), in: make([]int32, s.Slots())}
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
		s.unchoose(m.chosen)
	}
}

// chosenNodes are the nodes of a node set, by slot. A pod's constraints have one node set
// and many topology keys, so each node is matched once for all keys.
type chosenNodes struct {
	nodes NodeSet
	// Invariant: has is true for the slots of nodes of the set.
	has []bool
	// Invariant: memberships counts the memberships that use it, at least one.
	memberships int
}

func (c *chosenNodes) bytes() int { return membershipBytes + len(c.nodes.Text) + cap(c.has) }

// choose returns the nodes of a set, nil for every node.
func (s *State) choose(nodes NodeSet) *chosenNodes {
	if nodes.Match == nil {
		return nil
	}
	c := s.tallies.chosen[nodes.Text]
	if c == nil {
		c = &chosenNodes{nodes: nodes, has: make([]bool, s.Slots())}
		for slot := range c.has {
			c.has[slot] = s.alive[slot] && nodes.Match(s.Node(int32(slot)))
		}
		s.tallies.matched += int64(len(c.has))
		s.tallies.chosen[nodes.Text] = c
		s.tallies.bytes += c.bytes()
	}
	c.memberships++
	return c
}

func (s *State) unchoose(c *chosenNodes) {
	if c == nil {
		return
	}
	if c.memberships--; c.memberships == 0 {
		delete(s.tallies.chosen, c.nodes.Text)
		s.tallies.bytes -= c.bytes()
	}
}

// update recomputes the domain of a node.
func (m *membership) update(s *State, slot int32) (changed bool) {
	from, to := m.in[slot], m.topology.of[slot]
	if to != noDomain && m.chosen != nil && !m.chosen.has[slot] {
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

// membershipBytes is the approximate memory of a membership besides its arrays.
const membershipBytes = 1 << 9

func (m *membership) bytes() int { return membershipBytes + 4*(cap(m.in)+cap(m.members)) }

// move is the domains that a node left and entered.
type move struct {
	number   uint64 // number of the node's change
	from, to int32
}

// rejoin calls change, which changes a node's labels, taints or presence, and moves the
// node's pods to other domains if necessary. It compares the node's labels before and
// after, checks each membership, and visits the node's pods if any domain changed.
func (s *State) rejoin(slot int32, change func()) {
	before := s.labelsOf(slot)
	change()
	if !s.findDomains(slot, before) {
		return
	}
	for _, p := range s.pods[slot] {
		s.movePod(p)
	}
	s.moved = s.moved[:0]
}

// labelsOf returns the labels of the node in a slot, nil if it does not exist.
func (s *State) labelsOf(slot int32) map[string]string {
	if !s.alive[slot] {
		return nil
	}
	return s.node[slot].Object.Labels
}

// findDomains recomputes the domains of a node whose labels were before. It does not
// change the counts.
func (s *State) findDomains(slot int32, before map[string]string) (changed bool) {
	s.moves++
	s.turn.changes++
	s.moved = s.moved[:0]
	after := s.labelsOf(slot)
	for label, value := range before {
		if now, has := after[label]; !has || now != value {
			s.relabel(slot, label)
			if !has {
				if s.labelled[label]--; s.labelled[label] == 0 {
					delete(s.labelled, label)
				}
			}
		}
	}
	for label := range after {
		if _, had := before[label]; !had {
			if s.labelled[label] == 0 {
				s.appear(label)
			}
			s.labelled[label]++
			s.relabel(slot, label)
		}
	}
	for _, t := range s.everywhere {
		s.refind(t, slot)
	}
	changed = len(s.moved) > 0
	for _, c := range s.tallies.chosen {
		c.has[slot] = s.alive[slot] && c.nodes.Match(s.Node(slot))
	}
	s.tallies.matched += int64(len(s.tallies.chosen))
	for _, m := range s.tallies.memberships {
		before := m.bytes()
		if m.update(s, slot) {
			m.changed, changed = s.stamp(), true
		}
		s.tallies.bytes += m.bytes() - before
	}
	return changed
}

// relabel recomputes the domain of a node after a label has changed.
func (s *State) relabel(slot int32, label string) {
	if t := s.topologies[TopologyKey{Label: label}]; t != nil && label != "" {
		s.refind(t, slot)
	}
}

func (s *State) refind(t *topology, slot int32) {
	s.refound++
	if t.update(s, slot) {
		t.changed = s.stamp()
		s.moved = append(s.moved, t)
	}
}

// movePod moves a pod to the domains that its node entered by the last move.
func (s *State) movePod(p *placed) {
	for _, t := range p.terms {
		if m := t.topology.moved; m.number == s.moves {
			t.move(m)
		}
	}
	if p.list != nil {
		for _, key := range s.moved {
			if t := p.list.byLabel[key.key.Label]; t != nil && t.topology == key {
				t.move(key.moved)
			}
		}
	}
	for _, w := range p.like.weighed {
		if m := w.topology.moved; m.number == s.moves {
			s.weighIn(&w, m.from, -1)
			s.weighIn(&w, m.to, +1)
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

// rejoins are the aspects that determine a node's place in topologies and memberships.
const rejoins = model.Labels | model.Taints | model.Presence
