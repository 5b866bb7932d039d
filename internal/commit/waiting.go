package commit

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// AtPermit is a placement that waits at Permit, or is on its way there. All profiles
// share one set of these, as in kube-scheduler, which has a placement from the decision
// until the end of its wait. An AtPermit belongs to one attempt: later calls do not
// affect the pod's next attempt.
type AtPermit struct {
	binding *binding
	element *list.Element // nil when the wait is over
	copied  sync.Once
	object  *v1.Pod
}

// Pod returns a copy of the pod with its node's name, made once for all callers. Any
// goroutine may call it.
func (a *AtPermit) Pod() *v1.Pod {
	a.copied.Do(func() {
		a.object = a.binding.placement.Pod.Object.DeepCopy()
		a.object.Spec.NodeName = a.binding.placement.NodeName
	})
	return a.object
}

// UID returns the pod's UID.
func (a *AtPermit) UID() types.UID { return a.binding.placement.Pod.UID }

// listPermit adds a placement in which a plugin waits at Permit.
func (o *Outbox) listPermit(b *binding) {
	if slices.ContainsFunc(b.placement.Steps, waitsAtPermit) {
		b.steps.permit = &AtPermit{binding: b}
		b.steps.permit.element = o.permits.PushBack(b.steps.permit)
	}
}

func (o *Outbox) unlistPermit(b *binding) {
	if b.steps != nil && b.steps.permit != nil && b.steps.permit.element != nil {
		o.permits.Remove(b.steps.permit.element)
		b.steps.permit.element = nil
	}
}

func waitsAtPermit(s plan.Step) bool { return s.Stage == plan.Permit && s.Wait != nil }

// AtPermit returns the placements that wait at Permit, in the order of their decisions.
func (o *Outbox) AtPermit() []*AtPermit {
	waiting := make([]*AtPermit, 0, o.permits.Len())
	for e := o.permits.Front(); e != nil; e = e.Next() {
		waiting = append(waiting, e.Value.(*AtPermit))
	}
	return waiting
}

// AtPermitOf returns a pod's placement that waits at Permit, nil if none.
func (o *Outbox) AtPermitOf(pod types.UID) *AtPermit {
	if b := o.bindings[pod]; b != nil && b.steps != nil && b.steps.permit != nil && b.steps.permit.element != nil {
		return b.steps.permit
	}
	return nil
}

// PendingAt returns the plugins that have not allowed a placement yet, in order.
func (o *Outbox) PendingAt(a *AtPermit) []string {
	var plugins []string
	for i, step := range a.binding.placement.Steps {
		if waitsAtPermit(step) && !a.binding.steps.allowed[i] {
			plugins = append(plugins, step.Plugin)
		}
	}
	return plugins
}

// AllowAt ends the wait of a plugin.
func (o *Outbox) AllowAt(now time.Time, a *AtPermit, plugin string) {
	b := a.binding
	if a.element == nil || b.steps.interrupted != nil {
		return
	}
	for i, step := range b.placement.Steps {
		if waitsAtPermit(step) && step.Plugin == plugin && !b.steps.allowed[i] {
			o.allow(now, b, i)
			return
		}
	}
}

// RejectAt ends the wait with a plugin's rejection; the plugin's events wake the pod.
// With an empty plugin name, the pod is retried after its backoff. It reports whether the
// pod was still waiting.
func (o *Outbox) RejectAt(now time.Time, a *AtPermit, plugin, reason string) bool {
	return o.endPermit(now, a, rejection(plugin, reason))
}

// PreemptAt ends the wait because other pods need the resources. No plugin has rejected
// the pod, so it is retried after its backoff. It reports whether the pod was still
// waiting.
func (o *Outbox) PreemptAt(now time.Time, a *AtPermit, reason string) bool {
	return o.endPermit(now, a, failure{err: fmt.Errorf("waiting on permit for pod: %s", reason)})
}

func (o *Outbox) endPermit(now time.Time, a *AtPermit, f failure) bool {
	if a.element == nil || a.binding.steps.interrupted != nil || len(o.PendingAt(a)) == 0 {
		return false
	}
	return o.interrupt(now, a.binding, f)
}

// AtPreBind is a placement that has come to PreBind.
type AtPreBind struct{ binding *binding }

// AtPreBindOf returns a pod's placement that has come to PreBind and has not ended, nil
// if none.
func (o *Outbox) AtPreBindOf(pod types.UID) *AtPreBind {
	if b := o.bindings[pod]; b != nil && b.steps != nil && b.phase >= preBinds && b.phase < undoes {
		return &AtPreBind{b}
	}
	return nil
}

// CancelAt cancels a binding at PreBind. It reports whether the binding is cancelled, by
// this call or an earlier one.
func (o *Outbox) CancelAt(now time.Time, a *AtPreBind, reason string) bool {
	b := a.binding
	switch {
	case b.steps.canceled:
		return true
	case b.steps.prebound || b.phase != preBinds:
		return false
	}
	b.steps.canceled = true
	return o.interrupt(now, b, b.broken(errors.New(reason)))
}

