package commit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/commit"
)

func TestBindings(t *testing.T) {
	type respond = func(w http.ResponseWriter, r request, number int) bool
	unwell := func(w http.ResponseWriter, r request, number int) bool {
		return r.what == "bind" && number <= 2 && refuse(w, 503, metav1.StatusReasonServiceUnavailable, "starting")
	}
	conflict := func(w http.ResponseWriter, r request, _ int) bool {
		return r.what == "bind" && refuse(w, 409, metav1.StatusReasonConflict, "pod p is already assigned to node x")
	}
	lost := func(w http.ResponseWriter, r request, _ int) bool { return r.what == "bind" && hangUp(w) }
	firstLost := func(w http.ResponseWriter, r request, number int) bool { return number == 1 && lost(w, r, number) }
	throttled := func(w http.ResponseWriter, r request, number int) bool {
		return r.what == "bind" && number == 1 && throttle(w, 1)
	}
	internal := func(w http.ResponseWriter, r request, number int) bool {
		return r.what == "bind" && number == 1 && refuse(w, 500, metav1.StatusReasonInternalError, "etcdserver: request timed out")
	}
	secondConflicts := func(w http.ResponseWriter, r request, number int) bool {
		return r.what == "bind" && number == 2 && refuse(w, 409, metav1.StatusReasonConflict, "pod p is already assigned to node node-of-p")
	}
	forgetful := func(w http.ResponseWriter, r request, number int) bool {
		return lost(w, r, number) || r.what == "get" && number <= 2 && refuse(w, 403, metav1.StatusReasonForbidden, "not yet")
	}
	for _, test := range []struct {
		name          string
		before, after respond
		err           string // of the outcome; empty if bound
		binds, gets   int
	}{
		{name: "plain", binds: 1},
		{name: "server unwell twice", before: unwell, binds: 3},
		{name: "throttled", before: throttled, binds: 2},
		{name: "forbidden is final", before: refusing(403, metav1.StatusReasonForbidden, "no"), binds: 1, err: "no"},
		{name: "refused by a webhook is final", before: refusing(422, metav1.StatusReasonInvalid, "denied the request"), binds: 1, err: "denied"},
		{name: "a pod that is gone is final", before: refusing(404, metav1.StatusReasonNotFound, "not there"), binds: 1, err: "not there"},
		{name: "conflict is final", before: conflict, binds: 1, err: "pod p is already assigned to node x"},
		{name: "answer lost, stored", after: lost, binds: 1, gets: 1},
		{name: "answer lost, not stored", before: firstLost, binds: 2, gets: 1},
		{name: "stored, reported as failed, then refused", before: secondConflicts, after: internal, binds: 2, gets: 1},
		{name: "question refused at first", after: forgetful, before: func(w http.ResponseWriter, r request, n int) bool {
			return r.what == "get" && forgetful(w, r, n)
		}, binds: 1, gets: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.server.before, f.server.after = test.before, test.after
				f.run(t)
				pod := podNamed("p")
				f.Start(placed(pod))
				outcome := f.outcomes.next(t)
				if outcome.Pod != pod || outcome.NodeName != "node-of-p" {
					t.Errorf("outcome is about %v on %q", outcome.Pod, outcome.NodeName)
				}
				wantEvent := writtenEvent{Reason: "Scheduled", Note: "Successfully assigned ns/p to node-of-p"}
				if test.err == "" {
					if outcome.Err != nil {
						t.Errorf("binding failed: %v", outcome.Err)
					}
				} else {
					if outcome.Err == nil || !strings.HasPrefix(outcome.Err.Error(), `running Bind plugin "DefaultBinder": `) ||
						!strings.Contains(outcome.Err.Error(), test.err) {
						t.Fatalf("error %v, want one of the binder with %q", outcome.Err, test.err)
					}
					wantEvent = writtenEvent{Reason: "FailedScheduling", Note: outcome.Err.Error()}
				}
				wantStatus := 0
				if test.err != "" {
					wantStatus = 1
				}
				requests := f.server.wait(t, "event and status", func(rs []request) bool {
					return len(of("event", rs)) > 0 && len(of("status", rs)) >= wantStatus
				})
				event := eventOf(of("event", requests)[0])
				if event.Reason != wantEvent.Reason || event.Note != wantEvent.Note || event.ReportingController != "default-scheduler" ||
					event.Regarding.UID != pod.UID || event.Regarding.ResourceVersion != "7" {
					t.Errorf("event %+v, want %+v", event, wantEvent)
				}
				if binds, gets := len(f.server.got("bind")), len(f.server.got("get")); binds != test.binds || gets != test.gets {
					t.Errorf("%d bindings and %d questions were sent, want %d and %d", binds, gets, test.binds, test.gets)
				}
				if statuses := f.server.got("status"); len(statuses) != wantStatus {
					t.Errorf("statuses were written: %v, want %d", statuses, wantStatus)
				}
			})
		})
	}
}

