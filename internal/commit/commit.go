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

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/terse"
)

// Writer writes to the API. Its methods are called by many goroutines and return soon after their context ends.
type Writer interface {
	// Bind stores the binding of a pod to its node.
	Bind(ctx context.Context, binding *v1.Binding) error
	// NodeOf returns the node that the pod is bound to, empty if it is not bound. If there is no such pod, or another pod has its name, the
	// error is "not found".
	NodeOf(ctx context.Context, pod *model.Pod) (string, error)
	// PatchStatus sets a condition, unless it is nil, and does with the pod's nominated node what the nomination says.
	PatchStatus(ctx context.Context, pod *model.Pod, condition *v1.PodCondition, nomination plan.Nomination) error
	// Delete deletes a pod, which may take its grace period to go. If there is no such pod the error is "not found", and "conflict" if another pod
	// has its name.
	Delete(ctx context.Context, pod *model.Pod) error
	// Write patches or deletes an object. If the write asks to learn, it returns the object as it is stored then, as the scheduler keeps such objects.
	Write(ctx context.Context, write *plan.Write) (kinds.Object, error)
	// Get returns the object that a write is about, as the scheduler keeps such objects. If there is none the error is "not found".
	Get(ctx context.Context, write *plan.Write) (kinds.Object, error)
	// Record creates an event, with its series if it has happened more than once. If it is there already, the error is "already exists".
	Record(ctx context.Context, event *report.Series) error
	// Repeat writes how often an event has happened, which is more than once, and when last. If it is not there, the error is "not found".
	Repeat(ctx context.Context, event *report.Series) error
}

// Results receives the ends of bindings, preemptions and writes of decisions, and what
// the API server has answered meanwhile.
type Results interface {
	// Learned takes in an object as the API server has it, or had it when it answered: the watch may have shown a newer version.
	Learned(object kinds.Object)
	Bound(result model.BindingResult)
	Preempted(result model.PreemptionResult)
	Written(result model.WriteResult)
}

// Config is what a Commit needs to be built.
type Config struct {
	Writer Writer
	// Binder returns the Bind plugin of a scheduler name.
	Binder  func(schedulerName string) plugin.Bind
	Results Results
	Log     klog.Logger
	// InFlight is how many writes are sent at the same time.
	InFlight int
	// ReportsPerSecond is how many of them may be statuses and events per second.
	ReportsPerSecond int
	// BindingsMax is how many bindings, evictions and writes of decisions may wait to be sent before Room makes the loop wait. ReportsMax is how many statuses may wait, and how many
	// normal events and how many warnings, before the oldest are dropped. SeriesMax is how many events that may repeat are kept, so that
	// repetitions are counted in them.
	BindingsMax, ReportsMax, SeriesMax int
	// Timeout is how long one write may take.
	Timeout time.Duration
	// EventPause is how long statuses and events wait after the API server did not answer one.
	EventPause time.Duration
	// Drain is how long Run goes on writing after its context has ended.
	Drain time.Duration
	// Announce makes the chosen node the pod's nominated one in the API where plugins wait at Permit or have something to do at PreBind.
	Announce bool
	// Observers observe writes and bindings.
	Observers []Observer
}

// Defaults of Config.
const (
	DefaultInFlight    = 64
	DefaultBindingsMax = 1_000
	DefaultReportsMax  = 100_000
	DefaultSeriesMax   = 100_000 // some 60 MB of memory
	// DefaultReportsPerSecond lets the events about 1,500 bindings per second keep up whatever else is to be written, and a wave of 20,000
	// rejected pods beside them be reported, condition and event, in half a minute.
	DefaultReportsPerSecond = 3_000
	DefaultTimeout          = 30 * time.Second
	DefaultEventPause       = 2 * time.Second
	DefaultDrain            = 5 * time.Second
)

// Commit carries decisions out while Run runs. Its methods may be called by any goroutine and do not wait.
type Commit struct {
	config  Config
	log     klog.Logger   // logs the same thing a few times at most
	flush   func()        // logs what was held back
	always  chan struct{} // closed; Room returns it when there is room
	wake    *sync.Cond    // on mu, for workers that wait for something to do
	alarm   *time.Timer   // wakes a worker when something in the outbox is due
	plugins Guarded       // the way of plugins to the outbox

	mu        sync.Mutex
	outbox    *Outbox
	room      chan struct{}             // closed when there is room again; nil if the loop does not wait for it
	stopped   bool                      // no binding is taken in any more
	abandoned bool                      // what waits will not be written
	answering int                       // calls that have returned and are being answered
	contexts  map[uint64]bindingContext // of bindings with calls
	calling   context.Context           // from which these come; it ends with the time to finish writes
	endCalls  context.CancelCauseFunc
	dropping  [WriteKinds]bool // by kind: since everything was written, a write was dropped
}

const (
	// share is the part of the workers that may write statuses and events at a time, including the worker reserved for them: one in two. The
	// others are free for bindings although statuses and events hang.
	share = 2
	// shareOfOther is the part of these that are left for events although statuses hang, and the other way round: one in four.
	shareOfOther = 4
)

