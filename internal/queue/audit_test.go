package queue

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// auditedQueue has a pod in every place in which one can wait.
func auditedQueue(t *testing.T) *Queue {
	t.Helper()
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("parked", 0), pod("parked-too", 0)))
	reject(q, at(0), pop(t, q, at(0), "parked"), "Fit")
	reject(q, at(0), pop(t, q, at(0), "parked-too"))
	q.Wake(at(0), arrived(pod("erring", 0)))
	fail(q, at(0), pop(t, q, at(0), "erring"))
	q.Wake(at(0), arrived(pod("binding", 0)))
	q.Settle(at(0), plan.Decision{
		Work: pop(t, q, at(0), "binding"), Outcome: plan.Placed, Placements: []plan.Placement{{Steps: []plan.Step{{Stage: plan.Permit}}}},
	})
	q.Wake(at(0), arrived(pod("backing-off", 0)))
	reject(q, at(0), pop(t, q, at(0), "backing-off"), "Fit")
	e := q.entries[model.PodKey{Namespace: "ns", Name: "backing-off"}]
	q.wake(at(0), e, "NodeAdd")
	gatedPod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "gated", UID: types.UID("gated"), Labels: map[string]string{"gate": "yes"},
	}})
	q.Wake(at(0), arrived(pod("active", 0), pod("active-too", 0), gatedPod))
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	return q
}

// TestAuditFindsEachViolation corrupts a queue in one way after the other. The sentence names the invariant that is violated.
func TestAuditFindsEachViolation(t *testing.T) {
	fit := pluginKey{"", "Fit"}
	get := func(q *Queue, name string) *entry { return q.entries[model.PodKey{Namespace: "ns", Name: name}] }
	bucketOf := func(q *Queue) *bucket { return get(q, "parked").buckets[0].bucket }
	key := model.Key{Name: "key"}
	for _, row := range []struct {
		want    string
		corrupt func(q *Queue)
	}{
		{"pod ns/other is listed as ns/active", func(q *Queue) { get(q, "active").pod = pod("other", 0) }},
		{"pod ns/active is gone", func(q *Queue) { get(q, "active").place = gone }},
		{"another has that number: true", func(q *Queue) { get(q, "active").order = get(q, "gated").order }},
		{"is number 99 of 8 arrivals", func(q *Queue) { get(q, "active").order = 99 }},
		{"pod ns/active is active and not at position 1", func(q *Queue) { get(q, "active").index = 1 }},
		{"pod ns/active is backing off after an error and not at position 0", func(q *Queue) { get(q, "active").place = erring }},
		{"it says position 1 and that it is active", func(q *Queue) { get(q, "active").index = 1 }},
		{"it waits: false", func(q *Queue) { delete(q.entries, get(q, "active").pod.Key()) }},
		{"pod ns/parked is at position 0 of the heap active", func(q *Queue) { q.active.entries[0] = get(q, "parked") }},
		{"pod ns/active-too at position 1 of the heap active comes before its parent ns/active", func(q *Queue) {
			get(q, "active-too").pod = pod("active-too", 9)
		}},
		{"had 0 attempts, of which 1 ended in a rejection", func(q *Queue) { get(q, "active").rejections = 1 }},
		{"the last 1 in an error", func(q *Queue) { get(q, "active").errors = 1 }},
		{"since when it could be tried", func(q *Queue) { get(q, "binding").ready = time.Time{} }},
		{"3 pods are counted as active, recounted 2", func(q *Queue) { q.counts[active]++ }},
		{"1 pods are counted as gone, recounted 0", func(q *Queue) { q.counts[gone]++ }},
		{"want one", func(q *Queue) { get(q, "gated").plugins = nil }},
		{"plugin Gate of profile  gates 2 pods, recounted 1", func(q *Queue) { q.gatedBy[pluginKey{"", "Gate"}]++ }},
		{"gates 0 pods, recounted 0", func(q *Queue) { q.gatedBy[pluginKey{"", "Other"}] = 0 }},
		{"gates no pods, recounted 1", func(q *Queue) { clear(q.gatedBy) }},
		{"pod ns/active is active and has 1 buckets, want 0", func(q *Queue) { get(q, "active").buckets = get(q, "parked").buckets }},
		{"pod ns/parked is parked and has 0 buckets, want 1", func(q *Queue) { get(q, "parked").buckets = nil }},
		{"is among the pods rejected by { Fit}, want { Other}", func(q *Queue) { get(q, "parked").plugins = []string{"Other"} }},
		{"among the pods rejected by Fit, which does not exist", func(q *Queue) { delete(q.parked.byPlugin, fit) }},
		{"that does not have it (false)", func(q *Queue) { clear(bucketOf(q).pods) }},
		{"or that the index does not have", func(q *Queue) { clear(q.parked.byPlugin[fit].byCause) }},
		{"is among the pods rejected by Fit and is active; it has a membership there: false; it waits: true", func(q *Queue) {
			bucketOf(q).pods[get(q, "active")] = struct{}{}
		}},
		{"is not of its cause", func(q *Queue) {
			l := q.parked.byPlugin[fit]
			l.cause = func(*model.Pod) model.Cause { return model.Cause{Alike: model.NeedOf("other")} }
		}},
		{"is listed under another cause", func(q *Queue) { bucketOf(q).cause.Alike = model.NeedOf("other") }},
		{"the pods rejected by Fit counts 2 pods, recounted 1", func(q *Queue) { q.parked.byPlugin[fit].pods++ }},
		{"has no pods", func(q *Queue) { clear(bucketOf(q).pods) }},
		{"is not found by its key {", func(q *Queue) { bucketOf(q).cause.Keys = []model.Key{key} }},
		{"with 0 keys is asked about always: false", func(q *Queue) { clear(q.parked.byPlugin[fit].keyless) }},
		{"always asked about that the pods rejected by Fit does not have", func(q *Queue) {
			q.parked.byPlugin[fit].keyless[&bucket{cause: model.Cause{Alike: model.NeedOf("other")}}] = struct{}{}
		}},
		{"is found by the key", func(q *Queue) { q.parked.byPlugin[fit].byKey[key] = nil }},
		{"or that lacks the key", func(q *Queue) { q.parked.byPlugin[fit].byKey[key] = map[*bucket]struct{}{bucketOf(q): {}} }},
		{"is parked and at Permit", func(q *Queue) { get(q, "parked").permits = true }},
		{"missed the events from number 5 of 0 on", func(q *Queue) { get(q, "binding").from = 5 }},
		{"0 pods are counted at Permit, recounted 1", func(q *Queue) { q.missed.pods = 0 }},
		{"1 events of 0 are kept for 1 pods", func(q *Queue) { q.missed.events = make([]model.Event, 1) }},
		{"1 pods count as rejected at Permit", func(q *Queue) { q.rejected = []*entry{get(q, "parked")} }},
	} {
		q := auditedQueue(t)
		row.corrupt(q)
		err := q.Audit()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestUpdateKeepsTheOrder gives an active pod a higher priority than those before it: the heap stays in order, and the pod's turn is next.
func TestUpdateKeepsTheOrder(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("first", 1), pod("second", 0)))
	q.Wake(at(0), arrived(pod("second", 5)))
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	pop(t, q, at(0), "second")
}
