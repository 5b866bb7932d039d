package commit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestEndsOfWaits ends the wait of a running Commit in each way that the loop and plugins
// have.
func TestEndsOfWaits(t *testing.T) {
	for _, row := range []struct {
		name  string
		ends  func(f *fixture) bool
		takes time.Duration
		want  string
	}{
		{"nobody does", func(*fixture) bool { return true }, 5 * time.Second, "0/1 nodes are available: 1 rejected due to timeout after waiting 5s at plugin gang. [gang]"},
		{"the loop allows it", func(f *fixture) bool { f.Allow(uid, "gang"); return true }, 0, "<nil> []"},
		{"the loop rejects it", func(f *fixture) bool { f.Reject(uid, "gang", errors.New("too few")); return true }, 0, "0/1 nodes are available: 1 too few. [gang]"},
		{"the loop cancels it", func(f *fixture) bool { return f.Cancel(uid, errors.New("gone")) }, 0, "waiting on permit for pod: gone []"},
		{"a plugin allows it", func(f *fixture) bool { f.WaitingPod(uid).Allow("gang"); return true }, 0, "<nil> []"},
		{"a plugin rejects it", func(f *fixture) bool { return f.WaitingPod(uid).Reject("x", "no") }, 0, "0/1 nodes are available: 1 no. [x]"},
		{"a plugin preempts it", func(f *fixture) bool {
			w := f.WaitingPod(uid)
			return w.Preempt("room is needed") && !w.Preempt("again") && !w.Reject("x", "no")
		}, 0, "waiting on permit for pod: room is needed []"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				f.run(t)
				began := time.Now()
				f.Start(stepped("p", "Permit/gang 5s"))
				if f.WaitingPod("another") != nil || len(f.WaitingPods()) != 1 || fmt.Sprint(f.WaitingPods()[0].PendingPlugins()) != "[gang]" {
					t.Errorf("%d pods wait", len(f.WaitingPods()))
				}
				if at := f.WaitingPod(uid); at.Pod().UID != uid {
					t.Errorf("the pod is %v", at.Pod())
				}
				if !row.ends(f) {
					t.Error("it did not end by that")
				}
				outcome := f.outcomes.next(t)
				if got := fmt.Sprint(outcome.Err, outcome.Rejectors); got != row.want && fmt.Sprint(outcome.Err, " ", outcome.Rejectors) != row.want {
					t.Errorf("it has ended with %s, want %s", got, row.want)
				}
				if took := time.Since(began); took != row.takes {
					t.Errorf("it took %v, want %v", took, row.takes)
				}
			})
		})
	}
}

// TestPodInPreBind cancels the binding of a pod during a plugin's call at PreBind, or
// makes it impossible to cancel.
func TestPodInPreBind(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			f.run(t)
			if f.PodInPreBind(uid) != nil {
				t.Error("there is one before the pod was decided about")
			}
			f.Start(runs("p", plan.PreBind, func(ctx context.Context) commit.CallResult {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
				return commit.CallResult{}
			}, nil))
			p := f.PodInPreBind(uid)
			if p == nil {
				t.Fatal("there is none at PreBind")
			}
			want := "<nil>"
			if cancels {
				want = `running PreBind plugin "x": room is needed`
				if !p.CancelPod("room is needed") || p.MarkPrebound() {
					t.Error("it is not cancelled, or marked after that")
				}
			} else if !p.MarkPrebound() || p.CancelPod("room is needed") {
				t.Error("it is not marked, or cancelled after that")
			}
			if outcome := f.outcomes.next(t); fmt.Sprint(outcome.Err) != want {
				t.Errorf("it has ended with %v, want %s", outcome.Err, want)
			}
			if f.PodInPreBind(uid) != nil {
				t.Error("there is one after the end")
			}
		})
	}
}

