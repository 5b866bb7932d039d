package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/state"
)

// Observer is told what the loop does and what that takes. It is told on the goroutine that calls Once, which waits: it must be quick.
// What it is given is true until it returns.
type Observer interface {
	// Round is told of a round in which anything happened, when it is over.
	Round(r *Round)
	// Standing is told how things stand: whenever no pod is left to decide about, and while there are some about once a second.
	Standing(s *Standing)
}

// Round is what one round did. Durations are real time, also where the loop runs in a virtual one.
type Round struct {
	// Changes is how many changes were taken in, Delta what they meant for pods that wait, and Applying what that took, the waking of
	// pods included.
	Changes  int
	Delta    state.Delta
	Applying time.Duration
	// Decided says whether there was a pod to decide about, and Decision what was decided.
	Decided  bool
	Decision plan.Decision
	// Popping, Deciding and Settling are what it took to find the pod whose turn it is, to decide, and to assume the decision, take it
	// back to the queue and hand it to commit.
	Popping, Deciding, Settling time.Duration
	// Moves are the pods that came to wait somewhere.
	Moves []queue.Move
}

// Standing is how things stand between two rounds.
type Standing struct {
	Queue queue.Counts
	// Unschedulable counts the pods that plugins keep from being scheduled, in no particular order.
	Unschedulable []Unschedulable
	// HintsAsked is how often a plugin was asked so far whether an event may help a pod.
	HintsAsked int64
	// Nodes and Pods are what the state knows; of the pods on nodes, Assumed are not confirmed yet.
	Nodes, Pods, Assumed int
	// Work is what decisions took so far.
	Work engine.Counters
	// Columns is how many columns are kept, ColumnBytes about how many bytes they take.
	Columns, ColumnBytes int
	// Asked is how often each plugin was asked about a node so far, in no particular order of profiles.
	Asked []Asked
	// Tallies is how many tallies are kept, TallyBytes about how many bytes they take.
	Tallies, TallyBytes int
	// TalliesFound is how often a tally that was asked for was there so far.
	TalliesFound int64
	// TallyUpdates is how often a pod's coming or going was written into a tally so far, TalliesBuilt how many were built from nothing.
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

// standingEvery is how often Standing is told while there are pods to decide about.
const standingEvery = time.Second

// reporting puts together what observers are told. Without observers it does nothing and reads no clock.
type reporting struct {
	observers []Observer
	round     Round
	standing  Standing
	lap       time.Time // when the present step of the round began
	stood     time.Time // when Standing was last told
}

// begin is called before changes are applied.
func (r *reporting) begin() {
	if len(r.observers) > 0 {
		r.lap = time.Now()
	}
}

// took returns the time since the present step began, and begins the next.
func (r *reporting) took() time.Duration {
	d := time.Since(r.lap) // half as dear as asking what time it is
	r.lap = r.lap.Add(d)
	return d
}

func (r *reporting) applied(changes int, delta state.Delta) {
	if len(r.observers) > 0 {
		r.round = Round{Changes: changes, Delta: delta, Applying: r.took()}
	}
}

func (r *reporting) popped() {
	if len(r.observers) > 0 {
		r.round.Popping = r.took()
	}
}

func (r *reporting) decided(decision plan.Decision) {
	if len(r.observers) > 0 {
		r.round.Decided, r.round.Decision, r.round.Deciding = true, decision, r.took()
	}
}

// ended tells of the round, and of how things stand if it is time to.
func (r *reporting) ended(l *Loop) {
	moves := l.queue.TakeMoves() // which are kept until they are taken
	if len(r.observers) == 0 {
		return
	}
	r.round.Moves = moves
	if r.round.Decided {
		r.round.Settling = r.took()
	}
	if r.round.Decided || r.round.Changes > 0 || len(moves) > 0 {
		for _, o := range r.observers {
			o.Round(&r.round)
		}
	}
	if r.round.Decided && r.lap.Sub(r.stood) < standingEvery {
		return
	}
	r.stood = r.lap
	l.describe(&r.standing)
	for _, o := range r.observers {
		o.Standing(&r.standing)
	}
}

// describe brings what it is given, which may have been told before, up to date.
func (l *Loop) describe(s *Standing) {
	tallies, built := s.Tallies, s.TalliesBuilt
	*s = Standing{
		Queue: l.queue.Counts(), Unschedulable: s.Unschedulable[:0], HintsAsked: l.queue.HintsAsked(),
		Nodes: l.state.Nodes(), Pods: l.state.Pods(), Assumed: l.state.Assumed(),
		Work: l.engine.Counters(), Asked: s.Asked[:0],
		Columns: l.engine.Columns(), ColumnBytes: l.engine.ColumnBytes(l.state.Slots()),
		Tallies: l.state.Tallies(), TallyBytes: s.TallyBytes, TalliesFound: l.state.TalliesFound(),
	}
	l.engine.EachAsked(func(profile, plugin string, phase engine.Phase, times int64) {
		s.Asked = append(s.Asked, Asked{profile, plugin, phase, times})
	})
	l.queue.EachUnschedulable(func(profile, plugin string, pods int) {
		s.Unschedulable = append(s.Unschedulable, Unschedulable{profile, plugin, pods})
	})
	s.TallyUpdates, s.TalliesBuilt = l.state.TallyWork()
	if s.Tallies != tallies || s.TalliesBuilt != built { // what they take is added up, and else changes little
		s.TallyBytes = l.state.TallyBytes()
	}
}
