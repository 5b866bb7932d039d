package commit

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/plan"
)

const (
	// stepTries is how often a step's write is sent before its failure is final.
	stepTries = 4
	// stepPause is the wait between two tries; it grows fivefold, as kube-scheduler's between two tries of a binding.
	stepPause = 10 * time.Millisecond
)

// stepWritten takes in the response to a step's write, or to the question what became of it. A write that may have been stored, or that the API server may take
// later, is sent again: it names the version that it applies to, so it is stored once. Should it be refused because the first try was stored after all, and
// nothing says that it was, the step fails, and is undone like one that succeeded.
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

// outcome takes in the response to a write, or to the question what became of it, and says how the write has ended. While that is not known, the next request is
// due at that time, and attempt.asking says which. It is known at once of a write that nobody wants to learn. Otherwise
//   - a write that may have been stored is sent again until the API server has answered: what is stored must be known;
//   - when the answer does not show the write, because the object had changed so that it means something else, it has failed, and is undone;
//   - when it is refused because the object is not as it demands, as it is after an earlier try that was stored, or when it is refused for good after a try that
//     may have been stored, the object is read, as long as it takes.
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
			a.late = now.Add(lateMax)
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

// errMeansAnother is why a write that was stored has failed all the same.
var errMeansAnother = errors.New("the object had changed so that the write meant something else")

// found takes in the response to the question what became of a write that was refused. An object that does not show the write is not the last word while an
// earlier try may still arrive.
func (o *Outbox) found(now time.Time, a *attempt, write *plan.Write, response Response) (at time.Time, known bool, err error) {
	a.questions++
	switch {
	case response.Err == nil && write.Stored != nil && write.Stored(response.Object):
		a.err = nil
	case isGone(response.Err):
	case response.Err != nil:
		return now.Add(o.config.Jitter(min(retryAfter(response.Err, growing(a.questions)), askPauseMax))), false, a.err
	case a.open && now.Before(a.late):
		return a.late, false, a.err
	}
	a.asking = false
	return time.Time{}, true, a.err
}

// growing is the wait after so many tries of a request that is sent until it is answered.
func growing(tries int) time.Duration { return min(askPause<<min(tries-1, 16), askPauseMax) }

// stepUndone takes in the response to a write that undoes a step. It is sent again while the API server does not respond, or responds with an
// error that may pass: the pod keeps its room until the end, and other pods must not find its holds half undone.
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
	// A server that has just come back refuses what it will allow a moment later, so only tries that it answers are bounded.
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
		// A try that is on its way would be stored over what the pod's next binding writes, or over this. So the undoing is repeated when there can be none.
		o.pause(b, b.steps.late)
		return
	case err != nil && !isGone(err):
		o.giveUp(b.placement.Pod.Key(), fmt.Errorf("undo a step of %s plugin %q for %s: %w", b.step().Stage, b.step().Plugin, b.placement.Pod, err))
	}
	b.steps.step--
	o.undo(now, b)
}

// noteLate remembers until when a try of the present step's write may still be stored.
func (b *binding) noteLate() {
	if b.late.After(b.steps.late) {
		b.steps.late = b.late
	}
}

// stepAgain counts a try of a step's write and says whether there is to be another, after which wait.
func (o *Outbox) stepAgain(b *binding, err error) (wait time.Duration, again bool) {
	return o.again(err, &b.tries, &b.throttled)
}

// again counts a try of a write that may be stored twice, and says whether there is to be another, after which wait.
func (o *Outbox) again(err error, tries, throttled *int) (wait time.Duration, again bool) {
	if apierrors.IsTooManyRequests(err) && *throttled < throttledMax {
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

// Allow ends the wait of a plugin for a pod. It may come before the wait begins. For a pod or plugin that does not wait it does nothing.
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

// Reject ends the wait of a plugin for a pod with a "no": the pod is not bound. At Permit that is a rejection, and the pod waits for an event
// that can change the plugin's mind; at PreBind it is a failure.
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

// Cancel fails a binding that has not been sent, whatever it waits for. It reports whether it could: a binding that was sent may be
// stored.
func (o *Outbox) Cancel(now time.Time, pod types.UID, reason error) bool {
	b := o.unsentOf(pod)
	if b == nil {
		if b := o.bindings[pod]; b != nil && b.phase == binds && b.place == calling {
			o.endContext(b, reason) // whatever comes of it
		}
		return false
	}
	f := failure{err: reason}
	if b.stepsLeft() {
		f = b.broken(reason)
	}
	return o.interrupt(now, b, f)
}

// waiterOf returns the binding in which a plugin waits, or will, and at which step.
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

// unsentOf returns the pod's binding, if its Bind request was not sent or was certainly not stored.
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

// interrupt fails a binding before its Bind request is sent. While a step's write is in flight, it fails when that is answered, or if that is learned when its
// outcome is known; and while a call runs, when that has returned, which it should soon: its context ends.
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
