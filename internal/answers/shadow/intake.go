package shadow

import (
	"sync"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Intake is a sink of watches that keeps every version of an object, in the order in which the watches show them: a binding is to be judged by what was
// known before it. When very many versions wait it keeps, like ingest, only the newest of each further object, so that its memory is bounded.
type Intake struct {
	in    *ingest.Ingest
	max   int
	ready chan struct{}

	mu      sync.Mutex
	changes []model.Change
}

// waitingMax is how many versions wait in their order.
const waitingMax = 20_000

// NewIntake returns an intake for the pods of the given scheduler names.
func NewIntake(compile map[string]ingest.Compile) *Intake {
	return &Intake{in: ingest.New(compile), max: waitingMax, ready: make(chan struct{}, 1)}
}

// Set takes in a version of an object.
func (t *Intake) Set(object kinds.Object) { t.take(func() { t.in.Set(object) }) }

// Remove takes in that an object is gone.
func (t *Intake) Remove(ref model.Ref) { t.take(func() { t.in.Remove(ref) }) }

func (t *Intake) take(add func()) {
	t.mu.Lock()
	add()
	if len(t.changes) < t.max {
		t.changes = append(t.changes, t.in.Drain()...)
	}
	t.mu.Unlock()
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// Drain returns what came since the last call.
func (t *Intake) Drain() []model.Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	changes := append(t.changes, t.in.Drain()...)
	t.changes = nil
	return changes
}

// Ready receives a value when there may be something to drain.
func (t *Intake) Ready() <-chan struct{} { return t.ready }
