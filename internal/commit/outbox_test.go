package commit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// bench is an outbox whose requests the test answers, on a clock that the test moves.
type bench struct {
	*testing.T
	*commit.Outbox
	now time.Time
}

func newBench(t *testing.T, maxReports int) *bench {
	t.Helper()
	return newBenchOf(t, commit.OutboxConfig{Binder: binder, MaxReports: maxReports, MaxSeries: 100, Budget: commit.Budget{InFlight: 4, EachInFlight: 4, PerSecond: 1_000_000}, Pause: time.Second, Jitter: unchanged})
}

func unchanged(wait time.Duration) time.Duration { return wait }

func newBenchOf(t *testing.T, config commit.OutboxConfig) *bench {
	t.Helper()
	d, err := commit.NewOutbox(config)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, d, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// start adds a decision.
func (b *bench) start(decision plan.Decision) { b.Start(b.now, &decision) }

// take takes the next request, which must be this one.
func (b *bench) take(kind commit.RequestKind, pod string) commit.Request {
	b.Helper()
	request, ok := b.Next(b.now, false)
	if !ok || request.Kind != kind || request.Key().Name != pod {
		b.Fatalf("the next request is %s of %s (%t), want %s of %s", request.Kind, request.Key(), ok, kind, pod)
	}
	return request
}

// nothing checks that no request is due now.
func (b *bench) nothing() {
	b.Helper()
	if request, ok := b.Next(b.now, false); ok {
		b.Fatalf("the next request is %s of %s, want none", request.Kind, request.Key())
	}
}

// answer ends a request.
func (b *bench) answer(request commit.Request, nodeName string, err error) *commit.Settled {
	b.Helper()
	b.Done(b.now, request, commit.Response{NodeName: nodeName, Err: err})
	return b.settled()
}

// settled returns the binding that has ended, nil if none has.
func (b *bench) settled() *commit.Settled {
	b.Helper()
	switch all := b.Take().Settled; len(all) {
	case 0:
		return nil
	case 1:
		return &all[0]
	default:
		b.Fatalf("%d bindings have ended, want one", len(all))
		return nil
	}
}

// later moves the clock to the next time at which the outbox has something to do.
func (b *bench) later(want time.Duration) {
	b.Helper()
	at, ok := b.Due()
	if !ok || at.Sub(b.now) != want {
		b.Fatalf("the outbox has something to do in %s (%t), want in %s", at.Sub(b.now), ok, want)
	}
	b.now = at
}

var (
	errBroken = errors.New("the connection broke")
	errGone   = apierrors.NewNotFound(v1.Resource("pods"), "p")
	errNo     = apierrors.NewForbidden(v1.Resource("pods"), "p", errors.New("no"))
)

// TestUnknownOutcomeIsAskedFor follows a binding whose response was lost in an outage:
// the read is repeated until it is answered, and its result decides.
func TestUnknownOutcomeIsAskedFor(t *testing.T) {
	for _, test := range []struct {
		name     string
		nodeName string
		err      error
		bound    bool
		settled  bool
	}{
		{"bound", "node-of-p", nil, true, true},
		{"bound by somebody else", "elsewhere", nil, false, true},
		{"gone", "", errGone, false, true},
		{"not bound", "", nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 10)
			b.start(placed(podNamed("p")))
			if s := b.answer(b.take(commit.Bind, "p"), "", errBroken); s != nil {
				t.Fatalf("it is settled at once: %+v", s)
			}
			b.later(0)
			for _, wait := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
				b.answer(b.take(commit.Ask, "p"), "", errNo)
				b.nothing()
				b.later(wait * time.Millisecond)
			}
			s := b.answer(b.take(commit.Ask, "p"), test.nodeName, test.err)
			if (s != nil) != test.settled || s != nil && (s.Err == nil) != test.bound {
				t.Fatalf("it is settled as %+v", s)
			}
			if !test.settled { // it is sent once more
				b.later(50 * time.Millisecond)
				if s := b.answer(b.take(commit.Bind, "p"), "", nil); s == nil || s.Err != nil {
					t.Errorf("it is settled as %+v", s)
				}
			}
			if b.Open() != 0 {
				t.Errorf("%d bindings are open", b.Open())
			}
		})
	}
}

// TestNotBoundIsBelievedLate has a webhook refuse the second try of a binding whose first
// may still be on its way: the resources are released only when it cannot arrive any
// more.
func TestNotBoundIsBelievedLate(t *testing.T) {
	b := newBench(t, 10)
	b.start(placed(podNamed("p")))
	b.answer(b.take(commit.Bind, "p"), "", errBroken)
	broke := b.now
	b.later(0)
	b.answer(b.take(commit.Ask, "p"), "", nil)
	b.later(50 * time.Millisecond)
	b.answer(b.take(commit.Bind, "p"), "", errNo)
	b.later(0)
	if s := b.answer(b.take(commit.Ask, "p"), "", nil); s != nil {
		t.Fatalf("it is settled after %s: %+v", b.now.Sub(broke), s)
	}
	b.later(5*time.Second - 50*time.Millisecond)
	if s := b.answer(b.take(commit.Ask, "p"), "", nil); s == nil || s.Err == nil {
		t.Errorf("it is settled as %+v, want that it failed", s)
	}
}

