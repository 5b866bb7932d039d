package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/group"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/price"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/state"
)

// Observer measures what the loop does. Its methods are called by the goroutine that calls Once, which waits: they must be quick. Their
// arguments are valid until they return.
type Observer interface {
	// Round is called after a round in which anything happened.
	Round(r *Round)
	// Standing is called whenever no pod is left to decide about or to wake, and about once a second while there are some.
	Standing(s *Standing)
}

// Witness is an Observer that also looks at a decision about a single pod before anything comes of it: engine and state are as they were when it was made, so the engine can be asked
// what it came from. It must not change them.
type Witness interface {
	Observer
	// Decided is called after each decision about a single pod, which took so long.
	Decided(e *engine.Engine, v state.View, d *plan.Decision, took time.Duration)
	// DecidedMember is called after each decision about a member of a pod group, before the next member is decided about; see group.Witness. It returns what becomes the Details of the decision. What
	// it takes is part of Round.Deciding.
	DecidedMember(run *engine.Run, v state.View, d *plan.Decision, among int) uint64
}

// Round is what one round did. Durations are in real time, also where the loop runs in virtual time.
type Round struct {
	// Changes is how many changes were applied, Delta what they meant for pods that wait, and Applying how long that took, including the waking
	// of pods.
	Changes  int
	Delta    state.Delta
	Applying time.Duration
	// Decided says whether there was a pod to decide about, and Decisions what was decided: about that pod, or about each member of its group.
	Decided   bool
	Decisions []plan.Decision
	// Group is the decision about the group, nil for a pod without one.
	Group *plan.GroupDecision
	// Popping, Deciding and Settling are how long it took to find the pods whose turn it is; to decide; and to assume the placements, settle the
	// decision in the queue and give it to commit. Witnessing is how long witnesses looked at the decision, and advice was looked for after it.
	Popping, Deciding, Witnessing, Settling time.Duration
	// Generated is how many domain placements there were for a pod group, Evaluated those of them that were tried.
	Generated int
	Evaluated []Evaluation
	// Turn is the first pod of the popped work, nil without a turn.
	Turn *model.Pod
	// Cost is the bill of the turn in this round. Unfinished means that the turn
	// continues in a later round and nothing was decided.
	Cost       price.Bill
	Unfinished bool
	// Moves are the moves of waiting pods from place to place.
	Moves []queue.Move
}

// Evaluation is how a domain placement was tried: whether it had room for enough members, and how long that took.
type Evaluation struct {
	Feasible bool
	Took     time.Duration
}

// Standing is how things stand between two rounds.
type Standing struct {
	Queue queue.Counts
	// Accounts counts the namespaces with expensive turns lately. Yielding counts those
	// that let others go first now.
	Accounts, Yielding int
	// Unschedulable counts the pods that plugins keep from being scheduled, in no particular order.
	Unschedulable []Unschedulable
	// HintsAsked is how often a plugin was asked so far whether an event may help a pod.
	HintsAsked int64
	// Nodes and Pods are how many the state has; of the pods on nodes, Assumed are not confirmed yet.
	Nodes, Pods, Assumed int
	// Work is how much work decisions took so far.
	Work engine.Counters
	// Columns is how many columns are kept, ColumnBytes is about how many bytes they take.
	Columns, ColumnBytes int
	// Rejections is how many rejections are remembered, RejectionBytes is about how many bytes they take.
	Rejections, RejectionBytes int
	// Rankings is how many tables of ranked nodes are kept, RankingBytes is about how many bytes they take.
	Rankings, RankingBytes int
	// Asked is how often each plugin was asked about a node so far, in no particular order of profiles.
	Asked []Asked
	// Tallies is how many tallies are kept, TallyBytes is about how many bytes they take.
	Tallies, TallyBytes int
	// TalliesFound is how often a tally that was needed existed so far.
	TalliesFound int64
	// TallyUpdates is how often a tally counted a pod that came or went so far, TalliesBuilt how many tallies were built from nothing.
	TallyUpdates, TalliesBuilt int64
}

// Unschedulable is how many pods of a profile a plugin keeps from being scheduled.
type Unschedulable struct {
	Profile, Plugin string
	Pods            int
}

