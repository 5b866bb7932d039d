package queue

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// Wake, in queue.go, delivers events; wakeSlice runs the hints and moves the pods that
// they help.
//
// An event may concern very many parked pods. So that the loop never stalls, events are
// processed in slices: each round runs a bounded number of hints and moves a bounded
// number of pods. The next round continues. Between rounds, changes are applied and pods
// are decided about.
//
// First all hints of an event run, event by event. Only then are the helped pods woken,
// in the order of turns. So no pod takes the room of an event before a pod with an
// earlier turn, whatever plugins rejected the two.
//
// The result is the same as with immediate events, with three differences. The backoff of
// a pod is checked when the pod is moved. Until then the pod counts as parked. A pod that
// was parked after the event is not woken by it, because its decision took the event into
// account.

// DefaultSlice is the number of hints that a round runs, and of pods that it moves. A
// hint or a move takes 1 to 6 µs, so a round takes at most a few milliseconds.
const DefaultSlice = 500

// maxPending bounds the pending events. Beyond it, every parked pod is retried without
// hints.
const maxPending = 10_000

// waking has the events whose hints have not all run.
type waking struct {
	// pending has the events; the first done events are over.
	//
	// Invariant: at most maxPending events are pending; done is less than their number,
	// or both are 0.
	pending []pendingEvent
	done    int
	// found has the buckets that the first pending event may help, and asked counts the
	// buckets whose hints ran.
	//
	// Invariant: found is empty until the first event was looked up, and asked is not
	// more than its length.
	lookedUp bool
	found    []*bucket
	asked    int
	// overdue has deletions of victims that waiting preemptors ignored, see
	// preemption.go, the oldest first.
	//
	// Invariant: at most maxOverdue are stored, sorted by due.
	overdue []overdueEvent
}

// overdueEvent is delivered at due to preemptors that still wait for their own victims.
type overdueEvent struct {
	pendingEvent
	due time.Time
}

// maxOverdue bounds the overdue events. Beyond it, the newest helps every preemptor that
// waits for victims.
const maxOverdue = 1000

// pendingEvent is an event that may wake parked pods.
type pendingEvent struct {
	event model.Event
	// parkings is the number of parkings before the event. The event does not concern
	// pods that were parked later.
	parkings uint64
	// except is the pod of the event, if it was just rejected at Permit: its own
	// departure from the node is no reason to retry it.
	except *entry
	// victim means that the event is the deletion of a victim. Preemptors that wait for
	// victims ignore it.
	victim bool
	// overdue means that the event was such a deletion some time ago. Only preemptors
	// that wait for victims receive it.
	overdue bool
	// all means that the event helps every pod that an event can help.
	all bool
}

// Unfinished reports whether the last calls of Wake and Pop left work. The next calls can
// continue it at any time, without a change.
func (q *Queue) Unfinished() bool {
	return q.Waking() || q.flushing || q.holding || q.accounts.sorting
}

// Waking reports whether the last call of Wake left pods to wake.
func (q *Queue) Waking() bool { return q.waking.left() > 0 || q.parked.woken.size() > 0 }

// deliver adds an event for the pods that are parked now.
func (q *Queue) deliver(event model.Event, victim bool) {
	if len(q.parked.inOrder) == 0 {
		return
	}
	next := pendingEvent{event: event, parkings: q.parked.parkings, except: q.rejectedOwner(event), victim: victim}
	if q.waking.left() >= maxPending || event.Resource == model.AnyEvent {
		q.waking = waking{}
		next.all, next.except, next.event.OnlyUpTo, next.event.OnlyHeld = true, nil, nil, false
	}
	q.waking.pending = append(q.waking.pending, next)
	if victim && len(q.leaving) > 0 {
		q.waking.hearLater(next, q.now.Add(roomAwaited))
	}
}

