package commit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/audit"
)

// auditEvents checks the events that wait, those that are kept because they may repeat, and how these are found.
func (o *Outbox) auditEvents(v *audit.Violations) {
	waiting := map[*event]bool{}
	for _, e := range o.events.items[o.events.head:] {
		waiting[e] = true
		if e.place != ready {
			v.Add("the event %s of %s is in the lane and %s", e.Reason, e.Subject.Key(), e.place)
		}
		o.auditEvent(v, e)
	}
	if n := o.events.len(); n != len(waiting) || n > o.config.EventsMax {
		v.Add("%d events wait, of which %d are different; at most %d may", n, len(waiting), o.config.EventsMax)
	}
	for _, e := range o.later.entries {
		if e.event == nil {
			continue
		}
		if e.event.place != pausing {
			v.Add("the event %s of %s is on the timeline and %s", e.event.Reason, e.event.Subject.Key(), e.event.place)
		}
		o.auditEvent(v, e.event)
	}
	o.auditKept(v)
	for key, e := range o.series {
		if e.key() != key || e.ended || e.place == nowhere {
			v.Add("the series of %s of %s is found as %v; it has ended: %t, and is %s", e.Reason, e.Subject.Key(), key, e.ended, e.place)
		}
		if e.place == ready && !waiting[e] {
			v.Add("the event %s of %s is ready and not in the lane", e.Reason, e.Subject.Key())
		}
		o.auditEvent(v, e)
	}
}

// auditKept checks the series that nothing is to be written of.
func (o *Outbox) auditKept(v *audit.Violations) {
	if o.kept.Len() > o.config.SeriesMax {
		v.Add("%d series are kept, at most %d may be", o.kept.Len(), o.config.SeriesMax)
	}
	n := 0
	for _, e := range o.series {
		if e.place == kept {
			n++
		}
	}
	if n != o.kept.Len() {
		v.Add("%d series are kept, and %d are in the list", n, o.kept.Len())
	}
	for element := o.kept.Front(); element != nil; element = element.Next() {
		e := element.Value.(*event)
		if e.place != kept || e.element != element || o.series[e.key()] != e || e.due() {
			v.Add("the event %s of %s is kept and %s, or its count is to be written", e.Reason, e.Subject.Key(), e.place)
		}
		if before := element.Prev(); before != nil && before.Value.(*event).idle.After(e.idle) {
			v.Add("the event %s of %s is kept behind one that has been idle for less time", e.Reason, e.Subject.Key())
		}
	}
}

// auditEvent checks what must hold of each event.
func (o *Outbox) auditEvent(v *audit.Violations, e *event) {
	if e.Count < 1 || e.written < 0 || e.written > e.Count {
		v.Add("the event %s of %s has happened %d times, of which %d are written", e.Reason, e.Subject.Key(), e.Count, e.written)
	}
	if e.Last.Before(e.First) || e.First.After(o.lastEvent) {
		v.Add("the event %s of %s happened last before it happened first, or after the last event", e.Reason, e.Subject.Key())
	}
	if !e.ended && (e.Type == v1.EventTypeNormal || o.series[e.key()] != e) {
		v.Add("the event %s of %s may repeat and is not found by its key, or is a normal event", e.Reason, e.Subject.Key())
	}
	if e.element != nil && e.place != kept {
		v.Add("the event %s of %s is in the list of those that are kept and %s", e.Reason, e.Subject.Key(), e.place)
	}
}