// Asked is how often a plugin was asked about a node, in the phase Filter or Score.
type Asked struct {
	Profile, Plugin string
	Phase           engine.Phase
	Times           int64
}

// standingEvery is how often Standing is called while there are pods to decide about or to wake.
const standingEvery = time.Second

// reporting collects what observers are called with. Without observers it does nothing and reads no clock.
type reporting struct {
	observers []Observer
	witnesses []Witness // those of observers that are
	round     Round
	kept      []plan.Decision // memory of round.Decisions
	evaluated []Evaluation    // memory of round.Evaluated
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

// took returns the time since the present step began, and begins the next.
func (r *reporting) took() time.Duration {
	d := time.Since(r.lap) // costs half as much as time.Now
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

func (r *reporting) popped(work *plan.Work) {
	if len(r.observers) == 0 {
		return
	}
	r.round.Turn = work.Pods[0].Pod
	r.round.Popping = r.took()
}

// cost records the bill of the turn.
func (r *reporting) cost(bill price.Bill) {
	if len(r.observers) > 0 {
		r.round.Cost = bill
	}
}

// placements returns what learns of domain placements, nil without observers.
func (r *reporting) placements() group.Observer {
	if len(r.observers) == 0 {
		return nil
	}
	return &evaluating{r, r.lap}
}

// evaluating measures how long domain placements take.
type evaluating struct {
	*reporting
	began time.Time // when the present one was begun
}

// Decided calls the witnesses after a decision about a member. One of them at most keeps something.
func (e *evaluating) Decided(run *engine.Run, v state.View, d *plan.Decision, among int) (details uint64) {
	for _, w := range e.witnesses {
		details = max(details, w.DecidedMember(run, v, d, among))
	}
	return details
}

// Generated notes how many there are.
func (e *evaluating) Generated(placements int) {
	e.round.Generated += placements
	e.began = time.Now()
}

// Evaluated notes how one was tried.
func (e *evaluating) Evaluated(feasible bool) {
	took := time.Since(e.began)
	e.began = e.began.Add(took)
	e.evaluated = append(e.evaluated, Evaluation{feasible, took})
	e.round.Evaluated = e.evaluated
}

func (r *reporting) decided(decisions ...plan.Decision) {
	if len(r.observers) == 0 {
		return
	}
	r.round.Decided, r.round.Decisions, r.round.Deciding = true, append(r.kept[:0], decisions...), r.took()
	r.kept = r.round.Decisions
}

// witnessed calls the witnesses after a decision about a single pod.
func (r *reporting) witnessed(l *Loop, d *plan.Decision) {
	if len(r.witnesses) == 0 {
		return
	}
	for _, w := range r.witnesses {
		w.Decided(l.engine, l.state.View(), d, r.round.Deciding)
	}
	r.round.Witnessing = r.took()
}

// advised notes how long the adviser took after a decision.
func (r *reporting) advised() {
	if len(r.observers) > 0 {
		r.round.Witnessing += r.took()
	}
}

func (r *reporting) decidedGroup(d *plan.GroupDecision) {
	if r.decided(d.Members...); len(r.observers) > 0 {
		r.round.Group = d
	}
}

// ended calls the observers after a round.
func (r *reporting) ended(l *Loop) {
	moves := l.queue.TakeMoves() // also without observers: the queue keeps them until they are taken
	if len(r.observers) == 0 {
		return
	}
	r.round.Moves = moves
	r.round.Unfinished = l.unfinished
	if r.round.Decided {
		r.round.Settling = r.took()
	}
	if r.round.Decided || l.unfinished || r.round.Changes > 0 || len(moves) > 0 {
		for _, o := range r.observers {
			o.Round(&r.round)
		}
	}
	if (r.round.Decided || l.Unfinished()) && r.lap.Sub(r.stood) < standingEvery {
		return
	}
	r.stood = r.lap
	l.describe(&r.standing)
	for _, o := range r.observers {
		o.Standing(&r.standing)
	}
}

// describe fills in how things stand. It reuses the slices of what was filled in before.
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
	if s.Tallies != tallies || s.TalliesBuilt != built { // otherwise their size has hardly changed, and adding it up costs time
		s.TallyBytes = l.state.TallyBytes()
	}
}