// hearLater stores an event for preemptors that will still wait for victims at due.
func (w *waking) hearLater(event pendingEvent, due time.Time) {
	event.overdue, event.except = true, nil
	if len(w.overdue) < maxOverdue {
		w.overdue = append(w.overdue, overdueEvent{event, due})
		return
	}
	event.all, event.event.OnlyUpTo = true, nil
	w.overdue[maxOverdue-1] = overdueEvent{event, due}
}

// hearOverdue adds the overdue events that are due.
func (q *Queue) hearOverdue(now time.Time) {
	w := &q.waking
	n := 0
	for n < len(w.overdue) && !w.overdue[n].due.After(now) && w.left() < maxPending {
		if len(q.leaving) > 0 {
			w.pending = append(w.pending, w.overdue[n].pendingEvent)
		}
		n++
	}
	if w.overdue = slices.Delete(w.overdue, 0, n); len(w.overdue) == 0 {
		w.overdue = nil
	}
}

// isBeingWoken reports whether an event helps a parked pod, or may turn out to help, and
// the event's name. While hints are pending, any pod that was parked before the last
// event may still be helped.
func (q *Queue) isBeingWoken(e *entry) (why string, woken bool) {
	if why, woken := e.isWoken(); woken {
		return why, true
	}
	if q.waking.left() == 0 || len(e.memberships) == 0 {
		return "", false
	}
	last := &q.waking.pending[len(q.waking.pending)-1]
	return last.event.Label(), e.parking <= last.parkings
}

// wakeSlice continues with the pending events.
func (q *Queue) wakeSlice(now time.Time) {
	w := &q.waking
	over := false
	for work := 0; w.left() > 0 && work < q.config.Slice; {
		work += q.ask(q.config.Slice - work)
		if w.asked == len(w.found) {
			w.next()
			over = true
		}
	}
	if w.lookedUp && !over {
		// the present event may help more pods, with earlier turns than the pods found so
		// far
		return
	}
	for moved := 0; moved < q.config.Slice && q.parked.woken.size() > 0; {
		c := q.parked.woken.first()
		e := c.first.entry
		moved += e.moves()
		q.wake(now, e, c.why, e.isWokenAtOnce())
	}
}

// left returns the number of pending events that are not over.
func (w *waking) left() int { return len(w.pending) - w.done }

// foundKept is the largest capacity that found keeps for the next event.
const foundKept = 1000

// next ends the first event.
func (w *waking) next() {
	w.pending[w.done] = pendingEvent{}
	w.done++
	if w.done > w.left() { // reclaims the space of finished events from time to time
		n := copy(w.pending, w.pending[w.done:])
		clear(w.pending[n:])
		w.pending, w.done = w.pending[:n], 0
	}
	if clear(w.found); cap(w.found) > foundKept {
		w.found = nil
	}
	w.lookedUp, w.found, w.asked = false, w.found[:0], 0
}

// ask runs hints for the first event until it has done limit work, or until all have run.
// It returns the work done.
func (q *Queue) ask(limit int) (work int) {
	w, p := &q.waking, &q.parked
	first := &w.pending[w.done]
	if !w.lookedUp {
		w.lookedUp = true
		w.found, work = p.findAll(first, w.found)
		p.beginHints(first, w.left()-1)
	}
	for w.asked < len(w.found) && work < limit {
		b := w.found[w.asked]
		w.asked++
		work++
		if !b.concerns(first) {
			continue
		}
		helps, cost := first.all, 0
		if !helps {
			helps, cost = p.accepts(b, first.event)
		}
		if work += cost; helps {
			work += p.wakeBucket(b, first)
		}
	}
	return work
}

// beginHints starts an event for hints that have a budget. waiting is the number of
// events behind it.
func (p *parkedIndex) beginHints(e *pendingEvent, waiting int) {
	for _, in := range p.inOrder {
		for _, x := range in.indexes {
			if x.Asked != nil && x.Asked.Begin != nil && x.Concerns(e.event) {
				x.Asked.Begin(waiting)
			}
		}
	}
}

