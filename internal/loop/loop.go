package loop

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/gang"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Source returns the changes since the last call of Drain.
type Source interface {
	Drain() []model.Change
	// Asked returns the requests of out-of-tree plugins since the last call: nominations
	// and pods to activate. It must be cheap, because it is called twice for each
	// decision and nearly always returns nothing.
	Asked() (nominated []model.NominationRequest, activated []model.PodKey)
	// Ready receives a value when Drain may return changes.
	Ready() <-chan struct{}
}

// Committer carries out decisions asynchronously. Results of bindings return through the
// Source.
type Committer interface {
	Start(decision plan.Decision)
	// Allow and Reject end a plugin's wait for a pod.
	Allow(pod types.UID, plugin string)
	Reject(pod types.UID, plugin string, reason error)
	// Cancel fails a binding that has not been sent. It returns false if it was sent
	// already.
	Cancel(pod types.UID, reason error) bool
	// Room returns a channel that is closed, or receives, when the backlog can accept
	// another decision.
	Room() <-chan struct{}
}

// Recorder gets the inputs of a loop in order, and its decisions. A new loop with the
// same configuration makes the same decisions from the same inputs. Its methods run on
// the goroutine that calls Once, so they must be quick. What they get must not be
// changed.
type Recorder interface {
	// Round is called first in each round, with the times of both clocks. decides is
	// false for the rounds of Stand, which decide nothing.
	Round(now, wall time.Time, decides bool)
	// Drained is called with the changes that the source has returned, unless there are
	// none.
	Drained(changes []model.Change)
	// Decided is called after each attempt that was decided about, before it is applied.
	Decided(attempt *plan.Attempt)
	// TookOver is called when the process takes over from an earlier leader.
	TookOver(leader string, now time.Time)
}

// recordNothing is the Recorder of loops without one.
type recordNothing struct{}

func (recordNothing) Round(_, _ time.Time, _ bool) {}
func (recordNothing) Drained([]model.Change)       {}
func (recordNothing) Decided(*plan.Attempt)        {}
func (recordNothing) TookOver(string, time.Time)   {}

// Loop takes pods from the queue and decides about them.
type Loop struct {
	source Source
	state  *state.State
	queue  *queue.Queue
	engine *engine.Engine
	commit Committer
	waits  waits
	holds  roomHolds
	// searches limits the searches for victims of pod groups.
	searches gang.Searches
	hints    Hints // nil: no hints in events
	report   reporting
	record   Recorder
	pulse    *Pulse
	// budget limits the units of work of a turn in one round, if the turn can stop and
	// continue in another round; 0 means no limit.
	budget int64
	// unfinished means that the turn of the last round continues in a later round.
	unfinished bool
	// held are changes that were drained but not applied yet. began is set by the first
	// round.
	held []model.Change
	// behind means that changes are held, or that the last round took none of the source.
	behind bool
	began  bool
	asks   chan func()   // functions for Do
	asking chan struct{} // a semaphore of size 1 for Ask
	// when Ask may call the next function; owned by the holder of asking
	free time.Time
	// now is a steady clock: setting the system's clock does not change it. wall is the
	// system's clock, with its corrections. Times in API objects use wall, because other
	// processes write them by their system's clocks.
	now, wall func() time.Time
}

// Config has the parts of a loop, which owns them and the state of the queue.
type Config struct {
	Source    Source
	Queue     *queue.Queue
	Engine    *engine.Engine
	Commit    Committer
	Observers []Observer
	// Hints gives hints for FailedScheduling events. It is optional.
	Hints Hints
	// Recorder gets the inputs and the decisions. It is optional.
	Recorder Recorder
	// Pulse shows the loop's work to other goroutines. It is optional. The engine's
	// phases are entered by Config.OnPhase of the engine.
	Pulse *Pulse
}

// New builds a loop.
func New(c Config) *Loop {
	if c.Recorder == nil {
		c.Recorder = recordNothing{}
	}
	return &Loop{
		record: c.Recorder,
		source: c.Source, state: c.Queue.State(), queue: c.Queue, engine: c.Engine, commit: c.Commit, hints: c.Hints,
		waits: newWaits(), budget: turnBudget, report: newReporting(c.Observers), pulse: cmp.Or(c.Pulse, &Pulse{}),
		asks: make(chan func()), asking: make(chan struct{}, 1), now: steady(time.Now), wall: time.Now,
	}
}

// Once runs one round of the scheduler, with the same time on both clocks. It reports
// whether a pod or a group had its turn.
func (l *Loop) Once(now time.Time) bool { return l.OnceAt(now, now) }

// OnceAt runs one round of the scheduler. now is the time of the steady clock. wall is
// the time that is written into API objects and compared with theirs. Both are inputs of
// the round.
func (l *Loop) OnceAt(now, wall time.Time) bool {
	l.pulse.begin(Updating)
	l.record.Round(now, wall, true)
	l.unfinished = false
	l.search(now)
	changes := l.drain()
	l.report.begin()
	l.state.SetTimes(now, wall)
	delta := l.state.Apply(changes)
	l.endWaits(changes)
	l.queue.Wake(now, delta)
	if l.endRoomHolds(now) { // Wake has found groups with missing members
		l.queue.Wake(now, l.state.Apply(nil)) // wakes pods for the room that became free
	}
	l.takeAsked(now, nil)
	l.report.applied(len(changes), delta)
	attempt, ok := l.queue.Pop(now)
	if !ok {
		l.report.ended(l)
		return false
	}
	l.pulse.decide(attempt.First())
	l.report.popped(attempt)
	l.decide(attempt)
	if attempt.Outcome == plan.Unfinished {
		l.goOnLater(now, attempt)
		return true
	}
	l.noteGroups(attempt)
	l.record.Decided(attempt)
	l.report.decided(attempt)
	l.report.witnessed(l, attempt)
	l.advise(now, attempt)
	l.assume(now, attempt)
	l.holdRoom(now, attempt)
	l.queue.Settle(now, attempt)
	// assumed now, written later; the results return through the source
	for i := range attempt.Members {
		l.commit.Start(attempt.Members[i])
		l.wait(&attempt.Members[i])
	}
	l.report.ended(l)
	return true
}

