package commit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/berth-scheduler/berth/internal/plan"
)

const (
	// askPause is the wait between two questions for a pod's node; it doubles up to askPauseMax.
	askPause    = 50 * time.Millisecond
	askPauseMax = 5 * time.Second
	// lateMax is how long after the connection broke, or the API server answered that it failed, a binding may still be stored: the
	// request may have been on its way to the store. Until then the answer "not bound" is not final.
	lateMax = 5 * time.Second
	// throttledMax is how often a binding is tried again because the API server asked to come back later.
	throttledMax = 10
)

// bound takes in the answer to a binding.
func (o *Outbox) bound(now time.Time, b *binding, err error) {
	if apierrors.IsTooManyRequests(err) && b.throttled < throttledMax && o.stopped == nil {
		b.throttled++
		o.pause(b, now.Add(o.config.Jitter(retryAfter(err, time.Second))))
		return
	}
	b.tries++
	if err == nil {
		o.isBound(now, b)
		return
	}
	b.err = err
	if leavesOpen(err) {
		b.open = true
		if !apierrors.IsServiceUnavailable(err) {
			b.late = now.Add(lateMax)
		}
	}
	if o.stopped != nil {
		o.notBound(now, b, err)
		return
	}
	if wait, again := o.binderOf(b).Retry(err, b.tries); again {
		o.pause(b, now.Add(o.config.Jitter(retryAfter(err, wait))))
		return
	}
	if !b.open {
		o.notBound(now, b, err)
		return
	}
	b.asking, b.questions = true, 0
	o.pause(b, now)
}

// answered takes in the answer to the question which node the pod is bound to. While there is none, the question is sent again, for as long as
// it takes: an API server that has just started forbids for a moment, and one may be away for minutes.
func (o *Outbox) answered(now time.Time, b *binding, response Response) {
	b.questions++
	switch {
	case response.Err == nil && response.NodeName == b.placement.NodeName:
		o.isBound(now, b)
	case o.stopped != nil:
		o.notBound(now, b, fmt.Errorf("%w (whether the pod is bound all the same is not known: %w)", b.err, o.stopped))
	case isGone(response.Err):
		o.notBound(now, b, b.err)
	case response.Err != nil:
		wait := askPause << min(b.questions-1, 16)
		o.pause(b, now.Add(o.config.Jitter(min(retryAfter(response.Err, wait), askPauseMax))))
	case response.NodeName != "":
		o.notBound(now, b, fmt.Errorf("%w (the pod is bound to %s)", b.err, response.NodeName))
	case (b.steps == nil || b.steps.bindFailure == nil) && b.tries < o.binderOf(b).Tries() && leavesOpen(b.err):
		// Send the same binding again. Should the first be stored after all, one of the two is refused, and the pod is on this node either way.
		wait := askPause << (b.tries - 1)
		b.asking = false
		o.pause(b, now.Add(o.config.Jitter(wait)))
	case now.Before(b.late):
		o.pause(b, b.late)
	default:
		o.notBound(now, b, b.err)
	}
}

// bindCalled takes in how a call at Bind ended: with the binding, with the turn of the next plugin, or with an error. The pod may be bound in spite of that,
// so the API server is asked before its room is released. A call is not run again.
func (o *Outbox) bindCalled(now time.Time, b *binding, result CallResult) {
	switch {
	case result.Err == nil && !result.Skipped:
		o.isBound(now, b)
	case result.Err == nil && o.stopped != nil:
		o.settleStopped(now, b)
	case result.Err == nil:
		b.steps.step++
		o.advance(now, b)
	default:
		b.err, b.open = result.Err, true
		b.steps.bindFailure = &failure{err: result.Err, rejected: result.Rejected}
		if o.stopped != nil {
			o.notBound(now, b, result.Err)
			return
		}
		if mayArrive(result.Err) {
			b.late = now.Add(lateMax)
		}
		b.asking, b.questions = true, 0
		o.pause(b, now)
	}
}

// mayArrive reports whether a call that failed like this may have sent a binding that the API server is still to store.
func mayArrive(err error) bool {
	var answer apierrors.APIStatus
	var broken net.Error
	switch {
	case errors.As(err, &answer):
		return leavesOpen(err)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	return errors.As(err, &broken) && leavesOpen(err)
}

// notBound fails a binding whose pod cannot be bound to the node any more. After the stop nothing is undone.
func (o *Outbox) notBound(now time.Time, b *binding, err error) {
	f := o.bindError(b, err)
	if o.stopped != nil {
		o.settle(now, b, f)
		return
	}
	o.fail(now, b, f)
}

// bindError is a failure of the Bind plugin, in kube-scheduler's words. A call's error has them.
func (o *Outbox) bindError(b *binding, err error) failure {
	switch {
	case b.steps != nil && b.steps.bindFailure != nil:
		return failure{err: err, rejected: b.steps.bindFailure.rejected && o.stopped == nil}
	case b.callsBind():
		return b.broken(err)
	case o.binderOf(b) == nil:
		return failure{err: err}
	}
	return failure{err: &plan.PluginError{Point: "Bind", Plugin: o.binderOf(b).Name(), Err: err}}
}

// leavesOpen reports whether a write that failed like this may have been carried out all the same.
func leavesOpen(err error) bool {
	if err == nil || utilnet.IsConnectionRefused(err) {
		return false
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return false // there was no connection that it could have been sent over
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == 0
	}
	return true // no answer came
}

// isGone reports whether the API server answers that there is no such object. The page of a proxy that knows no such path, or has lost its API server, does not say that.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// unanswered reports whether the API server did not answer at all.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && !errors.As(err, &answer)
}

// retryAfter returns the wait that the API server asks for, at least the given one.
func retryAfter(err error, wait time.Duration) time.Duration {
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return max(wait, time.Duration(seconds)*time.Second)
	}
	return wait
}
