package commit

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

const (
	// stepTries limits the tries of a step's write.
	stepTries = 4
	// stepPause is the wait between two tries; it grows fivefold, as the wait between
	// kube-scheduler's tries of a binding.
	stepPause = 10 * time.Millisecond
)

// stepWritten handles the response to a step's write, or to the read that checks it. A
// write that may have been stored, or that the API server may accept later, is retried.
// It names the version that it applies to, so it is stored once. If the retry is refused
// because the first try was stored, and nothing shows that, the step fails and is undone
// like a successful step.
func (o *Outbox) stepWritten(now time.Time, b *binding, response Response) {
	at, known, err := o.outcome(now, &b.attempt, b.step().Write, response)
	b.noteLate()
	if known && err == nil || b.open {
		b.steps.begun[b.steps.step] = true
	}
	interrupted := b.steps.interrupted
	if o.stopped != nil {
		o.settleStopped(now, b)
		return
	}
	if !known {
		o.pause(b, at)
		return
	}
	wait, again := o.stepAgain(b, err)
	switch {
	case b.phase == postBinds:
		if again {
			o.pause(b, now.Add(wait))
			return
		}
		if err != nil {
			o.giveUp(b.placement.Pod.Key(), b.broken(err).err)
		}
		b.steps.step++
		o.afterBinding(now, b)
	case interrupted != nil:
		o.fail(now, b, *interrupted)
	case again:
		o.pause(b, now.Add(wait))
	case err != nil:
		o.fail(now, b, b.broken(err))
	default:
		b.forgetRequest()
		b.steps.written = true
		o.advance(now, b)
	}
}

// outcome returns the result of a write, given the response to the write or to the read
// that checks it. While the result is unknown, the next request is due at the returned
// time, and attempt.asking selects its kind. A write without Learn has a known result at
// once, unless its object must be read. Otherwise:
//   - A write that may have been stored is retried until the API server answers, because
//     its result must be known.
//   - A write fails, and is undone, if the answer does not show it: the object had
//     changed so that the write means something else.
//   - The object is read, for as long as that takes, if the write is refused because the
//     object is not as required, as after an earlier try that was stored. The same holds
//     if the write is refused for good after a try that may have been stored.
func (o *Outbox) outcome(now time.Time, a *attempt, write *plan.Write, response Response) (at time.Time, known bool, err error) {
	if a.asking {
		return o.found(now, a, write, response)
	}
	err = response.Err
	if write.Delete && isGone(err) {
		err = nil
	}
	if leavesOpen(err) {
		a.open = true
		if !apierrors.IsServiceUnavailable(err) {
			a.late = now.Add(maxLate)
		}
	}
	switch learns := write.Learn && a.open; {
	case err == nil && write.Learn && write.Stored != nil && !write.Stored(response.Object):
		a.open = true
		return time.Time{}, true, apierrors.NewConflict(write.Resource.GroupResource(), write.Name, errMeansAnother)
	case err == nil || isGone(err):
	case learns && (leavesOpen(err) || unanswered(err) || apierrors.IsTooManyRequests(err)):
		a.tries++
		return now.Add(o.config.Jitter(retryAfter(err, growing(a.tries)))), false, err
	case learns || write.Stored != nil && (apierrors.IsConflict(err) || apierrors.IsInvalid(err)):
		a.err, a.asking, a.questions = err, true, 0
		return now, false, err
	}
	return time.Time{}, true, err
}

// errMeansAnother is the error of a write that was stored and has failed nevertheless.
var errMeansAnother = errors.New("the object had changed so that the write meant something else")

// found handles the response to the read that checks a refused write. An object that does
// not show the write is not final while an earlier try may still arrive.
func (o *Outbox) found(now time.Time, a *attempt, write *plan.Write, response Response) (at time.Time, known bool, err error) {
	a.questions++
	switch {
	case response.Err == nil && write.Stored != nil && write.Stored(response.Object):
		a.err = nil
	case isGone(response.Err):
	case response.Err != nil:
		return now.Add(o.config.Jitter(min(retryAfter(response.Err, growing(a.questions)), maxAskPause))), false, a.err
	case a.open && now.Before(a.late):
		return a.late, false, a.err
	}
	a.asking = false
	return time.Time{}, true, a.err
}

// growing is the wait before the next try of a request that is repeated until it is
// answered.
func growing(tries int) time.Duration { return min(askPause<<min(tries-1, 16), maxAskPause) }