// decide decides about the members, within the budget of a round, and charges the turn to
// its account.
func (l *Loop) decide(a *plan.Attempt) {
	meter := l.state.Meter()
	meter.Begin(l.budget)
	if a.Group == nil {
		meter.Double(min(a.Rounds/stallRounds, stallDoublings))
		a.Conclude(l.engine.Decide(l.state.View(), a.Members[0].Member))
	} else {
		l.searches.Decide(l.state, l.engine, a, l.report.placements())
	}
	bill := meter.End()
	l.report.cost(bill)
	a.Members[0].Deferral = l.queue.Charge(a, &bill)
}

// assume records the decisions in the state. The members of a group are on their nodes
// since they were decided about, each before the next.
func (l *Loop) assume(now time.Time, a *plan.Attempt) {
	for i := range a.Members {
		m := &a.Members[i]
		if a.Group == nil && m.Outcome == plan.Placed {
			l.state.Assume(m.Placement)
		}
		l.state.Evict(m.Evictions...)
		l.state.GiveBack(m.Writes...)
		// a pod does not skip its backoff for requests that plugins made during its turn
		l.takeAsked(now, m.Nominations)
	}
}

// takeAsked applies the requests of out-of-tree plugins. Nominations of the decision
// override requests.
func (l *Loop) takeAsked(now time.Time, decided []plan.Nomination) {
	if len(l.held) > 0 { // a held change may create a requested pod
		l.queue.Renominate(l.state.Nominate(decided...)...)
		return
	}
	nominated, activated := l.source.Asked()
	for _, asked := range nominated {
		pod := l.queue.Waiting(asked.Pod, asked.UID)
		if pod == nil {
			continue
		}
		n := plan.Nomination{Pod: pod, Mode: plan.Clear, ByPlugin: true}
		if asked.NodeName != "" {
			n.Mode, n.NodeName = plan.Set, asked.NodeName
		}
		l.queue.Renominate(l.state.Nominate(n)...)
	}
	l.queue.Renominate(l.state.Nominate(decided...)...)
	l.queue.Activate(now, activated)
}

// Unfinished reports whether the next round can continue work at once: changes to apply,
// pods to wake, or an unfinished turn.
func (l *Loop) Unfinished() bool { return l.queue.Unfinished() || l.unfinished || l.behind }

// Next returns when Once has work without a change. ok is false without such a time.
func (l *Loop) Next() (at time.Time, ok bool) {
	at, ok = l.queue.Next()
	if end, keeps := l.holds.next(); keeps && (!ok || end.Before(at)) {
		at, ok = end, true
	}
	if l.hints != nil {
		if on, searches := l.hints.Next(); searches && (!ok || on.Before(at)) {
			return on, true
		}
	}
	return at, ok
}

// Run runs rounds until the context ends.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	now := l.now
	for {
		l.pulse.begin(Waiting)
		select {
		case <-l.commit.Room():
		case ask := <-l.asks:
			l.answer(ask)
			continue
		case <-ctx.Done():
			return
		}
		if l.OnceAt(now(), l.wall()) || l.behind {
			continue
		}
		if at, ok := l.Next(); ok {
			timer.Reset(at.Sub(now()))
		}
		l.pulse.begin(Waiting)
		select {
		case <-l.source.Ready():
		case ask := <-l.asks:
			l.answer(ask)
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// steady returns a clock that starts at the system's time and ignores later settings of
// the system's clock. Backoffs use it, so a clock step neither ends nor extends them. It
// is based on the monotonic reading of the system's clock.
func steady(system func() time.Time) func() time.Time {
	began := system()
	return func() time.Time { return began.Round(0).Add(system().Sub(began)) }
}

// TakeOver records that this process decides from now on. An earlier leader may still
// have writes in flight. The name leader is unique to the process. TakeOver must be
// called on the goroutine that calls Run.
func (l *Loop) TakeOver(leader string) { l.TakeOverAt(leader, l.now()) }

// TakeOverAt is TakeOver at a time of the steady clock.
func (l *Loop) TakeOverAt(leader string, now time.Time) {
	l.record.TookOver(leader, now)
	l.began = false // the first decision needs all changes
	l.state.TakeOver(leader, now)
}

// State returns the state of the cluster. It may be read only between rounds, on the
// goroutine that calls Once.
func (l *Loop) State() *state.State { return l.state }

// Queue returns the waiting pods. It may be read only between rounds, on the goroutine
// that calls Once.
func (l *Loop) Queue() *queue.Queue { return l.queue }

// Engine returns the engine. It may be used only between rounds, on the goroutine that
// calls Once.
func (l *Loop) Engine() *engine.Engine { return l.engine }
