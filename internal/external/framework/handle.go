package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/commit"
)

// Handle is the plugins' interface to the scheduler. Any goroutine may use it, at any
// time, even after its call was abandoned.
//
// Unsupported methods fail, see unsupported.go. Outside of PostFilter, RunFilterPlugins
// and RunFilterPluginsWithNominatedPods return an Error. APIDispatcher and APICacher
// return nil and SignPod returns no signature, as in kube-scheduler with their feature
// gates off. Plugins check for nil.
type Handle struct {
	nominator
	r    *Runtime
	gate gate
}

var _ fwk.Handle = (*Handle)(nil)

func newHandle(r *Runtime) *Handle {
	return &Handle{r: r, nominator: nominator{queue: r.config.Queue, types: r.config.Types}, gate: gate{snapshot: r.config.Snapshot}}
}

// SnapshotSharedLister returns the lister of the cluster at the beginning of the last
// turn.
func (h *Handle) SnapshotSharedLister() fwk.SharedLister { return h.r.config.Snapshot.Lister() }

// MutableSnapshotSharedLister returns the same lister.
func (h *Handle) MutableSnapshotSharedLister() fwk.MutableSnapshotSharedLister {
	return h.r.config.Snapshot.Lister()
}

func (h *Handle) bindings() Bindings {
	if h.r.config.Bindings == nil {
		return nil
	}
	return h.r.config.Bindings()
}

// IterateOverWaitingPods calls back with the pods of all profiles that wait at Permit.
func (h *Handle) IterateOverWaitingPods(callback func(fwk.WaitingPod)) {
	if b := h.bindings(); b != nil {
		for _, pod := range b.WaitingPods() {
			callback(waitingPod{pod, h.r.config.Leaving})
		}
	}
}

// GetWaitingPod returns a pod that waits at Permit, or nil.
func (h *Handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if b := h.bindings(); b != nil {
		if pod := b.WaitingPod(uid); pod != nil {
			return waitingPod{pod, h.r.config.Leaving}
		}
	}
	return nil
}

// RejectWaitingPod rejects a pod that waits at Permit, and reports whether it was
// waiting.
func (h *Handle) RejectWaitingPod(uid types.UID) bool {
	if p := h.GetWaitingPod(uid); p != nil {
		return p.Reject("", "removed")
	}
	return false
}

// waitingPod is a pod that waits at Permit.
type waitingPod struct {
	*commit.WaitingPod
	leaving *Leaving
}

func (w waitingPod) GetPod() *v1.Pod             { return w.Pod() }
func (w waitingPod) GetPendingPlugins() []string { return w.PendingPlugins() }

func (w waitingPod) Reject(plugin, msg string) bool {
	return w.leaving.reject(w.Pod().Spec.SchedulerName, w.Pod().UID, func() bool { return w.WaitingPod.Reject(plugin, msg) })
}

func (w waitingPod) Preempt(_, msg string) bool {
	return w.leaving.reject(w.Pod().Spec.SchedulerName, w.Pod().UID, func() bool { return w.WaitingPod.Preempt(msg) })
}

// Activate moves pending pods to the active queue. It does not block.
func (h *Handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	var list []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if pods[name] != nil {
			list = append(list, pods[name])
		}
	}
	h.r.activatePods(list)
}

// ClientSet returns a client of the API server.
func (h *Handle) ClientSet() clientset.Interface { return h.r.config.ClientSet }

// KubeConfig returns a copy of the client configuration.
func (h *Handle) KubeConfig() *restclient.Config {
	if h.r.config.KubeConfig == nil {
		return nil
	}
	return restclient.CopyConfig(h.r.config.KubeConfig)
}

// EventRecorder returns the profile's recorder.
func (h *Handle) EventRecorder() events.EventRecorderLogger { return h.r.config.EventRecorder }

// SharedInformerFactory returns the informers that plugins share.
func (h *Handle) SharedInformerFactory() informers.SharedInformerFactory { return h.r.config.Informers }

// Extenders returns the configured extenders.
func (h *Handle) Extenders() []fwk.Extender { return slices.Clone(h.r.config.Extenders) }

// APIDispatcher returns nil.
func (h *Handle) APIDispatcher() fwk.APIDispatcher { return nil }

