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

	"github.com/berth-scheduler/berth/internal/answers/adviser"
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

// Config is what a simulation needs.
type Config struct {
	// Scheduler is the scheduler's configuration.
	Scheduler *config.Config
	// ParkedMax is how long a pod is parked before it is tried again although nothing happened; 0 means kube-scheduler's default.
	ParkedMax time.Duration
	// GroupPatience is how long a pod group that is rejected lets other pods overtake it; 0 means for ever.
	GroupPatience time.Duration
	// GroupRetries is how many decisions about members of a pod group may be made in other orders before the group is rejected.
	GroupRetries int
	// EventTTL is how long the API server keeps an event after its last write; 0 means the API server's default, and less than that until the next event is written.
	EventTTL time.Duration
	// Slice is how many hints a round asks, and how many pods it moves; 0 means the scheduler's default.
	Slice int
	// Pace is how much time a decision takes. At 0, several decisions at one time are in the order of arrivals where their order is by time.
	Pace time.Duration
	// Seed chooses among equally good nodes, and what goes wrong.
	Seed   uint64
	Faults Faults
	// Volumes is how volumes are bound and provisioned.
	Volumes Volumes
	// Devices is how claims for devices are looked after.
	Devices Devices
	// Observers are told what the loop does, and OnPhase, unless it is nil, what the engine does; after a restart, of the new process.
	Observers []loop.Observer
	OnPhase   func(engine.Phase)
	// Outside, unless it is nil, adds steps of plugins from outside to placements.
	Outside func(*plan.Placement)
	// Patience is how long, in real time, the simulation waits for a call that is not Played before virtual time goes on without it; 0 means five seconds.
	Patience time.Duration
	// Trim means that the scheduler keeps objects trimmed to what scheduling reads, as it does without plugins from outside and extenders.
	Trim bool
	// Mirror, unless it is nil, has the API objects too, and may change them.
	Mirror Mirror
	// Pods, unless it is nil, has Run make the pods of a cluster of that size, besides those of the files, while the scheduler works, and keep no more of what was decided about those that got a
	// node than a Placement says: so a million of them need not wait in memory at once. Rounds do not say then what was shown and stored.
	Pods *Size
	// EventHints means that events about pods without a node say what would help; see package adviser.
	EventHints bool
	// Audit means that the engine decides again about every rejection that it has remembered; Audit of the cluster says how they differ.
	Audit bool
}

// Mirror is another API server with the same objects.
type Mirror interface {
	// Sync is called before something happens to the API objects and before each round, to make the changes to the Cluster that others have made to the mirror.
	Sync()
	// Changed is called when an object has been created or replaced, and Gone when it has been deleted.
	Changed(object kinds.Object)
	Gone(ref model.Ref)
}

// Cluster is a cluster in memory with one scheduler. One goroutine uses it, but for Bindings and Activate.
//
// Nothing happens by itself: changes are made to the API objects, Step runs the scheduler for one round at the present time, and
// AdvanceTo moves the time.
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
	// changes counts the changes to API objects, except to conditions: while it stays the same, a retry cannot succeed.
	changes int64

	ingest *ingest.Ingest
	source *staged // of the loop
	loop   *loop.Loop
	// adviser is nil without EventHints.
	adviser *adviser.Adviser
	commit  *committer
	live    atomic.Pointer[process]    // what plugins use of the process
	life    int                        // of the scheduler process
	dead    bool                       // no process runs
	stuck   map[model.PodKey]types.UID // pods that are being deleted and stay
	// skew is how far the wall clock is from virtual time, startSkew how far it was when the process started.
	skew, startSkew time.Duration

	reads   []model.Kind          // the kinds that the scheduler watches, in a fixed order
	watches map[model.Kind]*watch // of these kinds
	away    bool                  // the scheduler does not reach the API server
	warmAt  time.Time             // until then the API server forbids everything

	// Invariant: a pod is in one of verdicts and placed at most.
	verdicts map[model.PodKey]Verdict
	placed   map[model.PodKey]placedVerdict // with Config.Pods
	// more creates another pod of Config.Pods, and reports whether there was one; nil when there are no more.
	more     func() bool
	round    Round
	happened map[string]int
}

