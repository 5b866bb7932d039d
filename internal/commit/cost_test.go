package commit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// wave is the number of pods that compete in the tests and benchmarks of this file.
const wave = 5_000

// began is the time at which these tests and benchmarks begin.
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

// TestCancelLooksAtFew cancels each of 5,000 bindings in reverse order, both in the
// backlog and on the timeline. Each is found by its pod, and removed from its heap
// without a search. A pod without a binding is found to have none just as fast.
func TestCancelLooksAtFew(t *testing.T) {
	pods := podsNamed(wave)
	for name, o := range map[string]*commit.Outbox{
		"in the backlog": outboxOf(t, pods, placed),
		"on the timeline": outboxOf(t, pods, func(pod *model.Pod) plan.Decision {
			d := placed(pod)
			d.Placement.Steps = []plan.Step{{Stage: plan.Permit, Plugin: "Gang", Wait: &plan.Wait{Timeout: time.Minute}}}
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

// BenchmarkCancel cancels the latest of 5,000 bindings in the backlog, and adds another.
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

// spread runs an outbox for the given time on its own clock, and answers each request at
// once. It calls each, if not nil, every ten milliseconds, and took for each request. It
// returns the time when nothing was left to do, or the end.
func spread(t *testing.T, o *commit.Outbox, long time.Duration, each func(now time.Time), took func(now time.Time, request commit.Request)) time.Time {
	t.Helper()
	for now := began; ; now = now.Add(10 * time.Millisecond) {
		if each != nil {
			each(now)
		}
		for {
			request, ok := o.Next(now, false)
			if !ok {
				break
			}
			took(now, request)
			o.Done(now, request, commit.Response{})
		}
		o.Take()
		if o.Empty() || now.Sub(began) >= long {
			return now
		}
	}
}

// TestWaveIsSpread rejects 5,000 pods. Conditions and events are sent at the rate of the
// budget, a new binding is sent at once, and finding the next request visits few entries.
func TestWaveIsSpread(t *testing.T) {
	o := outboxOf(t, podsNamed(wave), func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) })
	before := o.Stats().Looked
	decision := placed(podNamed("placed"))
	o.Start(began, &decision)
	request, ok := o.Next(began, false)
	if looked := o.Stats().Looked - before; !ok || request.Kind != commit.Bind || looked > 8 {
		t.Fatalf("the next request is %s (%t), after a look at %d others; want the binding", request.Kind, ok, looked)
	}
	o.Done(began, request, commit.Response{})
	bySecond := map[int]int{}
	bySort := map[commit.RequestKind]int{}
	end := spread(t, o, time.Minute, nil, func(now time.Time, request commit.Request) {
		bySecond[int(now.Sub(began).Seconds())]++
		bySort[request.Kind]++
	})
	if bySort[commit.Patch] != wave || bySort[commit.Record] != wave+1 || len(bySort) != 2 {
		t.Errorf("%v, want a condition and an event for each pod", bySort)
	}
	const most = commit.DefaultReportsPerSecond + commit.DefaultReportsPerSecond/10
	for second, writes := range bySecond {
		if writes > most {
			t.Errorf("in second %d there were %d writes, want at most %d", second, writes, most)
		}
	}
	if took, least := end.Sub(began), time.Duration(2*wave)*time.Second/commit.DefaultReportsPerSecond; took < least-time.Second || took > least+time.Second {
		t.Errorf("it took %v, want %v", took, least)
	}
	if looked := o.Stats().Looked - before; looked > 10*2*wave {
		t.Errorf("to send %d writes, %d were looked at", 2*wave, looked)
	}
}

// TestNoKindStarves binds 1,500 pods per second for five seconds while 5,000 others are
// rejected repeatedly. The event of each binding follows within half a second, and each
// pod has its condition before the end.
func TestNoKindStarves(t *testing.T) {
	const perTick = 15
	pods := podsNamed(wave)
	reject := func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) }
	o := outboxOf(t, pods, reject)
	bound := podsNamed(wave + 5*1_500 + perTick)[wave:]
	var boundAt []time.Time
	told, conditions, worst := 0, map[string]bool{}, time.Duration(0)
	spread(t, o, 5*time.Second, func(now time.Time) {
		for range perTick {
			decision := placed(bound[len(boundAt)])
			o.Start(now, &decision)
			boundAt = append(boundAt, now)
		}
		for i := range 50 { // rejected 5,000 times a second, as nodes come and go
			decision := reject(pods[(len(boundAt)/perTick*50+i)%wave])
			o.Start(now, &decision)
		}
	}, func(now time.Time, request commit.Request) {
		switch {
		case request.Kind == commit.Record && request.Series.Reason == "Scheduled":
			worst = max(worst, now.Sub(boundAt[told]))
			told++
		case request.Kind == commit.Patch:
			conditions[request.Pod.Name] = true
		}
	})
	if late := len(boundAt) - told; o.Stats().Bound != int64(len(boundAt)) || late > 500 || worst > 500*time.Millisecond {
		t.Errorf("of %d bindings %d are made, %d events about them are not written; the latest came %v late", len(boundAt), o.Stats().Bound, late, worst)
	}
	if len(conditions) != wave {
		t.Errorf("%d pods of %d have their condition", len(conditions), wave)
	}
}

