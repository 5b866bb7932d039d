package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// The times equal kube-scheduler's. Early attempts are limited to a thousand at once and
// two hundred a second.
func TestTimes(t *testing.T) {
	for _, row := range []struct {
		name      string
		got, want time.Duration
	}{
		{"initial backoff", DefaultBackoffInitial, 1 * time.Second},
		{"maximal backoff", DefaultMaxBackoff, 10 * time.Second},
		{"parked", DefaultMaxParked, 300 * time.Second},
		{"check for pods parked too long", parkedCheck, 30 * time.Second},
		{"grain of backoffs", window, 1000 * time.Millisecond},
		{"early attempts", earlyEvery, time.Second / 200},
		{"a burst of them", earlySpan, 5 * time.Second},
	} {
		if row.got != row.want {
			t.Errorf("%s: %v, want %v", row.name, row.got, row.want)
		}
	}
}

// TestWaitingSays has a QueueSort plugin read the data of a pod in each place.
func TestWaitingSays(t *testing.T) {
	q := newOutsideQueue(t)
	p := pod("p", 0)
	says := func(when, want string) {
		t.Helper()
		var w plugin.Waiting = q.entries[p.Key()]
		second := func(at time.Time) string {
			if at.IsZero() {
				return "-"
			}
			return fmt.Sprint(at.Sub(start).Seconds())
		}
		got := fmt.Sprintf("%d/%d/%d ready %s until %s rejectors %v pending %v gate %q", w.Turns().Attempts, w.Turns().Rejections, w.Turns().Errors, second(w.Ready()), second(w.BackoffEnd()),
			w.Rejectors(), w.Pending(), w.Gate())
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	q.quota.holds["p"] = true
	q.Wake(at(1), arrived(p))
	says("gated", `0/0/0 ready - until - rejectors [] pending [] gate "Quota"`)
	q.quota.holds["p"] = false
	q.Wake(at(2), quotaEvent(model.Add))
	says("ready", `0/0/0 ready 2 until - rejectors [] pending [] gate ""`)
	w := pop(t, q.Queue, at(3), "p")
	says("deciding", `1/0/0 ready 2 until - rejectors [] pending [] gate ""`)
	fail(q.Queue, at(4), w)
	says("after an error", `1/0/1 ready 2 until 5 rejectors [] pending [] gate ""`)
	w = pop(t, q.Queue, at(6), "p")
	fail(q.Queue, at(6), w)
	says("after two", `2/0/2 ready 2 until 8 rejectors [] pending [] gate ""`)
	q.rejects(at(9), "p", []string{"Fit", "Quota"}, []string{"Quota"})
	says("parked", `3/1/0 ready 2 until 10 rejectors [Fit Quota] pending [Quota] gate ""`)
	q.quota.holds["p"] = true
	q.Wake(at(20), podDeleted)
	says("gated again", `3/1/0 ready 2 until 10 rejectors [] pending [] gate "Quota"`)

	// The plugin's memory for the pod persists.
	*q.entries[p.Key()].Sorted() = label("kept")
	q.Wake(at(21), arrived(pod("p", 7)))
	if kept := *q.entries[p.Key()].Sorted(); kept != label("kept") {
		t.Errorf("the plugin kept %v", kept)
	}
}

// label is the value that a QueueSort plugin caches.
type label string

func (label) IsSorted() {}

// A decision without any valid outcome is a bug. The panic names the pod.
func TestUnknownOutcome(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	w := pop(t, q, at(0), "p")
	defer func() {
		if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "queue: the decision about pod ns/p is ") {
			t.Errorf("the panic says %q", text)
		}
	}()
	SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Terminating + 100})
}