// TestDecisionsAfterTheEnd adds decisions after Run has stopped: bindings and preemptions
// fail at once with the error of the stop, and other decisions are dropped.
func TestDecisionsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		f.server.answer = func(_ http.ResponseWriter, h *http.Request, _ request) bool { <-h.Context().Done(); return true }
		stop := f.run(t)
		f.Start(rejected(podNamed("first"), 1))
		synctest.Wait()
		f.Start(rejected(podNamed("before"), 1))
		why := errors.New("the lease is lost")
		stop(why)
		kept := f.Remembered()
		f.Start(rejected(podNamed("after"), 1))
		if n := f.Remembered(); n != kept || kept == 0 {
			t.Errorf("%d things are remembered, want %d", n, kept)
		}
		f.Start(placed(podNamed("p")))
		f.Start(preempting("q", 10, onNode("v")))
		for _, name := range []string{"p", "q"} {
			if outcome := f.outcomes.next(t); outcome.Pod.Name != name || !errors.Is(outcome.Err, why) {
				t.Errorf("%s has ended with %v, want %s with %v", outcome.Pod, outcome.Err, name, why)
			}
		}
	})
}

// TestOlderStatusIsTakenOver has a status fail while a newer one is queued that lacks a
// field of it: the newer is sent with that field.
func TestOlderStatusIsTakenOver(t *testing.T) {
	pod := podNamed("p")
	for _, row := range []struct{ older, newer plan.Decision }{{rejected(pod, 2), nominated(pod, "a")}, {nominated(pod, "a"), rejected(pod, 2)}} {
		b := newBench(t, 10)
		b.start(row.older)
		request := b.take(commit.Patch, "p")
		b.start(row.newer)
		b.answer(request, "", errBroken)
		b.later(time.Second)
		request = b.takeStatus()
		if request.Condition == nil || request.Nomination.Mode != plan.Set || request.Nomination.NodeName != "a" {
			t.Errorf("%+v is sent, want the condition and the nomination", request)
		}
	}
}

// TestStepAfterTheBindingIsTriedAgain leaves the write of a step after the binding
// unanswered. It is retried after growing pauses and then given up, and the next step
// follows.
func TestStepAfterTheBindingIsTriedAgain(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "PostBind/c w", "PostBind/d w"))
	if s := b.answer(b.take(commit.Bind, "p"), "", nil); s == nil || s.Err != nil {
		t.Fatalf("the binding ended as %+v", s)
	}
	step := b.takeWrite(commit.WriteStep, "c")
	b.take(commit.Record, "p")
	b.done(step, errBroken)
	b.later(10 * time.Millisecond)
	for _, pause := range []time.Duration{50 * time.Millisecond, 250 * time.Millisecond} {
		b.done(b.takeWrite(commit.WriteStep, "c"), errBroken)
		b.later(pause)
	}
	b.done(b.takeWrite(commit.WriteStep, "c"), errBroken)
	if given := b.Take().GivenUp; len(given) != 1 || given[0].Err.Error() != `running PostBind plugin "c": the connection broke` || given[0].Pod != podNamed("p").Key() {
		t.Errorf("given up: %v", given)
	}
	b.done(b.takeWrite(commit.WriteStep, "d"), nil)
}

