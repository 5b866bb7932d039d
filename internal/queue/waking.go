package queue

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// An event may concern very many parked pods. So that the loop never stands still for long, events are taken in slices: each round asks a bounded
// number of hints and moves a bounded number of pods, and the next round continues. Meanwhile changes are taken in, and pods are decided about.
//
// First the hints are asked, one event after the other. What they help is woken only when all hints of an event have been asked, in the order
// of turns; so no pod takes the room of an event before a pod that comes before it, whatever plugins rejected the two. A pod is helped as if the
// event had reached it at once, with these differences: its backoff is looked at when it is moved; until then it counts as parked; and a pod that was
// parked after the event, by a decision that saw what had happened, is not woken by it.

// DefaultSlice is how many hints a round asks, and how many pods it moves, before it leaves the rest to the next. A hint or a move takes 1 to 6 µs,
// so that a round takes a few milliseconds at most.
const DefaultSlice = 500

// pendingMax bounds how many events wait to be taken. When there are more, every parked pod is tried again without looking.
const pendingMax = 10_000

// waking is the events whose hints have not all been asked.
type waking struct {
	// pending are the events, of which the first done are over.
	// Invariant: at most pendingMax events are pending; done is less than their number, or both are 0.
	pending []pendingEvent
	done    int
	// found are the buckets that the first event that is not over may help, asked is how many of them have been asked.
	// Invariant: nothing is found before the first event was looked up, and asked is not more than what was found.
	lookedUp bool
	found    []*bucket
	asked    int
	// overdue are deletions of victims that pods which await room did not hear of, see preemption.go, the oldest first.
	// Invariant: at most overdueMax are kept, and none is due before the one in front of it.
	overdue []overdueEvent
}

// overdueEvent is an event that is to be heard at a time by pods that still await room then.
type overdueEvent struct {
	pendingEvent
	due time.Time
}

// overdueMax bounds how many events are to be heard later. When there are more, the newest helps every pod that awaits room.
const overdueMax = 1000

// pendingEvent is an event that is to wake parked pods.
type pendingEvent struct {
	event model.Event
	// parkings is how often a pod had been parked when the event happened. Pods that were parked later do not concern it.
	parkings uint64
	// except is the pod that the event is about, if it has just been rejected at Permit: that it left its node is no reason to try it again.
	except *entry
	// victim means that the event is that a pod is gone which had to make room for another. Pods that await room themselves do not hear of it.
	victim bool
	// overdue means that the event was such a deletion some time ago. Only pods that await room hear of it.
	overdue bool
	// all means that the event helps every pod that an event can help.
	all bool
}

// Unfinished reports whether the last calls of Wake and Pop left work that the next ones continue, without a change and at any time.
func (q *Queue) Unfinished() bool {
	return q.Waking() || q.flushing || q.holding || q.accounts.sorting
}

// Waking reports whether the last call of Wake left pods to be woken by the next.
func (q *Queue) Waking() bool { return q.waking.left() > 0 || q.parked.woken.size() > 0 }

// hear takes in an event, for pods that are parked now.
func (q *Queue) hear(event model.Event, victim bool) {
	if len(q.parked.inOrder) == 0 {
		return
	}
	next := pendingEvent{event: event, parkings: q.parked.parkings, except: q.rejectedOwner(event), victim: victim}
	if q.waking.left() >= pendingMax || event.Resource == model.AnyEvent {
		q.waking = waking{}
		next.all, next.except, next.event.OnlyUpTo, next.event.OnlyHeld = true, nil, nil, false
	}
	q.waking.pending = append(q.waking.pending, next)
	if victim && len(q.leaving) > 0 {
		q.waking.hearLater(next, q.now.Add(roomAwaited))
	}
}

// hearLater keeps an event for pods that will still await room at a time.
func (w *waking) hearLater(event pendingEvent, due time.Time) {
	event.overdue, event.except = true, nil
	if len(w.overdue) < overdueMax {
		w.overdue = append(w.overdue, overdueEvent{event, due})
		return
	}
	event.all, event.event.OnlyUpTo = true, nil
	w.overdue[overdueMax-1] = overdueEvent{event, due}
}

// hearOverdue takes in the events that are due.
func (q *Queue) hearOverdue(now time.Time) {
	w := &q.waking
	n := 0
	for n < len(w.overdue) && !w.overdue[n].due.After(now) && w.left() < pendingMax {
		if len(q.leaving) > 0 {
			w.pending = append(w.pending, w.overdue[n].pendingEvent)
		}
		n++
	}
	if w.overdue = slices.Delete(w.overdue, 0, n); len(w.overdue) == 0 {
		w.overdue = nil
	}
}

// isBeingWoken reports whether an event that helps a parked pod has been found, or may yet be, and the event's name. While hints about events are
// left to ask, that is assumed of every pod that was parked before the last of them.
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

// wakeSlice continues with the events that were heard.
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
		return // the event at hand may help other pods, which come before those that were found so far
	}
	for moved := 0; moved < q.config.Slice && q.parked.woken.size() > 0; {
		c := q.parked.woken.first()
		e := c.first.entry
		moved += e.moves()
		q.wake(now, e, c.why, e.isWokenAtOnce())
	}
}

// left is how many events are not over.
func (w *waking) left() int { return len(w.pending) - w.done }

// foundKept bounds how long a list of what an event found is kept for the next event.
const foundKept = 1000

// next ends the first event.
func (w *waking) next() {
	w.pending[w.done] = pendingEvent{}
	w.done++
	if w.done > w.left() { // now and then move up the rest, so that the list does not grow for ever
		n := copy(w.pending, w.pending[w.done:])
		clear(w.pending[n:])
		w.pending, w.done = w.pending[:n], 0
	}
	if clear(w.found); cap(w.found) > foundKept {
		w.found = nil
	}
	w.lookedUp, w.found, w.asked = false, w.found[:0], 0
}

// ask asks hints about the first event, until that was at least the given amount of work or all have been asked. It returns how much it was.
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

// beginHints begins an event for hints that have a budget, behind which others wait.
func (p *parkedIndex) beginHints(e *pendingEvent, waiting int) {
	for _, in := range p.inOrder {
		for _, x := range in.indexes {
			if x.Asked != nil && x.Asked.Begin != nil && x.Concerns(e.event) {
				x.Asked.Begin(waiting)
			}
		}
	}
}

// findAll appends the buckets that the event may help. It returns how many indexes it looked at.
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

// concerns reports whether the bucket has a pod that was parked before the event, and that the event reaches. A bucket of one pod that is being
// woken already is not asked about: another registration, or another event, has helped it.
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

// hintPrice is how many units of work an ordinary hint costs at most: a dearer one counts as several in a slice.
const hintPrice = 5_000

// accepts asks the hint, which is the same for each pod of the bucket. It returns as how many further hints it counts.
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

// spentBy returns what hints have cost so far, 0 if they are always cheap.
func spentBy(hint *model.AskedHint) int64 {
	if hint.Spent == nil {
		return 0
	}
	return hint.Spent()
}

// wakeBucket wakes the pods of a bucket that the event concerns. It returns how many cohorts that are.
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

// in returns the membership of a pod, which may be nil, in a cohort.
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