// stepUndone handles the response to a write that undoes a step. It is retried while the
// API server does not respond or responds with a transient error. The pod keeps its
// resources until the end: other pods must not find its reservations half undone.
func (o *Outbox) stepUndone(now time.Time, b *binding, response Response) {
	at, known, err := o.outcome(now, &b.attempt, b.step().Undo, response)
	b.noteLate()
	switch {
	case o.stopped != nil:
		o.settleStopped(now, b)
		return
	case !known:
		o.pause(b, at)
		return
	}
	// A server that has just come back refuses for a moment, so only answered tries are
	// limited.
	final := err == nil || isGone(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	b.tries++
	if !final && !unanswered(err) {
		b.throttled++
	}
	switch {
	case !final && b.throttled < reportTries:
		o.pause(b, now.Add(o.config.Jitter(retryAfter(err, growing(b.tries)))))
		return
	case err == nil && b.step().Undo.Learn && now.Before(b.steps.late):
		// A try that is still on its way could overwrite this undo, or the writes of the
		// pod's next binding. So the undo is repeated once no such try can remain.
		o.pause(b, b.steps.late)
		return
	case err != nil && !isGone(err):
		o.giveUp(b.placement.Pod.Key(), fmt.Errorf("undo a step of %s plugin %q for %s: %w", b.step().Stage, b.step().Plugin, b.placement.Pod, err))
	}
	b.steps.step--
	o.undo(now, b)
}

// noteLate records until when a try of the current step's write may still be stored.
func (b *binding) noteLate() {
	if b.late.After(b.steps.late) {
		b.steps.late = b.late
	}
}

// stepAgain counts a try of a step's write and returns whether to retry, and the wait
// before.
func (o *Outbox) stepAgain(b *binding, err error) (wait time.Duration, again bool) {
	return o.again(err, &b.tries, &b.throttled)
}

// again counts a try of a write that may be stored twice. It returns whether to retry,
// and the wait before.
func (o *Outbox) again(err error, tries, throttled *int) (wait time.Duration, again bool) {
	if apierrors.IsTooManyRequests(err) && *throttled < maxThrottled {
		*throttled++
		return o.config.Jitter(retryAfter(err, time.Second)), true
	}
	*tries++
	if err == nil || *tries >= stepTries || apierrors.IsConflict(err) {
		return 0, false
	}
	wait = stepPause
	for range *tries - 1 {
		wait *= 5
	}
	return o.config.Jitter(retryAfter(err, wait)), leavesOpen(err) || unanswered(err)
}

// Allow ends the wait of a plugin for a pod. It may come before the wait begins. It does
// nothing if the pod or plugin does not wait.
func (o *Outbox) Allow(now time.Time, pod types.UID, plugin string) {
	if b, at := o.waiterOf(pod, plugin); b != nil {
		o.allow(now, b, at)
	}
}

func (o *Outbox) allow(now time.Time, b *binding, at int) {
	b.steps.allowed[at] = true
	switch {
	case b.place != waiting:
	case b.steps.step == at:
		o.later.drop(b)
		o.advance(now, b)
	case b.phase == permits: // the plugin's timeout no longer counts
		o.later.drop(b)
		o.await(now, b)
	}
}

// Reject ends the wait of a plugin with a rejection: the pod is not bound. At Permit the
// pod then waits for an event that the plugin is interested in; at PreBind the binding
// fails.
func (o *Outbox) Reject(now time.Time, pod types.UID, plugin string, reason error) {
	b, at := o.waiterOf(pod, plugin)
	if b == nil {
		return
	}
	step := &b.placement.Steps[at]
	f := rejection(plugin, reason.Error())
	if step.Stage != plan.Permit {
		f = failure{err: &plan.PluginError{Point: step.Stage.String(), Plugin: plugin, Err: reason}}
	}
	o.interrupt(now, b, f)
}

// Cancel fails a binding that has not been sent, whatever it waits for. It reports
// whether it could: a binding that was sent may be stored.
func (o *Outbox) Cancel(now time.Time, pod types.UID, reason error) bool {
	b := o.unsentOf(pod)
	if b == nil {
		if b := o.bindings[pod]; b != nil && b.phase == binds && b.place == calling {
			o.endContext(b, reason) // whatever its result
		}
		return false
	}
	f := failure{err: reason}
	if b.stepsLeft() {
		f = b.broken(reason)
	}
	return o.interrupt(now, b, f)
}

// waiterOf returns the binding in which a plugin waits or will wait, and the index of its
// step.
func (o *Outbox) waiterOf(pod types.UID, plugin string) (b *binding, at int) {
	b = o.bindings[pod]
	if b == nil || b.steps == nil || b.phase >= binds {
		return nil, 0
	}
	for at = b.steps.step; at < len(b.placement.Steps); at++ {
		if step := &b.placement.Steps[at]; step.Plugin == plugin && step.Wait != nil && !b.steps.allowed[at] {
			return b, at
		}
	}
	return nil, 0
}

// unsentOf returns the pod's binding, if its Bind request was not sent or was certainly
// not stored.
func (o *Outbox) unsentOf(pod types.UID) *binding {
	b := o.bindings[pod]
	if b == nil || b.phase > binds || b.phase == binds && (b.place == sending || b.place == calling || b.open) {
		return nil
	}
	if b.phase == preBinds && b.steps.prebound {
		return nil
	}
	return b
}

// interrupt fails a binding before its Bind request is sent. If a step's write is in
// flight, the failure takes effect with the response, or for a learned write once its
// result is known. If a call runs, its context is cancelled and the failure takes effect
// when it returns.
func (o *Outbox) interrupt(now time.Time, b *binding, f failure) bool {
	if b.mustLearn() {
		if b.steps.interrupted == nil {
			b.steps.interrupted = &f
		}
		return true
	}
	switch b.place {
	case calling:
		if b.steps.interrupted == nil {
			b.steps.interrupted = &f
			o.endContext(b, causeOf(f.err))
		}
		return true
	case sending:
		if b.steps.interrupted == nil {
			b.steps.interrupted = &f
		}
		return true
	case ready:
		o.backlog.drop(b.position)
	case waiting, pausing:
		o.later.drop(b)
	case held:
		o.pods[b.placement.Pod.UID].held = nil
	}
	o.fail(now, b, f)
	return true
}
