package commit

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
)

// Audit returns what is wrong with the outbox, nil if nothing is. It looks at everything that waits and changes nothing. A violation is a bug.
func (o *Outbox) Audit() error {
	return errors.Join(slices.Concat(o.auditBindings(), o.auditTimeline(), o.auditReports())...)
}

// auditBindings checks the bindings in the backlog, those that a status holds up, and those with steps.
func (o *Outbox) auditBindings() (wrong []error) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for i, b := range o.backlog.bindings {
		if b.place != ready {
			add("the binding of %s is in the backlog and in place %d", b.placement.Pod, b.place)
		}
		if parent := (i - 1) / 2; i > 0 && o.backlog.Less(i, parent) {
			add("the binding of %s stands behind that of %s in the backlog, and goes first", b.placement.Pod, o.backlog.bindings[parent].placement.Pod)
		}
	}
	for uid, p := range o.pods {
		if p.held != nil && (p.held.place != held || !p.writing) {
			add("the binding of pod %s is held up in place %d; its status is being written: %t", uid, p.held.place, p.writing)
		}
	}
	for uid, b := range o.staged {
		if b.placement.Pod.UID != uid || b.steps == nil || b.phase == over {
			add("the binding of %s is kept for its steps under %s, and is %s", b.placement.Pod, uid, b.phase)
		}
		if b.place == ready && !slices.Contains(o.backlog.bindings, b) {
			add("the binding of %s is ready and not in the backlog", b.placement.Pod)
		}
		if (b.place == waiting || b.place == pausing) && (b.onTimeline >= len(o.later.entries) || o.later.entries[b.onTimeline].binding != b) {
			add("the binding of %s waits and is not on the timeline", b.placement.Pod)
		}
	}
	return wrong
}

// auditTimeline checks what waits for a time.
func (o *Outbox) auditTimeline() (wrong []error) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	delayed := 0
	var ordered heap.Interface = &o.later
	for i, e := range o.later.entries {
		if i > 0 && ordered.Less(i, (i-1)/2) {
			add("entry %d of the timeline is due before the one above it", i)
		}
		switch {
		case e.event != nil:
			delayed++
		case e.binding == nil:
			if p := o.pods[e.pod]; p == nil || !p.queued {
				add("the status of pod %s waits for a time and is not queued", e.pod)
			}
		case e.binding.place != waiting && e.binding.place != pausing:
			add("the binding of %s is on the timeline and in place %d", e.binding.placement.Pod, e.binding.place)
		}
	}
	if delayed != o.delayed {
		add("%d events wait for a time, and %d are counted", delayed, o.delayed)
	}
	return wrong
}

// auditReports checks the statuses and events.
func (o *Outbox) auditReports() (wrong []error) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	waiting := o.events.items[o.events.head:]
	if len(waiting) != len(o.eventOf) {
		add("%d events wait, and %d are found by what they say", len(waiting), len(o.eventOf))
	}
	for _, e := range waiting {
		if o.eventOf[e.eventKey] != e {
			add("the event %s of %s waits and is not found by what it says", e.eventKey.event.Reason, e.pod)
		}
	}
	queued := map[string]bool{}
	for _, uid := range o.statuses.items[o.statuses.head:] {
		if queued[string(uid)] {
			add("the status of pod %s has two turns", uid)
		}
		queued[string(uid)] = true
	}
	for uid, p := range o.pods {
		if p.queued && p.writing {
			add("the status of pod %s is queued while another is being written", uid)
		}
		if p.queued && !queued[string(uid)] && !slices.ContainsFunc(o.later.entries, func(e entry) bool { return e.binding == nil && e.event == nil && e.pod == uid }) {
			add("the status of pod %s is queued and has no turn", uid)
		}
	}
	if o.reporting < 0 || o.opened < 0 {
		add("%d statuses and events are in flight, %d bindings open", o.reporting, o.opened)
	}
	return wrong
}
