package commit

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Observer observes writes and bindings. The goroutines that write call its methods and
// wait for them, so they must be quick.
type Observer interface {
	// Sending is called when a write begins. Its requests are sent with the returned
	// context.
	Sending(ctx context.Context, w *Write) context.Context
	// Sent is called when the write has ended, with its duration and the context from
	// Sending.
	Sent(ctx context.Context, w *Write, took time.Duration, err error)
	// Settled is called when the result of a binding is known, after Sent if a request
	// was sent.
	Settled(s *Settled)
	// Preempted is called when the evictions of a preemption have ended.
	Preempted(p *Preempted)
	// Passed is called when a binding with steps has passed an extension point, or failed
	// there.
	Passed(stage *StageEnd)
	// Dropped is called when statuses or events were dropped because too many wait.
	Dropped(kind WriteKind, writes int)
}

// Write is one write to the API as observers see it. A binding is one Write with all its
// tries and reads, from the first request until it is settled. Each try of a step, an
// eviction, a write of a decision (which counts as a step), a status or an event is a
// Write, and so is each read that checks a step.
type Write struct {
	Kind WriteKind
	Pod  *model.Pod // nil for an event, which may be written long after the pod is gone
	// For an eviction, whose victim is Pod: Request is Ask, Mark or Delete. Preemptor is
	// the preemptor in the version that was decided, the first if the victim has several.
	Request   RequestKind
	Preemptor *model.Pod
	// Step is the write of a step; nil for all other kinds, for undoing, and for reads.
	Step *plan.Write
}

// WriteKind is the kind of a write.
type WriteKind uint8

// The kinds of write.
const (
	BindingWrite WriteKind = iota
	StatusWrite
	EventWrite
	StepWrite
	EvictionWrite
	// CallWrite is not a write but the call of an out-of-tree plugin, which may write.
	CallWrite
	// WriteKinds is the number of kinds.
	WriteKinds
)

// String returns the kind in one word.
func (k WriteKind) String() string {
	return [...]string{"binding", "status", "event", "step", "eviction", "call"}[k]
}

// observation is a write that was reported to the observers.
type observation struct {
	write    Write
	began    time.Time
	contexts []context.Context // by observer
}

// observed returns the location of a request's observation. While the request is in
// flight, only its sender uses it.
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
	if r.eviction != nil { // including its reads
		return EvictionWrite
	}
	return writeKinds[r.Kind]
}

// sending reports the begin of a write to the observers, once, and returns the context
// for the request.
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

// ended detaches the observation of a completed step, eviction, status or event from its
// request, because another try is another write. The caller must have exclusive access to
// the request. The observation of a binding comes with its Settled.
func (c *Commit) ended(request Request) *observation {
	if request.writeKind() == BindingWrite {
		return nil
	}
	seen := request.observed()
	o := *seen
	*seen = nil
	return o
}

// sent reports the end of a write to the observers.
func (c *Commit) sent(o *observation, err error) {
	if o == nil {
		return
	}
	took := time.Since(o.began)
	for i, observer := range c.config.Observers {
		observer.Sent(o.contexts[i], &o.write, took, err)
	}
}
