package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Run decides about a series of pods, many of them equal, such as the members of a pod
// group. Its decisions equal those of Engine.Decide.
//
// Because many equal pods follow, the nodes are ranked once for all of them. This works
// even in a restricted view, or if members leave space for nominated pods. The ranking
// then belongs to the run and ends with it.
//
// A run stays valid only while pods are assumed and unassumed; any other change of the
// state ends it. It is not safe for concurrent use.
type Run struct {
	engine *Engine
	// Tie, if not 0, is mixed into the tie-break, so that a pass picks different nodes
	// among equals.
	Tie uint64
	// passing is the run's own ranking, for pods with the key under the restriction,
	// which may be nil.
	passing     ranking
	key         rankKey
	restriction *state.Restriction
}

// NewRun returns a run.
func (e *Engine) NewRun() *Run { return &Run{engine: e} }

// Decide is Engine.Decide. following is the number of equal pods still to be decided.
func (r *Run) Decide(v state.View, m plan.Member, following int) plan.Decision {
	return r.engine.decideBy(v, m, r, following)
}

// rankingFor returns the run's own ranking for a key and a restriction, which may be nil.
func (r *Run) rankingFor(key *rankKey, restriction *state.Restriction) *ranking {
	if r.restriction != restriction || r.key != *key {
		price := r.passing.price
		if r.passing.table != nil {
			r.passing.drop()
			price = r.passing.price
		}
		r.key, r.restriction, r.passing = *key, restriction, ranking{price: price}
	}
	return &r.passing
}

// Equal reports whether two pods get the same decisions, except for the choice among
// equally good nodes.
func Equal(a, b *model.Pod) bool {
	return a.SchedulerName == b.SchedulerName && a.Priority == b.Priority && a.NominatedNode == "" && b.NominatedNode == "" && slices.Equal(a.Needs, b.Needs)
}

// Kind is a comparable key: pods that are Equal have the same Kind, most others differ.
type Kind struct {
	priority int32
	needs    [2 * maxFilters]model.Need
}

// KindOf returns the kind of a pod, to find equal pods among many.
func KindOf(pod *model.Pod) (k Kind) {
	k.priority = pod.Priority
	copy(k.needs[:], pod.Needs)
	return k
}
