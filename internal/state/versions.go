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
}

// Versions returns the versions of the underlying state.
func (v View) Versions() Versions {
	return Versions{v.s.Version(), v.s.terms.version, v.s.selectorSources.version, v.s.nominations.version}
}
