package commit_test

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// wave is how many pods want the same room in the tests and benchmarks of this file.
const wave = 20_000

// began is when these tests and benchmarks begin.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// podsNamed are pods p0, p1, ….
func podsNamed(n int) []*model.Pod {
	pods := make([]*model.Pod, n)
	for i, name := range names(n) {
		pods[i] = podNamed(name)
	}
	return pods
}

// outboxOf is an outbox with a decision about each pod.
func outboxOf(t testing.TB, pods []*model.Pod, decide func(pod *model.Pod) plan.Decision) *commit.Outbox {
	t.Helper()
	o, err := commit.NewOutbox(commit.DefaultOutbox(binder, unchanged))
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		decision := decide(pod)
		o.Start(began, &decision)
	}
	return o
}

// TestCancelLooksAtFew cancels each of 20,000 bindings, the last first: of those that wait for their turn, and of those that wait for a time. Each
// is found by its pod, and taken out of its heap without a search. So is one of a pod that has none.
func TestCancelLooksAtFew(t *testing.T) {
	pods := podsNamed(wave)
	for name, o := range map[string]*commit.Outbox{
		"in the backlog": outboxOf(t, pods, placed),
		"on the timeline": outboxOf(t, pods, func(pod *model.Pod) plan.Decision {
			d := placed(pod)
			d.Placements[0].Steps = []plan.Step{{Stage: plan.Permit, Plugin: "Gang", Wait: &plan.Wait{Timeout: time.Minute}}}
			return d
		}),
	} {
		before := o.Stats().Looked
		for i := len(pods) - 1; i >= 0; i-- {
			if !o.Cancel(began, pods[i].UID, errNo) {
				t.Fatalf("%s: the binding of %s cannot be cancelled", name, pods[i])
			}
			o.Cancel(began, "another", errNo)
		}
		if looked := o.Stats().Looked - before; looked > 64*wave {
			t.Errorf("%s: to cancel %d bindings, %d were looked at", name, wave, looked)
		}
		if ended := len(o.Take().Settled); ended != wave {
			t.Errorf("%s: %d bindings have ended, want all", name, ended)
		}
	}
}

// BenchmarkCancel cancels one of 20,000 bindings that wait for their turn, the last that was decided about, and decides about another.
func BenchmarkCancel(b *testing.B) {
	pods := podsNamed(wave)
	o := outboxOf(b, pods, placed)
	decision := placed(pods[wave-1])
	b.ReportAllocs()
	for b.Loop() {
		o.Cancel(began, pods[wave-1].UID, errNo)
		o.Start(began, &decision)
		o.Take()
	}
}
