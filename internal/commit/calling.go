package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/plan"
)

// A call of a plugin from outside holds no worker and is no write in flight: it may take minutes. The outbox says with Ended.Calls that it begins, and
// with Ended.Canceled that it should end soon; Done says that it has ended. It is run once.

// errOver ends the context of a binding that is over.
var errOver = errors.New("the binding is over")

func isCall(x any) bool {
	_, ok := x.(Call)
	return x == nil || ok
}

// call has the present step's call run, or the call that undoes the step.
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

// returned takes in how a call ended. One that the outbox has given up is over.
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

// interruption is why a binding fails that was cancelled while its call ran. If the call says more than that it was cancelled, that is reported.
func (b *binding) interruption(result CallResult) failure {
	f := *b.steps.interrupted
	if !f.rejected && result.Err != nil && !errors.Is(result.Err, context.Canceled) {
		f.err = result.Err
	}
	return f
}

// callsBind reports whether it is a call's turn to bind the pod.
func (b *binding) callsBind() bool {
	return b.steps != nil && b.phase == binds && b.steps.step < len(b.placement.Steps) && b.step().Stage == plan.Bind
}

// nobodyBinds is the error of a pod that no Bind plugin of its profile binds. kube-scheduler reports an empty text then.
func (o *Outbox) nobodyBinds(b *binding) error {
	return fmt.Errorf("no Bind plugin of the profile %q binds the pod: all of them skipped it", b.placement.Pod.SchedulerName)
}

// refuseSteps fails a binding whose steps are wrong. What plugins have reserved in the decision is undone all the same.
func (o *Outbox) refuseSteps(now time.Time, b *binding, err error) {
	for i := range b.placement.Steps {
		if step := &b.placement.Steps[i]; step.Stage == plan.Reserve && step.Undo == nil && step.UndoCall != nil && isCall(step.UndoCall) {
			b.steps.begun[i], b.steps.step = true, i
		}
	}
	o.fail(now, b, failure{err: err})
}

// causeOf returns the cause with which the context of a plugin's call ends: the error without the
// words that name the plugin, which are added to the call's error.
func causeOf(err error) error {
	var of *plan.PluginError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// endContext ends the context of the binding's calls.
func (o *Outbox) endContext(b *binding, why error) {
	if b.steps != nil && b.steps.called {
		o.ended.Canceled = append(o.ended.Canceled, Canceled{b.order, why})
	}
}

// stopCalls has all calls end soon.
func (o *Outbox) stopCalls() {
	for _, order := range slices.Sorted(maps.Keys(o.calls)) {
		o.endContext(o.calls[order], o.stopped)
	}
}

// abandonCalls answers the bindings whose call has not returned, and will not be waited for.
func (o *Outbox) abandonCalls(now time.Time) {
	for _, order := range slices.Sorted(maps.Keys(o.calls)) {
		b := o.calls[order]
		delete(o.calls, order)
		o.settleStopped(now, b)
	}
}