// APICacher returns nil.
func (h *Handle) APICacher() fwk.APICacher { return nil }

// ProfileName returns the scheduler name.
func (h *Handle) ProfileName() string { return h.r.config.Profile }

// SignPod returns nil: pods are not scheduled by signature.
func (h *Handle) SignPod(context.Context, *v1.Pod) fwk.PodSignature { return nil }

// Parallelizer returns a Parallelizer. It re-panics on the caller's goroutine when all
// pieces are done, because a panic on another goroutine would end the process.
func (h *Handle) Parallelizer() fwk.Parallelizer {
	n := h.r.config.Parallelism
	if n <= 0 {
		n = public.DefaultParallelism
	}
	return parallelizer{public.NewParallelizer(n)}
}

type parallelizer struct{ public.Parallelizer }

// Until runs pieces of work in parallel.
func (p parallelizer) Until(ctx context.Context, pieces int, work workqueue.DoWorkPieceFunc, operation string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first sync.Once
	var panicked any
	p.Parallelizer.Until(ctx, pieces, func(piece int) {
		defer func() {
			if r := recover(); r != nil {
				first.Do(func() { panicked = r })
				cancel()
			}
		}()
		work(piece)
	}, operation)
	if panicked != nil {
		panic(panicked)
	}
}

// RunFilterPlugins runs the profile's filters for the turn's pod on a node, whose pods
// may differ from the snapshot. Call it during PostFilter.
func (h *Handle) RunFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if status := h.gate.filter(state, pod, info); !status.IsSuccess() {
		return status
	}
	skipped := state.GetSkipFilterPlugins()
	for _, f := range h.r.filters {
		if skipped.Has(f.name) {
			continue
		}
		status := f.plugin.Filter(ctx, state, pod, info)
		if o := read(status, Filter, success|failing|rejecting); o.code == fwk.Error {
			return fwk.AsStatus(fmt.Errorf("running %q filter plugin: %w", f.name, o.err)).WithPlugin(f.name)
		} else if o.code != fwk.Success {
			return fwk.NewStatus(o.code, o.reasons...).WithPlugin(f.name)
		}
	}
	return nil
}

// RunFilterPluginsWithNominatedPods first runs the filters with the pods that are
// nominated to the node and have at least the pod's priority. If these pass, or no such
// pods exist, it runs the filters without them.
func (h *Handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	node := info.Node()
	if node == nil {
		return fwk.AsStatus(errors.New("node not found"))
	}
	var with fwk.NodeInfo
	var changed fwk.CycleState
	for _, nominated := range h.NominatedPodsForNode(node.Name) {
		if other := nominated.GetPod(); priorityOf(other) < priorityOf(pod) || other.UID == pod.UID {
			continue
		}
		if with == nil {
			with, changed = info.Snapshot(), state.Clone()
		}
		with.AddPodInfo(nominated)
		if status := h.RunPreFilterExtensionAddPod(ctx, changed, pod, nominated, with); !status.IsSuccess() {
			return fwk.AsStatus(status.AsError())
		}
	}
	if with != nil {
		if status := h.RunFilterPlugins(ctx, changed, pod, with); !status.IsSuccess() {
			return status
		}
	}
	return h.RunFilterPlugins(ctx, state, pod, info)
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// RunPreFilterExtensionAddPod adds a pod to a node for the filters, in this CycleState.
func (h *Handle) RunPreFilterExtensionAddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return h.extend(ctx, state, pod, added, node, true)
}

// RunPreFilterExtensionRemovePod removes a pod from a node for the filters, in this
// CycleState.
func (h *Handle) RunPreFilterExtensionRemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return h.extend(ctx, state, pod, removed, node, false)
}

func (h *Handle) extend(ctx context.Context, state fwk.CycleState, pod *v1.Pod, other fwk.PodInfo, node fwk.NodeInfo, add bool) *fwk.Status {
	if node == nil || node.Node() == nil {
		return fwk.AsStatus(errors.New("node not found"))
	}
	noteChange(state, change{other.GetPod(), node.Node().Name, add})
	for _, p := range h.r.extensions(state.GetSkipFilterPlugins()) {
		if err := p.extend(ctx, state, pod, other, node, add); err != nil {
			return fwk.AsStatus(err)
		}
	}
	return nil
}