// TestEndsOfUndoing answers the write that undoes a step with errors: some are retried,
// others end it with or without a report.
func TestEndsOfUndoing(t *testing.T) {
	claims := v1.Resource("claims")
	for _, row := range []struct {
		name    string
		err     error
		again   time.Duration // 0 if not
		tries   int
		givesUp bool
	}{
		{"it is undone", nil, 0, 1, false},
		{"the object is gone", apierrors.NewNotFound(claims, "a"), 0, 1, false},
		{"somebody else has written it", apierrors.NewConflict(claims, "a", errNo), 0, 1, true},
		{"it is invalid", apierrors.NewInvalid(schema.GroupKind{}, "a", field.ErrorList{}), 0, 1, true},
		{"it cannot be read", apierrors.NewBadRequest("no"), 0, 1, true},
		{"it is forbidden", errNo, 50 * time.Millisecond, 16, true},
		{"the API server is unwell", apierrors.NewServiceUnavailable("starting"), 50 * time.Millisecond, 16, true},
		{"the API server says when", apierrors.NewTooManyRequests("later", 3), 3 * time.Second, 16, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBench(t, 100)
			b.start(stepped("p", "PreBind/a w u", "PreBind/b w"))
			b.done(b.takeWrite(commit.WriteStep, "a"), nil)
			b.done(b.takeWrite(commit.WriteStep, "b"), errNo)
			for try := 1; try <= row.tries; try++ {
				b.done(b.takeWrite(commit.UndoStep, "undo a"), row.err)
				if at, ok := b.Due(); try == 1 && row.again > 0 && (!ok || at.Sub(b.now) != row.again) || ok != (try < row.tries) {
					t.Fatalf("after try %d the next is in %v (%t)", try, at.Sub(b.now), ok)
				} else if ok {
					b.now = at
				}
			}
			ended := b.Take()
			if len(ended.Settled) != 1 || ended.Settled[0].Err.Error() != `running PreBind plugin "b": `+errNo.Error() {
				t.Errorf("settled: %+v", ended.Settled)
			}
			want := fmt.Sprintf("[undo a step of PreBind plugin \"a\" for ns/p: %v]", row.err)
			var got []error
			for _, g := range ended.GivenUp {
				got = append(got, g.Err)
			}
			if row.givesUp && fmt.Sprint(got) != want || !row.givesUp && len(got) > 0 {
				t.Errorf("given up: %v", got)
			}
		})
	}
}

// TestStopAmidUndoing stops while a call undoes the last of two steps: the other is not
// undone any more.
func TestStopAmidUndoing(t *testing.T) {
	c := newCaller(t)
	c.start(withCalls("Reserve/r!", "PreBind/a!"))
	c.returns("r", done)
	c.returns("a", errCall)
	c.look()
	c.Stop(c.now, errors.New("the end"))
	c.returns("undo a", done)
	c.ended(errCall.Err.Error(), false)
}

// TestWhenARepetitionHappened checks the times written with a repetition: the first and
// the last, even if the clock goes back.
func TestWhenARepetitionHappened(t *testing.T) {
	b := newBench(t, 10)
	first := b.now
	b.start(terminating(podNamed("p")))
	b.done(b.take(commit.Record, "p"), nil)
	b.now = first.Add(time.Minute)
	b.start(terminating(podNamed("p")))
	last := b.now
	b.now = first.Add(30 * time.Second)
	b.start(terminating(podNamed("p")))
	if s := b.take(commit.Repeat, "p").Series; !s.First.Equal(first) || !s.Last.Equal(last) || s.Count != 3 {
		t.Errorf("it is written as from %v to %v, %d times", s.First, s.Last, s.Count)
	}
}

// TestBoundPodHasNoStatus binds a pod whose status was written a moment ago: the status
// is forgotten.
func TestBoundPodHasNoStatus(t *testing.T) {
	remembered := func(status bool) int {
		b := newBench(t, 10)
		if status {
			b.start(nominated(podNamed("p"), "a"))
			b.done(b.take(commit.Patch, "p"), nil)
		}
		b.start(placed(podNamed("p")))
		b.answer(b.take(commit.Bind, "p"), "", nil)
		b.done(b.take(commit.Record, "p"), nil)
		return b.Remembered()
	}
	// The status would have expired by then.
	if without, with := remembered(false), remembered(true); without != 0 || with != 1 {
		t.Errorf("%d and %d things are remembered", without, with)
	}
}

// TestWaitsAtPermitCountAlone has a plugin wait at PreBind for less time than another at
// Permit: the wait at PreBind begins when the wait at Permit has ended.
func TestWaitsAtPermitCountAlone(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "Permit/one 8s", "PreBind/b 5s"))
	b.later(8 * time.Second)
	b.take(commit.Patch, "p")
	b.wantFailed(b.settled(), "0/1 nodes are available: 1 rejected due to timeout after waiting 8s at plugin one.")
	b = newBench(t, 10)
	b.start(stepped("p", "Permit/one 8s", "PreBind/b 5s"))
	b.now = b.now.Add(time.Second)
	b.Allow(b.now, uid, "one")
	b.later(5 * time.Second)
}

