package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/kit/quietlog"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Writer writes to the API. Many goroutines call its methods at the same time. Each
// method returns soon after its context ends.
type Writer interface {
	// Bind stores the binding of a pod to its node.
	Bind(ctx context.Context, binding *v1.Binding) error
	// NodeOf returns the node that the pod is bound to, empty if the pod is not bound.
	// The error is "not found" if the pod does not exist or another pod has its name.
	NodeOf(ctx context.Context, pod *model.Pod) (string, error)
	// PatchStatus sets a condition, if not nil, and applies the nomination to the pod's
	// nominated node.
	PatchStatus(ctx context.Context, pod *model.Pod, condition *v1.PodCondition, nomination plan.Nomination) error
	// Delete deletes a pod, which may take its grace period to terminate. The error is
	// "not found" if the pod does not exist, and "conflict" if another pod has its name.
	Delete(ctx context.Context, pod *model.Pod) error
	// Write patches or deletes an object. If the write sets Learn, Write returns the
	// stored object in the form that the scheduler keeps.
	Write(ctx context.Context, write *plan.Write) (kinds.Object, error)
	// Get returns the object of a write in the form that the scheduler keeps. The error
	// is "not found" if it does not exist.
	Get(ctx context.Context, write *plan.Write) (kinds.Object, error)
	// Record creates an event, with its series if the event has repeated. The error is
	// "already exists" if the event exists.
	Record(ctx context.Context, event *report.Series) error
	// Repeat writes the count of a repeated event and the time of the last repetition.
	// The error is "not found" if the event does not exist.
	Repeat(ctx context.Context, event *report.Series) error
}

// Results receives the results of bindings, preemptions and writes of decisions, and
// objects that the API server returned meanwhile.
type Results interface {
	// Learned delivers an object as of the API server's answer: the watch may already
	// have shown a newer version.
	Learned(object kinds.Object)
	Bound(result model.BindingResult)
	Preempted(result model.PreemptionResult)
	Written(result model.WriteResult)
}

// Config configures a Commit.
type Config struct {
	Writer Writer
	// Binder returns the Bind plugin of a scheduler name.
	Binder  func(schedulerName string) *plugin.Bind
	Results Results
	Log     klog.Logger
	// InFlight is the number of writes sent at the same time.
	InFlight int
	// ReportsPerSecond is the maximum rate of statuses and events.
	ReportsPerSecond int
	// MaxBindings is the number of queued bindings, evictions and writes of decisions
	// from which Room blocks the loop. MaxReports limits queued statuses, normal events
	// and warnings, each; beyond it the oldest are dropped. MaxSeries limits the event
	// series kept for counting repetitions.
	MaxBindings, MaxReports, MaxSeries int
	// Timeout is the timeout of one write.
	Timeout time.Duration
	// EventPause is the pause of statuses and events after the API server did not answer
	// one.
	EventPause time.Duration
	// Drain is how long Run continues to write after its context has ended.
	Drain time.Duration
	// Announce writes the chosen node as the pod's nominated node if plugins wait at
	// Permit or have work at PreBind.
	Announce bool
	// Observers observe writes and bindings.
	Observers []Observer
}

// Defaults of Config.
const (
	DefaultInFlight    = 64
	DefaultMaxBindings = 1_000
	DefaultMaxReports  = 100_000
	DefaultMaxSeries   = 100_000 // about 60 MB of memory
	// DefaultReportsPerSecond lets events keep up with 1,500 bindings per second,
	// whatever else is queued. A simultaneous wave of 20,000 rejected pods gets its
	// conditions and events in half a minute.
	DefaultReportsPerSecond = 3_000
	DefaultTimeout          = 30 * time.Second
	DefaultEventPause       = 2 * time.Second
	DefaultDrain            = 5 * time.Second
)