// refusing refuses every binding.
func refusing(code int, why metav1.StatusReason, message string) func(http.ResponseWriter, request, int) bool {
	return func(w http.ResponseWriter, r request, _ int) bool {
		return r.what == "bind" && refuse(w, code, why, message)
	}
}

// TestFateUnknown fails the reads of a pod's node after an unanswered binding many times,
// as during an outage. The loop must get no result, because the pod may be on its node,
// and no status may show it as pending. Meanwhile other pods are bound, although only one
// worker runs.
func TestFateUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *commit.Config) { c.InFlight = 1 })
		g := newGate()
		f.server.after = func(w http.ResponseWriter, r request, _ int) bool {
			return r.what == "bind" && r.pod == "p" && hangUp(w)
		}
		f.server.before = func(w http.ResponseWriter, r request, number int) bool {
			if r.what != "get" {
				return false
			}
			if number == 5 {
				g.hold(r)
			}
			return number < 5 && refuse(w, 403, metav1.StatusReasonForbidden, "not yet")
		}
		f.run(t)
		pod := podNamed("p")
		f.Start(placed(pod))
		f.server.wait(t, "a question", func(rs []request) bool { return len(of("get", rs)) > 0 })
		f.Start(placed(podNamed("other")))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "other" || outcome.Err != nil {
			t.Errorf("the first outcome is of %s, %v", outcome.Pod, outcome.Err)
		}
		<-g.arrived
		if got := f.server.got("status"); len(got) > 0 || len(f.outcomes) > 0 {
			t.Errorf("while nothing is known, statuses %v were written, and %d outcomes told", got, len(f.outcomes))
		}
		close(g.open)
		if outcome := f.outcomes.next(t); outcome.Pod != pod || outcome.Err != nil {
			t.Errorf("outcome %+v, want that the pod is bound", outcome)
		}
		if got := f.server.got("bind"); len(got) != 2 {
			t.Errorf("bindings %v were sent, want one for each pod", got)
		}
	})
}

// gate blocks requests until it is opened.
type gate struct {
	arrived chan request
	open    chan struct{}
}

func newGate() gate { return gate{make(chan request, 100), make(chan struct{})} }

func (g gate) hold(r request) {
	g.arrived <- r
	<-g.open
}

func TestStatusOfOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		g := newGate()
		f.server.before = func(_ http.ResponseWriter, r request, number int) bool {
			if r.what == "status" && number == 1 {
				g.hold(r)
			}
			return false
		}
		f.run(t)
		pod := podNamed("p")
		f.Start(rejected(pod, 1))
		<-g.arrived
		for nodes := 2; nodes <= 5; nodes++ {
			f.Start(rejected(pod, nodes))
		}
		close(g.open)
		requests := f.server.wait(t, "the second status", func(rs []request) bool { return len(of("status", rs)) == 2 && len(of("event", rs)) > 0 })
		if body := of("status", requests)[1].body; !strings.Contains(body, "0/5 nodes are available: 5 Insufficient cpu.") {
			t.Errorf("the second status is %s, want the latest", body)
		}
		// A status that was just written is not written again, even if the pod is bound
		// meanwhile.
		f.waitStatuses(t, 2)
		f.Start(rejected(pod, 5))
		f.Start(placed(pod))
		if err := f.outcomes.next(t).Err; err != nil {
			t.Error(err)
		}
		if got := f.server.got("status"); len(got) != 2 {
			t.Errorf("%d statuses were written, want 2", len(got))
		}
	})
}

