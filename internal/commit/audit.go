package commit

import (
	"container/heap"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Audit checks the invariants of the outbox. It returns all violations in one error, nil
// if none. It reads every queued entry and changes nothing.
func (o *Outbox) Audit() error {
	v := audit.Of("outbox")
	o.auditBacklog(v)
	o.auditBindings(v)
	o.auditCalls(v)
	o.auditEvictions(v)
	o.auditEffects(v)
	o.auditTimeline(v)
	o.auditReports(v)
	o.auditEvents(v)
	return v.Err()
}

// auditBacklog checks the order and the positions of the backlog.
func (o *Outbox) auditBacklog(v *audit.Violations) {
	for i := range o.backlog.jobs {
		j := &o.backlog.jobs[i]
		priority, order, at, position := j.says()
		if at != ready || position != i {
			v.Add("the %s is at position %d of the backlog; it says position %d and that it is %s", j, i, position, at)
		}
		if j.priority != priority || j.order != order {
			v.Add("the %s has priority %d and order %d in the backlog; it says %d and %d", j, j.priority, j.order, priority, order)
		}
		if parent := (i - 1) / 2; i > 0 && o.backlog.Less(i, parent) {
			v.Add("the %s stands behind the %s in the backlog, and goes first", j, &o.backlog.jobs[parent])
		}
	}
}

// auditEvictions checks the unfinished evictions and the preemptions that wait for them.
func (o *Outbox) auditEvictions(v *audit.Violations) {
	open := map[*preemption]int{}
	for uid, e := range o.evictions {
		if e.victim.UID != uid || e.phase == begins || e.phase == evicted {
			v.Add("the eviction of %s is found under pod %s, and %s", e.victim, uid, e.phase)
		}
		if e.place == ready && (e.position >= len(o.backlog.jobs) || o.backlog.jobs[e.position].eviction != e) {
			v.Add("the eviction of %s is ready and not in the backlog", e.victim)
		}
		if paused := slices.ContainsFunc(o.later.entries, func(at entry) bool { return at.eviction == e }); paused != (e.place == pausing) {
			v.Add("the eviction of %s is %s, and on the timeline: %t", e.victim, e.place, paused)
		}
		b := o.bindings[uid]
		if waits := b != nil && b.eviction == e; waits != (e.phase == cancels) || waits && e.place != nowhere || !waits && e.place == nowhere {
			v.Add("the eviction of %s %s and is %s; a binding ends it: %t", e.victim, e.phase, e.place, waits)
		}
		if len(e.preempts) == 0 {
			v.Add("the eviction of %s is for no preemption", e.victim)
		}
		for _, p := range e.preempts {
			open[p]++
		}
	}
	for p, n := range open {
		if p.open != n {
			v.Add("%d evictions of the preemption for %s are counted open, recounted %d", p.open, p.preemptor, n)
		}
		if last := p.victims[len(p.victims)-1]; p.last && (n != 1 || o.evictions[last.Pod.UID] == nil) {
			v.Add("the last victim of the preemption for %s does not go alone", p.preemptor)
		}
	}
	for _, b := range o.bindings {
		if e := b.eviction; e != nil && o.evictions[b.placement.Pod.UID] != e {
			v.Add("the binding of %s ends an eviction that is over", b.placement.Pod)
		}
	}
}

// auditEffects checks the unfinished writes of decisions.
func (o *Outbox) auditEffects(v *audit.Violations) {
	for key, e := range o.effects {
		if keyOfWrite(e.write) != key || e.place != ready && e.place != sending && e.place != pausing {
			v.Add("the write of %s is found as that of %s, and is %s", e.write.Name, key.name, e.place)
		}
		if e.place == ready && (e.position >= len(o.backlog.jobs) || o.backlog.jobs[e.position].effect != e) {
			v.Add("the write of %s is ready and not in the backlog", e.write.Name)
		}
		if paused := slices.ContainsFunc(o.later.entries, func(at entry) bool { return at.effect == e }); paused != (e.place == pausing) {
			v.Add("the write of %s is %s, and on the timeline: %t", e.write.Name, e.place, paused)
		}
		auditQuestion(v, &e.attempt, e.write)
		if e.write.Latest != (o.latest[objectOf(e.write)] == e) {
			v.Add("of the writes of %s the latest counts: %t; it is found as the one that has not ended: %t", e.write.Name, e.write.Latest, !e.write.Latest)
		}
		if e.after != nil && (objectOf(e.after.write) != objectOf(e.write) || e.after.after != nil || e.after.place != nowhere) {
			v.Add("the write of %s waits for that of %s, and is %s", e.after.write.Name, e.write.Name, e.after.place)
		}
		for then := e.then; then != nil; then = then.then {
			if then.place != nowhere || !isSameObject(then.write, e.write) {
				v.Add("a write of %s follows one of %s, and is %s", then.write.Name, e.write.Name, then.place)
			}
		}
	}
	for key, e := range o.latest {
		if o.effects[keyOfWrite(e.write)] != e || objectOf(e.write) != key {
			v.Add("the write of %s is the one to %s that has not ended, and has ended", e.write.Name, key.name)
		}
	}
}

// auditQuestion checks that the object of a write is read only if the object can show
// whether the write was stored.
func auditQuestion(v *audit.Violations, a *attempt, write *plan.Write) {
	if a.asking && (write == nil || a.err == nil || !write.Learn && write.Stored == nil) {
		v.Add("the object of a write is asked for; the write was refused: %t, and is one to learn, or that can be recognised: %t",
			a.err != nil, write != nil && (write.Learn || write.Stored != nil))
	}
}

// auditBindings checks the unfinished bindings and the bindings that a status write holds
// up.
func (o *Outbox) auditBindings(v *audit.Violations) {
	for uid, p := range o.pods {
		if p.held != nil && (p.held.place != held || p.writing == nil) {
			v.Add("the binding of pod %s is held up and %s; its status is being written: %t", uid, p.held.place, p.writing != nil)
		}
	}
	open := 0
	for uid, b := range o.bindings {
		if b.sent && b.phase != postBinds {
			open++
		}
		if b.placement.Pod.UID != uid || b.phase == over {
			v.Add("the binding of %s is found under pod %s, and is %s", b.placement.Pod, uid, b.phase)
		}
		if b.place == ready && (b.position >= len(o.backlog.jobs) || o.backlog.jobs[b.position].binding != b) {
			v.Add("the binding of %s is ready and not in the backlog", b.placement.Pod)
		}
		if (b.place == waiting || b.place == pausing) && (b.position >= len(o.later.entries) || o.later.entries[b.position].binding != b) {
			v.Add("the binding of %s waits and is not on the timeline", b.placement.Pod)
		}
		if b.phase != binds {
			auditQuestion(v, &b.attempt, b.write())
		}
		if b.place == held && (o.pods[uid] == nil || o.pods[uid].held != b) {
			v.Add("the binding of %s is held up and no status holds it up", b.placement.Pod)
		}
	}
	// o.bindings has only the latest binding of a pod, so open may be too small
	if o.opened < open {
		v.Add("%d bindings are counted open, at least %d are", o.opened, open)
	}
}

// auditCalls checks the bindings with a running call and the bindings at Permit.
func (o *Outbox) auditCalls(v *audit.Violations) {
	for order, b := range o.calls {
		if b.order != order || b.place != calling || b.phase == over || b.steps == nil {
			v.Add("the binding of %s has order %d and is %s and %s; a call of binding %d runs", b.placement.Pod, b.order, b.phase, b.place, order)
		}
	}
	for _, b := range o.bindings {
		if b.place == calling && o.calls[b.order] != b {
			v.Add("the binding of %s waits for a call that does not run", b.placement.Pod)
		}
		if b.steps == nil || b.steps.permit == nil {
			continue
		}
		if listed := b.steps.permit.element != nil; listed != (b.phase <= permits) {
			v.Add("the binding of %s %s, and is listed as waiting at Permit: %t", b.placement.Pod, b.phase, listed)
		}
	}
	var last uint64
	for e := o.permits.Front(); e != nil; e = e.Next() {
		b := e.Value.(*AtPermit).binding
		if b.steps.permit != e.Value || b.steps.permit.element != e || b.order <= last {
			v.Add("the binding of %s is listed wrongly at Permit", b.placement.Pod)
		}
		last = b.order
	}
}

// auditTimeline checks the entries of the timeline.
func (o *Outbox) auditTimeline(v *audit.Violations) {
	delayed := 0
	var ordered heap.Interface = &o.later
	for i, e := range o.later.entries {
		if i > 0 && ordered.Less(i, (i-1)/2) {
			v.Add("entry %d of the timeline is due before the one above it", i)
		}
		switch {
		case e.event != nil:
			delayed++
		case e.effect != nil:
			if o.effects[keyOfWrite(e.effect.write)] != e.effect {
				v.Add("the write of %s is on the timeline and has ended", e.effect.write.Name)
			}
		case e.eviction != nil:
			if e.eviction.place != pausing {
				v.Add("the eviction of %s is on the timeline and %s", e.eviction.victim, e.eviction.place)
			}
		case e.binding == nil:
			delayed++
			if p := o.pods[e.pod]; p == nil || !p.queued {
				v.Add("the status of pod %s waits for a time and is not queued", e.pod)
			}
		case e.binding.place != waiting && e.binding.place != pausing || e.binding.position != i:
			v.Add("the binding of %s is at position %d of the timeline; it says position %d and that it is %s",
				e.binding.placement.Pod, i, e.binding.position, e.binding.place)
		}
	}
	if delayed != o.delayed {
		v.Add("%d statuses and events wait for a time, and %d are counted", delayed, o.delayed)
	}
}

// auditReports checks the statuses and events.
func (o *Outbox) auditReports(v *audit.Violations) {
	if n := o.reports.statuses.len(); n > o.config.MaxReports {
		v.Add("%d statuses wait, at most %d may", n, o.config.MaxReports)
	}
	queued := map[types.UID]bool{}
	for _, uid := range o.reports.statuses.items[o.reports.statuses.head:] {
		if queued[uid] {
			v.Add("the status of pod %s has two turns", uid)
		}
		queued[uid] = true
		if p := o.pods[uid]; p == nil || !p.queued {
			v.Add("the status of pod %s has a turn and is not queued", uid)
		}
	}
	for _, e := range o.later.entries {
		if e.binding == nil && e.eviction == nil && e.effect == nil && e.event == nil {
			queued[e.pod] = true
		}
	}
	writing := 0
	for uid, p := range o.pods {
		if p.writing != nil {
			writing++
		}
		if !p.queued && p.writing == nil {
			v.Add("the status of pod %s is neither queued nor being written", uid)
		}
		if p.queued && p.writing != nil {
			v.Add("the status of pod %s is queued while another is being written", uid)
		}
		if p.queued && !queued[uid] {
			v.Add("the status of pod %s is queued and has no turn", uid)
		}
	}
	if counted := o.reports.inFlight[StatusWrite]; counted != writing {
		v.Add("%d statuses are counted in flight, recounted %d", counted, writing)
	}
	o.auditBudget(v)
	o.auditWritten(v)
}

// auditBudget checks the limits of statuses and events in flight. While the API server
// does not answer, only one may be sent.
func (o *Outbox) auditBudget(v *audit.Violations) {
	r := &o.reports
	statuses, events := r.inFlight[StatusWrite], r.inFlight[EventWrite]
	if most := r.budget.EachInFlight; statuses > most || events > most || statuses+events > r.budget.InFlight+1 || events < 0 {
		v.Add("%d statuses and %d events are in flight; of each %d may be, of both %d", statuses, events, most, r.budget.InFlight)
	}
	if r.turn < 0 || r.turn >= len(turns) {
		v.Add("it is turn %d of %d", r.turn, len(turns))
	}
	if r.probing && statuses+events == 0 {
		v.Add("one request finds out whether the API server answers, and none is in flight")
	}
}

// auditWritten checks the record of the statuses written last.
func (o *Outbox) auditWritten(v *audit.Violations) {
	if n := o.writes.len(); n > maxWritten {
		v.Add("%d writes of statuses are remembered, at most %d may be", n, maxWritten)
	}
	expires := map[types.UID]bool{}
	for _, e := range o.writes.items[o.writes.head:] {
		expires[e.pod] = expires[e.pod] || e.until.Equal(o.written[e.pod].until)
	}
	for uid := range o.written {
		if !expires[uid] {
			v.Add("the last status of pod %s is remembered for ever", uid)
		}
	}
}
