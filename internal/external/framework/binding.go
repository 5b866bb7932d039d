package framework

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

type preBind struct {
	external
	plugin fwk.PreBindPlugin
	// with are this plugin and the out-of-tree plugins that follow it directly, without a
	// built-in plugin in between. One call runs them all, so with is nil for the plugins
	// behind the first.
	with []*preBind
}

// Binder is an out-of-tree Bind plugin.
type Binder struct {
	external
	plugin fwk.BindPlugin
}

type postBind struct {
	external
	plugin fwk.PostBindPlugin
}

var _ commit.Call = callFunc(nil)

// callFunc is a commit.Call.
type callFunc func(ctx context.Context) commit.CallResult

// IsCall marks the type as a plan.Call.
func (callFunc) IsCall() {}

// Run calls the function.
func (f callFunc) Run(ctx context.Context) commit.CallResult { return f(ctx) }

// Steps returns the steps of a placement that belong to no single plugin.
//
//   - At Reserve: the preflights of PreBind plugins, and the undo of Reserve plugins.
//   - At Bind: one step for each out-of-tree Bind plugin.
//   - At PostBind, which is the last call: the activation of pods that plugins want
//     retried.
func (r *Runtime) Steps(stage plan.Stage, p *plan.Placement) []plan.Step {
	t := r.turn
	switch stage {
	case plan.Reserve:
		if len(r.reserves)+len(r.preBinds) == 0 {
			return nil
		}
		b := t.bindingOf(r, p.NodeName)
		step := plan.Step{Stage: stage}
		if len(r.preBinds) > 0 {
			step.Plugin, step.Call = r.preBinds[0].name, callFunc(b.preFlight)
		}
		if len(r.reserves) > 0 {
			r.config.Leaving.reserve(r.config.Profile)
			step.Plugin, step.UndoCall = r.reserves[0].name, callFunc(b.unreserve)
		}
		return []plan.Step{step}
	case plan.Bind:
		var steps []plan.Step
		for _, binder := range r.binds {
			b := t.bindingOf(r, p.NodeName)
			steps = append(steps, plan.Step{Stage: stage, Plugin: binder.name, Call: callFunc(func(ctx context.Context) commit.CallResult { return b.bind(ctx, binder) })})
		}
		return steps
	case plan.PostBind:
		t.placed = true
		if len(r.preBinds)+len(r.binds)+len(r.postBinds) == 0 {
			return nil // no plugin runs that could request activations
		}
		b := t.bindingOf(r, p.NodeName)
		return []plan.Step{{Stage: stage, Plugin: "PodsToActivate", Call: callFunc(b.activate)}}
	}
	return nil
}

// steps returns the step that runs the plugin and its followers.
func (p *preBind) steps(_ state.View, placement *plan.Placement) ([]plan.Step, error) {
	if p.with == nil {
		return nil, nil
	}
	b := p.r.turn.bindingOf(p.r, placement.NodeName)
	return []plan.Step{{Call: callFunc(func(ctx context.Context) commit.CallResult { return b.preBind(ctx, p.with) })}}, nil
}

// steps returns the step that runs the plugin.
func (p *postBind) steps(_ state.View, placement *plan.Placement) ([]plan.Step, error) {
	b := p.r.turn.bindingOf(p.r, placement.NodeName)
	return []plan.Step{{Call: callFunc(func(ctx context.Context) commit.CallResult {
		return commit.CallResult{Err: p.guard(PostBind, func() outcome {
			p.plugin.PostBind(ctx, b.state, b.pod, b.nodeName)
			return outcome{}
		}).err}
	})}}, nil
}

// exited returns the error of a call that ended its goroutine.
func (o *external) exited(point Point) error {
	return &Failure{o.name, point, "called runtime.Goexit"}
}

// guard runs a plugin on the goroutine of a binding. A panic becomes an error. So does
// the end of the goroutine, which is logged here because the caller never returns.
func (o *external) guard(point Point, f func() outcome) (said outcome) {
	began := time.Now()
	said = outcome{code: fwk.Error} // until f returns
	returned := false
	defer func() {
		if r := recover(); r != nil {
			failure := &Failure{o.name, point, "panicked: " + textOf(r)}
			o.r.config.Log.Error(nil, "Plugin panicked", "plugin", o.name, "extensionPoint", point, "panic", failure.Text, "stack", string(debug.Stack()))
			said = outcome{code: fwk.Error, err: failure}
		} else if !returned {
			o.r.config.Log.Error(o.exited(point), "Plugin called runtime.Goexit", "plugin", o.name, "extensionPoint", point)
		}
		if observer := o.r.config.Observer; observer != nil {
			observer.Ran(o.name, point, nameOf(said.code), 1, time.Since(began))
		}
	}()
	said = f()
	returned = true
	return said
}

// preFlight calls PreBindPreFlight of all PreBind plugins, to learn which can be skipped
// and which may run in parallel.
func (b *binding) preFlight(ctx context.Context) commit.CallResult {
	skipped, parallel := sets.Set[string]{}, sets.Set[string]{}
	for _, p := range b.r.preBinds {
		var status *fwk.Status
		o := p.guard(PreBindPreFlight, func() outcome {
			var result *fwk.PreBindPreFlightResult
			result, status = p.plugin.PreBindPreFlight(ctx, b.state, b.pod, b.nodeName)
			if result != nil && result.AllowParallel {
				parallel.Insert(p.name)
			}
			if code := status.Code(); !(success | skips | failing).has(code) {
				return outcome{code: -1, err: fmt.Errorf("PreBindPreFlight %s returned %q, which is unsupported. It is supposed to return Success, Skip, or Error status", p.name, nameOf(code))}
			}
			return read(status, PreBindPreFlight, success|failing|skips)
		})
		switch {
		case o.code == -1:
			return commit.CallResult{Err: o.err}
		case o.err != nil:
			return commit.CallResult{Err: fmt.Errorf("running PreBindPreFlight %q: %w", p.name, o.err)}
		case o.code == fwk.Skip:
			skipped.Insert(p.name)
		}
	}
	b.state.SetSkipPreBindPlugins(skipped)
	b.state.SetParallelPreBindPlugins(parallel)
	return commit.CallResult{Works: len(skipped) < len(b.r.preBinds)}
}

