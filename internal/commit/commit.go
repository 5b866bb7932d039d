package commit

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/terse"
)

// Writer writes to the API. Its methods are called by many goroutines and return soon after their context ends.
type Writer interface {
	// Bind binds the pod to the node.
	Bind(ctx context.Context, pod *model.Pod, nodeName string) error
	// NodeOf returns the node that the pod is bound to, empty if to none. That there is no such pod is an error "not found", also where
	// another pod has its name.
	NodeOf(ctx context.Context, pod *model.Pod) (string, error)
	// PatchStatus sets a condition, unless it is nil, and does with the pod's nominated node what the nomination says.
	PatchStatus(ctx context.Context, pod *model.Pod, condition *v1.PodCondition, nomination plan.Nomination) error
	// Record writes an event about the pod. That a warning was taken in does not say that it has reached the API server: it may be
	// sent later.
	Record(ctx context.Context, pod *model.Pod, event report.Event) error
}

// Results takes in how bindings ended.
type Results interface {
	Bound(result model.BindingResult)
}

// Config is what a Commit needs to be built.
type Config struct {
	Writer  Writer
	Results Results
	Log     klog.Logger
	// InFlight is how many writes are sent at the same time.
	InFlight int
	// BindingsMax is how many bindings may wait before Room asks the loop to wait, EventsMax how many events before the oldest
	// are dropped.
	BindingsMax, EventsMax int
	// Timeout is how long one write may take.
	Timeout time.Duration
	// EventPause is how long statuses and events wait after one could not be delivered.
	EventPause time.Duration
	// Drain is how long Run goes on writing after its context has ended.
	Drain time.Duration
	// Observers are told how writes go.
	Observers []Observer
}

// Defaults of Config.
const (
	DefaultInFlight    = 64
	DefaultBindingsMax = 1_000
	DefaultEventsMax   = 100_000
	DefaultTimeout     = 30 * time.Second
	DefaultEventPause  = 2 * time.Second
	DefaultDrain       = 5 * time.Second
)

// Commit carries decisions out while Run runs. Its methods may be called by any goroutine.
type Commit struct {
	config Config
	log    klog.Logger   // says the same thing a few times at most
	flush  func()        // has the log say what it held back
	always chan struct{} // closed: there is room
	wake   *sync.Cond    // on mu, for workers that wait for something to do
	alarm  *time.Timer   // wakes a worker when something has waited for its time

	mu        sync.Mutex
	docket    *Docket
	room      chan struct{} // what the loop waits for; nil if it does not
	stopped   bool          // no binding is taken in any more
	abandoned bool          // what waits will not be written
}

// share is which part of the workers may write statuses and events at a time, the one that takes events first among them, so that a
// binding that comes finds a worker free although others hang.
const share = 2

// DocketFor is what the Docket of a Commit with so many writes in flight is built with.
func DocketFor(inFlight, eventsMax int, pause time.Duration, jitter func(time.Duration) time.Duration) DocketConfig {
	return DocketConfig{EventsMax: eventsMax, ReportsInFlight: max(1, (inFlight-1)/share), Pause: pause, Jitter: jitter}
}

// DefaultDocket is that of a Commit with the defaults.
func DefaultDocket(jitter func(time.Duration) time.Duration) DocketConfig {
	return DocketFor(DefaultInFlight, DefaultEventsMax, DefaultEventPause, jitter)
}

// jitter spreads the tries of writes that failed together.
const jitter = 0.1

// New builds a Commit. Nothing is written before Run.
func New(config Config) (*Commit, error) {
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"writes in flight", int64(config.InFlight)},
		{"limit of waiting bindings", int64(config.BindingsMax)},
		{"limit of waiting events", int64(config.EventsMax)},
		{"timeout of a write", int64(config.Timeout)},
		{"pause of events", int64(config.EventPause)},
		{"time to finish writes", int64(config.Drain)},
	} {
		if field.value <= 0 {
			return nil, fmt.Errorf("%s is %d: must be greater than 0", field.name, field.value)
		}
	}
	spread := func(d time.Duration) time.Duration { return wait.Jitter(d, jitter) }
	docket, err := NewDocket(DocketFor(config.InFlight, config.EventsMax, config.EventPause, spread))
	if err != nil {
		return nil, err
	}
	c := &Commit{config: config, always: make(chan struct{}), docket: docket}
	c.log, c.flush = terse.Logger(config.Log)
	close(c.always)
	c.wake = sync.NewCond(&c.mu)
	c.alarm = time.AfterFunc(time.Hour, c.ring)
	c.alarm.Stop()
	return c, nil
}

// ring wakes a worker. It takes the lock, so that it cannot come between a worker's look at the docket and its going to sleep.
func (c *Commit) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake.Signal()
}

// Start carries a decision out as soon as it can. It does not wait.
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
	c.mu.Lock()
	var settled []*Settled
	if !c.abandoned || decision.Outcome == plan.Placed {
		settled = c.docket.Start(&decision)
		c.wake.Signal()
	}
	c.mu.Unlock()
	for _, s := range settled {
		c.settle(s)
	}
}

// Room is closed when fewer bindings wait than may. What it returned before is closed when that becomes so.
func (c *Commit) Room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.docket.Waiting() < c.config.BindingsMax {
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
	return c.docket.Stats()
}

// Run writes until the context ends. Bindings that wait then are answered with the reason; for a short time more, writes in flight
// may finish and statuses and events that wait are written. When Run returns, nothing is in flight and every binding is answered.
func (c *Commit) Run(ctx context.Context) {
	writing, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var workers sync.WaitGroup
	for i := range c.config.InFlight {
		workers.Go(func() { c.work(writing, EventsFirst(i, c.config.InFlight)) })
	}
	<-ctx.Done()
	c.stop(context.Cause(ctx))
	deadline := time.AfterFunc(c.config.Drain, func() {
		c.giveUp()
		cancel(context.Cause(ctx))
	})
	defer deadline.Stop()
	workers.Wait()
	c.alarm.Stop()
	c.flush()
}

// stop lets nothing more in and answers the bindings that waited.
func (c *Commit) stop(reason error) {
	c.mu.Lock()
	c.stopped = true
	waiting := c.docket.Stop(reason)
	c.makeRoom()
	c.wake.Broadcast()
	c.mu.Unlock()
	for _, s := range waiting {
		c.settle(s)
	}
}

// giveUp leaves unwritten what still waits.
func (c *Commit) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = true
	c.docket.abandon()
	c.wake.Broadcast()
}

// makeRoom lets the loop go on if it waits and need not. The caller holds mu.
func (c *Commit) makeRoom() {
	if c.room != nil && c.docket.Waiting() < c.config.BindingsMax {
		close(c.room)
		c.room = nil
	}
}