// TestEndOfSeriesIsSpread ends 5,000 series with unwritten counts in the same instant. A
// new binding is sent at once, its event and another pod's condition and event within a
// round of turns, and the counts at the rate of the budget.
func TestEndOfSeriesIsSpread(t *testing.T) {
	pods := podsNamed(wave)
	reject := func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) }
	o := outboxOf(t, pods, reject)
	now, sent := began, map[commit.RequestKind]int{}
	send := func() commit.RequestKind {
		for {
			request, ok := o.Next(now, false)
			if ok {
				sent[request.Kind]++
				o.Done(now, request, commit.Response{})
				return request.Kind
			}
			due, ok := o.Due()
			if !ok {
				t.Fatalf("nothing is due; %v were sent", sent)
			}
			now = due
		}
	}
	for range 2 { // of three repetitions the first is written
		for !o.Empty() {
			send()
		}
		for _, pod := range slices.Concat(pods, pods) {
			decision := reject(pod)
			o.Start(now, &decision)
		}
	}
	end, ok := o.SeriesEnd()
	if !ok || end.Sub(now) != 6*time.Minute || !o.Empty() {
		t.Fatalf("the series end in %v (%t); nothing waits: %t", end.Sub(now), ok, o.Empty())
	}
	now = end
	clear(sent)
	for range 100 {
		send()
	}
	for _, decision := range []plan.Decision{placed(podNamed("placed")), reject(podNamed("rejected"))} {
		o.Start(now, &decision)
	}
	if kind := send(); kind != commit.Bind {
		t.Errorf("after the binding came, the next request is %s", kind)
	}
	for range 8 {
		send()
	}
	if sent[commit.Patch] != 1 || sent[commit.Record] != 2 {
		t.Errorf("%v were sent, want the condition and the events about the binding and about the rejection among them", sent)
	}
	for !o.Empty() {
		send()
	}
	least := time.Duration(wave) * time.Second / commit.DefaultReportsPerSecond
	if took := now.Sub(end); sent[commit.Repeat] != wave || took < least-time.Second || took > least+time.Second {
		t.Errorf("%d counts were written in %v, want %d in %v", sent[commit.Repeat], took, wave, least)
	}
}

// TestCountsWaitForBindings rejects 3,000 pods again while bindings are sent for ten
// seconds. Few counts of repetitions are written meanwhile, and all soon after, each
// once.
func TestCountsWaitForBindings(t *testing.T) {
	pods := podsNamed(3000)
	o := outboxOf(t, pods, func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) })
	now, sent := began, map[commit.RequestKind]int{}
	until := func(end time.Time) {
		for {
			request, ok := o.Next(now, false)
			if ok {
				sent[request.Kind]++
				o.Done(now, request, commit.Response{})
				continue
			}
			at, ok := o.Due()
			if !ok || at.After(end) {
				now = end
				return
			}
			now = at
		}
	}
	now = began.Add(10 * time.Second)
	until(now.Add(10 * time.Second))
	clear(sent)
	start := func(decision plan.Decision) { o.Start(now, &decision) }
	for i := range 100 {
		start(placed(podNamed(fmt.Sprintf("placed-%d", i))))
		until(now.Add(time.Millisecond))
		for _, pod := range pods[i*30 : (i+1)*30] {
			start(rejected(pod, 5_000))
		}
		until(now.Add(99 * time.Millisecond))
	}
	if n := sent[commit.Repeat]; n < 290 || n > 310 || sent[commit.Record] != 100 {
		t.Errorf("%v were sent in ten seconds, want 100 events about bindings, and of the counts 100 at once and 20 per second", sent)
	}
	until(now.Add(3 * time.Second))
	if n := sent[commit.Repeat]; n != len(pods) || !o.Empty() {
		t.Errorf("%d counts are written three seconds after the last binding, want %d; nothing waits: %t", n, len(pods), o.Empty())
	}
}

