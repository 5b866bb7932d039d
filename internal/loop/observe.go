package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/gang"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Observer measures the loop. Its methods run on the goroutine that calls Once, so they
// must be quick. Their arguments are valid only during the call.
type Observer interface {
	// Round is called after a round with any activity.
	Round(r *Round)
	// Standing is called whenever no pod is ready or being woken, and about once a second
	// otherwise.
	Standing(s *Standing)
}

// Witness is an Observer that also inspects a decision before it is applied. Engine and
// state still are as during the decision, so the engine can compute its details again. A
// witness must not change them.
type Witness interface {
	Observer
	// Decided is called after each decision about a member of an attempt, before the
	// next member, and returns the Details of the decision. For a pod alone, among is 1
	// and took is the duration of the decision. For a member of a group, see
	// gang.Witness; took is 0, and the call's time counts as part of Round.Deciding.
	Decided(by Detailer, v state.View, d *plan.Decision, among int, took time.Duration) (details uint64)
}

// Detailer computes the details of a decision that was just made: the engine, or its Run
// for a member of a group.
type Detailer interface {
	Detail(v state.View, pod *model.Pod, best int) (plan.Detail, bool)
}

// Round describes one round. Durations are in real time, even if the loop runs in virtual
// time.
type Round struct {
	// Changes is the number of applied changes, and Delta their consequences for waiting
	// pods. Applying is the duration, including the waking of pods.
	Changes  int
	Delta    state.Delta
	Applying time.Duration
	// Attempt is the attempt that was decided about, nil without one.
	Attempt *plan.Attempt
	// Popping is the time to pop the attempt, and Deciding the time to decide, also of an
	// unfinished turn. Settling covers assuming the placements, updating the queue and
	// handing over to commit. Witnessing covers the witnesses, and Hints after the
	// decision.
	Popping, Deciding, Witnessing, Settling time.Duration
	// Generated counts the domain placements of a pod group, and Evaluated has those that
	// were tried.
	Generated int
	Evaluated []Evaluation
	// Turn is the first pod of the popped attempt, nil without a turn.
	Turn *model.Pod
	// Cost is the bill of the turn in this round. Unfinished means that the turn
	// continues in a later round and nothing was decided.
	Cost       price.Bill
	Unfinished bool
	// Moves are the moves of waiting pods from place to place.
	Moves []queue.Move

	loop *Loop
}

// Audit checks the invariants of the loop, as Loop.Audit does. An observer may call it
// while it is shown the round.
func (r *Round) Audit() error { return r.loop.Audit() }

// Evaluation is the attempt of a domain placement. Feasible means room for enough
// members; Took is the duration.
type Evaluation struct {
	Feasible bool
	Took     time.Duration
}

// Standing has totals of the loop and sizes of its caches, as of the end of a round.
type Standing struct {
	Queue queue.Counts
	// Accounts counts the namespaces with expensive turns lately. Yielding counts those
	// whose next pod yields now.
	Accounts, Yielding int
	// Unschedulable counts the pods by the plugin that rejects or gates them, in no
	// particular order.
	Unschedulable []Unschedulable
	// HintsAsked counts the calls of queueing hints so far.
	HintsAsked int64
	// Nodes and Pods count the objects in the state. Assumed counts the pods on nodes
	// that the API server has not confirmed.
	Nodes, Pods, Assumed int
	// Work counts the work of all decisions so far.
	Work engine.Counters
	// Columns is the number of cached columns, ColumnBytes their approximate size.
	Columns, ColumnBytes int
	// Rejections is the number of cached rejections, RejectionBytes their approximate
	// size.
	Rejections, RejectionBytes int
	// Rankings is the number of cached tables of ranked nodes, RankingBytes their
	// approximate size.
	Rankings, RankingBytes int
	// Asked counts the calls of each plugin for a node so far, in no particular order of
	// profiles.
	Asked []Asked
	// Tallies is the number of cached tallies, TallyBytes their approximate size.
	Tallies, TallyBytes int
	// TalliesFound counts the lookups so far that found an existing tally.
	TalliesFound int64
	// TallyUpdates counts the updates of tallies for pods that came or went so far.
	// TalliesBuilt counts the tallies built from nothing.
	TallyUpdates, TalliesBuilt int64
}

// Unschedulable is the number of pods of a profile that a plugin rejects or gates.
type Unschedulable struct {
	Profile, Plugin string
	Pods            int
}

// Asked is the number of calls of a plugin for a node, in the phase Filter or Score.
type Asked struct {
	Profile, Plugin string
	Phase           engine.Phase
	Times           int64
}

// standingEvery is the interval between calls of Standing while pods are ready or being
// woken.
const standingEvery = time.Second

// reporting collects the arguments of the observers. Without observers it does nothing
// and reads no clock.
type reporting struct {
	observers []Observer
	witnesses []Witness // the observers that are witnesses
	round     Round
	evaluated []Evaluation // memory of round.Evaluated
	standing  Standing
	lap       time.Time // when the present step of the round began
	stood     time.Time // when Standing was last called
}

func newReporting(observers []Observer) reporting {
	r := reporting{observers: observers}
	for _, o := range observers {
		if w, ok := o.(Witness); ok {
			r.witnesses = append(r.witnesses, w)
		}
	}
	return r
}

// begin is called before changes are applied.
func (r *reporting) begin() {
	if len(r.observers) == 0 {
		return
	}
	r.lap = time.Now()
}

