package commit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// audited is an outbox with a binding, a status and an event in every possible place,
// each of the pod with the name of the place.
type audited struct {
	*Outbox
	*testing.T
	now time.Time
}

func (a *audited) pod(name string) *model.Pod {
	return model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1"}})
}

func (a *audited) bind(name string, steps ...plan.Step) {
	queued := plan.QueuedPod{Pod: a.pod(name)}
	a.Start(a.now, &plan.Decision{
		Member: plan.Member{QueuedPod: queued}, Outcome: plan.Placed,
		Placement: plan.Placement{Pod: queued.Pod, NodeName: "node", Steps: steps},
	})
}

// preempt evicts pods.
func (a *audited) preempt(names ...string) {
	d := &plan.Decision{Member: plan.Alone(a.pod("preemptor-of-" + names[0]))}
	for _, name := range names {
		pod := a.pod(name)
		pod.Object.Spec.NodeName = "node"
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: pod, NodeName: "node"})
	}
	a.Start(a.now, d)
}

// nominate queues a status of the pod.
func (a *audited) nominate(name string) {
	a.Start(a.now, &plan.Decision{Nominations: []plan.Nomination{{Pod: a.pod(name), Mode: plan.Set, NodeName: "node"}}})
}

// warn queues an event of the pod that may repeat.
func (a *audited) warn(name string) {
	a.Start(a.now, &plan.Decision{Member: plan.Alone(a.pod(name)), Outcome: plan.Terminating})
}

// next takes the next request.
func (a *audited) next() Request {
	a.Helper()
	request, ok := a.Next(a.now, false)
	if !ok {
		a.Fatal("there is nothing to send")
	}
	return request
}