// TestThrottledBindingComesBack throttles a binding: it is retried after the given wait,
// ten times, and then fails.
func TestThrottledBindingComesBack(t *testing.T) {
	b := newBench(t, 10)
	b.start(placed(podNamed("p")))
	for range 10 {
		b.answer(b.take(commit.Bind, "p"), "", apierrors.NewTooManyRequests("later", 3))
		b.nothing()
		b.later(3 * time.Second)
	}
	if s := b.answer(b.take(commit.Bind, "p"), "", apierrors.NewTooManyRequests("later", 3)); s == nil || s.Err == nil {
		t.Errorf("it is settled as %+v, want that it failed", s)
	}
}

// TestStatusesAndEventsWaitForTheServer sends statuses and events during an outage.
// Afterwards the latest condition of each pod is written, and a repeated event once, with
// its count. Bindings are not delayed.
func TestStatusesAndEventsWaitForTheServer(t *testing.T) {
	b := newBench(t, 1_000)
	pod := podNamed("p")
	for nodes := range 3 {
		b.start(rejected(pod, nodes+1))
	}
	b.start(rejected(pod, 3))
	for range 200 { // over three minutes
		request, ok := b.Next(b.now, false)
		if !ok {
			t.Fatal("no status and no event finds out whether the API server answers")
		}
		b.answer(request, "", errBroken)
		b.nothing()
		b.start(placed(podNamed("q")))
		b.answer(b.take(commit.Bind, "q"), "", nil)
		b.later(time.Second)
	}
	times := map[string]int{}
	for {
		request, ok := b.Next(b.now, false)
		if !ok {
			break
		}
		if request.Kind == commit.Patch && request.Condition.Message != "0/3 nodes are available: 3 Insufficient cpu." {
			t.Errorf("the condition says %q, want the latest", request.Condition.Message)
		}
		times[request.Series.Note] += request.Series.Count
		b.answer(request, "", nil)
	}
	delete(times, "") // of the status
	if got := fmt.Sprint(times); got != "map[0/1 nodes are available: 1 Insufficient cpu.:4 Successfully assigned ns/q to node-of-q:200]" {
		t.Errorf("events %s", got)
	}
	if stats := b.Stats(); stats.Statuses != 1 || stats.StatusesFailed != 0 || stats.EventsRepeated != 3 || stats.Events != 201 {
		t.Errorf("%+v", stats)
	}
}

// TestHangingReportsLeaveWorkers has every status and event hang: half of the workers are
// left for bindings. The worker reserved for events takes one more than the limit.
func TestHangingReportsLeaveWorkers(t *testing.T) {
	for inFlight, want := range map[int]int{2: 1, 3: 2, 4: 2, 5: 3, commit.DefaultInFlight: commit.DefaultInFlight / 2} {
		b := newBenchOf(t, commit.OutboxOf(&commit.Config{
			Binder: binder, InFlight: inFlight, ReportsPerSecond: 1_000, MaxReports: 1_000, MaxSeries: 1_000, EventPause: time.Second,
		}, unchanged))
		for _, name := range names(100) {
			b.start(rejected(podNamed(name), 1))
		}
		taken := 0
		for worker := range inFlight { // the one that takes events first comes last
			if _, ok := b.Next(b.now, commit.ReportsFirst(inFlight-1-worker, inFlight)); ok {
				taken++
			}
		}
		if taken != want {
			t.Errorf("%d of %d workers hang, want %d", taken, inFlight, want)
		}
		b.nothing()
		b.start(placed(podNamed("q")))
		b.take(commit.Bind, "q")
	}
}

// TestOneFindsOutWhetherTheServerIsBack has statuses in flight when the API server
// becomes unreachable. After the pause one is sent, and others only after its response.
func TestOneFindsOutWhetherTheServerIsBack(t *testing.T) {
	b := newBench(t, 10)
	for _, name := range names(8) {
		b.start(nominated(podNamed(name), "a"))
	}
	early, late, last := b.take(commit.Patch, "p0"), b.take(commit.Patch, "p1"), b.take(commit.Patch, "p2")
	b.answer(early, "", errBroken)
	b.answer(late, "", errBroken)
	for next := 3; next < 6; next++ {
		b.nothing()
		b.later(time.Second)
		probe := b.take(commit.Patch, fmt.Sprint("p", next))
		b.nothing()
		b.answer(probe, "", errBroken)
	}
	b.nothing()
	b.later(time.Second)
	probe := b.take(commit.Patch, "p6")
	b.answer(last, "", errNo) // counts as an answer
	b.take(commit.Patch, "p7")
	b.answer(probe, "", nil)
	b.take(commit.Patch, "p0")
	b.take(commit.Patch, "p1")
	b.take(commit.Patch, "p3")
	b.nothing() // four are in flight
}