// took returns the duration of the present step and begins the next one.
func (r *reporting) took() time.Duration {
	d := time.Since(r.lap) // half the cost of time.Now
	r.lap = r.lap.Add(d)
	return d
}

func (r *reporting) applied(changes int, delta state.Delta) {
	if len(r.observers) == 0 {
		return
	}
	r.round = Round{Changes: changes, Delta: delta, Applying: r.took()}
	r.evaluated = r.evaluated[:0]
}

func (r *reporting) popped(a *plan.Attempt) {
	if len(r.observers) == 0 {
		return
	}
	r.round.Turn = a.First()
	r.round.Popping = r.took()
}

// cost records the bill of the turn.
func (r *reporting) cost(bill price.Bill) {
	if len(r.observers) > 0 {
		r.round.Cost = bill
	}
}

// placements returns the observer of domain placements, nil without observers.
func (r *reporting) placements() gang.Observer {
	if len(r.observers) == 0 {
		return nil
	}
	return &evaluating{r, r.lap}
}

// evaluating measures the durations of domain placements.
type evaluating struct {
	*reporting
	began time.Time // when the present placement began
}

// Decided calls the witnesses after a decision about a member. At most one of them
// returns a number of details.
func (e *evaluating) Decided(run *engine.Run, v state.View, d *plan.Decision, among int) (details uint64) {
	for _, w := range e.witnesses {
		details = max(details, w.Decided(run, v, d, among, 0))
	}
	return details
}

// Generated records the number of domain placements.
func (e *evaluating) Generated(placements int) {
	e.round.Generated += placements
	e.began = time.Now()
}

// Evaluated records the result of a domain placement.
func (e *evaluating) Evaluated(feasible bool) {
	took := time.Since(e.began)
	e.began = e.began.Add(took)
	e.evaluated = append(e.evaluated, Evaluation{feasible, took})
	e.round.Evaluated = e.evaluated
}

// paused is called after the round of an unfinished turn.
func (r *reporting) paused() {
	if len(r.observers) > 0 {
		r.round.Deciding = r.took()
	}
}

func (r *reporting) decided(a *plan.Attempt) {
	if len(r.observers) > 0 {
		r.round.Attempt, r.round.Deciding = a, r.took()
	}
}

// witnessed calls the witnesses after a decision about a pod alone. They have already got
// the decisions about members of a group.
func (r *reporting) witnessed(l *Loop, a *plan.Attempt) {
	if len(r.witnesses) == 0 || a.Group != nil {
		return
	}
	d := &a.Members[0]
	for _, w := range r.witnesses {
		d.Details = max(d.Details, w.Decided(l.engine, l.state.View(), d, 1, r.round.Deciding))
	}
	r.round.Witnessing = r.took()
}

// advised records the duration of the work of Hints after a decision.
func (r *reporting) advised() {
	if len(r.observers) > 0 {
		r.round.Witnessing += r.took()
	}
}

// ended calls the observers after a round.
func (r *reporting) ended(l *Loop) {
	// also without observers, because the queue stores them until then
	moves := l.queue.TakeMoves()
	if len(r.observers) == 0 {
		return
	}
	r.round.Moves, r.round.loop = moves, l
	r.round.Unfinished = l.unfinished
	decided := r.round.Attempt != nil
	if decided {
		r.round.Settling = r.took()
	}
	if decided || l.unfinished || r.round.Changes > 0 || len(moves) > 0 {
		for _, o := range r.observers {
			o.Round(&r.round)
		}
	}
	if (decided || l.Unfinished()) && r.lap.Sub(r.stood) < standingEvery {
		return
	}
	r.stood = r.lap
	l.describe(&r.standing)
	for _, o := range r.observers {
		o.Standing(&r.standing)
	}
}

// describe fills in the Standing. It reuses the slices of the previous call.
func (l *Loop) describe(s *Standing) {
	tallies, built := s.Tallies, s.TalliesBuilt
	*s = Standing{
		Queue: l.queue.Counts(), Unschedulable: s.Unschedulable[:0], HintsAsked: l.queue.HintsAsked(),
		Nodes: l.state.Nodes(), Pods: l.state.Pods(), Assumed: l.state.Assumed(),
		Work: l.engine.Counters(), Asked: s.Asked[:0],
		Columns: l.engine.Columns(), ColumnBytes: l.engine.ColumnBytes(l.state.Slots()),
		Tallies: l.state.Tallies(), TallyBytes: s.TallyBytes, TalliesFound: l.state.TalliesFound(),
	}
	s.Accounts, s.Yielding = l.queue.Accounts()
	s.Rejections, s.RejectionBytes = l.engine.Rejections()
	s.Rankings, s.RankingBytes = l.engine.Rankings()
	l.engine.EachAsked(func(profile, plugin string, phase engine.Phase, times int64) {
		s.Asked = append(s.Asked, Asked{profile, plugin, phase, times})
	})
	l.queue.EachUnschedulable(func(profile, plugin string, pods int) {
		s.Unschedulable = append(s.Unschedulable, Unschedulable{profile, plugin, pods})
	})
	s.TallyUpdates, s.TalliesBuilt = l.state.TallyWork()
	// otherwise the size has hardly changed, and its computation takes time
	if s.Tallies != tallies || s.TalliesBuilt != built {
		s.TallyBytes = l.state.TallyBytes()
	}
}