// waitStatuses waits until n statuses have been answered.
func (f *fixture) waitStatuses(t *testing.T, n int64) {
	t.Helper()
	deadline := time.After(time.Hour)
	for f.Stats().Statuses < n {
		select {
		case <-deadline:
			t.Fatalf("%d statuses were written, want %d", f.Stats().Statuses, n)
		case <-time.After(time.Millisecond):
		}
	}
}

// A condition of a pending pod must not reach the API server after the binding.
func TestBindingWaitsForStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		g := newGate()
		f.server.before = func(_ http.ResponseWriter, r request, _ int) bool {
			if r.what == "status" {
				g.hold(r)
			}
			return false
		}
		f.run(t)
		pod := podNamed("p")
		f.Start(rejected(pod, 1))
		<-g.arrived
		f.Start(rejected(pod, 2)) // overtaken by the binding, never written
		f.Start(placed(pod))
		f.Start(placed(podNamed("other")))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "other" {
			t.Errorf("%s was bound first, want the other pod", outcome.Pod)
		}
		if got := f.server.got("bind"); len(got) != 1 {
			t.Errorf("bindings %v were sent, want one", got)
		}
		close(g.open)
		if outcome := f.outcomes.next(t); outcome.Pod != pod || outcome.Err != nil {
			t.Errorf("outcome %+v, want that p is bound", outcome)
		}
		if got := f.server.got("status"); len(got) != 1 {
			t.Errorf("statuses %v were sent, want one", got)
		}
	})
}

func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *commit.Config) { c.InFlight = 1 })
		g := newGate()
		f.server.before = func(_ http.ResponseWriter, r request, _ int) bool {
			if r.pod == "first" && r.what == "bind" {
				g.hold(r)
			}
			return false
		}
		f.run(t)
		f.Start(placed(podNamed("first")))
		<-g.arrived
		f.Start(nominated(podNamed("rejected"), "a"))
		f.Start(placed(podNamed("second")))
		close(g.open)
		requests := f.server.wait(t, "all", func(rs []request) bool { return len(rs) == 5 })
		want := "[bind first bind second status rejected event first event second]"
		if got := fmt.Sprint(requests); got != want {
			t.Errorf("requests %s, want %s", got, want)
		}
	})
}

func TestStop(t *testing.T) {
	for _, test := range []struct {
		name  string
		drain time.Duration
		hangs bool // the server answers nothing before the test ends
		bound int
	}{
		{name: "in time", drain: 10 * time.Second, bound: 2},
		{name: "too late", drain: 20 * time.Millisecond, hangs: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(c *commit.Config) { c.InFlight, c.Drain = 2, test.drain })
				g := newGate()
				f.server.before = func(_ http.ResponseWriter, r request, _ int) bool {
					if r.what == "bind" {
						g.hold(r)
					}
					return false
				}
				stop := f.run(t)
				all := names(10)
				for _, name := range all {
					f.Start(placed(podNamed(name)))
				}
				<-g.arrived
				<-g.arrived
				why := errors.New("the lease is lost")
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					stop(why)
				}()
				bound, failed := 0, 0
				for range len(all) - 2 { // queued ones are settled before those in flight
					if err := f.outcomes.next(t).Err; !errors.Is(err, why) {
						t.Errorf("outcome of a waiting binding: %v, want %v", err, why)
					}
				}
				if !test.hangs {
					close(g.open)
				}
				for range 2 {
					if f.outcomes.next(t).Err == nil {
						bound++
					} else {
						failed++
					}
				}
				<-stopped
				if test.hangs {
					close(g.open)
				}
				if bound != test.bound {
					t.Errorf("%d of the bindings in flight succeeded and %d failed, want %d to succeed", bound, failed, test.bound)
				}
				f.Start(placed(podNamed("late")))
				if err := f.outcomes.next(t).Err; !errors.Is(err, why) {
					t.Errorf("outcome of a binding after the stop: %v, want %v", err, why)
				}
			})
		})
	}
}

