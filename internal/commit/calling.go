package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A call of an out-of-tree plugin may take minutes, so it occupies no worker and is no
// write in flight. Ended.Calls lists calls to begin, Ended.Canceled calls that should end
// soon, and Done delivers their results. A call runs once.

// errOver cancels the context of a completed binding.
var errOver = errors.New("the binding is over")

func isCall(x plan.Call) bool {
	_, ok := x.(Call)
	return x == nil || ok
}

// call starts the current step's call, or the call that undoes the step.
func (o *Outbox) call(b *binding, kind RequestKind) {
	step := b.step()
	b.place = calling
	o.calls[b.order] = b
	b.steps.calls++
	request := Request{
		Kind: kind, Pod: b.placement.Pod, NodeName: b.placement.NodeName, Plugin: step.Plugin, Stage: step.Stage, Order: b.order, binding: b, nth: b.steps.calls,
	}
	if kind == UndoCall {
		request.Call = step.UndoCall.(Call)
	} else {
		request.Call = step.Call.(Call)
		b.steps.begun[b.steps.step], b.steps.called = true, true
		b.steps.handed = b.phase == binds
	}
	o.ended.Calls = append(o.ended.Calls, request)
}

// returned handles the result of a call. Results of abandoned calls are ignored.
func (o *Outbox) returned(now time.Time, request *Request, result CallResult) {
	b, kind := request.binding, request.Kind
	if o.calls[b.order] != b || b.steps.calls != request.nth {
		return
	}
	delete(o.calls, b.order)
	switch {
	case kind == UndoCall && o.stopped != nil:
		o.settleStopped(now, b)
	case kind == UndoCall:
		b.steps.step--
		o.undo(now, b)
	case b.phase == postBinds:
		if result.Err != nil {
			o.giveUp(b.placement.Pod.Key(), result.Err)
		}
		b.steps.step++
		o.afterBinding(now, b)
	case b.phase == binds:
		o.bindCalled(now, b, result)
	case o.stopped != nil:
		o.settleStopped(now, b)
	case b.steps.interrupted != nil:
		o.fail(now, b, b.interruption(result))
	case result.Err != nil:
		o.fail(now, b, failure{err: result.Err, rejected: result.Rejected && b.phase == preBinds})
	default:
		b.forgetRequest()
		b.steps.written = true
		b.steps.works = b.steps.works || result.Works
		o.advance(now, b)
	}
}

// interruption is the failure of a binding that was cancelled during its call. An error
// of the call other than the cancellation is reported instead.
func (b *binding) interruption(result CallResult) failure {
	f := *b.steps.interrupted
	if !f.rejected && result.Err != nil && !errors.Is(result.Err, context.Canceled) {
		f.err = result.Err
	}
	return f
}

// callsBind reports whether a call is due to bind the pod.
func (b *binding) callsBind() bool {
	return b.steps != nil && b.phase == binds && b.steps.step < len(b.placement.Steps) && b.step().Stage == plan.Bind
}

// nobodyBinds is the error for a pod that all Bind plugins of its profile skipped.
// kube-scheduler reports an empty text here.
func (o *Outbox) nobodyBinds(b *binding) error {
	return fmt.Errorf("no Bind plugin of the profile %q binds the pod: all of them skipped it", b.placement.Pod.SchedulerName)
}

// refuseSteps fails a binding with invalid steps. Reservations that plugins made during
// the decision are still undone.
func (o *Outbox) refuseSteps(now time.Time, b *binding, err error) {
	for i := range b.placement.Steps {
		if step := &b.placement.Steps[i]; step.Stage == plan.Reserve && step.Undo == nil && step.UndoCall != nil && isCall(step.UndoCall) {
			b.steps.begun[i], b.steps.step = true, i
		}
	}
	o.fail(now, b, failure{err: err})
}

// causeOf returns the cause with which the context of a plugin's call ends: the error
// without the plugin's name, since that is added to the error of the call.
func causeOf(err error) error {
	var of *plan.PluginError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// endContext cancels the context of the binding's calls.
func (o *Outbox) endContext(b *binding, why error) {
	if b.steps != nil && b.steps.called {
		o.ended.Canceled = append(o.ended.Canceled, Canceled{b.order, why})
	}
}

// stopCalls cancels the contexts of all running calls.
func (o *Outbox) stopCalls() {
	for _, order := range slices.Sorted(maps.Keys(o.calls)) {
		o.endContext(o.calls[order], o.stopped)
	}
}

// abandonCalls settles the bindings whose calls have not returned and are no longer
// awaited.
func (o *Outbox) abandonCalls(now time.Time) {
	for _, order := range slices.Sorted(maps.Keys(o.calls)) {
		b := o.calls[order]
		delete(o.calls, order)
		o.settleStopped(now, b)
	}
}
