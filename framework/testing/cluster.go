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

// PluginFactory makes a plugin for one profile, as for app.WithPlugin.
type PluginFactory = public.PluginFactory

// Option changes a Cluster that is being made.
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

// WithPlugin adds a plugin. Without WithConfig it is enabled in multiPoint, after the built-in plugins; with it the configuration says where. Unless args is nil
// the factory gets it in place of what the configuration has.
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

// WithTypes has plugins get values of other types than Berth's, as app.WithTypes does.
func WithTypes(types *public.Types) Option { return func(s *settings) { s.shown = types } }

// WithConfig gives the scheduler's configuration, a KubeSchedulerConfiguration in YAML.
func WithConfig(yaml string) Option { return func(s *settings) { s.yaml = yaml } }

// WithObjects adds API objects besides nodes and pods. Those of kinds that scheduling does not read are only in the ClientSet.
func WithObjects(objects ...runtime.Object) Option {
	return func(s *settings) { s.objects = append(s.objects, objects...) }
}

// WithDeadline sets how long, in real time, a call of a plugin may take that the scheduler waits for: from PreEnqueue to Permit. The default is that of a
// scheduler, ten seconds.
func WithDeadline(deadline time.Duration) Option { return func(s *settings) { s.deadline = deadline } }

// WithSeed sets what chooses between equally good nodes. The default is 0: runs repeat.
func WithSeed(seed uint64) Option { return func(s *settings) { s.seed = seed } }

// Cluster is a cluster in memory with one scheduler and its plugins. Its methods belong to the test's goroutine.
//
// The scheduler is the real one, from ingest to the outbox of writes; the API server, the watches and the clock are not. Time is virtual: it stands still but in
// Advance, so backoffs and timeouts at Permit cost nothing and happen when the test says. Plugins run as they do in production, on goroutines of their own and
// in real time. Nothing happens but in the methods of Cluster: what a plugin's own goroutine does, such as to allow a pod, takes effect in the next one.
//
// The ClientSet of Handles is client-go's fake clientset over the simulated cluster: plugins see in it what the scheduler has bound, evicted and written, and what they
// write the scheduler is shown. Bindings and evictions work; pods that are deleted terminate for their grace period. It has no admission, no selectors of fields and
// no check of resource versions. The informers of Handles have what the cluster has before each decision, though handlers may still be running; KubeConfig is nil.
// Events of plugins' recorders are kept, see Events.
//
// As in production, every event wakes the pods that a plugin without EventsToRegister has rejected: also the condition that is written of such a pod, so that it is
// tried twice.
type Cluster struct {
	t        testing.TB
	sim      *simulate.Cluster
	live     atomic.Pointer[simulate.Cluster] // the same, for goroutines of plugins
	api      *api
	recorder *recorder
	handles  map[string]fwk.Handle
}

// NewCluster makes a cluster with a scheduler that knows the nodes and pods and has not decided about any. It fails the test if the configuration or a plugin
// is refused. When the test ends the plugins are closed.
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

// configure reads the configuration and makes the plugins.
func (c *Cluster) configure(ctx context.Context, s *settings) (*config.Config, error) {
	var mu sync.Mutex // factories run on goroutines of their own
	for i := range s.plugins {
		if factory := s.plugins[i].Factory; factory != nil {
			s.plugins[i].Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				mu.Lock()
				c.handles[h.ProfileName()] = h
				mu.Unlock()
				return factory(ctx, args, h)
			}
		}
	}
	if err := config.CheckProgram(s.plugins, s.shown); err != nil {
		return nil, err
	}
	added, err := config.NewOutside(s.plugins, s.types, s.shown)
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
	scheduler, err := config.Read(config.Request{File: file, Outside: added})
	if err != nil || !scheduler.EnablesOutside() {
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

// now is the simulated time, zero before the cluster runs.
func (c *Cluster) now() time.Time {
	if sim := c.live.Load(); sim != nil {
		return sim.Now()
	}
	return time.Time{}
}

// enabling is the configuration that enables plugins after the built-in ones.
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

// defaulted returns a copy of a pod with what the API server fills in: a namespace and a scheduler name.
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

// Result is what has become of a pod.
type Result struct {
	// Node is the node that the pod is bound to or, while Waiting, the one that was chosen; empty if there is none.
	Node string
	// Bound says whether the API server has stored its binding.
	Bound bool
	// Waiting are the plugins that the pod waits for at Permit.
	Waiting []string
	// Message says why the pod got no node, or was not bound: the text of its FailedScheduling event, or why a plugin holds it at PreEnqueue.
	Message string
	// Rejectors are the plugins that must change their mind before another try is worth it, sorted. There are none after an error.
	Rejectors []string
	// Err is what went wrong in the last attempt, nil if nothing did: a rejection is no error. A PostFilter plugin that failed is one.
	Err error
	// Nominated is the pod's nominated node in the API.
	Nominated string
	// Victims are the pods, as namespace/name, that the last attempt has evicted: those of built-in preemption and, after Schedule, also those that were
	// deleted or evicted by the ClientSet meanwhile.
	Victims []string
	// Attempts is how often the scheduler has decided about the pod.
	Attempts int
}

// Schedule creates a pod and returns what becomes of it, and of all others, without time passing.
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

// Advance lets virtual time pass: backoffs and timeouts end, and evicted pods go.
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

// Result returns what has become of a pod by now. It fails the test if there is no such pod.
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

// Handle returns the Handle of the profile of that name, such as "default-scheduler". It fails the test if no plugin from outside is enabled there.
func (c *Cluster) Handle(profile string) fwk.Handle {
	c.t.Helper()
	h := c.handles[profile]
	if h == nil {
		c.t.Fatalf("the profile %q has no plugin from outside, and so no Handle", profile)
	}
	return h
}

// ClientSet returns the client that plugins have.
func (c *Cluster) ClientSet() kubernetes.Interface { return c.api.client }

// Set creates or replaces API objects. The scheduler is shown them in the next Settle, Advance or Schedule.
func (c *Cluster) Set(objects ...runtime.Object) {
	c.t.Helper()
	for _, o := range objects {
		if err := c.api.put(o); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Delete deletes API objects at once. Those that are not there are no error.
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

// Pod returns the pod as the API server has it, nil if there is none.
func (c *Cluster) Pod(namespace, name string) *v1.Pod {
	return c.sim.Pod(model.PodKey{Namespace: namespace, Name: name}).DeepCopy()
}

// Event is an event about a pod.
type Event struct {
	Pod                  string // namespace/name
	Type, Reason, Action string
	// Note is that of plugins' events; those of the scheduler have none: a Result has the Message.
	Note string
	// Count is how often it has happened.
	Count int
}

// Events returns the scheduler's events, by pod and time, and then those of plugins' recorders, in their order.
func (c *Cluster) Events() []Event {
	var all []Event
	for _, e := range c.sim.Events() {
		all = append(all, Event{Pod: e.Subject.Key().String(), Type: e.Type, Reason: e.Reason, Action: e.Action, Count: e.Count})
	}
	return append(all, c.recorder.events()...)
}
