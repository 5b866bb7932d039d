package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/hints"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/queue"
)

// The scheduler command's defaults.
const (
	DefaultGroupPatience = queue.DefaultGroupPatience
	DefaultGroupRetries  = engine.DefaultGroupRetries
)

// Config configures a simulation.
type Config struct {
	// Scheduler is the scheduler's configuration.
	Scheduler *config.Config
	// MaxParked is the time after which a parked pod is retried without a reason; 0 means
	// kube-scheduler's default.
	MaxParked time.Duration
	// GroupPatience is how long a rejected pod group lets other pods overtake it; 0 means
	// forever.
	GroupPatience time.Duration
	// GroupRetries limits the decisions about members of a pod group in other orders
	// before the group is rejected.
	GroupRetries int
	// EventTTL is how long the API server keeps an event after its last write. 0 means
	// the API server's default; a negative value drops an event at the next write of an
	// event.
	EventTTL time.Duration
	// Slice limits the hints that a round computes and the pods that it moves; 0 means
	// the scheduler's default.
	Slice int
	// Pace is the time that a decision takes. At 0, decisions at the same instant follow
	// the order of arrival wherever order depends on time.
	Pace time.Duration
	// Seed determines the choice among equally good nodes, and the faults.
	Seed   uint64
	Faults Faults
	// Volumes configures the binding and provisioning of volumes.
	Volumes Volumes
	// Devices configures the care of ResourceClaims.
	Devices Devices
	// Observers are called by the loop. OnPhase and Timing, if set, are called by the
	// engine. All are attached again after a restart.
	Observers []loop.Observer
	OnPhase   func(engine.Phase)
	Timing    engine.Timing
	// Recorder returns a recorder for the loop of each process. It is optional.
	Recorder func() loop.Recorder
	// External, if set, adds the steps of external plugins to placements.
	External func(*plan.Placement)
	// Patience is the real time to wait for a call that is not Played before virtual time
	// goes on without it; 0 means five seconds.
	Patience time.Duration
	// Trim means that the scheduler keeps only the fields that scheduling reads, as in
	// production without external plugins and extenders.
	Trim bool
	// Mirror, if set, holds the API objects as well and may change them.
	Mirror Mirror
	// Pods, if set, makes Run create that many pods, besides those of the files, while
	// the scheduler works. Of the decisions about placed pods, only a summary is kept. So
	// a million pods need not be in memory at once. Rounds then do not report Shown and
	// Stored.
	Pods *Size
	// EventHints adds hints to the events of unschedulable pods; see package hints.
	EventHints bool
	// Audit makes the engine recompute every cached rejection. Cluster.Audit reports the
	// differences.
	Audit bool
}

// Mirror is another API server with the same objects.
type Mirror interface {
	// Sync is called before each effect on API objects and before each round. It applies
	// the changes that others made to the mirror.
	Sync()
	// Changed is called when an object has been created or replaced, Gone when it has
	// been deleted.
	Changed(object kinds.Object)
	Gone(ref model.Ref)
}

