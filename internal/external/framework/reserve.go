package framework

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// maxPermit is the longest wait at Permit, as in kube-scheduler.
const maxPermit = 15 * time.Minute

// binding is the plugins' data from Reserve to PostBind. It lives as long as the pod's
// binding.
type binding struct {
	r     *Runtime
	state fwk.CycleState
	// pod is a copy of the pod with the node's name, which only these plugins have.
	pod      *v1.Pod
	nodeName string
	// late is a plugin whose Reserve was abandoned or not called; nil for none. After an
	// abandoned call, Unreserve runs when the call returns. Without a call, it does not
	// run.
	late *reserve
}

// bindingOf returns the binding of the turn's placement.
func (t *turn) bindingOf(r *Runtime, nodeName string) *binding {
	if t.binding == nil {
		t.binding = &binding{r: r, state: t.state, pod: t.podOn(nodeName), nodeName: nodeName}
	}
	return t.binding
}

// podOn returns a copy of the turn's pod with a node's name.
func (t *turn) podOn(nodeName string) *v1.Pod {
	pod := copyOf(t.pod)
	pod.Spec.NodeName = nodeName
	return pod
}

// renew gives later plugin calls another copy of the pod, because an abandoned call may
// still use the old one.
func (t *turn) renew(late *reserve) {
	b := *t.binding
	b.pod = t.podOn(b.nodeName)
	if late != nil {
		b.late = late
	}
	t.binding = &b
}

type reserve struct {
	external
	plugin  fwk.ReservePlugin
	undoing undoing
}

// undoing are the pods with an unfinished undo in a plugin: an abandoned Reserve is still
// running, or an Unreserve is. Any goroutine may use it.
type undoing struct {
	mu   sync.Mutex
	pods map[types.UID]int // number of such calls
}

func (u *undoing) begin(pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods == nil {
		u.pods = map[types.UID]int{}
	}
	u.pods[pod]++
}

func (u *undoing) end(pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods[pod]--; u.pods[pod] == 0 {
		delete(u.pods, pod)
	}
}

func (u *undoing) has(pod types.UID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pods[pod] > 0
}

type permit struct {
	external
	plugin fwk.PermitPlugin
}

// run runs the plugin. A rejection is a *plugin.Refusal.
//
// An abandoned call is undone on its own goroutine, as soon as it returns. Undoing it
// concurrently would be wrong, because the call could reserve afterwards. Until then, and
// while an abandoned Unreserve runs, the plugin is not called to reserve for the pod
// again: the late undo would revert that, too.
func (p *reserve) run(v state.View, _ *model.Pod, slot int32) ([]plan.Hold, error) {
	b := p.r.turn.bindingOf(p.r, v.Node(slot).Name())
	if p.undoing.has(b.pod.UID) {
		p.r.turn.renew(p)
		return nil, &Failure{p.name, Reserve, "not called: it has not returned from an earlier attempt to place the pod"}
	}
	const unused, running, over = 0, 1, 2
	// Either the returning call or the abandoning loop sets phase to over first.
	var phase atomic.Int32
	o, err := call(p.r.lane, Reserve, p.name, func(ctx context.Context) outcome {
		if !phase.CompareAndSwap(unused, running) {
			return outcome{} // abandoned before it began
		}
		defer func() {
			if !phase.CompareAndSwap(running, over) {
				defer p.undoing.end(b.pod.UID)
				p.guard(Unreserve, func() outcome {
					p.plugin.Unreserve(context.WithoutCancel(ctx), b.state, b.pod, b.nodeName)
					return outcome{}
				})
			}
		}()
		return read(p.plugin.Reserve(ctx, b.state, b.pod, b.nodeName), Reserve, success|failing|rejecting)
	})
	p.observe(Reserve, o.code, 1, err)
	if err != nil {
		if phase.CompareAndSwap(unused, over) { // nothing is reserved, so nothing is undone
			p.r.turn.renew(p)
			return nil, err
		}
		p.undoing.begin(b.pod.UID)
		if phase.CompareAndSwap(running, over) {
			p.r.turn.renew(p)
		} else {
			p.undoing.end(b.pod.UID)
		}
		return nil, err
	}
	return nil, p.refusal(&o)
}

// refusal converts a status to the error that the engine and commit expect; nil for a
// status that is neither an error nor a rejection.
func (o *external) refusal(said *outcome) error {
	if said.isRejection() {
		return &plugin.Refusal{Plugin: o.name, Reasons: said.reasons, Pending: said.code == fwk.Pending}
	}
	return said.err
}

// run runs the plugin. A rejection is a *plugin.Refusal.
func (p *permit) run(_ state.View, placement *plan.Placement) ([]plan.Step, error) {
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
		p.r.turn.renew(nil)
		return nil, err
	case found.code == fwk.Wait:
		// A wait of 0 would end at once, so it must be longer.
		return []plan.Step{{Wait: &plan.Wait{Timeout: min(max(found.timeout, time.Nanosecond), maxPermit)}}}, nil
	}
	return nil, p.refusal(&found.outcome)
}