// TestStopIsInOrder stops an outbox with bindings that wait for the writes of their pods'
// statuses: they are settled in the same order each time.
func TestStopIsInOrder(t *testing.T) {
	b := newBenchOf(t, commit.DefaultOutbox(binder, unchanged))
	for _, name := range names(10) {
		b.start(nominated(podNamed(name), "a"))
		b.take(commit.Patch, name)
		b.start(placed(podNamed(name)))
	}
	var order []string
	b.Stop(b.now, errBroken)
	for _, s := range b.Take().Settled {
		order = append(order, s.Placement.Pod.Name)
	}
	if got := fmt.Sprint(order); got != fmt.Sprint(names(10)) {
		t.Errorf("they are settled in the order %s", got)
	}
}

// TestRewrittenStatusIsRemembered writes a pod's status twice, the second time shortly
// before the first is forgotten: the second stays.
func TestRewrittenStatusIsRemembered(t *testing.T) {
	b := newBench(t, 10)
	write := func(nodes int) {
		b.start(nominated(podNamed("p"), fmt.Sprint(nodes)))
	}
	write(1)
	b.answer(b.take(commit.Patch, "p"), "", nil)
	b.now = b.now.Add(50 * time.Second)
	write(2)
	b.answer(b.take(commit.Patch, "p"), "", nil)
	b.now = b.now.Add(20 * time.Second)
	b.nothing()
	write(2)
	b.nothing()
	b.now = b.now.Add(time.Minute)
	b.nothing()
	if n := b.Remembered(); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
	// Memory is bounded, however many are written within a minute.
	for nodes := range 31_000 {
		write(nodes + 1)
		b.answer(b.take(commit.Patch, "p"), "", nil)
	}
	if n := b.Remembered(); n > 30_001 {
		t.Errorf("%d things are remembered", n)
	}
}

// TestIdenticalStatusIsNotWrittenAgain repeats a decision about a pod whose new condition
// the watch has not shown yet.
func TestIdenticalStatusIsNotWrittenAgain(t *testing.T) {
	b := newBench(t, 10)
	pod := podNamed("p")
	b.start(nominated(pod, "a"))
	b.answer(b.take(commit.Patch, "p"), "", nil)
	b.start(nominated(pod, "a"))
	b.nothing()
	b.now = b.now.Add(time.Minute)
	b.nothing()
	if n := b.Remembered(); n != 0 {
		t.Errorf("%d things are remembered", n)
	}
}

// TestRefusedStatusIsGivenUp has the API server refuse a condition for good, in time.
func TestRefusedStatusIsGivenUp(t *testing.T) {
	b := newBench(t, 10)
	b.start(nominated(podNamed("p"), "a"))
	tries := 0
	for began := b.now; !b.Empty(); tries++ {
		if at, ok := b.Due(); ok {
			b.now = at
		}
		b.answer(b.take(commit.Patch, "p"), "", errNo)
		if b.now.Sub(began) > 10*time.Minute {
			t.Fatal("it is never given up")
		}
	}
	if stats := b.Stats(); tries != 17 || stats.StatusesFailed != 1 || b.Remembered() != 0 {
		t.Errorf("%d tries, %+v, %d things remembered", tries, stats, b.Remembered())
	}
}

// TestPoisonedEventHoldsNobodyUp has the API server fail at one event: the others are
// written meanwhile.
func TestPoisonedEventHoldsNobodyUp(t *testing.T) {
	b := newBench(t, 10)
	for _, name := range []string{"bad", "good"} {
		b.start(plan.Decision{Member: plan.Alone(podNamed(name)), Outcome: plan.Terminating})
	}
	b.answer(b.take(commit.Record, "bad"), "", apierrors.NewInternalError(errBroken))
	b.answer(b.take(commit.Record, "good"), "", nil)
	b.nothing()
	b.later(10 * time.Millisecond)
	b.answer(b.take(commit.Record, "bad"), "", nil)
	b.now = b.now.Add(6 * time.Minute)
	b.nothing()
	if b.Stats().Events != 2 || b.Remembered() != 0 {
		t.Errorf("%+v, %d things remembered", b.Stats(), b.Remembered())
	}
}

// BenchmarkBinding binds a pod without steps and records its event, without sending
// anything.
func BenchmarkBinding(b *testing.B) {
	o, err := commit.NewOutbox(commit.DefaultOutbox(binder, unchanged))
	if err != nil {
		b.Fatal(err)
	}
	decision, now := placed(podNamed("p")), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		o.Start(now, &decision)
		for range 2 { // the binding and the event
			request, _ := o.Next(now, false)
			o.Done(now, request, commit.Response{})
		}
		o.Take()
	}
}