// findAll appends the buckets that the event may help. It returns the number of indexes
// that it visited.
func (p *parkedIndex) findAll(e *pendingEvent, to []*bucket) (found []*bucket, looked int) {
	for _, in := range p.inOrder {
		if e.event.OnlyHeld && in.key.by != byGate && p.awaitWrites == 0 {
			continue
		}
		for _, x := range in.indexes {
			switch {
			case e.all:
				p.lookups++
				to = p.take(&x.all, to)
			case x.Concerns(e.event):
				to = p.find(x, e.event, to)
			default:
				continue
			}
			looked++
			if e.all {
				break // each index has all pods of the plugin
			}
		}
	}
	return to, looked
}

// concerns reports whether the event reaches a pod of the bucket that was parked before
// it. A bucket whose only pod is being woken already is skipped: another registration, or
// another event, has helped the pod.
func (b *bucket) concerns(e *pendingEvent) bool {
	for _, c := range b.cohorts {
		if !e.reaches(c) {
			continue
		}
		if c.first != c.last {
			return true
		}
		if _, woken := c.first.entry.isWoken(); !woken || b.index.pending && !c.first.entry.isWokenAtOnce() {
			return true
		}
	}
	return false
}

func (e *pendingEvent) reaches(c *cohort) bool {
	if c.first.entry.parking > e.parkings || !e.event.Reaches(c.priority) {
		return false
	}
	if e.event.OnlyHeld && c.first.entry.isRejected() && c.awaits&writeInFlight == 0 {
		return false
	}
	if e.overdue {
		return c.awaits&victimsLeave != 0
	}
	return e.all || !e.victim || c.awaits&victimsLeave == 0
}

// hintPrice is the maximal cost of an ordinary hint, in units of work. A more expensive
// hint counts as several in a slice.
const hintPrice = 5_000

// accepts runs the hint, which returns the same for each pod of the bucket. cost is the
// number of further hints that it counts as.
func (p *parkedIndex) accepts(b *bucket, event model.Event) (helps bool, cost int) {
	switch {
	case b.index.Asked != nil:
		p.hintCalls++
		before := spentBy(b.index.Asked)
		helps = b.index.Asked.Hint(b.alike, event)
		return helps, int((spentBy(b.index.Asked) - before) / hintPrice)
	case b.index.Hint == nil:
		return true, 0
	}
	p.hintCalls++
	return b.index.Hint(b.cohorts[0].first.entry.pod, event), 0
}

// spentBy returns the total cost of the hints so far, 0 if they are always cheap.
func spentBy(hint *model.AskedHint) int64 {
	if hint.Spent == nil {
		return 0
	}
	return hint.Spent()
}

// wakeBucket wakes the pods of a bucket that the event concerns. It returns the number of
// woken cohorts.
func (p *parkedIndex) wakeBucket(b *bucket, e *pendingEvent) (cohorts int) {
	kept := b.cohorts[:0]
	for _, c := range b.cohorts {
		if !e.reaches(c) {
			kept = append(kept, c)
			continue
		}
		later := c.split(e.parkings)
		if except := e.except.in(c); except != nil {
			c.unlink(except)
			if later == nil {
				later = c.another()
			}
			later.link(except)
		}
		if later != nil {
			kept = append(kept, later)
		}
		if c.first != nil {
			c.woken, c.why, c.number = true, e.event.Label(), p.wakings
			c.atOnce = b.index.pending && !e.all
			p.wakings++
			p.woken.add(c)
			cohorts++
		}
	}
	clear(b.cohorts[len(kept):])
	if b.cohorts = kept; len(kept) == 0 {
		b.index.remove(b)
	}
	return cohorts
}

// in returns the membership of a pod in a cohort, nil if none. The pod may be nil.
func (e *entry) in(c *cohort) *membership {
	if e == nil {
		return nil
	}
	for i := range e.memberships {
		if m := &e.memberships[i]; m.cohort == c {
			return m
		}
	}
	return nil
}