// MarkPrebound makes a binding impossible to cancel. It reports false if the binding has
// been cancelled or has failed.
func (o *Outbox) MarkPrebound(a *AtPreBind) bool {
	b := a.binding
	if b.steps.canceled || b.steps.interrupted != nil || b.failure.err != nil {
		return false
	}
	b.steps.prebound = true
	return true
}

// Guarded gives plugins access to an outbox from any goroutine. Its functions do not wait
// for plugins.
type Guarded struct {
	// Update runs a function that may change the outbox at the current time, with
	// exclusive access, and delivers the results of the change.
	Update func(change func(o *Outbox, now time.Time))
	// Read runs a function that produces no results.
	Read func(look func(o *Outbox))
}

// WaitingPods returns the pods that wait at Permit, in the order of their decisions.
func (g *Guarded) WaitingPods() []*WaitingPod {
	var pods []*WaitingPod
	g.Read(func(o *Outbox) {
		for _, at := range o.AtPermit() {
			pods = append(pods, &WaitingPod{g, at})
		}
	})
	return pods
}

// WaitingPod returns a pod that waits at Permit, nil if it does not.
func (g *Guarded) WaitingPod(pod types.UID) (waiting *WaitingPod) {
	g.Read(func(o *Outbox) {
		if at := o.AtPermitOf(pod); at != nil {
			waiting = &WaitingPod{g, at}
		}
	})
	return waiting
}

// PodInPreBind returns a pod that has come to PreBind and whose binding has not ended,
// nil if none.
func (g *Guarded) PodInPreBind(pod types.UID) (binding *PodInPreBind) {
	g.Read(func(o *Outbox) {
		if at := o.AtPreBindOf(pod); at != nil {
			binding = &PodInPreBind{g, at}
		}
	})
	return binding
}

// guarded returns the plugins' access to the outbox of a Commit.
func (c *Commit) guarded() Guarded {
	return Guarded{
		Update: func(change func(o *Outbox, now time.Time)) {
			c.update(func(now time.Time) { change(c.outbox, now) })
		},
		Read: func(look func(o *Outbox)) {
			c.mu.Lock()
			defer c.mu.Unlock()
			look(c.outbox)
		},
	}
}

// WaitingPods returns the pods that wait at Permit, in the order of their decisions.
func (c *Commit) WaitingPods() []*WaitingPod { return c.plugins.WaitingPods() }

// WaitingPod returns a pod that waits at Permit, nil if it does not.
func (c *Commit) WaitingPod(pod types.UID) *WaitingPod { return c.plugins.WaitingPod(pod) }

// PodInPreBind returns a pod that has come to PreBind and whose binding has not ended,
// nil if none.
func (c *Commit) PodInPreBind(pod types.UID) *PodInPreBind { return c.plugins.PodInPreBind(pod) }

// WaitingPod is a pod that waits at Permit, for plugins: kube-scheduler's WaitingPod. Any
// goroutine may call its methods, which do not wait. Plugins may call them from within
// their own methods.
type WaitingPod struct {
	outbox *Guarded
	at     *AtPermit
}

// Pod returns a copy of the pod with its node's name. All callers get the same copy
// during a wait.
func (w *WaitingPod) Pod() *v1.Pod { return w.at.Pod() }

// PendingPlugins returns the plugins that have not allowed the pod yet, in order.
func (w *WaitingPod) PendingPlugins() (plugins []string) {
	w.outbox.Read(func(o *Outbox) { plugins = o.PendingAt(w.at) })
	return plugins
}

// Allow ends the wait of a plugin. The pod goes on when all plugins have allowed it.
func (w *WaitingPod) Allow(plugin string) {
	w.outbox.Update(func(o *Outbox, now time.Time) { o.AllowAt(now, w.at, plugin) })
}

// Reject rejects the pod for a plugin, which may be any, or none if the name is empty. It
// reports whether the pod was still waiting.
func (w *WaitingPod) Reject(plugin, reason string) (ended bool) {
	w.outbox.Update(func(o *Outbox, now time.Time) { ended = o.RejectAt(now, w.at, plugin, reason) })
	return ended
}

// Preempt fails the pod, because other pods need the resources. It reports whether the
// pod was still waiting.
func (w *WaitingPod) Preempt(reason string) (ended bool) {
	w.outbox.Update(func(o *Outbox, now time.Time) { ended = o.PreemptAt(now, w.at, reason) })
	return ended
}

// PodInPreBind is a pod at PreBind, for plugins: kube-scheduler's PodInPreBind. Any
// goroutine may call its methods, which do not wait.
type PodInPreBind struct {
	outbox *Guarded
	at     *AtPreBind
}

// CancelPod cancels the binding, unless PreBind is over or MarkPrebound was called. It
// reports whether the binding is cancelled, by this call or an earlier one.
func (p *PodInPreBind) CancelPod(reason string) (canceled bool) {
	p.outbox.Update(func(o *Outbox, now time.Time) { canceled = o.CancelAt(now, p.at, reason) })
	return canceled
}

// MarkPrebound makes the binding impossible to cancel. It reports false if the binding
// has been cancelled or has failed.
func (p *PodInPreBind) MarkPrebound() (marked bool) {
	p.outbox.Read(func(o *Outbox) { marked = o.MarkPrebound(p.at) })
	return marked
}
