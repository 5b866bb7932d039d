package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Bindings are the pods of all profiles whose bindings have begun: *commit.Commit. Any
// goroutine may use it; it never blocks.
type Bindings interface {
	// WaitingPods are the pods that wait at Permit, in the order of their decisions.
	WaitingPods() []*commit.WaitingPod
	// WaitingPod returns nil if the pod does not wait.
	WaitingPod(pod types.UID) *commit.WaitingPod
	// PodInPreBind returns nil if the pod is not at PreBind.
	PodInPreBind(pod types.UID) *commit.PodInPreBind
}

// Queue receives plugins' requests to the queue. Any goroutine may use it; it never
// blocks.
type Queue interface {
	// Activate moves pending pods to the active queue.
	Activate(pods []*v1.Pod)
	// Nominate nominates a pod to a node, or ends its nomination if the name is empty.
	Nominate(pod *v1.Pod, nodeName string)
}

// Observer measures plugins. The loop's goroutine and the bindings' goroutines call it.
type Observer interface {
	// Ran reports a batch of calls of a plugin, their total duration, and the status of
	// the last unsuccessful one.
	Ran(plugin string, point Point, status string, calls int, took time.Duration)
}

// Config is the configuration of a Runtime. Profile and Snapshot are required.
type Config struct {
	// Profile is the scheduler name.
	Profile string
	// Deadline is how long calls may take that the loop waits for; 0 means
	// DefaultDeadline.
	Deadline time.Duration
	// Now is the scheduler's clock; nil means time.Now.
	Now func() time.Time
	// Parallelism is the number of concurrent pieces of work in the Handle's
	// Parallelizer; 0 means 16.
	Parallelism int
	Log         klog.Logger

	// Snapshot is the plugins' view of the cluster. All profiles share it, because turns
	// do not overlap.
	Snapshot *snapshot.Snapshot
	// Types build the values that plugins get; nil means Berth's types. The snapshot has
	// the same.
	Types *public.Types
	// Bindings returns the bindings, or nil before they exist: they may be built after
	// the plugins. Bindings, Queue and Observer may be nil.
	Bindings  func() Bindings
	Queue     Queue
	Observer  Observer
	Extenders []fwk.Extender
	// Devices means that devices and claims are watched, so that plugins can get them.
	Devices bool
	// PreBinds are shared by all profiles; nil means an own set.
	PreBinds *PreBinds
	// Leaving are shared by all profiles; nil means an own set.
	Leaving *Leaving

	// Results of the Handle's methods. A nil value is returned as nil, except for the
	// managers: see there.
	ClientSet       clientset.Interface
	KubeConfig      *restclient.Config // plugins get copies
	EventRecorder   events.EventRecorderLogger
	Informers       informers.SharedInformerFactory
	PodGroupManager fwk.PodGroupManager
	CSIManager      fwk.CSIManager
}

// Runtime runs the out-of-tree plugins of one profile. Only the loop's goroutine uses it,
// except its Handle.
type Runtime struct {
	config Config
	lane   *Lane
	handle *Handle
	copies copies
	// The enabled plugins at each extension point, in order; see Attach.
	preFilters []*preFilter
	filters    []*filter
	reserves   []*reserve
	preBinds   []*preBind
	binds      []*Binder
	postBinds  []*postBind
	preScores  []*preScore
	// adapters are those of all parts that Adapt has returned.
	adapters adapters
	// profile has the built-in plugins that plugins may run through the Handle.
	profile *plugin.Profile
	turn    *turn // nil between turns
	batch   *batch
}

// adapters are adapters by the parts that they are.
type adapters struct {
	filters    map[*plugin.Filter]*filter
	preFilters map[*plugin.PreFilter]*preFilter
	preScores  map[*plugin.PreScore]*preScore
	scores     map[*plugin.Score]*score
	reserves   map[*plugin.Reserve]*reserve
	preBinds   map[*plugin.PreBind]*preBind
	postBinds  map[*plugin.PostBind]*postBind
}

// New returns a Runtime. Its calls' contexts end with ctx.
func New(ctx context.Context, config Config) (*Runtime, error) {
	switch {
	case config.Profile == "":
		return nil, errors.New("out-of-tree plugins: the profile has no name")
	case config.Snapshot == nil:
		return nil, fmt.Errorf("out-of-tree plugins of profile %q: no snapshot", config.Profile)
	case config.Deadline < 0:
		return nil, fmt.Errorf("out-of-tree plugins of profile %q: deadline %v must be greater than 0", config.Profile, config.Deadline)
	}
	if config.PreBinds == nil {
		config.PreBinds = NewPreBinds()
	}
	if config.Leaving == nil {
		config.Leaving = NewLeaving()
	}
	r := &Runtime{config: config, lane: NewLane(ctx, config.Deadline, config.Now, config.Log)}
	r.handle = newHandle(r)
	r.adapters = adapters{
		map[*plugin.Filter]*filter{}, map[*plugin.PreFilter]*preFilter{}, map[*plugin.PreScore]*preScore{}, map[*plugin.Score]*score{},
		map[*plugin.Reserve]*reserve{}, map[*plugin.PreBind]*preBind{}, map[*plugin.PostBind]*postBind{},
	}
	return r, nil
}

// Handle returns the Handle for the factories of plugins.
func (r *Runtime) Handle() *Handle { return r.handle }

// Profile returns the scheduler name.
func (r *Runtime) Profile() string { return r.config.Profile }

// Lane returns the lane on which plugins run.
func (r *Runtime) Lane() *Lane { return r.lane }

// Close ends the goroutine on which plugins run.
func (r *Runtime) Close() { r.lane.Close() }

