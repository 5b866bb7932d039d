package commit

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// Observer is told how writes go, by the goroutines that write.
type Observer interface {
	// Sending is told that a write begins. Its requests are sent with the context that it returns.
	Sending(ctx context.Context, w *Write) context.Context
	// Sent is told how the write ended and how long it took, with the context that Sending returned.
	Sent(ctx context.Context, w *Write, took time.Duration, err error)
}

// Write is one write to the API: a binding with all its tries and questions, from the first request until it is settled, or one try at a
// status or an event.
type Write struct {
	Kind WriteKind
	Pod  *model.Pod
	// Placement is what a binding carries out; nil for other kinds.
	Placement *plan.Placement
}

// WriteKind is what is written.
type WriteKind uint8

// The kinds of write.
const (
	BindingWrite WriteKind = iota
	StatusWrite
	EventWrite
)

// String returns the kind in one word.
func (k WriteKind) String() string { return [...]string{"binding", "status", "event"}[k] }

// observation is a write that observers have been told of.
type observation struct {
	write    Write
	began    time.Time
	contexts []context.Context // by observer
}

// observed returns where the observation of a job is kept. Nobody else has the job while it is in flight.
func (j *Job) observed() **observation {
	switch j.Errand {
	case Patch:
		return &j.status.seen
	case Record:
		return &j.event.seen
	}
	return &j.binding.seen
}

// sending tells observers that a write begins, unless it has begun already, and returns the context to send the request with.
func (c *Commit) sending(ctx context.Context, job Job) context.Context {
	if len(c.config.Observers) == 0 {
		return ctx
	}
	seen := job.observed()
	if *seen == nil {
		o := &observation{write: Write{Kind: StatusWrite, Pod: job.Pod}, began: time.Now()}
		switch job.Errand {
		case Bind, Ask:
			o.write.Kind, o.write.Placement = BindingWrite, &job.binding.placement
		case Record:
			o.write.Kind = EventWrite
		}
		for _, observer := range c.config.Observers {
			ctx = observer.Sending(ctx, &o.write)
			o.contexts = append(o.contexts, ctx)
		}
		*seen = o
	}
	return (*seen).contexts[len((*seen).contexts)-1]
}

// ended takes the observation of a status or an event that is over off its job: another try is another write. It must be called while
// nobody else can have the job. That of a binding comes with its Settled.
func (c *Commit) ended(job Job) *observation {
	if job.Errand == Bind || job.Errand == Ask {
		return nil
	}
	seen := job.observed()
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
