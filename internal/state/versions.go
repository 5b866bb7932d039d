package state

// Versions say how far everything has changed that a decision can read of the state: pods with equal needs get equal verdicts on all nodes while
// they are equal. What a StateFilter reads besides, it makes part of its need.
type Versions struct {
	// Journal is of nodes, and of the pods on them.
	Journal uint64
	// Terms is of the affinity terms that pods on nodes carry, and of namespaces, which terms select by label.
	Terms uint64
	// DefaultSelectors is of the objects that the selectors of default spread constraints are built from.
	DefaultSelectors uint64
	// Nominations is of the pods that are nominated to nodes.
	Nominations uint64
	// Devices is of the devices that more than one node can use, and of what is allocated of them.
	Devices uint64
}

// stamp returns a number that is larger than all before. Whatever is counted keeps that of its last change: two equal stamps are of one object that has
// not changed in between, also if objects are dropped and built again.
func (s *State) stamp() uint64 {
	s.stamps++
	return s.stamps
}

// Version changes with the counts of the tally, the domains of its nodes and those that count. No other tally ever has the same.
func (t *Tally) Version() uint64 { return max(t.changed, t.nodes.changed, t.topology().changed) }

// Version changes with the counts of the term's carriers, and the domains of nodes. No other term ever has the same.
func (t *TermCounts) Version() uint64 { return max(t.changed, t.topology.changed) }

// Versions returns the versions of the underlying state.
func (v View) Versions() Versions {
	return Versions{v.s.Version(), v.s.terms.version, v.s.selectorSources.version, v.s.nominations.version, v.s.devices.WideVersion()}
}
