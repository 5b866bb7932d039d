package testing

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/host"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// PluginFactory builds a plugin for one profile, as for app.WithPlugin.
type PluginFactory = public.PluginFactory

// Option configures a new Cluster.
type Option func(*settings)

type settings struct {
	plugins  []config.Registered
	types    []func(*runtime.Scheme) error
	shown    *public.Types
	yaml     string
	objects  []runtime.Object
	deadline time.Duration
	seed     uint64
}

// WithPlugin adds a plugin. Without WithConfig the plugin is enabled in multiPoint, after
// the built-in plugins. With WithConfig, the configuration enables it. If args is not
// nil, the factory gets args instead of the configuration's arguments.
func WithPlugin(name string, factory PluginFactory, args runtime.Object) Option {
	return func(s *settings) {
		f := factory
		if args != nil && factory != nil {
			f = func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				return factory(ctx, args, h)
			}
		}
		s.plugins = append(s.plugins, config.Registered{Name: name, Factory: f})
	}
}

// WithScheme adds types of arguments, as app.WithScheme does.
func WithScheme(add func(*runtime.Scheme) error) Option {
	return func(s *settings) { s.types = append(s.types, add) }
}

// WithTypes passes values of other types than Berth's to plugins, as app.WithTypes does.
func WithTypes(types *public.Types) Option { return func(s *settings) { s.shown = types } }

// WithConfig sets the scheduler's configuration, a KubeSchedulerConfiguration in YAML.
func WithConfig(yaml string) Option { return func(s *settings) { s.yaml = yaml } }

// WithObjects adds API objects besides nodes and pods. Kinds that scheduling does not
// read are only in the ClientSet.
func WithObjects(objects ...runtime.Object) Option {
	return func(s *settings) { s.objects = append(s.objects, objects...) }
}

// WithDeadline sets the real time after which a plugin call from PreEnqueue to Permit
// fails. The default is the scheduler's, ten seconds.
func WithDeadline(deadline time.Duration) Option { return func(s *settings) { s.deadline = deadline } }

// WithSeed sets the seed that chooses among equal nodes. The default is 0. Equal seeds
// give equal runs.
func WithSeed(seed uint64) Option { return func(s *settings) { s.seed = seed } }

// Cluster is a cluster in memory with one scheduler and its plugins. Its methods belong
// to the test's goroutine.
//
// The scheduler is real, from ingest to the outbox of writes. The API server, the watches
// and the clock are simulated. Time is virtual and passes only in Advance, so backoffs
// and timeouts at Permit cost nothing and happen when the test wants them. Plugins run as
// in production, on their own goroutines and in real time. The scheduler runs only inside
// the methods of Cluster. An action of a plugin's own goroutine, such as allowing a pod,
// takes effect in the next method call.
//
// The ClientSet of Handles is client-go's fake clientset over the simulated cluster.
// Plugins see the scheduler's bindings, evictions and other writes in it, and the
// scheduler sees the plugins' writes. Bindings and evictions work, and deleted pods
// terminate after their grace period. It has no admission, no field selectors and no
// check of resource versions. Informers of Handles are up to date before each decision,
// though handlers may still be running. KubeConfig is nil. Events of plugins' recorders
// are kept, see Events.
//
// As in production, every event wakes the pods that a plugin without EventsToRegister has
// rejected. The condition that the scheduler writes on such a pod is an event, too, so
// the pod is tried twice.
type Cluster struct {
	t        testing.TB
	sim      *simulate.Cluster
	live     atomic.Pointer[simulate.Cluster] // the same, for goroutines of plugins
	api      *api
	recorder *recorder
	handles  map[string]fwk.Handle
}

// NewCluster returns a cluster with a scheduler that has received the nodes and pods and
// made no decision. An invalid configuration or plugin fails the test. The plugins are
// closed at the end of the test.
func NewCluster(t testing.TB, nodes []*v1.Node, pods []*v1.Pod, options ...Option) *Cluster {
	t.Helper()
	var s settings
	for _, o := range options {
		o(&s)
	}
	c, err := newCluster(t, &s, nodes, pods)
	if err != nil {
		t.Fatalf("make a cluster: %v", err)
	}
	return c
}

func newCluster(t testing.TB, s *settings, nodes []*v1.Node, pods []*v1.Pod) (*Cluster, error) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &Cluster{t: t, api: newAPI(ctx), recorder: &recorder{}, handles: map[string]fwk.Handle{}}
	scheduler, err := c.configure(ctx, s)
	if err != nil {
		return nil, err
	}
	c.sim, err = simulate.New(simulate.Config{Scheduler: scheduler, Seed: s.seed, Mirror: c.api})
	if err != nil {
		return nil, err
	}
	c.live.Store(c.sim)
	c.api.join(c.sim)
	for _, n := range nodes {
		c.sim.SetNode(n.DeepCopy())
	}
	for _, p := range pods {
		c.sim.SetPod(defaulted(p))
	}
	for _, o := range s.objects {
		if err := c.api.put(o); err != nil {
			return nil, err
		}
	}
	return c, c.api.start()
}

