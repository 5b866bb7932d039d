package framework

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBinds are the pods that plugins have registered as being at PreBind, besides those
// in package commit. All profiles share them; any goroutine may use them.
type PreBinds struct {
	mu   sync.Mutex
	pods map[types.UID]*preBound
}

// NewPreBinds returns an empty set.
func NewPreBinds() *PreBinds { return &PreBinds{pods: map[types.UID]*preBound{}} }

func (p *PreBinds) get(uid types.UID) *preBound {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid]
}

// preBound is a pod that a plugin has added.
type preBound struct {
	mu                 sync.Mutex
	cancel             context.CancelCauseFunc
	canceled, finished bool
}

// CancelPod cancels the plugin's work for the pod, unless it is marked as finished. It
// reports whether the work is cancelled, by this or an earlier call.
func (p *preBound) CancelPod(reason string) bool {
	p.mu.Lock()
	first := !p.canceled && !p.finished
	if first {
		p.canceled = true
	}
	canceled := p.canceled
	p.mu.Unlock()
	if first && p.cancel != nil {
		p.cancel(errors.New(reason)) // the plugin's function may call back
	}
	return canceled
}

// MarkPrebound marks the pod as no longer cancellable. It reports false if the pod was
// already cancelled.
func (p *preBound) MarkPrebound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.canceled {
		return false
	}
	p.finished = true
	return true
}

// AddPodInPreBind makes GetPodInPreBind return the pod until RemovePodInPreBind. The
// scheduler's own pods at PreBind need not be added. If one is, the plugin's function
// cancels it.
func (h *Handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	p := h.r.config.PreBinds
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[uid] = &preBound{cancel: cancel}
}

// GetPodInPreBind returns a pod that a plugin has added or that is at PreBind, or nil.
func (h *Handle) GetPodInPreBind(uid types.UID) fwk.PodInPreBind {
	if pod := h.r.config.PreBinds.get(uid); pod != nil {
		return pod
	}
	if b := h.bindings(); b != nil {
		if pod := b.PodInPreBind(uid); pod != nil {
			return pod
		}
	}
	return nil
}

// RemovePodInPreBind reverts AddPodInPreBind. A pod that commit has at PreBind stays
// there, with a log line.
func (h *Handle) RemovePodInPreBind(uid types.UID) {
	p := h.r.config.PreBinds
	p.mu.Lock()
	_, added := p.pods[uid]
	delete(p.pods, uid)
	p.mu.Unlock()
	if !added && h.GetPodInPreBind(uid) != nil {
		h.r.config.Log.Error(notSupported("RemovePodInPreBind", "the scheduler has the pod at PreBind"), "A pod stays at PreBind", "pod", uid)
	}
}