// end answers the next request.
func (a *audited) end(err error) {
	a.Helper()
	a.Done(a.now, a.next(), Response{Err: err})
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	o, err := NewOutbox(OutboxConfig{
		Binder:     func(string) *plugin.Bind { return defaultbinder.New().Parts().Bind },
		Budget:     Budget{InFlight: 8, EachInFlight: 6, PerSecond: 1_000_000},
		MaxReports: 10, MaxSeries: 10, Pause: time.Second, Jitter: func(wait time.Duration) time.Duration { return wait },
	})
	if err != nil {
		t.Fatal(err)
	}
	a := &audited{o, t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	failed := apierrors.NewInternalError(errors.New("no"))
	for _, name := range []string{"kept-0", "kept-1", "kept-2"} {
		a.warn(name)
		a.end(nil)
	}
	a.warn("event-pausing")
	a.end(failed)
	a.nominate("written")
	a.end(nil)
	a.nominate("status-pausing")
	a.end(failed)
	a.nominate("held")
	a.next()
	a.bind("held")
	a.warn("event-sending")
	a.next()
	a.bind("binding-pausing")
	a.Done(a.now, a.next(), Response{Err: apierrors.NewTooManyRequests("later", 1)})
	a.bind("binding-sending")
	a.next()
	a.bind("bound")
	a.end(nil) // whose event is ready
	for _, name := range []string{"memory-0", "memory-1"} {
		a.bind(name, plan.Step{Stage: plan.PreBind, Plugin: "Volumes", Write: &plan.Write{}, Undo: &plan.Write{}})
		a.next()
	}
	a.preempt("memory-0", "memory-1", "memory-last")
	a.preempt("evicting", "eviction-last")
	a.next()
	a.preempt("eviction-pausing")
	a.end(apierrors.NewTooManyRequests("later", 1))
	a.bind("waiting", plan.Step{Stage: plan.Permit, Plugin: "Gang", Wait: &plan.Wait{Timeout: time.Minute}})
	a.preempt("eviction-ready")
	for _, name := range []string{"ready-0", "ready-1"} {
		a.bind(name)
		a.nominate("status-" + name)
		a.warn("event-" + name)
	}
	if err := o.Audit(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAuditFindsEachViolation corrupts an outbox in one way after the other. The sentence
// names the violated invariant.
func TestAuditFindsEachViolation(t *testing.T) {
	for _, row := range []struct {
		want    string
		corrupt func(a *audited)
	}{
		{"binding of ns/ready-0 is at position 1 of the backlog; it says position 7", func(a *audited) { a.bindings["ready-0"].position = 7 }},
		{"at position 1 of the backlog; it says position 1 and that it is held", func(a *audited) { a.bindings["ready-0"].place = held }},
		{"binding of ns/ready-1 stands behind the eviction of ns/eviction-ready in the backlog, and goes first", func(a *audited) { a.backlog.jobs[2].order = 0 }},
		{"binding of ns/ready-1 has priority 0 and order 13 in the backlog; it says 0 and 0", func(a *audited) { a.bindings["ready-1"].order = 0 }},
		{"eviction of ns/eviction-ready has priority 0 and order 11 in the backlog; it says 7 and 11", func(a *audited) { a.evictions["eviction-ready"].priority = 7 }},
		{"eviction of ns/evicting is found under pod other, and marks", func(a *audited) { a.evictions["other"] = a.evictions["evicting"] }},
		{"eviction of ns/evicting is ready and not in the backlog", func(a *audited) { a.evictions["evicting"].place = ready }},
		{"eviction of ns/evicting is ready and not in the backlog", func(a *audited) {
			a.evictions["evicting"].place, a.evictions["evicting"].position = ready, a.backlog.len()
		}},
		{"eviction of ns/eviction-pausing is sending, and on the timeline: true", func(a *audited) { a.evictions["eviction-pausing"].place = sending }},
		{"eviction of ns/eviction-pausing is on the timeline and sending", func(a *audited) { a.evictions["eviction-pausing"].place = sending }},
		{"eviction of ns/memory-0 cancels and is nowhere; a binding ends it: false", func(a *audited) { a.bindings["memory-0"].eviction = nil }},
		{"eviction of ns/evicting marks and is nowhere; a binding ends it: false", func(a *audited) { a.evictions["evicting"].place = nowhere }},
		{"binding of ns/memory-0 ends an eviction that is over", func(a *audited) { delete(a.evictions, "memory-0") }},
		{"eviction of ns/evicting is for no preemption", func(a *audited) { a.evictions["evicting"].preempts = nil }},
		{"2 evictions of the preemption for ns/preemptor-of-memory-0 are counted open, recounted 1", func(a *audited) { delete(a.evictions, "memory-0") }},
		{"last victim of the preemption for ns/preemptor-of-evicting does not go alone", func(a *audited) { a.evictions["evicting"].preempts[0].last = true }},
		{"binding of pod held is held up and ready", func(a *audited) { a.bindings["held"].place = ready }},
		{"its status is being written: false", func(a *audited) { a.pods["held"].writing = nil }},
		{"binding of ns/held is held up and no status holds it up", func(a *audited) { a.pods["held"].held = nil }},
		{"binding of ns/waiting is found under pod other, and is permits", func(a *audited) { a.bindings["other"] = a.bindings["waiting"] }},
		{"binding of ns/waiting is found under pod waiting, and is over", func(a *audited) { a.bindings["waiting"].phase = over }},
		{"binding of ns/waiting is ready and not in the backlog", func(a *audited) { a.bindings["waiting"].place = ready }},
		{"binding of ns/waiting is ready and not in the backlog", func(a *audited) {
			a.bindings["waiting"].place, a.bindings["waiting"].position = ready, a.backlog.len()
		}},
		{"binding of ns/binding-sending waits and is not on the timeline", func(a *audited) {
			a.bindings["binding-sending"].place, a.bindings["binding-sending"].position = waiting, a.later.Len()
		}},
		{"binding of ns/binding-sending waits and is not on the timeline", func(a *audited) { a.bindings["binding-sending"].place = waiting }},
		{"binding of ns/binding-pausing is at position", func(a *audited) { a.bindings["binding-pausing"].place = sending }},
		{"of the timeline; it says position 9", func(a *audited) { a.bindings["waiting"].position = 9 }},
		{"entry 1 of the timeline is due before the one above it", func(a *audited) { a.later.entries[1].at = time.Time{} }},
		{"status of pod status-pausing waits for a time and is not queued", func(a *audited) { a.pods["status-pausing"].queued = false }},
		{"2 statuses and events wait for a time, and 3 are counted", func(a *audited) { a.delayed++ }},
		{"3 bindings are counted open, at least 4 are", func(a *audited) { a.opened-- }},

		{"3 statuses wait, at most 2 may", func(a *audited) {
			a.config.MaxReports = 2
			a.nominate("another")
			a.config.MaxReports = 10
			a.nominate("and-another")
			a.config.MaxReports = 2
		}},
		{"status of pod status-ready-0 has two turns", func(a *audited) { a.reports.statuses.push("status-ready-0") }},
		{"status of pod held has a turn and is not queued", func(a *audited) { a.reports.statuses.push("held") }},
		{"status of pod status-ready-0 is neither queued nor being written", func(a *audited) { a.pods["status-ready-0"].queued = false }},
		{"status of pod held is queued while another is being written", func(a *audited) { a.pods["held"].queued = true }},
		{"status of pod other is queued and has no turn", func(a *audited) { a.pods["other"] = &writes{queued: true} }},
		{"2 statuses are counted in flight, recounted 1", func(a *audited) { a.reports.inFlight[StatusWrite]++ }},
		{"0 events are counted in flight, at least 1 are", func(a *audited) { a.reports.inFlight[EventWrite]-- }},
		{"1 statuses and 7 events are in flight; of each 6 may be, of both 8", func(a *audited) { a.reports.inFlight[EventWrite] = 7 }},
		{"it is turn 8 of 8", func(a *audited) { a.reports.turn = len(turns) }},
		{"finds out whether the API server answers, and none is in flight", func(a *audited) {
			a.reports.inFlight, a.reports.probing = [WriteKinds]int{}, true
		}},
		{"status of pod written is remembered for ever", func(a *audited) { a.writes = lane[expiry]{} }},
		{"writes of statuses are remembered, at most 30000 may be", func(a *audited) {
			for range maxWritten {
				a.writes.push(expiry{})
			}
		}},

		{"FailedScheduling of ns/event-ready-0 is in a lane and pausing", func(a *audited) { a.reports.warnings.first().place = pausing }},
		{"Scheduled of ns/bound is in a lane and ready, or of another type", func(a *audited) { a.reports.normal.first().Type = v1.EventTypeWarning }},
		{"3 events wait, of which 2 are different", func(a *audited) { a.reports.warnings.push(a.reports.warnings.first()) }},
		{"2 events wait, of which 2 are different; at most 1 may", func(a *audited) { a.config.MaxReports = 1 }},
		{"FailedScheduling of ns/event-pausing is on the timeline and kept", func(a *audited) { a.seriesOf("event-pausing").place = kept }},
		{"it has ended: true", func(a *audited) { a.seriesOf("event-sending").ended = true }},
		{"and is nowhere", func(a *audited) { a.seriesOf("event-sending").place = nowhere }},
		{"is found as {other", func(a *audited) { a.series[eventKey{pod: "other"}] = a.seriesOf("kept-0") }},
		{"FailedScheduling of ns/event-sending is ready and not in the lane", func(a *audited) { a.seriesOf("event-sending").place = ready }},
		{"3 series are kept, at most 2 may be", func(a *audited) { a.config.MaxSeries = 2 }},
		{"4 series are kept, and 3 are in the list", func(a *audited) { a.seriesOf("event-sending").place = kept }},
		{"FailedScheduling of ns/kept-0 is kept and ready, or its count", func(a *audited) { a.seriesOf("kept-0").place = ready }},
		{"FailedScheduling of ns/kept-0 is kept and kept, or its count", func(a *audited) { a.seriesOf("kept-0").Count = 2 }},
		{"FailedScheduling of ns/kept-0 is kept and kept, or its count", func(a *audited) { a.seriesOf("kept-0").element = nil }},
		{"FailedScheduling of ns/kept-0 is kept and kept, or its count", func(a *audited) { delete(a.series, a.seriesOf("kept-0").key()) }},
		{"FailedScheduling of ns/kept-1 is kept behind one that has been idle for less time", func(a *audited) {
			a.seriesOf("kept-0").idle = a.now.Add(1)
		}},
		{"FailedScheduling of ns/kept-1 has happened 1 times, of which 2 are written", func(a *audited) { a.seriesOf("kept-1").written = 2 }},
		{"Scheduled of ns/bound has happened 0 times, of which 0 are written", func(a *audited) { a.reports.normal.first().Count = 0 }},
		{"FailedScheduling of ns/kept-1 happened last before it happened first", func(a *audited) { a.seriesOf("kept-1").Last = time.Time{} }},
		{"FailedScheduling of ns/kept-1 happened last before it happened first, or after the last event", func(a *audited) { a.lastEvent = time.Time{} }},
		{"Scheduled of ns/bound may repeat and is not found by its key, or is a normal event", func(a *audited) { a.reports.normal.first().ended = false }},
		{"FailedScheduling of ns/event-pausing may repeat and is not found by its key", func(a *audited) {
			delete(a.series, a.seriesOf("event-pausing").key())
		}},
		{"FailedScheduling of ns/event-sending is in the list of those that are kept and sending", func(a *audited) {
			a.seriesOf("event-sending").element = a.kept.Front()
		}},
	} {
		a := newAudited(t)
		row.corrupt(a)
		if err := a.Audit(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// idle is a call that never runs here.
type idle struct{}

func (idle) IsCall()                        {}
func (idle) Run(context.Context) CallResult { return CallResult{} }

// TestAuditFindsEachViolationOfCalls corrupts an outbox with a running call, a returned
// call, and three pods that wait at Permit.
func TestAuditFindsEachViolationOfCalls(t *testing.T) {
	for _, row := range []struct {
		want    string
		corrupt func(a *audited)
	}{
		{"", func(*audited) {}},
		{"binding of ns/calling has order 15 and is reserves and calling; a call of binding 99 runs", func(a *audited) { a.calls[99] = a.bindings["calling"] }},
		{"binding of ns/calling has order 15 and is reserves and nowhere; a call of binding 15 runs", func(a *audited) { a.bindings["calling"].place = nowhere }},
		{"binding of ns/calling has order 15 and is over and calling; a call of binding 15 runs", func(a *audited) { a.bindings["calling"].phase = over }},
		{"binding of ns/calling has order 15 and is reserves and calling; a call of binding 15 runs", func(a *audited) { a.bindings["calling"].steps = nil }},
		{"binding of ns/calling waits for a call that does not run", func(a *audited) { delete(a.calls, a.bindings["calling"].order) }},
		{"binding of ns/returned waits for a call that does not run", func(a *audited) { a.bindings["returned"].place = calling }},
		{"binding of ns/permit-1 permits, and is listed as waiting at Permit: false", func(a *audited) { a.unlistPermit(a.bindings["permit-1"]) }},
		{"binding of ns/permit-1 pre-binds, and is listed as waiting at Permit: true", func(a *audited) { a.bindings["permit-1"].phase = preBinds }},
		{"binding of ns/permit-1 is listed wrongly at Permit", func(a *audited) { a.bindings["permit-1"].steps.permit = &AtPermit{} }},
		{"binding of ns/permit-1 is listed wrongly at Permit", func(a *audited) { a.bindings["permit-1"].steps.permit.element = a.permits.Front() }},
		{"binding of ns/permit-1 is listed wrongly at Permit", func(a *audited) { a.bindings["permit-1"].order = a.bindings["permit-0"].order }},
		{"binding of ns/permit-0 is listed wrongly at Permit", func(a *audited) { a.permits.MoveToBack(a.bindings["permit-0"].steps.permit.element) }},
	} {
		a := newAudited(t)
		step := plan.Step{Stage: plan.Reserve, Plugin: "Devices", Call: idle{}}
		a.bind("returned", step)
		a.bind("calling", step)
		a.Done(a.now, a.Take().Calls[0], Response{})
		for _, name := range []string{"permit-0", "permit-1"} {
			a.bind(name, plan.Step{Stage: plan.Permit, Plugin: "Gang", Wait: &plan.Wait{Timeout: time.Minute}})
		}
		row.corrupt(a)
		if err := a.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestAuditOfContexts has contexts of bindings in all possible places, and then a context
// of a completed binding.
func TestAuditOfContexts(t *testing.T) {
	a := newAudited(t)
	a.bind("calling", plan.Step{Stage: plan.Reserve, Plugin: "Devices", Call: idle{}})
	a.bind("replaced", plan.Step{Stage: plan.Reserve, Plugin: "Devices", Call: idle{}})
	replaced := a.bindings["replaced"].order
	delete(a.bindings, "replaced") // as for a pod with a newer binding
	c := &Commit{outbox: a.Outbox, contexts: map[uint64]bindingContext{a.bindings["waiting"].order: {}, a.bindings["calling"].order: {}, replaced: {}}}
	if err := c.Audit(); err != nil {
		t.Errorf("nothing is wrong, and the audit says %v", err)
	}
	c.contexts[1_000] = bindingContext{}
	if err := c.Audit(); err == nil || err.Error() != "commit: 1 of 4 contexts are of bindings that are over" {
		t.Errorf("the audit says %v", err)
	}
	a.delayed++
	if err := c.Audit(); err == nil || !strings.Contains(err.Error(), "statuses and events wait for a time") || !strings.Contains(err.Error(), "1 of 4 contexts") {
		t.Errorf("the audit says %v", err)
	}
}

// seriesOf returns the series of warnings about a pod.
func (a *audited) seriesOf(name string) *event {
	a.Helper()
	warning := report.Of(&plan.Decision{Member: plan.Alone(a.pod(name)), Outcome: plan.Terminating}).Event
	e := a.series[eventKey{types.UID(name), warning.Type, warning.Reason, warning.Action}]
	if e == nil {
		a.Fatalf("there is no series of %s", name)
	}
	return e
}

// TestAbandonAmidAPause abandons an outbox while a binding and an eviction wait for their
// next try. They are neither statuses nor events, so the counts of dropped statuses and
// events do not include them.
func TestAbandonAmidAPause(t *testing.T) {
	dropped := func(more ...entry) [2]int64 {
		a := newAudited(t)
		for _, e := range more {
			e.at = a.now.Add(time.Second)
			a.later.plan(e)
		}
		a.abandon(a.now)
		return [2]int64{a.stats.StatusesDropped, a.stats.EventsDropped}
	}
	want := dropped()
	if want[0] == 0 || want[1] == 0 {
		t.Fatalf("%d statuses and %d events are dropped, want some of each", want[0], want[1])
	}
	if got := dropped(entry{binding: &binding{}}, entry{eviction: &eviction{}}); got != want {
		t.Errorf("%v statuses and events are dropped, want %v", got, want)
	}
}

// TestAuditFindsEachViolationOfEffects corrupts an outbox with writes of decisions in
// every place, and a step whose write was refused.
func TestAuditFindsEachViolationOfEffects(t *testing.T) {
	key := func(name string) effectKey { return keyOfWrite(&plan.Write{Name: name}) }
	of := func(a *audited, name string) *effect { return a.effects[key(name)] }
	for _, row := range []struct {
		want    string
		corrupt func(a *audited)
	}{
		{"", func(*audited) {}},
		{"write of ready is found as that of other, and is ready", func(a *audited) { a.effects[key("other")] = of(a, "ready") }},
		{"write of sending is found as that of sending, and is kept", func(a *audited) { of(a, "sending").place = kept }},
		{"write of sending is ready and not in the backlog", func(a *audited) { of(a, "sending").place = ready }},
		{"write of sending is ready and not in the backlog", func(a *audited) { of(a, "sending").place, of(a, "sending").position = ready, a.backlog.len() }},
		{"write of pausing is sending, and on the timeline: true", func(a *audited) { of(a, "pausing").place = sending }},
		{"write of sending is pausing, and on the timeline: false", func(a *audited) { of(a, "sending").place = pausing }},
		{"write of pausing is on the timeline and has ended", func(a *audited) { delete(a.effects, key("pausing")) }},
		{"write of ready is at position 0 of the backlog; it says position 9", func(a *audited) { of(a, "ready").position = 9 }},
		{"the write was refused: false", func(a *audited) { of(a, "asking").err = nil }},
		{"and is one to learn, or that can be recognised: false", func(a *audited) { of(a, "asking").write = &plan.Write{Name: "asking"} }},
		{"the latest counts: true; it is found as the one that has not ended: false", func(a *audited) { delete(a.latest, objectOf(of(a, "latest").write)) }},
		{"the write of latest is the one to other that has not ended, and has ended", func(a *audited) { a.latest[objectKey{name: "other"}] = of(a, "latest") }},
		{"the write of ready waits for that of latest, and is ready", func(a *audited) { of(a, "latest").after = of(a, "ready") }},
		{"the write was refused: false", func(a *audited) { a.bindings["refused"].err = nil }},
		{"and is one to learn, or that can be recognised: false", func(a *audited) { a.bindings["refused"].step().Write = nil }},
	} {
		o, err := NewOutbox(newAudited(t).config)
		if err != nil {
			t.Fatal(err)
		}
		a := &audited{o, t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		write := func(name string) plan.Write {
			return plan.Write{Name: name, Latest: name == "latest", Stored: func(metav1.Object) bool { return false }}
		}
		start := func(name string) {
			a.Start(a.now, &plan.Decision{Member: plan.Alone(a.pod("p")), Writes: []plan.Write{write(name)}})
		}
		refused := apierrors.NewConflict(v1.Resource("volumes"), "v", errors.New("no"))
		for _, name := range []string{"refused", "asking"} {
			if step := write(name); name == "refused" {
				a.bind(name, plan.Step{Stage: plan.PreBind, Plugin: "Devices", Write: &step})
			} else {
				start(name)
			}
			a.end(refused)
			if request := a.next(); request.Kind != Read { // the read is in flight
				t.Fatalf("the next request is %s", request.Kind)
			}
		}
		start("pausing")
		a.end(apierrors.NewTooManyRequests("later", 1))
		start("sending")
		a.next()
		start("ready")
		start("latest")
		row.corrupt(a)
		if err := a.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}
