package queue

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// auditedQueue has a pod in every place where a pod can wait. Two of the parked pods are
// being woken, in an unfinished slice.
func auditedQueue(t *testing.T) *Queue {
	t.Helper()
	q := newQueue(t)
	p := q.profiles[""]
	p.holdsPreemptors = true
	q.profiles[""] = p
	q.config.Slice = 2
	for _, name := range []string{"moved", "moved-too", "woken", "woken-too"} {
		q.Wake(at(0), arrived(pod(name, 0)))
		reject(q, at(0), pop(t, q, at(0), name), "Fit")
	}
	q.Wake(at(0), podDeleted)
	q.config.Slice = 0 // keeps the rest of the slice
	q.Wake(at(0), arrived(pod("parked", 0), pod("parked-after", 0), pod("parked-low", -1), pod("parked-too", -1)))
	for _, name := range []string{"parked", "parked-after", "parked-low"} {
		reject(q, at(0), pop(t, q, at(0), name), "Fit")
	}
	reject(q, at(0), pop(t, q, at(0), "parked-too"))
	q.Wake(at(0), arrived(pod("errorBackoff", 0)))
	fail(q, at(0), pop(t, q, at(0), "errorBackoff"))
	q.Wake(at(0), arrived(pod("binding", 0)))
	SettlePod(q, at(0), pop(t, q, at(0), "binding"), plan.Decision{
		Outcome: plan.Placed, Placement: plan.Placement{Steps: []plan.Step{{Stage: plan.Permit}}},
	})
	q.Wake(at(0), arrived(pod("backing-off", 0)))
	reject(q, at(0), pop(t, q, at(0), "backing-off"), "Fit")
	e := q.entries[model.PodKey{Namespace: "ns", Name: "backing-off"}]
	q.wake(at(0), e, "NodeAdd", false)
	gatedPod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "gated", UID: types.UID("gated"), Labels: map[string]string{"gate": "yes"},
	}})
	q.Wake(at(0), arrived(pod("preempting", 0)))
	SettlePod(q, at(0), pop(t, q, at(0), "preempting"), plan.Decision{
		Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"Fit"}},
		Evictions: []plan.Eviction{{Pod: pod("victim", -1)}},
	})
	q.Wake(at(0), arrived(pod("active", 0), pod("active-too", 0), pod("urgent", 9), pod("urgent-too", 9), gatedPod))
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestAuditFindsEachViolation corrupts a queue in one way after the other. The sentence
// names the violated invariant.
func TestAuditFindsEachViolation(t *testing.T) {
	fit := pluginKey{plugin: "Fit"}
	get := func(q *Queue, name string) *entry { return q.entries[model.PodKey{Namespace: "ns", Name: name}] }
	member := func(q *Queue) *membership { return &get(q, "parked").memberships[0] }
	cohortOf := func(q *Queue) *cohort { return member(q).cohort }
	bucketOf := func(q *Queue) *bucket { return cohortOf(q).bucket }
	indexOf := func(q *Queue) *index { return bucketOf(q).index }
	other := model.Key{Name: "other"}
	woken := func(q *Queue) *cohort { return get(q, "woken").memberships[0].cohort }
	for _, row := range []struct {
		want    string
		corrupt func(q *Queue)
	}{
		{"pod ns/other is listed as ns/active", func(q *Queue) { get(q, "active").pod = pod("other", 0) }},
		{"pod ns/active is gone", func(q *Queue) { get(q, "active").place = gone }},
		{"another has that number: true", func(q *Queue) { get(q, "active").order = get(q, "gated").order }},
		{"is number 99 of 17 arrivals", func(q *Queue) { get(q, "active").order = 99 }},
		{"pod ns/active is active and not at position 1", func(q *Queue) { get(q, "active").index = 1 }},
		{"pod ns/urgent is active and not at position -9", func(q *Queue) { get(q, "urgent").index = -9 }},
		{"pod ns/active is backing off after an error and not at position 0", func(q *Queue) { get(q, "active").place = errorBackoff }},
		{"pod ns/preempting waits for victim to leave, and is not listed there", func(q *Queue) { delete(q.awaited, "victim") }},
		{"no pod waits for other to leave, which is listed", func(q *Queue) { q.awaited["other"] = nil }},
		{"2 pods are listed by their last victims, recounted 1", func(q *Queue) { q.awaited["victim"] = append(q.awaited["victim"], get(q, "parked")) }},
		{"pod ns/preempting waits for victim to be gone, and is not listed there", func(q *Queue) { delete(q.leaving, "victim") }},
		{"no pod waits for other to be gone, which is listed", func(q *Queue) { q.leaving["other"] = nil }},
		{"pods are listed 2 times by victims that are leaving, recounted 1", func(q *Queue) { q.leaving["victim"] = append(q.leaving["victim"], get(q, "parked")) }},
		{"it awaits 0, its cohort 1", func(q *Queue) { q.forgetLeaving(get(q, "preempting")) }},
		{"it awaits 10, its cohort 0", func(q *Queue) { get(q, "parked").awaitsWrite = true }},
		{"1 parked pods await a write in flight, recounted 0", func(q *Queue) { q.parked.awaitWrites++ }},
		{"pod ns/preempting had 1 attempts; 2 preemptions for it are under way", func(q *Queue) { get(q, "preempting").preempting.under = 2 }},
		{"pod ns/preempting has no last victim, and 1 preemptions for it are under way", func(q *Queue) { get(q, "preempting").preempting.last = "" }},
		{"pod ns/gated is held back, and awaits no victim", func(q *Queue) { get(q, "gated").plugins = []string{preemptionPlugin} }},
		{"it says position 1 and that it is active", func(q *Queue) { get(q, "active").index = 1 }},
		{"it waits: false", func(q *Queue) { delete(q.entries, get(q, "active").pod.Key()) }},
		{"pod ns/parked is at position 0 of the heap active", func(q *Queue) { q.active.entries[0] = get(q, "parked") }},
		{"pod ns/parked is at position -1 of the heap active", func(q *Queue) { q.active.run.list[0] = get(q, "parked") }},
		{"pod ns/active-too at position 1 of the heap active comes before ns/active", func(q *Queue) {
			get(q, "active-too").pod = pod("active-too", 1)
		}},
		{"pod ns/urgent-too at position -2 of the heap active comes before ns/urgent", func(q *Queue) {
			get(q, "urgent-too").pod = pod("urgent-too", 10)
		}},
		{"position 0 of the run of the heap active, which begins at 1, is taken", func(q *Queue) { q.active.run.head = 1 }},
		{"the run of the heap active has 1 holes among 2 positions from 0 on, recounted 0", func(q *Queue) { q.active.run.holes = 1 }},
		{"3 positions from 0 on, recounted 1", func(q *Queue) { q.active.run.list, q.active.run.holes = append(q.active.run.list, nil), 1 }},
		{"had 0 attempts, of which 1 ended in a rejection", func(q *Queue) { get(q, "active").rejections = 1 }},
		{"the last 1 in an error", func(q *Queue) { get(q, "active").errors = 1 }},
		{"since when it could be tried", func(q *Queue) { get(q, "binding").ready = time.Time{} }},
		{"backing off after an error, and it is not known since when it could be tried", func(q *Queue) { get(q, "errorBackoff").ready = time.Time{} }},
		{"5 pods are counted as active, recounted 4", func(q *Queue) { q.counts[active]++ }},
		{"1 pods are counted as gone, recounted 0", func(q *Queue) { q.counts[gone]++ }},
		{"want one", func(q *Queue) { get(q, "gated").plugins = nil }},
		{"plugin Gate of profile  gates 2 pods, recounted 1", func(q *Queue) { q.gatedBy[pluginKey{plugin: "Gate", by: byGate}]++ }},
		{"gates 0 pods, recounted 0", func(q *Queue) { q.gatedBy[pluginKey{plugin: "Other", by: byGate}] = 0 }},
		{"gates no pods, recounted 1", func(q *Queue) { clear(q.gatedBy) }},
		{"pod ns/active is active and has 1 memberships, want 0", func(q *Queue) { get(q, "active").memberships = get(q, "parked").memberships }},
		{"pod ns/parked is parked and has 0 memberships, want 1", func(q *Queue) { get(q, "parked").memberships = nil }},
		{"1 pods are parked under Other, which does not exist", func(q *Queue) { get(q, "parked").plugins = []string{"Other"} }},
		{"7 pods are parked under Fit, listed as Fit; recounted 6", func(q *Queue) { q.parked.byPlugin[fit].pods++ }},
		{"listed as Other", func(q *Queue) { q.parked.byPlugin[pluginKey{plugin: "Other"}] = q.parked.byPlugin[fit] }},
		{"in order: 1 of 2", func(q *Queue) { q.parked.inOrder = q.parked.inOrder[1:] }},
		{"in order: 2 of 2", func(q *Queue) { slices.Reverse(q.parked.inOrder) }},
		{"was parked as number 99 of 10", func(q *Queue) { get(q, "parked").parking = 99 }},
		{"membership 0 of pod ns/parked is of another pod (true)", func(q *Queue) { member(q).entry = get(q, "woken") }},
		{"or in no cohort or that of another index", func(q *Queue) { cohortOf(q).bucket = &bucket{} }},
		{"in a cohort that its bucket does not have", func(q *Queue) { bucketOf(q).cohorts = bucketOf(q).cohorts[:1] }},
		{"if it is woken (true), that is not to be moved", func(q *Queue) { q.parked.woken.run.list = nil }},
		{"pod ns/parked-after is in a cohort that does not have it", func(q *Queue) { cohortOf(q).last = nil }},
		{"a cohort of priority 0 has no pods", func(q *Queue) { cohortOf(q).first = nil }},
		{"the cohort of pod ns/parked is not linked", func(q *Queue) { member(q).before = member(q) }},
		{"pod ns/parked of priority 0 is in a cohort of priority 7", func(q *Queue) { cohortOf(q).priority = 7 }},
		{"pod ns/parked-after was parked before pod ns/parked, which it follows", func(q *Queue) { get(q, "parked-after").parking = 1 }},
		{"pod ns/parked is in a bucket of pods that are not like it", func(q *Queue) {
			indexOf(q).EventToRegister = &model.EventToRegister{Alike: func(*model.Pod) model.Need { return model.NeedOf("other") }}
		}},
		{"is listed under another likeness, or has no cohorts: 0", func(q *Queue) { bucketOf(q).cohorts = nil }},
		{"is listed under another likeness, or has no cohorts: 3", func(q *Queue) { bucketOf(q).alike = model.NeedOf("other") }},
		{"not ordered by priority", func(q *Queue) { slices.Reverse(bucketOf(q).cohorts) }},
		{"or one that is woken: true", func(q *Queue) { cohortOf(q).woken = true }},
		{"is not at its spot 1", func(q *Queue) { bucketOf(q).spots[1].at = 3 }},
		{"is not found by what can help it", func(q *Queue) { bucketOf(q).spots = nil }},
		{"is not found by what can help it", func(q *Queue) {
			indexOf(q).EventToRegister = &model.EventToRegister{Cause: func(*model.Pod) model.Cause { return model.Cause{Wants: []model.Way{{{other}}}} }}
		}},
		{"is not found by what can help it", func(q *Queue) {
			indexOf(q).EventToRegister = &model.EventToRegister{Cause: func(*model.Pod) model.Cause { return model.Cause{Keys: []model.Key{other}} }}
		}},
		{"in the catalog keyed of the pods rejected by Fit stands under", func(q *Queue) { indexOf(q).keyed.byKey[other] = indexOf(q).keyed.byKey[room] }},
		{"stands under {", func(q *Queue) { indexOf(q).keyed.byKey[other] = &posting{} }},
		{"lists a bucket that is gone, or not there", func(q *Queue) { indexOf(q).wanting.always.listed = []listing{{&bucket{}, 0}} }},
		{"2 buckets of the pods rejected by Fit are listed, there are 1", func(q *Queue) {
			indexOf(q).all.listed = append(indexOf(q).all.listed, indexOf(q).all.listed[0])
		}},
		{"a cohort that is to be moved says that it is woken: false", func(q *Queue) { woken(q).woken = false }},
		{"at position 1 of -1", func(q *Queue) { woken(q).index = 1 }},
		{"a cohort at position 1 of those that are woken comes before one that it must follow", func(q *Queue) {
			later := &cohort{bucket: bucketOf(q), first: member(q), woken: true}
			q.parked.woken.entries = []*cohort{later, woken(q)}
			later.index, woken(q).index, later.first.entry.pod = 0, 1, pod("parked", -9)
		}},
		{"0 of 10001 events are over", func(q *Queue) { q.waking.pending = make([]pendingEvent, maxPending+1) }},
		{"1 of 1 events are over", func(q *Queue) { q.waking.pending, q.waking.done = make([]pendingEvent, 1), 1 }},
		{"0 of 1 buckets are asked about 0 events; looked up: false", func(q *Queue) { q.waking.found = []*bucket{bucketOf(q)} }},
		{"1001 deletions of victims are overdue", func(q *Queue) { q.waking.overdue = make([]overdueEvent, maxOverdue+1) }},
		{"2 deletions of victims are overdue, or not in the order", func(q *Queue) { q.waking.overdue = []overdueEvent{{due: time.Unix(1, 0)}, {}} }},
		{"looked up: true", func(q *Queue) { q.waking.lookedUp = true }},
		{"1 of 0 buckets are asked", func(q *Queue) { q.waking.asked = 1 }},
		{"of which [\"Other\"] answered Pending", func(q *Queue) { get(q, "parked").pending = []string{"Other"} }},
		{"of which [\"Gate\"] answered Pending", func(q *Queue) { get(q, "gated").pending = []string{"Gate"} }},
		{"pod ns/parked is parked, and is to be tried again when it is decided", func(q *Queue) { get(q, "parked").activated = true }},
		{"is parked and at Permit", func(q *Queue) { get(q, "parked").permits = true }},
		{"missed the events from number 5 of 0 on", func(q *Queue) { get(q, "binding").from = 5 }},
		{"0 pods are counted at Permit, recounted 1", func(q *Queue) { q.missed.pods = 0 }},
		{"1 events of 0 are kept for 1 pods", func(q *Queue) { q.missed.events = make([]model.Event, 1) }},
	} {
		q := auditedQueue(t)
		row.corrupt(q)
		err := q.Audit()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestUpdateKeepsTheOrder raises the priority of an active pod above the pods before it.
// The heap stays in order, and the pod's turn is next.
func TestUpdateKeepsTheOrder(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("first", 1), pod("second", 0)))
	q.Wake(at(0), arrived(pod("second", 5)))
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	pop(t, q, at(0), "second")
}
