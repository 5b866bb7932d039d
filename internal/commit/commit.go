package commit

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// Writer writes to the API. Its methods are called by many goroutines and return soon after their context ends.
type Writer interface {
	// Bind binds the pod to the node.
	Bind(ctx context.Context, pod *model.Pod, nodeName string) error
	// NodeOf returns the node that the pod is bound to, empty if to none.
	NodeOf(ctx context.Context, pod *model.Pod) (string, error)
	// PatchStatus sets a condition, unless it is nil, and takes the pod's nomination back if told to.
	PatchStatus(ctx context.Context, pod *model.Pod, condition *v1.PodCondition, clearNomination bool) error
	// Record writes an event about the pod.
	Record(ctx context.Context, pod *model.Pod, event explain.Event) error
}

// Outcomes takes in how bindings ended.
type Outcomes interface {
	Bound(outcome model.Outcome)
}

// Config is what a Commit needs to be built.
type Config struct {
	Writer   Writer
	Outcomes Outcomes
	Log      klog.Logger
	// InFlight is how many writes are sent at the same time.
	InFlight int
	// BindingsMax is how many bindings may wait before Room asks the loop to wait, EventsMax how many events before the oldest
	// are dropped.
	BindingsMax, EventsMax int
	// Timeout is how long one write may take.
	Timeout time.Duration
	// EventPause is how long events wait after one could not be delivered.
	EventPause time.Duration
	// Drain is how long Run goes on writing after its context has ended.
	Drain time.Duration
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
	always chan struct{} // closed: there is room
	wake   *sync.Cond    // on mu, for workers that wait for something to do

	mu       sync.Mutex
	bindings lane[binding]
	statuses lane[types.UID]
	events   lane[event]
	pods     map[types.UID]*writes // pods with a status that waits or is being written
	written  map[types.UID]written // what was written last, of pods that the watch may not have shown since
	low      int                   // workers that write events at this moment
	paused   bool                  // no event is to be taken, the API server could not take one
	room     chan struct{}         // what the loop waits for; nil if it does not
	stopped  error                 // why nothing is taken in any more
	abandon  bool                  // what waits will not be written
	stats    Stats
}

// Stats counts what was done. Dropped are events that were not written because too many waited, or there was no time left.
type Stats struct {
	Bound, BindingsFailed    int64
	Statuses, StatusesFailed int64
	Events, EventsFailed     int64
	EventsDropped            int64
}

// binding is a decision for a node that is to be written.
type binding struct {
	decision plan.Decision
	report   explain.Report
}

// event is to be written when nothing else is.
type event struct {
	pod   *model.Pod
	event explain.Event
	tries int
}

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
	c := &Commit{
		config:  config,
		always:  make(chan struct{}),
		pods:    map[types.UID]*writes{},
		written: map[types.UID]written{},
	}
	close(c.always)
	c.wake = sync.NewCond(&c.mu)
	return c, nil
}

// Start carries a decision out as soon as it can. It does not wait.
func (c *Commit) Start(decision plan.Decision, report explain.Report) {
	if log := c.config.Log.V(3); log.Enabled() {
		log.Info("Decided about pod", "pod", decision.Pod, "attempt", decision.Attempt, "node", decision.NodeName,
			"feasibleNodes", decision.Feasible, "nodes", decision.Nodes, "err", decision.Err)
	}
	if !decision.Settled() {
		c.tell(decision.Pod, report)
		return
	}
	c.mu.Lock()
	reason := c.stopped
	if reason == nil {
		c.startBinding(binding{decision, report})
	}
	c.mu.Unlock()
	if reason != nil {
		c.answer(&binding{decision, report}, reason)
	}
}

// Room is closed when fewer bindings wait than may. What it returned before is closed when that becomes so.
func (c *Commit) Room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bindings.len() < c.config.BindingsMax {
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
	return c.stats
}

// Run writes until the context ends. Bindings that wait then are answered with the reason; for a short time more, writes in flight
// may finish and statuses and events that wait are written. When Run returns, nothing is in flight and every binding is answered.
func (c *Commit) Run(ctx context.Context) {
	writing, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var workers sync.WaitGroup
	for i := range c.config.InFlight {
		workers.Go(func() { c.work(writing, i == 0 && c.config.InFlight > 1) })
	}
	<-ctx.Done()
	for _, b := range c.stop(context.Cause(ctx)) {
		c.answer(&b, context.Cause(ctx))
	}
	deadline := time.AfterFunc(c.config.Drain, func() {
		c.giveUp()
		cancel(context.Cause(ctx))
	})
	defer deadline.Stop()
	workers.Wait()
}

// stop lets nothing more in and returns the bindings that waited.
func (c *Commit) stop(reason error) []binding {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = reason
	var waiting []binding
	for c.bindings.len() > 0 {
		waiting = append(waiting, c.bindings.pop())
	}
	for _, p := range c.pods {
		if p.held != nil {
			waiting = append(waiting, *p.held)
			p.held = nil
		}
	}
	c.makeRoom()
	c.wake.Broadcast()
	return waiting
}

// giveUp leaves unwritten what still waits.
func (c *Commit) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon = true
	c.stats.EventsDropped += int64(c.events.len())
	c.wake.Broadcast()
}

// makeRoom lets the loop go on if it waits and need not. The caller holds mu.
func (c *Commit) makeRoom() {
	if c.room != nil && c.bindings.len() < c.config.BindingsMax {
		close(c.room)
		c.room = nil
	}
}