// configure reads the configuration and builds the plugins.
func (c *Cluster) configure(ctx context.Context, s *settings) (*config.Config, error) {
	c.keepHandles(s.plugins)
	if err := config.CheckProgram(s.plugins, s.shown); err != nil {
		return nil, err
	}
	added, err := config.NewExternal(s.plugins, s.types, s.shown)
	if err != nil {
		return nil, err
	}
	if s.yaml == "" {
		s.yaml = enabling(added.Names())
	}
	file := filepath.Join(c.t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(s.yaml), 0o600); err != nil {
		return nil, err
	}
	scheduler, err := config.Read(config.Request{File: file, External: added})
	if err != nil || !scheduler.EnablesExternal() {
		return scheduler, err
	}
	plugins := host.New(ctx, host.Config{
		Parallelism: int(*scheduler.Source.Parallelism), Deadline: s.deadline, Now: c.now, Log: klog.FromContext(ctx),
		Bindings: func() framework.Bindings {
			if sim := c.live.Load(); sim != nil {
				return sim.Bindings()
			}
			return nil
		},
		Activate: func(pods ...model.PodKey) bool {
			sim := c.live.Load()
			return sim == nil || sim.Activate(pods...)
		},
		Nominate: func(request model.NominationRequest) bool {
			sim := c.live.Load()
			return sim == nil || sim.Nominate(request)
		},
		Devices: scheduler.ReadsDevices(), Types: s.shown, ClientSet: c.api.client, Informers: c.api.informers, Recorder: c.recorder.of,
	})
	full, err := scheduler.Build(ctx, plugins)
	if err != nil {
		plugins.Close()
		return nil, err
	}
	c.t.Cleanup(func() {
		if err := full.Close(); err != nil {
			c.t.Errorf("close plugins: %v", err)
		}
		plugins.Close()
	})
	return full, nil
}

// keepHandles makes the factories of plugins store the handles that they get.
func (c *Cluster) keepHandles(plugins []config.Registered) {
	var mu sync.Mutex // factories run on goroutines of their own
	for i := range plugins {
		if factory := plugins[i].Factory; factory != nil {
			plugins[i].Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				mu.Lock()
				c.handles[h.ProfileName()] = h
				mu.Unlock()
				return factory(ctx, args, h)
			}
		}
	}
}

// now is the simulated time; zero before the cluster runs.
func (c *Cluster) now() time.Time {
	if sim := c.live.Load(); sim != nil {
		return sim.Now()
	}
	return time.Time{}
}

// enabling returns a configuration that enables plugins after the built-in ones.
func enabling(plugins []string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	if len(plugins) > 0 {
		b.WriteString("profiles:\n- schedulerName: default-scheduler\n  plugins:\n    multiPoint:\n      enabled:\n")
		for _, name := range plugins {
			fmt.Fprintf(&b, "      - {name: %q, weight: 1}\n", name)
		}
	}
	return b.String()
}

// defaulted returns a copy of a pod with defaults of the API server: a namespace and a
// scheduler name.
func defaulted(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	return pod
}

// Result is the state of a pod.
type Result struct {
	// Node is the node that the pod is bound to or, while Waiting, the chosen node; empty
	// for none.
	Node string
	// Bound is true when the API server has stored the binding.
	Bound bool
	// Waiting are the plugins that the pod waits for at Permit.
	Waiting []string
	// Message is why the pod has no node, or was not bound: the text of its
	// FailedScheduling event, or the reason of a plugin that gates it at PreEnqueue.
	Message string
	// Rejectors are the plugins whose verdict must change before a retry can succeed,
	// sorted. After an error it is empty.
	Rejectors []string
	// Err is the error of the last attempt, including failures of a PostFilter plugin. A
	// rejection is not an error.
	Err error
	// Nominated is the pod's nominated node in the API.
	Nominated string
	// Victims are the pods, as namespace/name, that built-in preemption evicted in the
	// last attempt. After Schedule they include pods that the ClientSet deleted or
	// evicted meanwhile.
	Victims []string
	// Attempts is the number of the scheduler's decisions about the pod.
	Attempts int
}