// Round is what happened in one round.
type Round struct {
	At time.Time
	// Ran says whether the scheduler ran: there is a process, and it has listed what there is.
	Ran bool
	// Shown is what the scheduler was shown before it decided, in order.
	Shown []Shown
	// Decided says whether there was a pod to decide about, and Decisions what was decided: about that pod, or about each member of its group.
	Decided   bool
	Decisions []plan.Decision
	// Stored are pods that the API server has stored a binding of, in order.
	Stored []*v1.Pod
}

// Shown is one thing that the scheduler was shown: an object in a new version, by a watch or as the answer to a write, the reference of an object that is gone, or
// the outcome of a binding, a preemption or a write that gives something back. Object,
// Learned, Bound, Preempted and Written are nil unless it is that.
type Shown struct {
	Object    kinds.Object
	Learned   kinds.Object
	Gone      model.Ref
	Bound     *model.BindingResult
	Preempted *model.PreemptionResult
	Written   *model.WriteResult
}

// Verdict is the last that was decided about a pod.
type Verdict struct {
	UID string
	// Decision is that of the pod, which failed if its binding did.
	Decision plan.Decision
	// Placement is the pod's in the decision; it has no node if the pod got none.
	Placement plan.Placement
	// Report is of the decision, or of the binding if that failed.
	Report report.Report
	// Attempts counts the decisions about this pod.
	Attempts int
	changes  int64  // of the cluster, when it was decided
	message  string // of the report's event, uncut
}

// placedVerdict is what is kept of the verdict about a pod that got a node.
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

// New builds an empty cluster with a scheduler that has just started.
func New(config Config) (*Cluster, error) {
	if config.Scheduler == nil {
		return nil, errors.New("simulate: no scheduler configuration is given")
	}
	if config.ParkedMax == 0 {
		config.ParkedMax = queue.DefaultParkedMax
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
		c.watches[kind].synced = true // there is nothing to list
	}
	return c, nil
}

// start starts the scheduler process, which knows nothing yet.
func (c *Cluster) start() error {
	rules := c.config.Scheduler.Queue(c.config.ParkedMax)
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
	if c.commit, err = newCommitter(c); err != nil {
		return err
	}
	c.ingest = ingest.New(c.config.Scheduler.Compile())
	c.commit.plugins.ingest = c.ingest
	c.live.Store(c.commit.plugins)
	c.source = &staged{Ingest: c.ingest}
	c.loop = loop.New(c.source, waiting, judge, c.commit, c.config.Observers...)
	if c.config.EventHints {
		c.adviser = adviser.New(adviser.Config{Compile: c.config.Scheduler.Compile()})
		c.loop.Advise(c.adviser)
	}
	return nil
}

func (c *Cluster) newEngine() (*engine.Engine, error) {
	judge, err := engine.New(engine.Config{
		GroupRetries: c.config.GroupRetries,
		Profiles:     c.config.Scheduler.Profiles, Seed: c.config.Seed, OnPhase: c.config.OnPhase, Audit: c.config.Audit,
	})
	if err != nil {
		return nil, fmt.Errorf("simulate: build the engine: %w", err)
	}
	return judge, nil
}

// Restart kills the scheduler process and starts another, which lists all objects anew. Bindings on their way still arrive at
// the API server; nobody hears the answer.
func (c *Cluster) Restart() error {
	if err := c.start(); err != nil {
		return err
	}
	c.loop.State().TakeOver(fmt.Sprint("process-", c.life), c.processTime(c.now))
	c.watchAnew()
	return nil
}

// Now is the virtual time.
func (c *Cluster) Now() time.Time { return c.now }

// Loop gives access to the scheduler's state, queue and engine, between rounds.
func (c *Cluster) Loop() *loop.Loop { return c.loop }

// Hints is how often events got hints since the process started; nothing without EventHints.
func (c *Cluster) Hints() adviser.Counts {
	if c.adviser == nil {
		return adviser.Counts{}
	}
	return c.adviser.Counts()
}

