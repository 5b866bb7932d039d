package app

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	externalhost "github.com/berth-scheduler/berth/internal/config/host"
	"github.com/berth-scheduler/berth/internal/external/clients"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// host runs the out-of-tree plugins of all profiles.
type host struct {
	*externalhost.Host
	// Plugins act on bindings and changes. Both are built after the plugins.
	bindings atomic.Pointer[commit.Commit]
	changes  atomic.Pointer[ingest.Ingest]
}

func newHost(ctx context.Context, c *config.Config, shared *clients.Clients, seen observers, deadline time.Duration) *host {
	h := &host{}
	own := externalhost.Config{
		Parallelism: int(*c.Source.Parallelism), Deadline: deadline, Log: klog.FromContext(ctx), Bindings: h.current, Activate: h.activate, Nominate: h.nominate,
		Observer: measured{seen.metrics.External}, Devices: c.ReadsDevices(), Types: c.Types(), ClientSet: shared.ClientSet, KubeConfig: shared.KubeConfig, Recorder: shared.Recorder, Informers: shared.Informers,
	}
	if own.KubeConfig != nil { // as configured, without Berth's defaults
		own.KubeConfig.AcceptContentTypes = c.AcceptContentTypes
	}
	if c.Extenders != nil {
		own.Extenders = framework.Hand(c.Extenders.Extenders(), c.Types())
	}
	h.Host = externalhost.New(ctx, own)
	return h
}

// measured exports metrics of plugin calls.
type measured struct{ metrics *metrics.External }

// Ran records calls of a plugin.
func (m measured) Ran(plugin string, point framework.Point, status string, calls int, took time.Duration) {
	m.metrics.Ran(plugin, string(point), status, calls, took)
}

// current returns the bindings, or nil before join.
func (h *host) current() framework.Bindings {
	if c := h.bindings.Load(); c != nil {
		return c
	}
	return nil // not an interface that holds a nil pointer
}

// activate moves pods to the active queue. Before join it returns true: no pod waits yet.
func (h *host) activate(pods ...model.PodKey) bool {
	changes := h.changes.Load()
	return changes == nil || changes.Activate(pods...)
}

// nominate stores a pod's nomination in the state, so that later decisions leave room for
// the pod. Before join it returns true: no pod waits yet.
func (h *host) nominate(request model.NominationRequest) bool {
	changes := h.changes.Load()
	return changes == nil || changes.Nominate(request)
}

// join connects the plugins with the parts that are built after them.
func (h *host) join(changes *ingest.Ingest, bindings *commit.Commit) {
	h.changes.Store(changes)
	h.bindings.Store(bindings)
}
