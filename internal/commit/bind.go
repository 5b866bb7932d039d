package commit

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/report"
)

const (
	// askPause is the wait between two questions for a pod's node; it doubles up to askPauseMax.
	askPause    = 50 * time.Millisecond
	askPauseMax = 5 * time.Second
	// lateMax is for how long a binding may still be stored after the connection broke or the API server said that it failed: the
	// request may have been on its way to the store. Until then "not bound" is not the last word.
	lateMax = 5 * time.Second
	// throttledMax is how often a binding is tried again because the API server asked to come back later.
	throttledMax = 10
)

// binding is a placement that is to be written. It ends as bound, or as failed; and as failed only when the pod cannot be
// bound to the node any more, for its room is given to others then.
type binding struct {
	placement plan.Placement

	tries     int // bindings sent, those that were throttled apart
	throttled int
	questions int  // asked in a row without an answer
	asking    bool // the next request is a question
	// err is how the last try failed; open says whether one of them may have been stored all the same, and late until when one of
	// them may still be.
	err  error
	open bool
	late time.Time
	seen *observation
}

// startBinding queues a binding, or keeps it until the pod's status has been written.
func (d *Docket) startBinding(b *binding) {
	uid := b.placement.Pod.UID
	delete(d.written, uid)
	if p := d.pods[uid]; p != nil {
		p.latest = nil // says that the pod waits, and it no longer does
		if p.writing {
			p.held = b
			return
		}
	}
	d.bindings.push(b)
}

func (d *Docket) takeBinding() Job {
	b := d.bindings.pop()
	if b.tries+b.throttled == 0 {
		d.opened++
	}
	job := Job{Errand: Bind, Pod: b.placement.Pod, NodeName: b.placement.NodeName, binding: b}
	if b.asking {
		job.Errand = Ask
		d.stats.Questions++
	}
	return job
}

// bound takes in the answer to a binding.
func (d *Docket) bound(now time.Time, b *binding, err error) *Settled {
	if apierrors.IsTooManyRequests(err) && b.throttled < throttledMax && d.stopped == nil {
		b.throttled++
		return d.again(b, now.Add(d.config.Jitter(retryAfter(err, time.Second))))
	}
	b.tries++
	if err == nil {
		return d.settle(b, nil)
	}
	b.err = err
	if leavesOpen(err) {
		b.open = true
		if !apierrors.IsServiceUnavailable(err) {
			b.late = now.Add(lateMax)
		}
	}
	if d.stopped != nil {
		return d.settle(b, err)
	}
	if wait, again := defaultbinder.Retry(err, b.tries); again {
		return d.again(b, now.Add(d.config.Jitter(retryAfter(err, wait))))
	}
	if !b.open {
		return d.settle(b, err)
	}
	b.asking, b.questions = true, 0
	return d.again(b, now)
}

// answered takes in the answer to the question which node the pod is bound to. Without one it is asked again, for as long as it takes:
// a server that has just come back refuses what it will allow a moment later, and one that is away may be so for minutes.
func (d *Docket) answered(now time.Time, b *binding, answer Answer) *Settled {
	b.questions++
	switch {
	case answer.Err == nil && answer.NodeName == b.placement.NodeName:
		return d.settle(b, nil)
	case d.stopped != nil:
		return d.settle(b, fmt.Errorf("%w (whether the pod is bound all the same is not known: %w)", b.err, d.stopped))
	case apierrors.IsNotFound(answer.Err):
		return d.settle(b, b.err)
	case answer.Err != nil:
		wait := askPause << min(b.questions-1, 16)
		return d.again(b, now.Add(d.config.Jitter(min(retryAfter(answer.Err, wait), askPauseMax))))
	case answer.NodeName != "":
		return d.settle(b, fmt.Errorf("%w (the pod is bound to %s)", b.err, answer.NodeName))
	case b.tries < defaultbinder.Tries && leavesOpen(b.err):
		// The same binding once more: if the first should arrive after all, one of the two is refused, and the pod is where it was to be.
		wait := askPause << (b.tries - 1)
		b.asking = false
		return d.again(b, now.Add(d.config.Jitter(wait)))
	case now.Before(b.late):
		return d.again(b, b.late)
	}
	return d.settle(b, b.err)
}

// again gives a binding another turn.
func (d *Docket) again(b *binding, at time.Time) *Settled {
	d.later.plan(entry{at: at, binding: b})
	return nil
}

// settle ends a binding, and tells the pod's owner.
func (d *Docket) settle(b *binding, err error) *Settled {
	if b.tries+b.throttled > 0 {
		d.opened--
	}
	if err == nil {
		d.stats.Bound++
		d.tell(b.placement.Pod, report.OfBinding(&b.placement))
		return &Settled{Placement: b.placement, seen: b.seen}
	}
	d.stats.BindingsFailed++
	err = fmt.Errorf("running Bind plugin %q: %w", defaultbinder.Name, err)
	if d.stopped == nil {
		d.tell(b.placement.Pod, report.OfFailedBinding(&b.placement, err))
	}
	return &Settled{Placement: b.placement, Err: err, seen: b.seen}
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

// unanswered reports whether the API server did not answer at all.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && !errors.As(err, &answer)
}

// retryAfter returns the wait that the API server asked for, but not less than the given one.
func retryAfter(err error, wait time.Duration) time.Duration {
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
		return max(wait, time.Duration(seconds)*time.Second)
	}
	return wait
}
