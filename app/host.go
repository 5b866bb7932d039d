package app

import (
	"context"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/metrics"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/outside/clients"
	"github.com/berth-scheduler/berth/internal/outside/framework"
	"github.com/berth-scheduler/berth/internal/outside/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// host runs the plugins from outside of all profiles.
type host struct {
	ctx         context.Context
	parallelism int
	extenders   []fwk.Extender
	seen        observers
	log         klog.Logger
	clients     *clients.Clients
	snapshot    *snapshot.Snapshot
	runtimes    []*framework.Runtime
	// bindings and changes are what plugins act on. They are built after them.
	bindings atomic.Pointer[commit.Commit]
	changes  atomic.Pointer[ingest.Ingest]
}

func newHost(ctx context.Context, c *config.Config, shared *clients.Clients, seen observers) *host {
	var extenders []fwk.Extender
	if c.Extenders != nil {
		extenders = framework.Hand(c.Extenders.Extenders())
	}
	return &host{ctx: ctx, parallelism: int(*c.Source.Parallelism), extenders: extenders, seen: seen, log: klog.FromContext(ctx), clients: shared, snapshot: snapshot.New()}
}

// Profile returns what runs the plugins of a profile.
func (h *host) Profile(name string) (config.HostedProfile, error) {
	runtime, err := framework.New(h.ctx, framework.Config{
		Profile:       name,
		Parallelism:   h.parallelism,
		Log:           h.log,
		Snapshot:      h.snapshot,
		Bindings:      h.current,
		Queue:         h,
		Observer:      measured{h.seen.metrics.Outside},
		Extenders:     h.extenders,
		ClientSet:     h.clients.ClientSet,
		KubeConfig:    h.clients.KubeConfig,
		EventRecorder: h.clients.Recorder(name),
		Informers:     h.clients.Informers,
	})
	if err != nil {
		return nil, err
	}
	h.runtimes = append(h.runtimes, runtime)
	return &hosted{runtime: runtime}, nil
}

// measured observes plugins.
type measured struct{ metrics *metrics.Outside }

// Ran observes calls of a plugin.
func (m measured) Ran(plugin string, point framework.Point, status string, calls int, took time.Duration) {
	m.metrics.Ran(plugin, string(point), status, calls, took)
}

// current returns where bindings are, nil while there are none.
func (h *host) current() framework.Bindings {
	if c := h.bindings.Load(); c != nil {
		return c
	}
	return nil // and not an interface that holds nil
}

// Activate has pods tried at once that wait for their turn. Before there is a queue nothing waits.
func (h *host) Activate(pods []*v1.Pod) {
	changes := h.changes.Load()
	if changes == nil {
		return
	}
	keys := make([]model.PodKey, len(pods))
	for i, pod := range pods {
		keys[i] = model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
	}
	if !changes.Activate(keys...) {
		h.log.Info("Too many pods were to be activated by plugins; the rest wait for their events", "max", ingest.ActivatedMax)
	}
}

// Nominate has the state note a pod's nomination, so that later decisions leave room for it. Before there is a queue nothing waits.
func (h *host) Nominate(pod *v1.Pod, nodeName string) {
	changes := h.changes.Load()
	if changes == nil {
		return
	}
	request := model.NominationRequest{Pod: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, NodeName: nodeName}
	if !changes.Nominate(request) {
		h.log.Info("Too many pods were nominated by plugins; this one is not", "pod", klog.KObj(pod), "max", ingest.NominatedMax)
	}
}

// join connects the plugins with what was built after them.
func (h *host) join(changes *ingest.Ingest, bindings *commit.Commit) {
	h.changes.Store(changes)
	h.bindings.Store(bindings)
}

// close ends what runs plugins.
func (h *host) close() {
	for _, runtime := range h.runtimes {
		runtime.Close()
	}
}

// hosted runs the plugins of one profile.
type hosted struct {
	runtime *framework.Runtime
	binds   []*framework.Binder // those before DefaultBinder
}

// Handle returns what factories get.
func (h *hosted) Handle() fwk.Handle { return h.runtime.Handle() }

// Adapt returns what the plugins do at the points that they extend.
func (h *hosted) Adapt(o config.Order) (config.Adapters, error) {
	a := config.Adapters{
		QueueSort: map[string]plugin.QueueSort{}, PreEnqueue: map[string]plugin.PreEnqueue{}, EnqueueExtensions: map[string]plugin.EnqueueExtensions{},
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