// Schedule creates a pod, runs the scheduler for all pods without passing time, and
// returns the result for the pod.
func (c *Cluster) Schedule(pod *v1.Pod) Result {
	c.t.Helper()
	before := len(c.api.deleted())
	c.sim.SetPod(defaulted(pod))
	c.Settle()
	r := c.Result(pod)
	for _, victim := range c.api.deleted()[before:] {
		if !slices.Contains(r.Victims, victim) {
			r.Victims = append(r.Victims, victim)
		}
	}
	slices.Sort(r.Victims)
	return r
}

// Settle runs the scheduler until it has nothing to do at the present time.
func (c *Cluster) Settle() { c.t.Helper(); c.Advance(0) }

// Advance lets virtual time pass: backoffs and timeouts end, and evicted pods terminate.
func (c *Cluster) Advance(d time.Duration) {
	c.t.Helper()
	err := c.sim.AdvanceTo(c.sim.Now().Add(d), nil)
	if err == nil {
		err = c.sim.Audit()
	}
	if err != nil {
		c.t.Fatalf("run the scheduler: %v", err)
	}
	c.api.catchUp()
}

// Result returns the state of a pod. It fails the test if the pod does not exist.
func (c *Cluster) Result(pod *v1.Pod) Result {
	c.t.Helper()
	pod = defaulted(pod)
	key := model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
	stored := c.sim.Pod(key)
	if stored == nil {
		c.t.Fatalf("there is no pod %s", key)
		return Result{}
	}
	r := Result{Node: stored.Spec.NodeName, Bound: stored.Spec.NodeName != "", Nominated: stored.Status.NominatedNodeName}
	verdict, ok := c.sim.Verdict(key)
	if r.Attempts = verdict.Attempts; !ok {
		r.Message = c.sim.Gated(stored)
		return r
	}
	r.Message = verdict.Message()
	d := &verdict.Decision
	if r.Err = d.Err; r.Err == nil {
		r.Err = d.PostFilterErr
	}
	if d.Outcome == plan.Placed && r.Node == "" {
		r.Node = verdict.Placement.NodeName
	}
	if waiting := c.sim.Bindings().WaitingPod(stored.UID); waiting != nil {
		r.Waiting = waiting.PendingPlugins()
	}
	if d.Rejection != nil {
		r.Rejectors = d.Rejection.Plugins
	}
	for _, e := range d.Evictions {
		r.Victims = append(r.Victims, e.Pod.Key().String())
	}
	return r
}

// Handle returns the Handle of a profile, such as "default-scheduler". It fails the test
// if the profile enables no out-of-tree plugin.
func (c *Cluster) Handle(profile string) fwk.Handle {
	c.t.Helper()
	h := c.handles[profile]
	if h == nil {
		c.t.Fatalf("the profile %q has no out-of-tree plugin, and so no Handle", profile)
	}
	return h
}

// ClientSet returns the client of the plugins.
func (c *Cluster) ClientSet() kubernetes.Interface { return c.api.client }

// Set creates or replaces API objects. The scheduler receives them in the next Settle,
// Advance or Schedule.
func (c *Cluster) Set(objects ...runtime.Object) {
	c.t.Helper()
	for _, o := range objects {
		if err := c.api.put(o); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Delete deletes API objects at once. Missing objects are no error.
func (c *Cluster) Delete(objects ...runtime.Object) {
	c.t.Helper()
	for _, o := range objects {
		if pod, ok := o.(*v1.Pod); ok {
			o = defaulted(pod)
		}
		ref, known := kinds.RefOf(o)
		switch {
		case !known:
			c.api.drop(o)
		case ref.Kind == model.NodeKind:
			c.sim.DeleteNode(ref.Name)
		case ref.Kind == model.PodKind:
			c.sim.DeletePod(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
		default:
			c.sim.DeleteObject(ref)
		}
	}
}

// Pod returns the pod as the API server has it, or nil.
func (c *Cluster) Pod(namespace, name string) *v1.Pod {
	return c.sim.Pod(model.PodKey{Namespace: namespace, Name: name}).DeepCopy()
}

// Event is an event about a pod.
type Event struct {
	Pod                  string // namespace/name
	Type, Reason, Action string
	// Note is the text of plugins' events. The scheduler's events have none: see
	// Result.Message.
	Note string
	// Count is the number of occurrences.
	Count int
}

// Events returns the scheduler's events, by pod and time, and then the events of plugins'
// recorders, in their order.
func (c *Cluster) Events() []Event {
	var all []Event
	for _, e := range c.sim.Events() {
		all = append(all, Event{Pod: e.Subject.Key().String(), Type: e.Type, Reason: e.Reason, Action: e.Action, Count: e.Count})
	}
	return append(all, c.recorder.events()...)
}
