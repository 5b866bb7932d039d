package commit

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// effect is a write of a decision. Its changes come back through the watch, or are
// learned; the end of a write that gives something back is a result for the loop. A
// decision that makes the same write before its end adds nothing.
type effect struct {
	decisions int        // that made the write
	pod       *model.Pod // that was decided about
	write     *plan.Write
	order     uint64 // of the decision
	place     place  // ready, sending or pausing
	position  int    // in the backlog while place is ready
	attempt
	// absent means that the API server does not have the object that must not exist.
	absent bool
	seen   *observation
	// after is the latest write to the same object that waits for the end of this one; nil if there is none. Only a Latest write has one.
	after *effect
	// then is the next write of the decision to the same object. It is made once this one is
	// stored, and not at all if this one fails.
	then *effect
}

// effectKey is what a write does to which object.
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

// startEffects takes in the writes of a decision.
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

// addEffect takes in a write and those that follow it. None is sent after the stop: the next process
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
		before.after = nil // what is being written is the latest again
	case e.write.Latest && before != nil:
		before.after = e
	default:
		o.startEffect(e)
	}
}

// join adds the decisions of an equal effect, and of those that follow it.
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

// dropEffects answers the loop about writes that are not made.
func (o *Outbox) dropEffects(e *effect) {
	for ; e != nil; e = e.then {
		o.answerWrite(e.write, e.decisions, false)
	}
}

// isSameObject reports whether two writes are to the same object, or to subresources of it.
func isSameObject(a, b *plan.Write) bool {
	return a.Resource == b.Resource && a.Namespace == b.Namespace && a.Name == b.Name
}

func (o *Outbox) newEffect(decision *plan.Decision, write *plan.Write) *effect {
	o.decided++
	return &effect{pod: decision.Pods[0].Pod, write: write, order: o.decided, decisions: 1}
}

// objectKey names an object, or a subresource of it.
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

// sendEffect gives the next request of an effect its turn.
func (o *Outbox) sendEffect(e *effect) {
	e.place = ready
	o.backlog.pushEffect(e)
}

// takeEffect makes the request of the effect whose turn it is.
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

// mustAsk reports whether to read the object that must not exist first.
func (e *effect) mustAsk() bool { return e.write.IfAbsent != nil && !e.absent }

// absenceAnswered processes the response to that question.
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

// effectAnswered takes in the response to a request of an effect. It is sent again as writes of steps are.
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

// endEffect forgets an effect. One that is not carried out is no reason to try the pod again: it would make the same write.
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

// answerWrite answers the loop about a write that gives something back.
func (o *Outbox) answerWrite(write *plan.Write, decisions int, stored bool) {
	if write.GivesBack != nil {
		o.ended.Written = append(o.ended.Written, model.WriteResult{
			Object: write.GivesBack, Deleted: stored && write.Delete, Decisions: decisions,
		})
	}
}
