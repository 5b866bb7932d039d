// Package host has the plugins from outside of all profiles run.
//
// It takes clients, and what plugins act on: bindings and the queue; it gives config a Host, whose profiles' plugins share one view of the cluster. It owns the
// Runtimes of the profiles. It never makes plugins: config does.
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

// Config is what a Host is built from. Activate and Recorder are required; the clients may be nil, and plugins get nil then.
type Config struct {
	// Parallelism and Deadline are those of Runtimes.
	Parallelism int
	Deadline    time.Duration
	// Now is the scheduler's clock; nil stands for time.Now.
	Now func() time.Time
	Log klog.Logger
	// Bindings returns where bindings are, nil while there are none: they may be built after the plugins.
	Bindings func() framework.Bindings
	// Activate has pods tried at once that wait for their turn. It does not block, and reports whether there was room for the request.
	Activate func(pods ...model.PodKey) bool
	// Nominate has the state note a nomination. Like Activate.
	Nominate func(request model.NominationRequest) bool
	Observer framework.Observer // may be nil
	// Devices says that devices and claims are watched.
	Devices bool
	// Types make the values that plugins get; nil stands for Berth's types.
	Types *public.Types

	Extenders []fwk.Extender

	ClientSet  kubernetes.Interface
	KubeConfig *rest.Config
	// Recorder returns the recorder of events of a profile.
	Recorder  func(profile string) events.EventRecorderLogger
	Informers informers.SharedInformerFactory
}

// Host runs the plugins from outside of all profiles.
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

// Profile returns what runs the plugins of a profile.
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

// Activate has pods tried at once that wait for their turn.
func (h *Host) Activate(pods []*v1.Pod) {
	keys := make([]model.PodKey, len(pods))
	for i, pod := range pods {
		keys[i] = model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
	}
	if !h.config.Activate(keys...) {
		h.config.Log.Info("Too many pods were to be activated by plugins; the rest wait for their events")
	}
}

// Nominate has the state note a pod's nomination, so that later decisions leave room for it.
func (h *Host) Nominate(pod *v1.Pod, nodeName string) {
	request := model.NominationRequest{Pod: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, NodeName: nodeName}
	if h.config.Nominate != nil && !h.config.Nominate(request) {
		h.config.Log.Info("Too many pods were nominated by plugins; this one is not", "pod", klog.KObj(pod))
	}
}

// Check returns an error while a plugin is not called because it hangs for too many pods. Any
// goroutine may call it.
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

// Close ends what runs plugins.
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

// Handle returns what factories get.
func (h *hosted) Handle() fwk.Handle { return h.handle }

// Adapt returns what the plugins do at the points that they extend.
func (h *hosted) Adapt(o config.Order) (config.Adapters, error) {
	a := config.Adapters{
		QueueSort: map[string]plugin.QueueSort{}, PreEnqueue: map[string]plugin.PodPreEnqueue{}, EnqueueExtensions: map[string]plugin.EnqueueExtensions{},
		PreFilter: map[string]plugin.PreFilter{}, Filter: map[string]plugin.TurnFilter{}, PostFilter: map[string]plugin.PostFilter{},
		PreScore: map[string]plugin.PreScore{}, Score: map[string]plugin.TurnScore{}, Reserve: map[string]plugin.Reserve{},
		Permit: map[string]plugin.Permit{}, PreBind: map[string]plugin.PreBind{}, PostBind: map[string]plugin.PostBind{},
	}
	binders := map[string]*framework.Binder{}
	for _, name := range o.Enabled {
		points, err := h.runtime.Adapt(o.Plugins[name])
		if err != nil {
			return config.Adapters{}, err
		}
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

// put stores an adapter, unless there is none.
func put[T comparable](adapters map[string]T, name string, adapter T) {
	if adapter != *new(T) {
		adapters[name] = adapter
	}
}

// Complete has the profile's plugins from outside run.
func (h *hosted) Complete(p *plugin.Profile) { h.runtime.Attach(p, h.binds) }
