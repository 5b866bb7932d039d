package commit

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// Observer observes writes and bindings. Its methods are called by the goroutines that write, which wait: they must be quick.
type Observer interface {
	// Sending is called when a write begins. Its requests are sent with the context that it returns.
	Sending(ctx context.Context, w *Write) context.Context
	// Sent is called when the write has ended, with how long it took and the context that Sending returned.
	Sent(ctx context.Context, w *Write, took time.Duration, err error)
	// Settled is called when the end of a binding is known, after Sent if anything was sent for it.
	Settled(s *Settled)
	// Preempted is called when the evictions of a preemption have ended.
	Preempted(p *Preempted)
	// Passed is called when a binding with steps has passed an extension point, or failed at it.
	Passed(stage *StageEnd)
	// Dropped is called when so many statuses or events were dropped, because too many wait.
	Dropped(kind WriteKind, writes int)
}

// Write is one write to the API: a binding with all its tries and questions, from the first request until it is settled, or one try at a
// step, an eviction, a write of a decision (which counts as a step), a status or an event, or one question what became of a step.
type Write struct {
	Kind WriteKind
	Pod  *model.Pod // nil of an event, which may be written long after the pod is gone
	// Of an eviction, whose victim is the pod: Request is what is sent, Ask, Mark or Delete, and Preemptor the pod that it is for, in the version that was
	// decided about; of several, the first.
	Request   RequestKind
	Preemptor *model.Pod
	// Step is what a step writes; nil for all other kinds, when it is undone, and when it is asked what became of it.
	Step *plan.Write
}

// WriteKind is what is written.
type WriteKind uint8

// The kinds of write.
const (
	BindingWrite WriteKind = iota
	StatusWrite
	EventWrite
	StepWrite
	EvictionWrite
	// CallWrite is no write but a call of a plugin from outside, which may write.
	CallWrite
	// WriteKinds is how many there are.
	WriteKinds
)

// String returns the kind in one word.
func (k WriteKind) String() string {
	return [...]string{"binding", "status", "event", "step", "eviction", "call"}[k]
}

// observation is a write that observers know of.
type observation struct {
	write    Write
	began    time.Time
	contexts []context.Context // by observer
}

// observed returns where the observation of a request is kept. Nobody else has the request while it is in flight.
func (r *Request) observed() **observation {
	switch r.writeKind() {
	case StatusWrite:
		return &r.status.seen
	case EventWrite:
		return &r.event.seen
	case EvictionWrite:
		return &r.eviction.seen
	case StepWrite, CallWrite:
		if r.effect != nil {
			return &r.effect.seen
		}
		return &r.binding.steps.seen
	}
	return &r.binding.seen
}

var writeKinds = [...]WriteKind{Bind: BindingWrite, Ask: BindingWrite, WriteStep: StepWrite, UndoStep: StepWrite, RunCall: CallWrite, UndoCall: CallWrite, Mark: EvictionWrite, Delete: EvictionWrite, Patch: StatusWrite, Record: EventWrite, Repeat: EventWrite, Read: StepWrite}

func (r *Request) writeKind() WriteKind {
	if r.eviction != nil { // its questions too
		return EvictionWrite
	}
	return writeKinds[r.Kind]
}

// sending tells observers that a write begins, unless it has begun already, and returns the context to send the request with.
func (c *Commit) sending(ctx context.Context, request Request) context.Context {
	if len(c.config.Observers) == 0 {
		return ctx
	}
	seen := request.observed()
	if *seen == nil {
		o := &observation{write: Write{Kind: request.writeKind(), Pod: request.Pod}, began: time.Now()}
		if request.Kind == WriteStep {
			o.write.Step = request.Write
		}
		if request.eviction != nil {
			o.write.Request, o.write.Preemptor = request.Kind, request.Preemptor
		}
		for _, observer := range c.config.Observers {
			ctx = observer.Sending(ctx, &o.write)
			o.contexts = append(o.contexts, ctx)
		}
		*seen = o
	}
	return (*seen).contexts[len((*seen).contexts)-1]
}

// ended takes the observation of a step, an eviction, a status or an event that is over off its request: another try is another write. It must be called
// while nobody else can have the request. That of a binding comes with its Settled.
func (c *Commit) ended(request Request) *observation {
	if request.writeKind() == BindingWrite {
		return nil
	}
	seen := request.observed()
	o := *seen
	*seen = nil
	return o
}

// sent tells observers how a write ended.
func (c *Commit) sent(o *observation, err error) {
	if o == nil {
		return
	}
	took := time.Since(o.began)
	for i, observer := range c.config.Observers {
		observer.Sent(o.contexts[i], &o.write, took, err)
	}
}