// Audit checks the invariants of everything that the scheduler holds, between rounds. It returns every violation in one error, nil if there is
// none.
func (c *Cluster) Audit() error {
	var violations []error
	for _, audit := range []func() error{c.loop.Audit, c.commit.audit} {
		violations = append(violations, audit())
	}
	return errors.Join(violations...)
}

// Outbox is what the scheduler has to write; to be read between rounds.
func (c *Cluster) Outbox() *commit.Outbox { return c.commit.outbox }

// Unseen is how many changes the loop has been shown and not taken yet.
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

// Objects returns the stored objects that are neither nodes nor pods, by kind, namespace and name. They must not be changed.
func (c *Cluster) Objects() []runtime.Object {
	objects := make([]runtime.Object, 0, len(c.store.others))
	for _, ref := range slices.SortedFunc(maps.Keys(c.store.others), compareRefs) {
		objects = append(objects, c.store.others[ref])
	}
	return objects
}

// Object returns a stored object that is neither a node nor a pod, nil if there is none. It must not be changed.
func (c *Cluster) Object(ref model.Ref) kinds.Object { return c.store.others[ref] }

// Node returns a stored node, nil if there is none.
func (c *Cluster) Node(name string) *v1.Node { return c.store.nodes[name] }

// Pod returns a stored pod, nil if there is none.
func (c *Cluster) Pod(key model.PodKey) *v1.Pod { return c.store.pods[key] }

// Verdict returns what was last decided about a pod that is there; ok is false if nothing was.
func (c *Cluster) Verdict(key model.PodKey) (verdict Verdict, ok bool) {
	verdict = c.verdictOf(key)
	pod := c.store.pods[key]
	return verdict, verdict.Attempts > 0 && pod != nil && string(pod.UID) == verdict.UID
}

// forget forgets what was decided about a pod.
func (c *Cluster) forget(key model.PodKey) {
	delete(c.verdicts, key)
	delete(c.placed, key)
}

// Gated returns why the pod is not tried, "" if no PreEnqueue plugin holds it.
func (c *Cluster) Gated(pod *v1.Pod) string {
	if p := c.profiles[pod.Spec.SchedulerName]; p != nil {
		_, reason := p.RunPreEnqueue(c.loop.State().View(), model.NewPod(pod))
		return reason
	}
	return ""
}

// Answer says what each plugin thinks of each node for a pod that is stored, as if it were pending and not on any node. It asks a
// new engine about the API objects as they are, so nothing that the scheduler remembers has a say in it.
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

// SetNode creates or replaces a node. The object is the cluster's from now on.
func (c *Cluster) SetNode(node *v1.Node) {
	c.changes++
	c.show(c.store.setNode(node))
}

// DeleteNode removes a node. Its pods stay behind. It reports whether there was one.
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

// SetPod creates or replaces a pod. The object is the cluster's from now on.
func (c *Cluster) SetPod(pod *v1.Pod) {
	c.changes++
	c.show(c.store.setPod(pod))
}

// DeletePod removes a pod at once. It reports whether there was one.
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

// SetObject creates or replaces an object. One of a kind that scheduling does not read is an error.
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

// DeleteObject removes an object that is neither a node nor a pod; a claim for devices with finalizers is being deleted from then on. It reports whether
// there was one.
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

// remove removes an object that is neither a node nor a pod at once.
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

// FailBind makes the next bindings of a pod fail, all of them if times is negative.
func (c *Cluster) FailBind(key model.PodKey, fault Fault, times int) {
	p := c.chaos.plan(key)
	p.fault, p.times = fault, times
}

// DelayBind makes every binding of a pod take so long to reach the API server.
func (c *Cluster) DelayBind(key model.PodKey, delay time.Duration) { c.chaos.plan(key).delay = delay }

// FailProvision makes the provisioner fail the next times that it is to make a volume for a claim, always if times is negative.
func (c *Cluster) FailProvision(claim model.ClaimKey, times int) {
	c.chaos.provision(claim).times = times
}

// DelayProvision makes the provisioner take so much longer for a claim.
func (c *Cluster) DelayProvision(claim model.ClaimKey, delay time.Duration) {
	c.chaos.provision(claim).delay = delay
}

// SetFaults changes what goes wrong from now on.
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