// Events survive an outage of the server, and none of a burst is lost.
func TestEventsArePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.server.before = func(w http.ResponseWriter, r request, number int) bool {
			return r.what == "event" && number <= 3 && hangUp(w)
		}
		f.run(t)
		all := names(50)
		for _, name := range all {
			f.Start(placed(podNamed(name)))
		}
		f.server.wait(t, "every event", func(rs []request) bool { return len(of("event", rs)) == 4*len(all) })
	})
}

// TestOldestAreDropped queues more statuses and events than allowed: the oldest are
// dropped, counted, and logged when dropping begins.
func TestOldestAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		observer := &counting{}
		f := newFixture(t, func(c *commit.Config) {
			c.MaxReports, c.Observers = 10, []commit.Observer{observer}
			c.Log = textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
		})
		for _, name := range names(25) {
			f.Start(rejected(podNamed(name), 1))
			if err := f.Audit(); err != nil {
				t.Fatal(err)
			}
		}
		if did := f.Stats(); did.EventsDropped != 15 || did.StatusesDropped != 15 || observer.dropped[commit.EventWrite] != 15 || observer.dropped[commit.StatusWrite] != 15 {
			t.Errorf("%+v; observers were told of %v", did, observer.dropped)
		}
		const line = `E "Too many writes wait, the oldest are dropped until all have been written" kind="%s" limit=10` + "\n"
		if logged := logHeader.ReplaceAllString(log.String(), "$1 "); logged != fmt.Sprintf(line, "status")+fmt.Sprintf(line, "event") {
			t.Errorf("logged\n%s, want one line for each kind", logged)
		}
		f.run(t)
		requests := f.server.wait(t, "those that are left", func(rs []request) bool { return len(rs) == 20 })
		for _, r := range requests {
			if slices.Contains(names(15), r.pod) {
				t.Errorf("%s was written, which is among the oldest", r)
			}
		}
	})
}

// counting counts the writes that it observes.
type counting struct {
	sending, sent atomic.Int64
	dropped       [commit.WriteKinds]int // before Run
}

func (c *counting) Sending(ctx context.Context, _ *commit.Write) context.Context {
	c.sending.Add(1)
	return ctx
}

func (c *counting) Sent(context.Context, *commit.Write, time.Duration, error) { c.sent.Add(1) }

func (c *counting) Dropped(kind commit.WriteKind, writes int) { c.dropped[kind] += writes }

func (c *counting) Passed(*commit.StageEnd)     {}
func (c *counting) Preempted(*commit.Preempted) {}
func (c *counting) Settled(*commit.Settled)     {}

// TestStopTellsObservers stops while a binding waits for its next try: an observer that
// saw its begin must see its end.
func TestStopTellsObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := &counting{}
		f := newFixture(t, func(c *commit.Config) { c.InFlight, c.Observers = 1, []commit.Observer{observer} })
		f.server.before = func(w http.ResponseWriter, r request, _ int) bool {
			return r.what == "bind" && r.pod == "p" && throttle(w, 100)
		}
		stop := f.run(t)
		f.Start(placed(podNamed("p")))
		// Only one worker runs: when this is bound, the first waits.
		f.Start(placed(podNamed("other")))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "other" || outcome.Err != nil {
			t.Fatalf("the first outcome is %+v", outcome)
		}
		stop(errors.New("the lease is lost"))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "p" || outcome.Err == nil {
			t.Errorf("outcome %+v, want that p failed", outcome)
		}
		// The third write is an event.
		if began, ended := observer.sending.Load(), observer.sent.Load(); began != 3 || ended != 3 {
			t.Errorf("observers were told of the beginning of %d writes and the end of %d, want 3", began, ended)
		}
	})
}

// TestTimeoutIsAnswered lets a wait time out while statuses and events hang: the loop
// gets the result at once.
func TestTimeoutIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		g := newGate()
		f.server.before = func(_ http.ResponseWriter, r request, _ int) bool {
			g.hold(r)
			return false
		}
		stop := f.run(t)
		defer stop(errors.New("the test is over"))
		defer close(g.open)
		f.Start(stepped("p", "Permit/gang 50ms"))
		if outcome := f.outcomes.next(t); outcome.Pod.Name != "p" || fmt.Sprint(outcome.Rejectors) != "[gang]" {
			t.Errorf("the result is %+v", outcome)
		}
	})
}
