package commit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/kit/audit"
)

// auditEvents checks the queued events, the events kept for repetitions, and their index.
func (o *Outbox) auditEvents(v *audit.Violations) {
	waiting := map[*event]bool{}
	for _, lane := range []*lane[*event]{&o.reports.normal, &o.reports.warnings, &o.reports.repeats} {
		before := len(waiting)
		for _, e := range lane.items[lane.head:] {
			waiting[e] = true
			if e.place != ready || o.laneOf(e) != lane {
				v.Add("the event %s of %s is in a lane and %s, or of another type", e.Reason, e.Subject.Key(), e.place)
			}
			o.auditEvent(v, e)
		}
		if n := lane.len(); n != len(waiting)-before || n > o.config.MaxReports {
			v.Add("%d events wait, of which %d are different; at most %d may", n, len(waiting)-before, o.config.MaxReports)
		}
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
	o.auditRoomHolds(v)
	inFlight := 0
	for key, e := range o.series {
		if e.place == sending {
			inFlight++
		}
		if e.key() != key || e.ended || e.place == nowhere {
			v.Add("the series of %s of %s is found as %v; it has ended: %t, and is %s", e.Reason, e.Subject.Key(), key, e.ended, e.place)
		}
		if e.place == ready && !waiting[e] {
			v.Add("the event %s of %s is ready and not in the lane", e.Reason, e.Subject.Key())
		}
		o.auditEvent(v, e)
	}
	// Ended series are in no index, so the count may be larger.
	if counted := o.reports.inFlight[EventWrite]; counted < inFlight {
		v.Add("%d events are counted in flight, at least %d are", counted, inFlight)
	}
}

// auditRoomHolds checks the series without a pending write.
func (o *Outbox) auditRoomHolds(v *audit.Violations) {
	if o.kept.Len() > o.config.MaxSeries {
		v.Add("%d series are kept, at most %d may be", o.kept.Len(), o.config.MaxSeries)
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

// auditEvent checks the invariants of a single event.
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