// Cluster is a cluster in memory with one scheduler. Only one goroutine may use it,
// except for Bindings, Activate and Nominate.
//
// The caller drives everything: it changes the API objects, calls Step to run the
// scheduler for one round at the present time, and calls AdvanceTo to move the time.
type Cluster struct {
	config   Config
	profiles map[string]*plugin.Profile
	trim     func(any) (any, error)

	now    time.Time
	agenda agenda
	store  store
	chaos  chaos
	volume *volumeController
	claim  *claimController
	budget *budgetController
	// changes counts the changes to API objects, except to conditions. While it stays the
	// same, a retry cannot succeed.
	changes int64

	ingest *ingest.Ingest
	source *staged // of the loop
	loop   *loop.Loop
	// hints is nil without EventHints.
	hints  *hints.Finder
	commit *committer
	live   atomic.Pointer[process]    // used by plugins
	life   int                        // of the scheduler process
	dead   bool                       // no process runs
	stuck  map[model.PodKey]types.UID // pods whose deletion is held up
	// skew is the offset of the wall clock from virtual time, startSkew the offset at the
	// start of the process.
	skew, startSkew time.Duration

	reads   []model.Kind          // the kinds that the scheduler watches, in a fixed order
	watches map[model.Kind]*watch // by kind
	away    bool                  // the scheduler cannot reach the API server
	warmAt  time.Time             // until then the API server returns Forbidden

	// Invariant: a pod is in at most one of verdicts and placed.
	verdicts map[model.PodKey]Verdict
	placed   map[model.PodKey]placedVerdict // with Config.Pods
	// more creates the next pod of Config.Pods and reports whether one was left. It is
	// nil when all are created.
	more     func() bool
	round    Round
	happened map[string]int
}

// Round is the report of one round.
type Round struct {
	At time.Time
	// Ran reports whether the scheduler ran: a process exists and has listed all objects.
	Ran bool
	// Shown has the deliveries to the scheduler before it decided, in order.
	Shown []Shown
	// Decided reports whether a pod was up for a decision. Decisions are about that pod,
	// or about each member of its group.
	Decided   bool
	Decisions []plan.Decision
	// Stored are the pods whose bindings the API server has stored, in order.
	Stored []*v1.Pod
}

// Shown is one delivery to the scheduler. Exactly one field is set:
//
//   - Object: a new version of an object from a watch.
//   - Learned: a new version of an object from the answer to a write.
//   - Gone: the reference of a deleted object.
//   - Bound, Preempted, Written: the result of a binding, of a preemption, or of a write
//     that reverts something.
type Shown struct {
	Object    kinds.Object
	Learned   kinds.Object
	Gone      model.Ref
	Bound     *model.BindingResult
	Preempted *model.PreemptionResult
	Written   *model.WriteResult
}

// Verdict is the last decision about a pod.
type Verdict struct {
	UID string
	// Decision is the pod's decision. It is Failed if its binding failed.
	Decision plan.Decision
	// Placement is the pod's part of the decision, without a node if the pod is not
	// placed.
	Placement plan.Placement
	// Report is the report of the decision, or of its failed binding.
	Report report.Report
	// Attempts counts the decisions about this pod.
	Attempts int
	changes  int64  // of the cluster, at the time of the decision
	message  string // of the report's event, uncut
}

// placedVerdict is the part of a placed pod's verdict that is kept with Config.Pods.
type placedVerdict struct {
	uid             types.UID
	total           int64
	nodes, feasible int
	attempts        int
	changes         int64
}

func (p *placedVerdict) verdict() Verdict {
	return Verdict{
		UID: string(p.uid), Decision: plan.Decision{Outcome: plan.Placed, Nodes: p.nodes, Feasible: p.feasible},
		Placement: plan.Placement{Total: p.total, Nodes: p.nodes, Feasible: p.feasible}, Attempts: p.attempts, changes: p.changes,
	}
}

