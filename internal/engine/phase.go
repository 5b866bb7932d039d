package engine

// Phase is a part of a decision, named after the extension points that it is made of.
type Phase uint8

// The phases, in order. A decision ends in any of them; nominated pods may lead back to an earlier one.
const (
	// PreFilter looks at the pod alone: which nodes are worth looking at, and what the counts of pods ask of a node.
	PreFilter Phase = iota
	// Filter finds the feasible nodes, or what each node objects to.
	Filter
	// Score finds the best of the feasible nodes.
	Score
	Phases
)

// asked counts that a plugin was asked about so many nodes.
func (e *Engine) asked(plugin int32, nodes int) {
	e.work.Asked += int64(nodes)
	e.byPlugin[plugin] += int64(nodes)
}

// EachAsked calls yield with how often each plugin of each profile was asked about a node, as a filter or as a scorer, in no particular
// order of profiles.
func (e *Engine) EachAsked(yield func(profile, plugin string, phase Phase, asked int64)) {
	for name, p := range e.profiles {
		for i, f := range p.Filters {
			yield(name, f.Name(), Filter, e.byPlugin[int(p.firstID)+i])
		}
		for i, s := range p.Scores {
			yield(name, s.Name(), Score, e.byPlugin[int(p.firstID)+len(p.Filters)+i])
		}
	}
}

// enter reports that a phase begins.
func (e *Engine) enter(p Phase) {
	if e.onPhase != nil {
		e.onPhase(p)
	}
}
