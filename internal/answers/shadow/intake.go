package shadow

import (
	"sync"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Intake is a sink of watches that keeps every version of an object, in the order of the
// watches. A binding must be judged by the objects before it. If very many versions wait,
// it keeps only the newest version of each further object, as ingest does, so its memory
// is bounded.
type Intake struct {
	in    *ingest.Ingest
	max   int
	ready chan struct{}

	mu      sync.Mutex
	changes []model.Change
}

// maxWaiting limits the versions that wait in order.
const maxWaiting = 20_000

// NewIntake returns an intake for the pods of the given scheduler names.
func NewIntake(compile map[string]ingest.Compile) *Intake {
	return &Intake{in: ingest.New(compile), max: maxWaiting, ready: make(chan struct{}, 1)}
}

// Set adds a version of an object.
func (t *Intake) Set(object kinds.Object) { t.take(func() { t.in.Set(object) }) }

// Remove adds the deletion of an object.
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

// Drain returns the changes since the last call.
func (t *Intake) Drain() []model.Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	changes := append(t.changes, t.in.Drain()...)
	t.changes = nil
	return changes
}

// Ready receives a value when changes may be waiting.
func (t *Intake) Ready() <-chan struct{} { return t.ready }
