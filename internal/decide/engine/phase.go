package engine

// Phase is a part of a decision, named after its extension points.
type Phase uint8

// The phases, in order. A decision may end in any of them. With nominated pods an earlier
// phase may follow a later one.
const (
	// PreFilter is the work that does not depend on a node: narrowing the nodes, and
	// finding the counts of pods.
	PreFilter Phase = iota
	// Filter finds the feasible nodes, or the objections to each node.
	Filter
	// Score finds the best of the feasible nodes.
	Score
	// PostFilter runs if no node is feasible, mostly to find victims.
	PostFilter
	Phases
)

// EachAsked calls yield with the number of nodes that each plugin of each profile was
// called for, as a filter or as a scorer. The order of profiles is unspecified.
func (e *Engine) EachAsked(yield func(profile, plugin string, phase Phase, asked int64)) {
	for name, p := range e.profiles {
		for i, f := range p.Filters {
			yield(name, f.Name, Filter, e.byPlugin[int(p.first)+i])
		}
		for i, s := range p.Scores {
			yield(name, s.Name, Score, e.byPlugin[int(p.first)+len(p.Filters)+i])
		}
	}
}

// enter reports that a phase begins.
func (e *Engine) enter(p Phase) {
	if e.onPhase != nil {
		e.onPhase(p)
	}
}
