package commit

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// effect is a write of a decision. Its changes come back through the watch, or are
// learned. For a write that releases an object, the loop gets a result at the end. A
// decision that makes the same write before its end adds nothing.
type effect struct {
	decisions int        // number of decisions that made the write
	pod       *model.Pod // that was decided
	write     *plan.Write
	order     uint64 // of the decision
	place     place  // ready, sending or pausing
	position  int    // in the backlog while ready
	attempt
	// absent: the API server does not have the object that must not exist.
	absent bool
	seen   *observation
	// after is the latest write to the same object that waits for the end of this one;
	// nil if none. Only a Latest write has one.
	after *effect
	// then is the decision's next write to the same object. It is sent once this one is
	// stored, and never if this one fails.
	then *effect
}

// effectKey identifies a write by its object and its change.
type effectKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
	subresource     string
	patch           types.PatchType
	data            string
	deletes         bool
}

func keyOfWrite(w *plan.Write) effectKey {
	return effectKey{w.Resource, w.Namespace, w.Name, w.Subresource, w.Type, string(w.Data), w.Delete}
}

// startEffects adds the writes of a decision.
func (o *Outbox) startEffects(decision *plan.Decision) {
	writes := decision.Writes
	for len(writes) > 0 {
		n := 1
		for n < len(writes) && isSameObject(&writes[0], &writes[n]) {
			n++
		}
		var first *effect
		for i := n - 1; i >= 0; i-- {
			e := o.newEffect(decision, &writes[i])
			e.then, first = first, e
		}
		o.addEffect(first)
		writes = writes[n:]
	}
}

// addEffect adds a write and its successors. After Stop none is sent: the next process
// decides anew.
func (o *Outbox) addEffect(e *effect) {
	if o.stopped != nil {
		o.dropEffects(e)
		return
	}
	same, before := o.effects[keyOfWrite(e.write)], o.latest[objectOf(e.write)]
	switch {
	case !e.write.Latest && same != nil:
		same.join(e)
	case e.write.Latest && before != nil && before == same:
		before.after = nil // the write in progress is the latest again
	case e.write.Latest && before != nil:
		before.after = e
	default:
		o.startEffect(e)
	}
}

// join adds the decisions of an equal effect and of its successors.
func (e *effect) join(same *effect) {
	e.decisions += same.decisions
	if same.then == nil {
		return
	}
	last := e
	for last.then != nil && keyOfWrite(last.then.write) != keyOfWrite(same.then.write) {
		last = last.then
	}
	if last.then == nil {
		last.then = same.then
	} else {
		last.then.join(same.then)
	}
}

// dropEffects reports writes that are not made to the loop.
func (o *Outbox) dropEffects(e *effect) {
	for ; e != nil; e = e.then {
		o.answerWrite(e.write, e.decisions, false)
	}
}

// isSameObject reports whether two writes are to the same object or its subresources.
func isSameObject(a, b *plan.Write) bool {
	return a.Resource == b.Resource && a.Namespace == b.Namespace && a.Name == b.Name
}

func (o *Outbox) newEffect(decision *plan.Decision, write *plan.Write) *effect {
	o.decided++
	return &effect{pod: decision.Pod, write: write, order: o.decided, decisions: 1}
}

// objectKey identifies an object or a subresource.
type objectKey struct {
	resource                     schema.GroupVersionResource
	namespace, name, subresource string
}

func objectOf(w *plan.Write) objectKey {
	return objectKey{w.Resource, w.Namespace, w.Name, w.Subresource}
}

func (o *Outbox) startEffect(e *effect) {
	o.effects[keyOfWrite(e.write)] = e
	if e.write.Latest {
		o.latest[objectOf(e.write)] = e
	}
	o.sendEffect(e)
}

// sendEffect queues the next request of an effect in the backlog.
func (o *Outbox) sendEffect(e *effect) {
	e.place = ready
	o.backlog.pushEffect(e)
}

// takeEffect returns the next request of an effect.
func (o *Outbox) takeEffect(e *effect) Request {
	e.place = sending
	request := Request{Kind: WriteStep, Pod: e.pod, Write: e.write, effect: e}
	switch {
	case e.asking:
		request.Kind = Read
	case e.mustAsk():
		request.Kind, request.Write = Read, e.write.IfAbsent
	}
	return request
}

// mustAsk reports whether the object that must not exist is to be read first.
func (e *effect) mustAsk() bool { return e.write.IfAbsent != nil && !e.absent }

// absenceAnswered handles the response to that read.
func (o *Outbox) absenceAnswered(now time.Time, e *effect, err error) {
	wait, again := time.Duration(0), false
	switch {
	case o.stopped != nil:
		err = nil
	case isGone(err):
		e.absent = true
		o.sendEffect(e)
		return
	case err != nil:
		wait, again = o.again(err, &e.tries, &e.throttled)
	}
	if !again {
		o.endEffect(e, err, false)
		return
	}
	e.place = pausing
	o.later.plan(entry{at: now.Add(wait), effect: e})
}

// effectAnswered handles the response to a request of an effect. It is retried like the
// writes of steps.
func (o *Outbox) effectAnswered(now time.Time, e *effect, response Response) {
	if !e.asking && e.mustAsk() {
		o.absenceAnswered(now, e, response.Err)
		return
	}
	at, known, err := o.outcome(now, &e.attempt, e.write, response)
	if o.stopped != nil {
		o.endEffect(e, nil, known && err == nil)
		return
	}
	if known {
		wait, again := o.again(err, &e.tries, &e.throttled)
		if !again {
			o.endEffect(e, err, err == nil)
			return
		}
		at = now.Add(wait)
	}
	e.place, e.absent = pausing, false
	o.later.plan(entry{at: at, effect: e})
}

// endEffect removes an effect. A failure is no reason to retry the pod: it would make the
// same write.
func (o *Outbox) endEffect(e *effect, err error, stored bool) {
	e.place = nowhere
	o.unknown = o.unknown || o.stopped != nil && e.open && !e.late.IsZero()
	o.answerWrite(e.write, e.decisions, stored)
	delete(o.effects, keyOfWrite(e.write))
	if e.write.Latest {
		delete(o.latest, objectOf(e.write))
		if e.after != nil && o.stopped == nil {
			o.startEffect(e.after)
		}
	}
	if stored && e.then != nil {
		o.addEffect(e.then)
	} else {
		o.dropEffects(e.then)
	}
	if err != nil {
		o.giveUp(e.pod.Key(), fmt.Errorf("write %s %s for %s: %w", e.write.Resource.GroupResource(), e.write.Name, e.pod, err))
	}
}

// answerWrite adds the result of a write that releases an object.
func (o *Outbox) answerWrite(write *plan.Write, decisions int, stored bool) {
	if write.GivesBack != nil {
		o.ended.Written = append(o.ended.Written, model.WriteResult{
			Object: write.GivesBack, Deleted: stored && write.Delete, Decisions: decisions,
		})
	}
}
