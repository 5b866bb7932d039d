package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// permitMax is the longest wait at Permit, as in kube-scheduler.
const permitMax = 15 * time.Minute

// binding is what the plugins get from Reserve to PostBind. It lives as long as the pod's binding.
type binding struct {
	r     *Runtime
	state fwk.CycleState
	// pod is a copy of the pod with the node's name, which only these plugins have.
	pod      *v1.Pod
	nodeName string
}

// bindingOf returns the binding of the turn's placement.
func (t *turn) bindingOf(r *Runtime, nodeName string) *binding {
	if t.binding == nil {
		pod := copyOf(t.pod)
		pod.Spec.NodeName = nodeName
		t.binding = &binding{r, t.state, pod, nodeName}
	}
	return t.binding
}

type reserve struct {
	outside
	plugin fwk.ReservePlugin
}

type permit struct {
	outside
	plugin fwk.PermitPlugin
}

var (
	_ plugin.Reserve = (*reserve)(nil)
	_ plugin.Permit  = (*permit)(nil)
)

// Reserve runs the plugin. A rejection is a *plugin.Refusal.
func (p *reserve) Reserve(v state.View, _ *model.Pod, slot int32) ([]plan.Hold, error) {
	b := p.r.turn.bindingOf(p.r, v.Node(slot).Name())
	o, err := call(p.r.lane, Reserve, p.name, func(ctx context.Context) outcome {
		return read(p.plugin.Reserve(ctx, b.state, b.pod, b.nodeName), Reserve, success|failing|rejecting)
	})
	p.observe(Reserve, o.code, 1, err)
	if err != nil {
		return nil, err
	}
	return nil, p.refusal(&o)
}

// refusal returns the error that a status is where the engine and commit expect one, nil for one that is neither an error nor a rejection.
func (o *outside) refusal(said *outcome) error {
	if said.isRejection() {
		return &plugin.Refusal{Plugin: o.name, Reasons: said.reasons, Pending: said.code == fwk.Pending}
	}
	return said.err
}

// Permit runs the plugin. A rejection is a *plugin.Refusal.
func (p *permit) Permit(_ state.View, placement *plan.Placement) ([]plan.Step, error) {
	b := p.r.turn.bindingOf(p.r, placement.NodeName)
	type result struct {
		outcome
		timeout time.Duration
	}
	found, err := call(p.r.lane, Permit, p.name, func(ctx context.Context) result {
		status, timeout := p.plugin.Permit(ctx, b.state, b.pod, b.nodeName)
		return result{read(status, Permit, success|failing|rejecting|waits), timeout}
	})
	p.observe(Permit, found.code, 1, err)
	switch {
	case err != nil:
		return nil, err
	case found.code == fwk.Wait:
		// A wait must be longer than 0: one of 0 is over at once.
		return []plan.Step{{Wait: &plan.Wait{Timeout: min(max(found.timeout, time.Nanosecond), permitMax)}}}, nil
	}
	return nil, p.refusal(&found.outcome)
}