// OutboxOf is the configuration of the Outbox of a Commit.
func OutboxOf(config *Config, jitter func(time.Duration) time.Duration) OutboxConfig {
	return OutboxConfig{
		Binder: config.Binder, ReportsMax: config.ReportsMax, SeriesMax: config.SeriesMax, Budget: budgetOf(config.InFlight, config.ReportsPerSecond),
		Pause: config.EventPause, Announce: config.Announce, Jitter: jitter,
	}
}

// budgetOf is the budget of statuses and events of a Commit with so many workers.
func budgetOf(workers, perSecond int) Budget {
	b := Budget{InFlight: max(1, (workers-1)/share), PerSecond: perSecond}
	all := b.InFlight
	if ReportsFirst(0, workers) {
		all++
	}
	b.EachInFlight = max(1, all-max(1, all/shareOfOther))
	return b
}

// DefaultOutbox is the configuration of the Outbox of a Commit with the defaults.
func DefaultOutbox(binder func(string) plugin.Bind, jitter func(time.Duration) time.Duration) OutboxConfig {
	return OutboxOf(&Config{
		Binder: binder, InFlight: DefaultInFlight, ReportsPerSecond: DefaultReportsPerSecond, ReportsMax: DefaultReportsMax,
		SeriesMax: DefaultSeriesMax, EventPause: DefaultEventPause, Announce: true,
	}, jitter)
}

// jitter is how much longer a wait may be, as a part of it, so that writes that failed together are not tried again together.
const jitter = 0.1

// New builds a Commit. Nothing is written before Run.
func New(config Config) (*Commit, error) {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"writes in flight", int64(config.InFlight)},
		{"limit of waiting bindings", int64(config.BindingsMax)},
		{"statuses and events per second", int64(config.ReportsPerSecond)},
		{"limit of waiting statuses and events", int64(config.ReportsMax)},
		{"limit of events that may repeat", int64(config.SeriesMax)},
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
	c.log, c.flush = terse.Logger(config.Log)
	close(c.always)
	c.wake = sync.NewCond(&c.mu)
	c.plugins = c.guarded()
	c.alarm = time.AfterFunc(time.Hour, c.ring)
	c.alarm.Stop()
	return c, nil
}

// ring wakes a worker. It takes the lock, so that no worker misses it between looking at the outbox and going to sleep.
func (c *Commit) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake.Signal()
}

// Start has a decision carried out. It does not wait.
func (c *Commit) Start(decision plan.Decision) {
	if log := c.config.Log.V(3); log.Enabled() {
		for i := range decision.Pods {
			nodeName := ""
			if decision.Outcome == plan.Placed {
				nodeName = decision.Placements[i].NodeName
			}
			log.Info("Decided about pod", "pod", decision.Pods[i].Pod, "attempt", decision.Pods[i].Attempt, "node", nodeName,
				"feasibleNodes", decision.Feasible, "nodes", decision.Nodes, "err", decision.Err)
		}
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

// Reject ends the wait of a plugin for a pod with a "no".
func (c *Commit) Reject(pod types.UID, plugin string, reason error) {
	c.update(func(now time.Time) { c.outbox.Reject(now, pod, plugin, reason) })
}

// Cancel fails a binding that has not been sent. It reports whether it could.
func (c *Commit) Cancel(pod types.UID, reason error) (canceled bool) {
	c.update(func(now time.Time) { canceled = c.outbox.Cancel(now, pod, reason) })
	return canceled
}

// update changes the outbox, wakes a worker for what there is to send now, and answers what has ended by that.
func (c *Commit) update(change func(now time.Time)) {
	c.mu.Lock()
	change(time.Now())
	ended := c.take()
	c.wake.Signal()
	c.mu.Unlock()
	c.answer(ended)
}

// Room returns a channel that is closed when fewer bindings wait than may.
func (c *Commit) Room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outbox.Waiting() < c.config.BindingsMax {
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

// Audit checks the invariants of the outbox. It returns every violation in one error, nil if there is none.
func (c *Commit) Audit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.outbox.Audit(), c.auditContexts())
}

// Run writes until the context ends. Then it answers the bindings and preemptions that wait with the reason, and for the time Config.Drain it lets writes in
// flight finish, waits for calls to return, and writes statuses and events that wait. When Run returns, nothing is in flight but calls that have not returned, and every
// binding and preemption is answered.
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

// Unknown reports, when Run has returned, whether a write that it sent may still be
// stored: another process that decides at once would miss it.
func (c *Commit) Unknown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outbox.Unknown()
}

// stop takes in no more bindings and answers those that wait.
func (c *Commit) stop(reason error) {
	c.mu.Lock()
	c.stopped = true
	c.outbox.Stop(time.Now(), reason)
	ended := c.take()
	c.wake.Broadcast()
	c.mu.Unlock()
	c.answer(ended)
}

// giveUp ends the workers; what still waits is not written, and calls that have not returned are left alone.
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

// makeRoom wakes the loop if it waits for room and there is some. The caller holds mu.
func (c *Commit) makeRoom() {
	if c.room != nil && c.outbox.Waiting() < c.config.BindingsMax {
		close(c.room)
		c.room = nil
	}
}