// Commit carries decisions out while Run runs. Any goroutine may call its methods, which
// do not block.
type Commit struct {
	config  Config
	log     klog.Logger   // logs repeated messages a few times at most
	flush   func()        // logs suppressed messages
	always  chan struct{} // closed; Room returns it if bindings may be added
	wake    *sync.Cond    // on mu, for idle workers
	alarm   *time.Timer   // wakes a worker when an entry of the outbox is due
	plugins Guarded       // access of plugins to the outbox

	mu     sync.Mutex
	outbox *Outbox
	// room is closed when bindings may be added again; nil if the loop does not wait.
	room      chan struct{}
	stopped   bool // no more bindings are accepted
	abandoned bool // queued writes will not be sent
	// answering counts returned calls whose results are being delivered.
	answering int
	contexts  map[uint64]bindingContext // of bindings with calls
	calling   context.Context           // parent of the contexts; ends with the drain
	endCalls  context.CancelCauseFunc
	// dropping, by kind: a write was dropped since the queues were last empty.
	dropping [WriteKinds]bool
}

const (
	// share is the divisor for the workers that may write statuses and events at a time,
	// including the reserved worker: half. The other half stays free for bindings if
	// statuses and events hang.
	share = 2
	// shareOfOther is the divisor for the part of these that stays free for events if
	// statuses hang, and vice versa: a quarter.
	shareOfOther = 4
)

// OutboxOf returns the configuration of a Commit's Outbox.
func OutboxOf(config *Config, jitter func(time.Duration) time.Duration) OutboxConfig {
	return OutboxConfig{
		Binder: config.Binder, MaxReports: config.MaxReports, MaxSeries: config.MaxSeries, Budget: budgetOf(config.InFlight, config.ReportsPerSecond),
		Pause: config.EventPause, Announce: config.Announce, Jitter: jitter,
	}
}

// budgetOf returns the budget of statuses and events of a Commit with the given number of
// workers.
func budgetOf(workers, perSecond int) Budget {
	b := Budget{InFlight: max(1, (workers-1)/share), PerSecond: perSecond}
	all := b.InFlight
	if ReportsFirst(0, workers) {
		all++
	}
	b.EachInFlight = max(1, all-max(1, all/shareOfOther))
	return b
}

// DefaultOutbox returns the configuration of the Outbox of a Commit with default values.
func DefaultOutbox(binder func(string) *plugin.Bind, jitter func(time.Duration) time.Duration) OutboxConfig {
	return OutboxOf(&Config{
		Binder: binder, InFlight: DefaultInFlight, ReportsPerSecond: DefaultReportsPerSecond, MaxReports: DefaultMaxReports,
		MaxSeries: DefaultMaxSeries, EventPause: DefaultEventPause, Announce: true,
	}, jitter)
}

// jitter is the maximum part by which a wait is extended, so that writes that failed
// together are not retried together.
const jitter = 0.1

// New builds a Commit. It writes nothing before Run.
func New(config Config) (*Commit, error) {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"writes in flight", int64(config.InFlight)},
		{"limit of waiting bindings", int64(config.MaxBindings)},
		{"statuses and events per second", int64(config.ReportsPerSecond)},
		{"limit of waiting statuses and events", int64(config.MaxReports)},
		{"limit of events that may repeat", int64(config.MaxSeries)},
		{"timeout of a write", int64(config.Timeout)},
		{"pause of events", int64(config.EventPause)},
		{"time to finish writes", int64(config.Drain)},
	} {
		if field.value <= 0 {
			return nil, fmt.Errorf("%s is %d: must be greater than 0", field.name, field.value)
		}
	}
	spread := func(d time.Duration) time.Duration { return wait.Jitter(d, jitter) }
	outbox, err := NewOutbox(OutboxOf(&config, spread))
	if err != nil {
		return nil, err
	}
	c := &Commit{config: config, always: make(chan struct{}), outbox: outbox, contexts: map[uint64]bindingContext{}}
	c.calling, c.endCalls = context.WithCancelCause(klog.NewContext(context.Background(), config.Log))
	c.log, c.flush = quietlog.Logger(config.Log)
	close(c.always)
	c.wake = sync.NewCond(&c.mu)
	c.plugins = c.guarded()
	c.alarm = time.AfterFunc(time.Hour, c.ring)
	c.alarm.Stop()
	return c, nil
}

// ring wakes a worker. It takes the lock, so that no worker misses the signal between
// checking the outbox and sleeping.
func (c *Commit) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake.Signal()
}