// unreserve undoes the Reserve plugins. Each Unreserve has its own goroutine: if one ends
// its goroutine, the others must still be called.
func (b *binding) unreserve(ctx context.Context) commit.CallResult {
	defer b.r.config.Leaving.left(b.pod.UID)
	b.undo(func(p *reserve, unreserve func(ctx context.Context, pod *v1.Pod)) {
		var one sync.WaitGroup
		one.Go(func() {
			p.guard(Unreserve, func() outcome {
				unreserve(ctx, b.pod)
				return outcome{}
			})
		})
		one.Wait()
	})
	return commit.CallResult{}
}

// undo makes run call the Reserve plugins' Unreserve, in reverse order. It skips the late
// plugin, which is undone where it runs.
func (b *binding) undo(run func(p *reserve, unreserve func(ctx context.Context, pod *v1.Pod))) {
	for _, p := range slices.Backward(b.r.reserves) {
		if p != b.late {
			run(p, func(ctx context.Context, pod *v1.Pod) {
				p.undoing.begin(pod.UID)
				defer p.undoing.end(pod.UID)
				p.plugin.Unreserve(ctx, b.state, pod, b.nodeName)
			})
		}
	}
}

var (
	errPreBindEnded = errors.New("RunPreBindPlugins has completed")
	errOtherFailed  = errors.New("some other PreBind operation failed")
)

// preBind runs PreBind plugins in order. Consecutive plugins that allow it run in
// parallel.
func (b *binding) preBind(ctx context.Context, plugins []*preBind) commit.CallResult {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errPreBindEnded)
	for _, group := range groups(plugins, b.state.GetSkipPreBindPlugins(), b.state.GetParallelPreBindPlugins()) {
		if len(group) == 1 {
			if result := b.preBindOne(ctx, group[0]); result.Err != nil {
				return result
			}
			continue
		}
		var all sync.WaitGroup
		var first sync.Once
		var failed commit.CallResult
		for _, p := range group {
			all.Go(func() {
				result := commit.CallResult{Err: &plan.PluginError{Point: string(PreBind), Plugin: p.name, Err: p.exited(PreBind)}}
				defer func() { // also if the plugin calls runtime.Goexit
					if result.Err != nil {
						first.Do(func() {
							failed = result
							cancel(errOtherFailed)
						})
					}
				}()
				result = b.preBindOne(ctx, p)
			})
		}
		if all.Wait(); failed.Err != nil {
			return failed
		}
	}
	return commit.CallResult{}
}

func (b *binding) preBindOne(ctx context.Context, p *preBind) commit.CallResult {
	o := p.guard(PreBind, func() outcome {
		return read(p.plugin.PreBind(ctx, b.state, b.pod, b.nodeName), PreBind, success|failing|rejecting)
	})
	switch {
	case o.isRejection():
		return commit.CallResult{Err: p.refusal(&o), Rejected: true}
	case o.err != nil:
		err := o.err
		if cause := context.Cause(ctx); errors.Is(err, context.Canceled) && cause != nil {
			err = cause
		}
		return commit.CallResult{Err: &plan.PluginError{Point: string(PreBind), Plugin: p.name, Err: err}}
	}
	return commit.CallResult{}
}

// groups splits PreBind plugins into groups that run one after the other. A skipped
// plugin is in no group, but still ends one unless it allows parallel plugins.
func groups(plugins []*preBind, skipped, parallel sets.Set[string]) (list [][]*preBind) {
	var group []*preBind
	end := func() {
		if len(group) > 0 {
			list, group = append(list, group), nil
		}
	}
	for _, p := range plugins {
		if !parallel.Has(p.name) {
			end()
		}
		if !skipped.Has(p.name) {
			group = append(group, p)
		}
		if !parallel.Has(p.name) {
			end()
		}
	}
	end()
	return list
}

// bind runs a Bind plugin.
func (b *binding) bind(ctx context.Context, p *Binder) commit.CallResult {
	o := p.guard(Bind, func() outcome {
		return read(p.plugin.Bind(ctx, b.state, b.pod, b.nodeName), Bind, success|failing|rejecting|skips)
	})
	switch {
	case o.code == fwk.Skip:
		return commit.CallResult{Skipped: true}
	case o.isRejection():
		return commit.CallResult{Err: p.refusal(&o), Rejected: true}
	case o.err != nil:
		return commit.CallResult{Err: &plan.PluginError{Point: string(Bind), Plugin: p.name, Err: o.err}}
	}
	return commit.CallResult{}
}

// activate moves the pods to the active queue that plugins have added since the turn's
// end.
func (b *binding) activate(context.Context) commit.CallResult {
	if l, ok := listIn(b.state); ok {
		l.Lock()
		pods := l.take()
		l.Unlock()
		b.r.activatePods(pods)
	}
	return commit.CallResult{}
}
