package loop

import (
	"sync/atomic"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
)

// Step is a part of the loop's work.
type Step uint32

// The steps. A loop that waits is healthy however long that takes: nothing has happened,
// or commit has no room for another decision.
const (
	Waiting Step = iota
	Updating
	Deciding
	Answering
)

// String returns the step for a log.
func (s Step) String() string {
	return [...]string{"waiting", "updating the state and waking pods", "deciding", "answering a question"}[s]
}

// Pulse shows other goroutines whether the loop makes progress. The loop's goroutine
// writes it, any goroutine reads it. It has no clock: a reader compares two beats. The
// zero value is ready.
type Pulse struct {
	turn  atomic.Uint64
	step  atomic.Uint32
	phase atomic.Uint32
	pod   atomic.Pointer[model.Pod]
}

// Beat is the loop's work at a moment.
type Beat struct {
	// Turn grows with each step that begins.
	Turn uint64
	Step Step
	// Pod is decided about in step Deciding, of a pod group its first member. Phase is
	// the last phase that the engine has begun.
	Pod   *model.Pod
	Phase engine.Phase
}

// Beat returns the present work. Its fields may belong to two successive steps: readers
// act only on beats that stay the same for many reads.
func (p *Pulse) Beat() Beat {
	b := Beat{Turn: p.turn.Load(), Step: Step(p.step.Load()), Phase: engine.Phase(p.phase.Load())}
	if b.Step == Deciding {
		b.Pod = p.pod.Load()
	}
	return b
}

// Enter notes that the engine begins a phase of a decision.
func (p *Pulse) Enter(phase engine.Phase) { p.phase.Store(uint32(phase)) }

func (p *Pulse) begin(step Step) {
	p.step.Store(uint32(step))
	p.turn.Add(1)
}

func (p *Pulse) decide(pod *model.Pod) {
	p.pod.Store(pod)
	p.Enter(engine.PreFilter)
	p.begin(Deciding)
}