// A profile that does not gate preemptors allows a pod to evict others before its earlier
// victims are gone. The pod waits for the last ones.
func TestPreemptsAgainBeforeTheFirstAreGone(t *testing.T) {
	q := preemptingQueue(t, false)
	q.Wake(at(0), arrived(pod("p", 1)))
	preempt(q, at(0), pop(t, q, at(0), "p"), pod("first", 0), pod("last", 0))
	for i, victim := range []string{"second", "third"} {
		now := at(float64(100 * (i + 1)))
		q.Wake(now, podDeleted)
		preempt(q, now, pop(t, q, now, "p"), pod(victim, 0))
		expectPlace(t, q, "p", "parked")
		if n := q.Kept().Awaited; n != 1 {
			t.Errorf("%d victims are awaited, want the %s", n, victim)
		}
	}
	q.Wake(at(400), terminates("last"))
	if n := q.Kept().Awaited; n != 1 {
		t.Errorf("%d victims are awaited after another has gone", n)
	}
	q.Wake(at(400), terminates("third"))
	if n := q.Kept().Awaited; n != 0 {
		t.Errorf("%d victims are awaited after the last has gone", n)
	}
	q.Wake(at(400), state.Delta{Left: []model.PodKey{pod("p", 1).Key()}})
	if k := q.Kept(); k.Pods+k.Awaited+k.Leaving > 0 {
		t.Errorf("%+v is kept of a pod that is gone", k)
	}
}

// several is a plugin with registrations of several resources.
type several struct{}

func (several) Name() string { return "Several" }
func (several) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.NodeEvent, Actions: model.Add | model.Delete},
		{Resource: model.TargetPodEvent, Actions: model.Update},
		{Resource: model.AssignedPodEvent, Actions: model.Delete},
		{Resource: model.NodeEvent, Actions: model.Delete},
	}
}

// Work is counted by the indexes that an event concerns, and a pod is found in each of
// them.
func TestFindAllCountsIndexes(t *testing.T) {
	q, err := New(Config{
		Profiles:       []*plugin.Profile{{QueueSort: prioritysort.New().Parts().QueueSort, EnqueueExtensions: plugintest.Registering(several{}, &fit{})}},
		BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	q.Wake(at(0), arrived(pod("a", 0), pod("b", 0)))
	reject(q, at(0), pop(t, q, at(0), "a"), "Several")
	reject(q, at(0), pop(t, q, at(0), "b"), "Several")
	for _, row := range []struct {
		event         pendingEvent
		looked, found int
	}{
		{pendingEvent{event: model.Event{Resource: model.NodeEvent, Action: model.Add}}, 1, 1},
		{pendingEvent{event: model.Event{Resource: model.NodeEvent, Action: model.Delete}}, 2, 2},
		{pendingEvent{event: model.Event{Resource: model.AssignedPodEvent, Action: model.Delete}}, 1, 1},
		{pendingEvent{event: model.Event{Resource: model.AssignedPodEvent, Action: model.Add}}, 0, 0},
		{pendingEvent{event: model.Event{Resource: model.StorageClassEvent, Action: model.Add}}, 0, 0},
		{pendingEvent{event: model.Event{Resource: model.NodeEvent, Action: model.Add}, all: true}, 1, 1},
	} {
		found, looked := q.parked.findAll(&row.event, nil)
		if looked != row.looked || len(found) != row.found {
			t.Errorf("%s, all %t: looked at %d indexes and found %d buckets, want %d and %d", row.event.event.Label(), row.event.all, looked, len(found), row.looked, row.found)
		}
		if slices.Contains(found, nil) {
			t.Error("a bucket is nil")
		}
	}
}

// A pod that was activated in a turn with an error waits for the end of its backoff. The
// activation is dropped.
func TestActivatedBeforeAnError(t *testing.T) {
	q := newOutsideQueue(t)
	p := pod("p", 0)
	q.Wake(at(0), arrived(p))
	w := pop(t, q.Queue, at(0), "p")
	q.Activate(at(0), []model.PodKey{p.Key()})
	fail(q.Queue, at(0), w)
	q.in("p", "backing off after an error")
	q.rejects(at(5), "p", []string{"Fit"}, nil)
	q.in("p", "parked")
}
