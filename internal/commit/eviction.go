package commit

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mark writes the victim's condition, unless the victim has it, and then deletes the
// victim.
func (o *Outbox) mark(e *eviction) {
	if e.isMarked() {
		o.request(e, deletes)
		return
	}
	o.request(e, marks)
}

// request sends the first request of a phase.
func (o *Outbox) request(e *eviction, phase evictionPhase) {
	if phase != e.phase {
		e.move(phase)
	}
	e.tries, e.throttled = 0, 0
	o.sendEviction(e)
}

// sendEviction queues the eviction's next request in the backlog.
func (o *Outbox) sendEviction(e *eviction) {
	e.place = ready
	o.backlog.pushEviction(e)
}

// raise raises the priority of an eviction to at least the given one.
func (o *Outbox) raise(e *eviction, priority int32) {
	if priority <= e.priority {
		return
	}
	e.priority = priority
	if e.place == ready {
		o.backlog.drop(e.position)
		o.backlog.pushEviction(e)
	}
}

// takeEviction returns the next request of an eviction.
func (o *Outbox) takeEviction(e *eviction) Request {
	e.place = sending
	request := Request{Pod: e.victim, NodeName: e.nodeName, Preemptor: e.preemptor, eviction: e}
	switch e.phase {
	case asks:
		request.Kind = Ask
		o.stats.Questions++
	case marks:
		request.Kind, request.Condition = Mark, e.disruption()
	default:
		request.Kind = Delete
	}
	return request
}

// evictionAnswered handles the response to a request of an eviction. Transient errors are
// retried like those of steps: writing the condition or deleting twice does no harm.
// After Stop no further request is sent.
func (o *Outbox) evictionAnswered(now time.Time, e *eviction, response Response) {
	err := response.Err
	switch gone := isGone(err); {
	case e.phase == deletes && err == nil || gone && e.open:
		o.deleted(now, e)
		return
	case gone: // nothing left to evict
		o.endEviction(now, e, nil)
		return
	case o.stopped != nil:
		o.endEviction(now, e, o.stopped)
		return
	case e.phase != asks && apierrors.IsConflict(err) && e.conflicts < conflictTries:
		// Either the pod was written concurrently, or another pod has its name, since
		// requests contain the UID; or a webhook returned a conflict.
		e.conflicts++
		o.request(e, asks)
		return
	}
	e.open = e.open || e.phase == deletes && leavesOpen(err)
	wait, again := o.again(err, &e.tries, &e.throttled)
	switch {
	case again:
		e.place = pausing
		o.later.plan(entry{at: now.Add(wait), eviction: e})
	case err != nil:
		o.endEviction(now, e, err)
	case e.phase == marks:
		o.request(e, deletes)
	// The victim's binding has failed.
	case response.NodeName == "" && o.bindings[e.victim.UID] == nil:
		o.leftMemory(now, e)
	default:
		o.mark(e)
	}
}