// Start begins to carry out a decision. It does not wait.
func (c *Commit) Start(decision plan.Decision) {
	if log := c.config.Log.V(3); log.Enabled() {
		values := []any{"pod", decision.Pod, "attempt", decision.Attempt, "node", decision.Placement.NodeName,
			"feasibleNodes", decision.Feasible, "nodes", decision.Nodes}
		if decision.Err != nil { // klog would print null
			values = append(values, "err", decision.Err)
		}
		log.Info("Decided about pod", values...)
	}
	c.update(func(now time.Time) {
		if !c.abandoned || decision.Outcome == plan.Placed || len(decision.Evictions) > 0 {
			c.outbox.Start(now, &decision)
		}
	})
}

// Allow ends the wait of a plugin for a pod.
func (c *Commit) Allow(pod types.UID, plugin string) {
	c.update(func(now time.Time) { c.outbox.Allow(now, pod, plugin) })
}

// Reject ends the wait of a plugin for a pod with a rejection.
func (c *Commit) Reject(pod types.UID, plugin string, reason error) {
	c.update(func(now time.Time) { c.outbox.Reject(now, pod, plugin, reason) })
}

// Cancel fails a binding that has not been sent. It reports whether it could.
func (c *Commit) Cancel(pod types.UID, reason error) (canceled bool) {
	c.update(func(now time.Time) { canceled = c.outbox.Cancel(now, pod, reason) })
	return canceled
}

// update changes the outbox, wakes a worker for new requests, and delivers the results of
// the change.
func (c *Commit) update(change func(now time.Time)) {
	c.mu.Lock()
	change(time.Now())
	ended := c.take()
	c.wake.Signal()
	c.mu.Unlock()
	c.answer(ended)
}

// Room returns a channel that is closed once fewer than MaxBindings bindings, evictions
// and writes of decisions wait.
func (c *Commit) Room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outbox.Waiting() < c.config.MaxBindings {
		return c.always
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	return c.room
}

// Stats returns the counts so far.
func (c *Commit) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outbox.Stats()
}

// Audit checks the invariants of the outbox. It returns all violations in one error, nil
// if none.
func (c *Commit) Audit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.outbox.Audit(), c.auditContexts())
}

// Run writes until the context ends. Then it fails the queued bindings and preemptions
// with the reason. For at most Config.Drain it finishes the writes in flight, waits for
// calls, and writes the queued statuses and events. When Run returns, every binding and
// preemption has a result, and nothing is in flight except calls that have not returned.
func (c *Commit) Run(ctx context.Context) {
	writing, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var workers sync.WaitGroup
	for i := range c.config.InFlight {
		workers.Go(func() { c.work(writing, ReportsFirst(i, c.config.InFlight)) })
	}
	<-ctx.Done()
	c.stop(context.Cause(ctx))
	deadline := time.AfterFunc(c.config.Drain, func() {
		c.giveUp()
		cancel(context.Cause(ctx))
		c.endCalls(context.Cause(ctx))
	})
	defer deadline.Stop()
	workers.Wait()
	c.awaitAnswers()
	c.endCalls(context.Cause(ctx))
	c.alarm.Stop()
	c.flush()
}

// Unknown reports, after Run has returned, whether a write that it sent may still be
// stored. Another process that decides at once would miss that write.
func (c *Commit) Unknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outbox.Unknown()
}

// stop accepts no more bindings and settles the queued ones.
func (c *Commit) stop(reason error) {
	c.mu.Lock()
	c.stopped = true
	c.outbox.Stop(time.Now(), reason)
	ended := c.take()
	c.wake.Broadcast()
	c.mu.Unlock()
	c.answer(ended)
}

// giveUp ends the workers. Queued writes are dropped, and calls that have not returned
// are abandoned.
func (c *Commit) giveUp() {
	c.mu.Lock()
	c.abandoned = true
	c.outbox.abandon(time.Now())
	ended := c.take()
	c.answering++ // the workers end soon, and Run must not return before
	c.mu.Unlock()
	c.answer(ended)
	c.mu.Lock()
	c.answering--
	c.wake.Broadcast()
	c.mu.Unlock()
}

// makeRoom wakes the loop if it waits and bindings may be added again. The caller holds
// mu.
func (c *Commit) makeRoom() {
	if c.room != nil && c.outbox.Waiting() < c.config.MaxBindings {
		close(c.room)
		c.room = nil
	}
}
