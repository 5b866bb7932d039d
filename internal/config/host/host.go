// Package host runs the out-of-tree plugins of all profiles.
//
// It takes clients, and the objects that plugins act on: bindings and the queue. It
// returns a config.Host; the plugins of its profiles share one view of the cluster. It
// owns the Runtimes of the profiles. It never builds plugins: config does.
package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Config is the configuration of a Host. Activate and Recorder are required. The clients
// may be nil; plugins then get nil.
type Config struct {
	// Parallelism and Deadline configure the Runtimes.
	Parallelism int
	Deadline    time.Duration
	// Now is the scheduler's clock; nil means time.Now.
	Now func() time.Time
	Log klog.Logger
	// Bindings returns the bindings, or nil before they exist: they may be built after
	// the plugins.
	Bindings func() framework.Bindings
	// Activate moves pending pods to the active queue. It does not block, and returns
	// false if too many requests wait.
	Activate func(pods ...model.PodKey) bool
	// Nominate stores a nomination in the state, with the same result as Activate.
	Nominate func(request model.NominationRequest) bool
	Observer framework.Observer // may be nil
	// Devices means that devices and claims are watched.
	Devices bool
	// Types build the values that plugins get; nil means Berth's types.
	Types *public.Types

	Extenders []fwk.Extender

	ClientSet  kubernetes.Interface
	KubeConfig *rest.Config
	// Recorder returns the recorder of events of a profile.
	Recorder  func(profile string) events.EventRecorderLogger
	Informers informers.SharedInformerFactory
}

// Host runs the out-of-tree plugins of all profiles.
type Host struct {
	ctx      context.Context
	config   Config
	snapshot *snapshot.Snapshot
	preBinds *framework.PreBinds
	leaving  *framework.Leaving

	mu       sync.Mutex
	runtimes []*framework.Runtime
}

// New returns a Host. The contexts of plugins' calls end with ctx.
func New(ctx context.Context, c Config) *Host {
	return &Host{ctx: ctx, config: c, snapshot: snapshot.New(c.Types), preBinds: framework.NewPreBinds(), leaving: framework.NewLeaving()}
}

// Profile returns the host of a profile's plugins.
func (h *Host) Profile(name string) (config.HostedProfile, error) {
	runtime, err := framework.New(h.ctx, framework.Config{
		Profile:       name,
		Deadline:      h.config.Deadline,
		Now:           h.config.Now,
		Parallelism:   h.config.Parallelism,
		Log:           h.config.Log,
		Snapshot:      h.snapshot,
		Bindings:      h.config.Bindings,
		Queue:         h,
		Observer:      h.config.Observer,
		Extenders:     h.config.Extenders,
		Devices:       h.config.Devices,
		Types:         h.config.Types,
		PreBinds:      h.preBinds,
		Leaving:       h.leaving,
		ClientSet:     h.config.ClientSet,
		KubeConfig:    h.config.KubeConfig,
		EventRecorder: h.config.Recorder(name),
		Informers:     h.config.Informers,
	})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.runtimes = append(h.runtimes, runtime)
	h.mu.Unlock()
	return &hosted{runtime: runtime, handle: h.config.Types.ShownHandle(runtime.Handle())}, nil
}

// Activate moves pending pods to the active queue.
func (h *Host) Activate(pods []*v1.Pod) {
	keys := make([]model.PodKey, len(pods))
	for i, pod := range pods {
		keys[i] = model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
	}
	if !h.config.Activate(keys...) {
		h.config.Log.Info("Too many pods activated by plugins, ignoring the rest")
	}
}

// Nominate stores a pod's nomination in the state, so that later decisions leave room for
// the pod.
func (h *Host) Nominate(pod *v1.Pod, nodeName string) {
	request := model.NominationRequest{Pod: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, NodeName: nodeName}
	if h.config.Nominate != nil && !h.config.Nominate(request) {
		h.config.Log.Info("Too many pods were nominated by plugins; this one is not", "pod", klog.KObj(pod))
	}
}

// Check returns an error while a plugin is not called because it hangs for too many pods.
// Any goroutine may call it.
func (h *Host) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, r := range h.runtimes {
		for _, plugin := range r.Lane().Out() {
			errs = append(errs, fmt.Errorf("plugin %q of profile %q is not called: it has not returned for several pods", plugin, r.Profile()))
		}
	}
	return errors.Join(errs...)
}

// Close ends the goroutines of all profiles.
func (h *Host) Close() {
	for _, runtime := range h.runtimes {
		runtime.Close()
	}
}

// hosted runs the plugins of one profile.
type hosted struct {
	runtime *framework.Runtime
	handle  fwk.Handle
	binds   []*framework.Binder // those before DefaultBinder
}

// Handle returns the Handle for the factories.
func (h *hosted) Handle() fwk.Handle { return h.handle }

// Adapt returns the adapters of the plugins.
func (h *hosted) Adapt(o config.Order) (config.Adapters, error) {
	a := config.Adapters{
		Objects:   map[string][]model.Kind{},
		QueueSort: map[string]*plugin.QueueSort{}, PreEnqueue: map[string]*plugin.PreEnqueue{}, EnqueueExtensions: map[string]*plugin.EnqueueExtensions{},
		PreFilter: map[string]*plugin.PreFilter{}, Filter: map[string]*plugin.Filter{}, PostFilter: map[string]*plugin.PostFilter{},
		PreScore: map[string]*plugin.PreScore{}, Score: map[string]*plugin.Score{}, Reserve: map[string]*plugin.Reserve{},
		Permit: map[string]*plugin.Permit{}, PreBind: map[string]*plugin.PreBind{}, PostBind: map[string]*plugin.PostBind{},
	}
	binders := map[string]*framework.Binder{}
	for _, name := range o.Enabled {
		points, err := h.runtime.Adapt(o.Plugins[name])
		if err != nil {
			return config.Adapters{}, err
		}
		a.Objects[name] = points.Objects
		put(a.QueueSort, name, points.QueueSort)
		put(a.PreEnqueue, name, points.PreEnqueue)
		put(a.EnqueueExtensions, name, points.EnqueueExtensions)
		put(a.PreFilter, name, points.PreFilter)
		put(a.Filter, name, points.Filter)
		put(a.PostFilter, name, points.PostFilter)
		put(a.PreScore, name, points.PreScore)
		put(a.Score, name, points.Score)
		put(a.Reserve, name, points.Reserve)
		put(a.Permit, name, points.Permit)
		put(a.PreBind, name, points.PreBind)
		put(a.PostBind, name, points.PostBind)
		put(binders, name, points.Bind)
	}
	for _, name := range o.Bind {
		binder, ok := binders[name]
		if !ok {
			break // DefaultBinder never skips a pod
		}
		h.binds = append(h.binds, binder)
	}
	return a, nil
}

// put stores an adapter, unless it is nil.
func put[T comparable](adapters map[string]T, name string, adapter T) {
	if adapter != *new(T) {
		adapters[name] = adapter
	}
}

// Complete attaches the profile's out-of-tree plugins.
func (h *hosted) Complete(p *plugin.Profile) { h.runtime.Attach(p, h.binds) }
