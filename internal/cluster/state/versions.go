package state

// Versions are the versions of everything that a decision can read of the state. While
// they are equal, pods with equal needs get equal verdicts on all nodes. A state filter
// must include any other input in its need.
type Versions struct {
	// Journal is the version of nodes and the pods on them.
	Journal uint64
	// Terms is the version of the affinity terms that pods on nodes carry, and of
	// namespaces, which terms select by label.
	Terms uint64
	// DefaultSelectors is the version of the objects from which the selectors of default
	// spread constraints are built.
	DefaultSelectors uint64
	// Nominations is the version of the pods nominated to nodes.
	Nominations uint64
	// Devices is the version of the devices that more than one node can use, and of their
	// allocations.
	Devices uint64
}

// stamp returns a number that is larger than all before. Each counted object keeps the
// stamp of its last change. Equal stamps mean the same, unchanged object, even if objects
// are dropped and built again.
func (s *State) stamp() uint64 {
	s.stamps++
	return s.stamps
}

// Version changes with the counts of the tally, the domains of its nodes and its node
// set. Versions of different tallies are never equal.
func (t *Tally) Version() uint64 { return max(t.changed, t.nodes.changed, t.topology().changed) }

// Version changes with the counts of the term's carriers, and the domains of nodes.
// Versions of different terms are never equal.
func (t *TermCounts) Version() uint64 { return max(t.changed, t.topology.changed) }

// Versions returns the versions of the underlying state.
func (v View) Versions() Versions {
	return Versions{v.s.Version(), v.s.terms.version, v.s.selectorSources.version, v.s.nominations.version, v.s.devices.WideVersion()}
}