// TestEachStepHasItsTries has a step retried and throttled before it succeeds: the next
// step has as many tries, with the same pauses.
func TestEachStepHasItsTries(t *testing.T) {
	b := newBench(t, 10)
	b.start(stepped("p", "PreBind/a w", "PreBind/b w"))
	throttled := apierrors.NewTooManyRequests("later", 1)
	for _, name := range []string{"a", "b"} {
		for range 10 {
			b.done(b.takeWrite(commit.WriteStep, name), throttled)
			b.later(time.Second)
		}
		for _, pause := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond} {
			b.done(b.takeWrite(commit.WriteStep, name), errBroken)
			b.later(pause)
		}
		b.done(b.takeWrite(commit.WriteStep, name), map[string]error{"b": throttled}[name])
	}
	b.wantFailed(b.settled(), `running PreBind plugin "b": `+throttled.Error())
}

// TestQuestionsAreCounted reads three times whether a pod is bound.
func TestQuestionsAreCounted(t *testing.T) {
	b := newBench(t, 10)
	b.start(placed(podNamed("p")))
	b.done(b.take(commit.Bind, "p"), errBroken)
	for i := range 3 {
		b.now, _ = b.Due()
		b.done(b.take(commit.Ask, "p"), errBroken)
		if n := b.Stats().Questions; n != int64(i+1) {
			t.Errorf("%d questions are counted, want %d", n, i+1)
		}
	}
}

// TestStopAfterTheBinding stops while the write of a step after the binding is queued,
// and while it waits for its next try. The binding is settled only once, and nothing of
// it is kept.
func TestStopAfterTheBinding(t *testing.T) {
	for _, paused := range []bool{false, true} {
		b := newBench(t, 10)
		b.start(stepped("p", "PostBind/c w"))
		b.done(b.take(commit.Bind, "p"), nil)
		if paused {
			b.done(b.takeWrite(commit.WriteStep, "c"), errBroken)
		}
		if s := b.settled(); s == nil || s.Err != nil {
			t.Fatalf("the binding ended as %+v", s)
		}
		b.Stop(b.now, errors.New("the end"))
		if s := b.settled(); s != nil {
			t.Errorf("it has ended again as %+v", s)
		}
		b.done(b.take(commit.Record, "p"), nil)
		if n := b.Remembered(); n != 0 {
			t.Errorf("%d things are remembered", n)
		}
	}
}

// TestNothingIsDueThatIsOver pauses statuses, and then has the maximum in flight: queued
// statuses wait for the responses and for no time.
func TestNothingIsDueThatIsOver(t *testing.T) {
	b := newBench(t, 10)
	for _, name := range names(6) {
		b.start(nominated(podNamed(name), "a"))
	}
	b.done(b.take(commit.Patch, "p0"), apierrors.NewTooManyRequests("later", 1))
	b.now = b.now.Add(time.Second)
	probe := b.take(commit.Patch, "p1")
	b.done(probe, nil)
	for range 4 {
		if _, ok := b.Next(b.now, false); !ok {
			t.Fatal("nothing is sent after the pause")
		}
	}
	b.nothing()
	if at, due := b.Due(); due {
		t.Errorf("something is due in %v", at.Sub(b.now))
	}
}

// TestDeletionOfWhatIsGone deletes an object that is gone already, in a decision and to
// undo a step. This counts as deleted, but a patch of it fails.
func TestDeletionOfWhatIsGone(t *testing.T) {
	gone := apierrors.NewNotFound(v1.Resource("claims"), "a")
	for _, deletes := range []bool{true, false} {
		b := newBench(t, 100)
		b.start(plan.Decision{Member: plan.Alone(podNamed("p")), Writes: []plan.Write{{Name: "a", Delete: deletes}}})
		b.done(b.takeWrite(commit.WriteStep, "a"), gone)
		if given := b.Take().GivenUp; (len(given) == 0) != deletes {
			t.Errorf("deletes %t: given up: %v", deletes, given)
		}
	}
}