// TestRejectionsAreMerged rejects 5,000 pods five times each, while nothing is sent, and
// while everything is sent at once: each pod costs at most two and three writes.
func TestRejectionsAreMerged(t *testing.T) {
	pods := podsNamed(wave)
	for _, test := range []struct {
		name    string
		between bool
		want    int
	}{{"nothing is sent", false, 2 * wave}, {"everything is sent", true, 3 * wave}} {
		config := commit.DefaultOutbox(binder, unchanged)
		config.Budget.PerSecond = 1_000_000_000
		o, err := commit.NewOutbox(config)
		if err != nil {
			t.Fatal(err)
		}
		writes, counted := 0, 0
		send := func() {
			spread(t, o, 0, nil, func(_ time.Time, request commit.Request) {
				writes++
				counted = max(counted, request.Series.Count)
			})
		}
		for range 5 {
			for _, pod := range pods {
				decision := rejected(pod, 5_000)
				o.Start(began, &decision)
			}
			if test.between {
				send()
			}
		}
		send()
		if writes != test.want || o.Stats().EventsRepeated != 4*wave {
			t.Errorf("%s: %d writes for %d rejections, %d repetitions; want %d writes", test.name, writes, 5*wave, o.Stats().EventsRepeated, test.want)
		}
		if looked := o.Stats().Looked; looked > int64(10*writes) {
			t.Errorf("%s: %d were looked at", test.name, looked)
		}
		if err := o.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestHangingKindLeavesRoom makes every status hang, or every event: the others are sent.
func TestHangingKindLeavesRoom(t *testing.T) {
	hangs := map[commit.RequestKind]commit.RequestKind{commit.Patch: commit.Record, commit.Record: commit.Patch}
	for kind, other := range hangs {
		o := outboxOf(t, podsNamed(1_000), func(pod *model.Pod) plan.Decision { return rejected(pod, 1) })
		now, hanging, sent := began, 0, 0
		for range 1_000 {
			request, ok := o.Next(now, false)
			switch {
			case !ok:
				now = now.Add(time.Second)
			case request.Kind == kind:
				hanging++
			default:
				sent++
				o.Done(now, request, commit.Response{})
			}
		}
		if hanging != 24 || sent < 900 {
			t.Errorf("%d of kind %s hang, and %d of kind %s were sent; want 24, and most", hanging, kind, sent, other)
		}
	}
}

// BenchmarkWave adds the rejections of 5,000 pods and answers their conditions and events
// without sending them. B/op includes the memory for counting repetitions.
func BenchmarkWave(b *testing.B) {
	pods := podsNamed(wave)
	b.ReportAllocs()
	for b.Loop() {
		o := outboxOf(b, pods, func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) })
		for now := began; !o.Empty(); {
			request, ok := o.Next(now, false)
			if !ok {
				now, _ = o.Due()
				continue
			}
			o.Done(now, request, commit.Response{})
		}
	}
}

// BenchmarkRepeatedRejection rejects one of 5,000 pods again; its condition and event are
// written.
func BenchmarkRepeatedRejection(b *testing.B) {
	pods := podsNamed(wave)
	reject := func(pod *model.Pod) plan.Decision { return rejected(pod, 5_000) }
	o := outboxOf(b, pods, reject)
	for now := began; !o.Empty(); {
		if request, ok := o.Next(now, false); ok {
			o.Done(now, request, commit.Response{})
		} else {
			now, _ = o.Due()
		}
	}
	decisions := make([]plan.Decision, wave)
	for i, pod := range pods {
		decisions[i] = reject(pod)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		o.Start(began, &decisions[i%wave])
		i++
	}
}