// New returns an empty cluster with a scheduler that has just started.
func New(config Config) (*Cluster, error) {
	if config.Scheduler == nil {
		return nil, errors.New("simulate: no scheduler configuration is given")
	}
	if config.MaxParked == 0 {
		config.MaxParked = queue.DefaultMaxParked
	}
	config.Patience = cmp.Or(config.Patience, defaultPatience)
	c := &Cluster{
		config: config, profiles: map[string]*plugin.Profile{}, trim: kinds.Trim(), now: epoch,
		reads: config.Scheduler.Reads(), watches: map[model.Kind]*watch{},
		store: newStore(config.EventTTL), chaos: newChaos(config.Faults, config.Seed), verdicts: map[model.PodKey]Verdict{}, placed: map[model.PodKey]placedVerdict{}, happened: map[string]int{}, stuck: map[model.PodKey]types.UID{},
	}
	c.volume, c.claim, c.budget = newVolumeController(c, config.Volumes), newClaimController(c, config.Devices, config.Scheduler.GroupClaims), newBudgetController(c)
	for _, p := range config.Scheduler.Profiles {
		c.profiles[p.Name] = p
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	for _, kind := range c.reads {
		c.watches[kind] = newWatch(c, kind)
		c.watches[kind].synced = true // an empty cluster needs no list
	}
	return c, nil
}

// start starts a scheduler process with empty state.
func (c *Cluster) start() error {
	rules := c.config.Scheduler.Queue(c.config.MaxParked)
	rules.Slice, rules.GroupPatience = c.config.Slice, c.config.GroupPatience
	waiting, err := queue.New(rules)
	if err != nil {
		return fmt.Errorf("simulate: build the queue: %w", err)
	}
	judge, err := c.newEngine()
	if err != nil {
		return err
	}
	if c.commit != nil {
		c.end()
	}
	c.life++
	c.dead, c.startSkew = false, c.skew
	c.ingest = ingest.New(c.config.Scheduler.Compile())
	if c.commit, err = newCommitter(c, c.ingest); err != nil {
		return err
	}
	c.live.Store(c.commit.plugins)
	c.source = &staged{Ingest: c.ingest}
	parts := loop.Config{Source: c.source, Queue: waiting, Engine: judge, Commit: c.commit, Observers: c.config.Observers}
	if c.config.Recorder != nil {
		parts.Recorder = c.config.Recorder()
	}
	if c.config.EventHints {
		c.hints = hints.New(hints.Config{Compile: c.config.Scheduler.Compile()})
		parts.Hints = c.hints
	}
	c.loop = loop.New(parts)
	return nil
}

func (c *Cluster) newEngine() (*engine.Engine, error) {
	judge, err := engine.New(engine.Config{
		GroupRetries: c.config.GroupRetries,
		Profiles:     c.config.Scheduler.Profiles, Seed: c.config.Seed, OnPhase: c.config.OnPhase, Timing: c.config.Timing, Audit: c.config.Audit,
	})
	if err != nil {
		return nil, fmt.Errorf("simulate: build the engine: %w", err)
	}
	return judge, nil
}

// Restart kills the scheduler process and starts another, which lists all objects again.
// Bindings in flight still reach the API server; their answers are lost.
func (c *Cluster) Restart() error {
	if err := c.start(); err != nil {
		return err
	}
	c.loop.TakeOverAt(fmt.Sprint("process-", c.life), c.processTime(c.now))
	c.watchAnew()
	return nil
}

// Now returns the virtual time.
func (c *Cluster) Now() time.Time { return c.now }

// Loop gives access to the scheduler's state, queue and engine, between rounds.
func (c *Cluster) Loop() *loop.Loop { return c.loop }

// Hints returns the number of hints in events since the process started, zero without
// EventHints.
func (c *Cluster) Hints() hints.Counts {
	if c.hints == nil {
		return hints.Counts{}
	}
	return c.hints.Counts()
}

// Audit checks the invariants of all scheduler state, between rounds. It joins all
// violations into one error.
func (c *Cluster) Audit() error {
	var violations []error
	for _, audit := range []func() error{c.loop.Audit, c.commit.audit} {
		violations = append(violations, audit())
	}
	return errors.Join(violations...)
}

// Outbox returns the scheduler's pending writes. It may be read between rounds.
func (c *Cluster) Outbox() *commit.Outbox { return c.commit.outbox }

// Unseen returns the number of changes that were delivered but not applied by the loop.
func (c *Cluster) Unseen() int { return c.ingest.Waiting() + c.loop.Held() }

// Nodes returns the stored nodes by name. They must not be changed.
func (c *Cluster) Nodes() []*v1.Node {
	nodes := make([]*v1.Node, 0, len(c.store.nodes))
	for _, name := range slices.Sorted(maps.Keys(c.store.nodes)) {
		nodes = append(nodes, c.store.nodes[name])
	}
	return nodes
}

// Pods returns the stored pods by namespace and name. They must not be changed.
func (c *Cluster) Pods() []*v1.Pod {
	pods := make([]*v1.Pod, 0, len(c.store.pods))
	for _, key := range slices.SortedFunc(maps.Keys(c.store.pods), compareKeys) {
		pods = append(pods, c.store.pods[key])
	}
	return pods
}

// Objects returns the stored objects that are neither nodes nor pods, by kind, namespace
// and name. They must not be changed.
func (c *Cluster) Objects() []runtime.Object {
	objects := make([]runtime.Object, 0, len(c.store.others))
	for _, ref := range slices.SortedFunc(maps.Keys(c.store.others), compareRefs) {
		objects = append(objects, c.store.others[ref])
	}
	return objects
}

// Object returns a stored object that is neither a node nor a pod, or nil. It must not be
// changed.
func (c *Cluster) Object(ref model.Ref) kinds.Object { return c.store.others[ref] }

// Node returns a stored node or nil.
func (c *Cluster) Node(name string) *v1.Node { return c.store.nodes[name] }

// Pod returns a stored pod or nil.
func (c *Cluster) Pod(key model.PodKey) *v1.Pod { return c.store.pods[key] }

// Verdict returns the last decision about a stored pod. ok is false without a decision.
func (c *Cluster) Verdict(key model.PodKey) (verdict Verdict, ok bool) {
	verdict = c.verdictOf(key)
	pod := c.store.pods[key]
	return verdict, verdict.Attempts > 0 && pod != nil && string(pod.UID) == verdict.UID
}

// forget drops the last decision about a pod.
func (c *Cluster) forget(key model.PodKey) {
	delete(c.verdicts, key)
	delete(c.placed, key)
}

// Gated returns the reason why PreEnqueue plugins hold the pod back, or "".
func (c *Cluster) Gated(pod *v1.Pod) string {
	if p := c.profiles[pod.Spec.SchedulerName]; p != nil {
		_, reason := p.RunPreEnqueue(c.loop.State().View(), model.NewPod(pod))
		return reason
	}
	return ""
}

// Answer returns the verdict of each plugin about each node for a stored pod, as if the
// pod were pending. It uses a new engine on the API objects as they are, so no cache of
// the scheduler affects the answer.
func (c *Cluster) Answer(key model.PodKey) (plan.Answer, error) {
	stored := c.store.pods[key]
	if stored == nil {
		return plan.Answer{}, fmt.Errorf("simulate: there is no pod %s", key)
	}
	in, now := ingest.New(c.config.Scheduler.Compile()), state.New()
	for _, kind := range c.reads {
		for _, object := range c.store.list(kind) {
			if pod, ok := object.(*v1.Pod); ok && (pod == stored || pod.Spec.NodeName == "") {
				continue
			}
			in.Set(object)
		}
	}
	now.SetNow(c.processTime(c.now))
	now.Apply(in.Drain())
	pending := *stored
	pending.Spec.NodeName = ""
	in.Set(&pending)
	changes := in.Drain()
	if len(changes) != 1 || changes[0].Pod == nil {
		return plan.Answer{}, fmt.Errorf("simulate: pod %s is not the scheduler's to place", key)
	}
	judge, err := c.newEngine()
	if err != nil {
		return plan.Answer{}, err
	}
	return judge.Answer(now.View(), changes[0].Pod)
}

// SetNode creates or replaces a node. The caller must not change the object afterwards.
func (c *Cluster) SetNode(node *v1.Node) {
	c.changes++
	c.show(c.store.setNode(node))
}

// DeleteNode removes a node and reports whether it existed. Its pods stay.
func (c *Cluster) DeleteNode(name string) bool {
	last := c.store.nodes[name]
	if last == nil {
		return false
	}
	c.changes++
	delete(c.store.nodes, name)
	c.showGone(last)
	return true
}

// SetPod creates or replaces a pod. The caller must not change the object afterwards.
func (c *Cluster) SetPod(pod *v1.Pod) {
	c.changes++
	c.show(c.store.setPod(pod))
}

// DeletePod removes a pod at once and reports whether it existed.
func (c *Cluster) DeletePod(key model.PodKey) bool {
	last := c.store.pods[key]
	if last == nil {
		return false
	}
	c.changes++
	delete(c.store.pods, key)
	c.forget(key)
	c.showGone(last)
	return true
}

// SetObject creates or replaces an object. It returns an error for a kind that scheduling
// does not read.
func (c *Cluster) SetObject(object runtime.Object) error {
	switch o := object.(type) {
	case *v1.Pod:
		c.SetPod(o)
		return nil
	case *v1.Node:
		c.SetNode(o)
		return nil
	case *resourcev1.ResourceClaimTemplate:
		c.SetTemplate(o)
		return nil
	}
	row := kinds.Of(object)
	if row == nil {
		return fmt.Errorf("simulate: scheduling does not read objects of type %T", object)
	}
	ref, now := row.Ref(object.(kinds.Object)), object.(kinds.Object)
	if isOver(now) {
		c.remove(ref)
		return nil
	}
	c.changes++
	c.show(c.store.setOther(ref, now))
	return nil
}

// DeleteObject removes an object that is neither a node nor a pod, and reports whether it
// existed. A ResourceClaim with finalizers is only marked as being deleted.
func (c *Cluster) DeleteObject(ref model.Ref) bool {
	last := c.store.others[ref]
	if last == nil {
		return false
	}
	if now := deferred(last, c.now); now != nil {
		if now != last {
			c.changes++
			c.show(c.store.setOther(ref, now))
		}
		return true
	}
	return c.remove(ref)
}

// remove removes an object that is neither a node nor a pod, whatever its finalizers.
func (c *Cluster) remove(ref model.Ref) bool {
	last := c.store.others[ref]
	if last == nil {
		return false
	}
	c.changes++
	delete(c.store.others, ref)
	c.showGone(last)
	return true
}

// FailBind makes the next bindings of a pod fail, or all of them if times is negative.
func (c *Cluster) FailBind(key model.PodKey, fault Fault, times int) {
	p := c.chaos.plan(key)
	p.fault, p.times = fault, times
}

// DelayBind delays every binding of a pod on its way to the API server.
func (c *Cluster) DelayBind(key model.PodKey, delay time.Duration) { c.chaos.plan(key).delay = delay }

// FailProvision makes the provisioner fail the next times for a claim, or always if times
// is negative.
func (c *Cluster) FailProvision(claim model.ClaimKey, times int) {
	c.chaos.provision(claim).times = times
}

// DelayProvision adds a delay to the provisioning for a claim.
func (c *Cluster) DelayProvision(claim model.ClaimKey, delay time.Duration) {
	c.chaos.provision(claim).delay = delay
}

// SetFaults replaces the faults from now on.
func (c *Cluster) SetFaults(faults Faults) { c.chaos.Faults = faults }

func (c *Cluster) deliver(what Shown) {
	if c.config.Pods == nil {
		c.round.Shown = append(c.round.Shown, what)
	}
	switch {
	case what.Object != nil:
		c.ingest.Set(what.Object)
	case what.Learned != nil:
		c.ingest.Learned(what.Learned)
	case what.Bound != nil:
		c.ingest.Bound(*what.Bound)
	case what.Preempted != nil:
		c.ingest.Preempted(*what.Preempted)
	case what.Written != nil:
		c.ingest.Written(*what.Written)
	default:
		c.ingest.Remove(what.Gone)
	}
}
