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

	"github.com/berth-scheduler/berth/internal/model/plan"
)

const (
	// askPause is the wait between two reads of a pod's node; it doubles up to
	// maxAskPause.
	askPause    = 50 * time.Millisecond
	maxAskPause = 5 * time.Second
	// maxLate is how long a binding may still be stored after the connection broke, or
	// after the API server answered with a failure: the request may be on its way to
	// etcd. Until then, a read that shows an unbound pod is not final.
	maxLate = 5 * time.Second
	// maxThrottled is how often a request is retried after "too many requests".
	maxThrottled = 10
)

// bound handles the response to a binding.
func (o *Outbox) bound(now time.Time, b *binding, err error) {
	if apierrors.IsTooManyRequests(err) && b.throttled < maxThrottled && o.stopped == nil {
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
			b.late = now.Add(maxLate)
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

// answered handles the response to the read of the pod's node. Without an answer the read
// is retried without limit: an API server that has just started forbids for a moment, and
// an API server may be unreachable for minutes.
func (o *Outbox) answered(now time.Time, b *binding, response Response) {
	b.questions++
	switch {
	case response.Err == nil && response.NodeName == b.placement.NodeName:
		o.isBound(now, b)
	case o.stopped != nil:
		o.notBound(now, b, fmt.Errorf("%w (binding outcome unknown: %w)", b.err, o.stopped))
	case isGone(response.Err):
		o.notBound(now, b, b.err)
	case response.Err != nil:
		wait := askPause << min(b.questions-1, 16)
		o.pause(b, now.Add(o.config.Jitter(min(retryAfter(response.Err, wait), maxAskPause))))
	case response.NodeName != "":
		o.notBound(now, b, fmt.Errorf("%w (the pod is bound to %s)", b.err, response.NodeName))
	case (b.steps == nil || b.steps.bindFailure == nil) && b.tries < o.binderOf(b).Tries && leavesOpen(b.err):
		// Retry the same binding. If the first try is stored after all, the API server
		// refuses one of the two, and the pod is on this node either way.
		wait := askPause << (b.tries - 1)
		b.asking = false
		o.pause(b, now.Add(o.config.Jitter(wait)))
	case now.Before(b.late):
		o.pause(b, b.late)
	default:
		o.notBound(now, b, b.err)
	}
}

// bindCalled handles the end of a call at Bind: the pod is bound, the next plugin gets
// its turn, or the call failed. After a failure the pod may be bound nevertheless, so the
// outbox reads its node before the loop releases its resources. A call is never repeated.
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
			b.late = now.Add(maxLate)
		}
		b.asking, b.questions = true, 0
		o.pause(b, now)
	}
}

// mayArrive reports whether a call that failed with err may have sent a binding that the
// API server may still store.
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

// notBound fails a binding that can no longer be stored. After Stop, nothing is undone.
func (o *Outbox) notBound(now time.Time, b *binding, err error) {
	f := o.bindError(b, err)
	if o.stopped != nil {
		o.settle(now, b, f)
		return
	}
	o.fail(now, b, f)
}

// bindError is a failure of the Bind plugin in kube-scheduler's words. The error of a
// call contains them already.
func (o *Outbox) bindError(b *binding, err error) failure {
	switch {
	case b.steps != nil && b.steps.bindFailure != nil:
		return failure{err: err, rejected: b.steps.bindFailure.rejected && o.stopped == nil}
	case b.callsBind():
		return b.broken(err)
	case o.binderOf(b) == nil:
		return failure{err: err}
	}
	return failure{err: &plan.PluginError{Point: "Bind", Plugin: o.binderOf(b).Name, Err: err}}
}

// leavesOpen reports whether a write that failed with err may have been stored
// nevertheless.
func leavesOpen(err error) bool {
	if err == nil || utilnet.IsConnectionRefused(err) {
		return false
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return false // without a connection, nothing was sent
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Code >= http.StatusInternalServerError || answer.Status().Code == 0
	}
	return true // no answer came
}

// isGone reports whether the API server answered that the object does not exist. A 404
// page of a proxy, for an unknown path or without a backend, does not count.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// unanswered reports whether the API server did not answer at all.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && !errors.As(err, &answer)
}

// retryAfter returns the larger of wait and the delay that the API server suggests.
func retryAfter(err error, wait time.Duration) time.Duration {
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return max(wait, time.Duration(seconds)*time.Second)
	}
	return wait
}
