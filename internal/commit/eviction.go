package commit

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// mark has the victim's condition written, unless it is there, and then the victim deleted.
func (o *Outbox) mark(e *eviction) {
	if e.isMarked() {
		o.request(e, deletes)
		return
	}
	o.request(e, marks)
}

// request has the first request of a phase sent.
func (o *Outbox) request(e *eviction, phase evictionPhase) {
	if phase != e.phase {
		e.move(phase)
	}
	e.tries, e.throttled = 0, 0
	o.sendEviction(e)
}

// sendEviction gives the eviction's next request its turn.
func (o *Outbox) sendEviction(e *eviction) {
	e.place = ready
	o.backlog.pushEviction(e)
}

// raise gives an eviction at least that priority.
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

// takeEviction makes the request of the eviction whose turn it is.
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

// evictionAnswered takes in the response to a request of an eviction. One that may pass is sent again, as writes of steps are: neither the condition
// nor the deletion does more when it comes twice. After the stop no further request is made.
func (o *Outbox) evictionAnswered(now time.Time, e *eviction, response Response) {
	err := response.Err
	switch gone := isGone(err); {
	case e.phase == deletes && err == nil || gone && e.open:
		o.deleted(now, e)
		return
	case gone: // there is nothing left to evict
		o.endEviction(now, e, nil)
		return
	case o.stopped != nil:
		o.endEviction(now, e, o.stopped)
		return
	case e.phase != asks && apierrors.IsConflict(err) && e.conflicts < conflictTries:
		// Somebody else has written the pod at the same time; or another pod has its name, as requests name the UID; or a webhook says so.
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
	case response.NodeName == "" && o.bindings[e.victim.UID] == nil: // its binding has failed
		o.leftMemory(now, e)
	default:
		o.mark(e)
	}
}