// external is embedded in each adapter: the plugin's name, and its Runtime.
type external struct {
	name string
	r    *Runtime
}

// Name returns the plugin's name.
func (o *external) Name() string { return o.name }

// observe reports a batch of calls on the lane.
func (o *external) observe(point Point, code fwk.Code, calls int, err error) {
	if observer := o.r.config.Observer; observer != nil {
		if err != nil {
			code = fwk.Error
		}
		observer.Ran(o.name, point, nameOf(code), calls, o.r.lane.took)
	}
}

// Points are the parts of one plugin, by extension point; nil where it has none.
type Points struct {
	// Objects are the kinds whose events the plugin registers for.
	Objects []model.Kind

	PreEnqueue        *plugin.PreEnqueue
	QueueSort         *plugin.QueueSort
	EnqueueExtensions *plugin.EnqueueExtensions
	PreFilter         *plugin.PreFilter
	Filter            *plugin.Filter
	PostFilter        *plugin.PostFilter
	PreScore          *plugin.PreScore
	Score             *plugin.Score
	Reserve           *plugin.Reserve
	Permit            *plugin.Permit
	PreBind           *plugin.PreBind
	Bind              *Binder
	PostBind          *plugin.PostBind
}

// Adapt returns the adapters of a plugin. The error comes from its EventsToRegister.
func (r *Runtime) Adapt(p fwk.Plugin) (Points, error) {
	name, err := call(r.lane, "Name", fmt.Sprintf("%T", p), func(context.Context) string { return p.Name() })
	if err != nil {
		return Points{}, err
	}
	o := external{name, r}
	var points Points
	if p, ok := p.(fwk.PreEnqueuePlugin); ok {
		points.PreEnqueue = &plugin.PreEnqueue{Name: name, Pod: (&preEnqueue{o, p}).run}
	}
	if p, ok := p.(fwk.QueueSortPlugin); ok {
		points.QueueSort = &plugin.QueueSort{Name: name, Less: newQueueSort(o, p).less}
	}
	if p, ok := p.(fwk.PreFilterPlugin); ok {
		adapter := &preFilter{external: o, plugin: p}
		points.PreFilter = &plugin.PreFilter{Name: name, Run: adapter.run, Measured: true}
		r.adapters.preFilters[points.PreFilter] = adapter
	}
	if p, ok := p.(fwk.FilterPlugin); ok {
		adapter := &filter{external: o, plugin: p}
		points.Filter = &plugin.Filter{Name: name, Turn: adapter.verdictsIn}
		r.adapters.filters[points.Filter] = adapter
	}
	if p, ok := p.(fwk.PostFilterPlugin); ok {
		points.PostFilter = &plugin.PostFilter{Name: name, Run: (&postFilter{o, p}).run, Measured: true}
	}
	if p, ok := p.(fwk.PreScorePlugin); ok {
		adapter := &preScore{o, p}
		points.PreScore = &plugin.PreScore{Name: name, Run: adapter.run}
		r.adapters.preScores[points.PreScore] = adapter
	}
	if p, ok := p.(fwk.ScorePlugin); ok {
		adapter := &score{o, p}
		points.Score = &plugin.Score{Name: name, Turn: adapter.run}
		r.adapters.scores[points.Score] = adapter
	}
	if p, ok := p.(fwk.ReservePlugin); ok {
		adapter := &reserve{external: o, plugin: p}
		points.Reserve = &plugin.Reserve{Name: name, Holds: adapter.run, Measured: true}
		r.adapters.reserves[points.Reserve] = adapter
	}
	if p, ok := p.(fwk.PermitPlugin); ok {
		points.Permit = &plugin.Permit{Name: name, Steps: (&permit{o, p}).run}
	}
	if p, ok := p.(fwk.PreBindPlugin); ok {
		adapter := &preBind{external: o, plugin: p}
		points.PreBind = &plugin.PreBind{Name: name, Steps: adapter.steps}
		r.adapters.preBinds[points.PreBind] = adapter
	}
	if p, ok := p.(fwk.BindPlugin); ok {
		points.Bind = &Binder{o, p}
	}
	if p, ok := p.(fwk.PostBindPlugin); ok {
		adapter := &postBind{o, p}
		points.PostBind = &plugin.PostBind{Name: name, Steps: adapter.steps}
		r.adapters.postBinds[points.PostBind] = adapter
	}
	err = o.register(p, &points)
	return points, err
}

// Attach sets the out-of-tree plugins of a profile: those of its plugins that are this
// Runtime's adapters. The profile must be complete except for External. binds are the
// out-of-tree Bind plugins before the built-in one.
func (r *Runtime) Attach(p *plugin.Profile, binds []*Binder) {
	a := &r.adapters
	r.preFilters, r.reserves = own(p.PreFilters, a.preFilters), own(p.Reserve, a.reserves)
	r.preScores, r.profile = own(p.PreScores, a.preScores), p
	r.preBinds, r.postBinds, r.binds = own(p.PreBind, a.preBinds), own(p.PostBind, a.postBinds), binds
	r.filters = own(p.Filters, a.filters)
	var first *preBind // the first of consecutive plugins
	for _, x := range p.PreBind {
		next := a.preBinds[x]
		switch {
		case next == nil:
			first = nil
		case first == nil:
			first = next
			first.with = []*preBind{next}
		default:
			first.with, next.with = append(first.with, next), nil
		}
	}
	p.External = r
}

// own returns the adapters of a profile's parts, without the parts of built-in plugins.
func own[P comparable, A any](parts []P, adapters map[P]A) []A {
	var list []A
	for _, p := range parts {
		if adapter, ok := adapters[p]; ok {
			list = append(list, adapter)
		}
	}
	return list
}
