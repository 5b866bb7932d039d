package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Run decides about pods that come one after another, many of them equal, as the members of a pod group do. It makes the same decisions as Engine.Decide. That many equal pods follow has the
// nodes ranked for them at once, also where the view is restricted to some nodes, or members leave room for nominated pods: the ranking is the run's then, and ends with it. A run is valid as
// long as nothing changes in the state but that pods are assumed or taken back. One goroutine uses it.
type Run struct {
	engine *Engine
	// Tie, unless it is 0, has other nodes chosen among equally good ones than Engine.Decide chooses.
	Tie uint64
	// passing is for pods with the key, in a view with the restriction, which may be nil.
	passing     ranking
	key         rankKey
	restriction *state.Restriction
}

// NewRun returns a run.
func (e *Engine) NewRun() *Run { return &Run{engine: e} }

// Decide is Engine.Decide. following is how many pods equal to this one are to be decided about after it.
func (r *Run) Decide(v state.View, work plan.Work, following int) plan.Decision {
	return r.engine.decideBy(v, work, r, following)
}

// rankingFor returns the run's own ranking for pods with a key, in a restriction, nil for none.
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

// Equal reports whether two pods are decided about alike, except for the node that is chosen between equally good ones.
func Equal(a, b *model.Pod) bool {
	return a.SchedulerName == b.SchedulerName && a.Priority == b.Priority && a.NominatedNode == "" && b.NominatedNode == "" && slices.Equal(a.Needs, b.Needs)
}

// Kind is the same for pods that are Equal, and mostly another for others.
type Kind struct {
	priority int32
	needs    [2 * mostFilters]model.Need
}

// KindOf returns the kind of a pod, by which those that are Equal are found among many.
func KindOf(pod *model.Pod) (k Kind) {
	k.priority = pod.Priority
	copy(k.needs[:], pod.Needs)
	return k
}
