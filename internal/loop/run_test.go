package loop_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// harbour is a committer whose room for decisions, and whose failures of bindings, are
// set by the test.
type harbour struct {
	changes *ingest.Ingest
	// receives for each decision with room; closed for unlimited room
	room  chan struct{}
	fails bool
	made  []made
}

// made is a decision with its time by the bubble's clock and by the loop's clock.
type made struct {
	about    string
	at, loop time.Time
}

func (h *harbour) Start(d plan.Decision) {
	h.made = append(h.made, made{d.Pod.Name, time.Now(), d.Popped})
	if h.fails {
		h.changes.Bound(model.BindingResult{Pod: d.Pod, NodeName: "a", Err: errors.New("no")})
	}
}
func (*harbour) Allow(types.UID, string)         {}
func (*harbour) Reject(types.UID, string, error) {}
func (*harbour) Cancel(types.UID, error) bool    { return false }
func (h *harbour) Room() <-chan struct{}         { return h.room }

// about returns the pods of the decisions.
func (h *harbour) about() (names []string) {
	for _, m := range h.made {
		names = append(names, m.about)
	}
	return names
}

// running is a loop that runs in a bubble, where time passes when all goroutines wait.
type running struct {
	*harbour
	*testing.T
	loop  *loop.Loop
	ended atomic.Bool
	end   context.CancelCauseFunc
	ctx   context.Context
}

// run runs a loop with a node for many pods. Room is unlimited unless the function
// changes that.
func run(t *testing.T, change func(r *running)) *running {
	t.Helper()
	c, waiting, decider := defaultParts(t, true)
	changes := ingest.New(c.Compile())
	r := &running{T: t, harbour: &harbour{changes: changes, room: make(chan struct{})}}
	r.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: r.harbour})
	changes.Set(build.Node("a", build.Allocatable("cpu=100 memory=64Gi pods=100")))
	if change == nil {
		close(r.room)
	} else {
		change(r)
	}
	r.ctx, r.end = context.WithCancelCause(t.Context())
	go func() {
		r.loop.Run(r.ctx)
		r.ended.Store(true)
	}()
	t.Cleanup(func() { r.end(nil) })
	return r
}

// adds shows the loop a pod.
func (r *running) adds(name string) { r.changes.Set(ranks(name, "1", 0)) }

// decides checks the pods of the decisions so far.
func (r *running) decides(want ...string) {
	r.Helper()
	synctest.Wait()
	if got := r.about(); !slices.Equal(got, want) {
		r.Fatalf("decisions about %v, want %v", got, want)
	}
}

// answers checks that the loop calls a function between two rounds.
func (r *running) answers() {
	r.Helper()
	called := false
	ctx, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	if err := r.loop.Do(ctx, func() { called = r.loop.State().Nodes() >= 0 }); err != nil || !called {
		r.Fatalf("the function was called: %t, error %v", called, err)
	}
}

// ends checks that Run returns when its context ends, and that Do returns the cause.
func (r *running) ends() {
	r.Helper()
	synctest.Wait()
	if r.ended.Load() {
		r.Fatal("Run has returned")
	}
	why := errors.New("the lease is lost")
	r.end(why)
	synctest.Wait()
	if !r.ended.Load() {
		r.Fatal("Run does not return")
	}
	if err := r.loop.Do(r.ctx, func() { r.Error("called on a loop that has ended") }); !errors.Is(err, why) {
		r.Errorf("error %v, want %v", err, why)
	}
}

// TestRunSleepsUntilSomethingComes shows an idle loop pods, a day apart.
func TestRunSleepsUntilSomethingComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, nil)
		r.decides()
		r.answers()
		r.adds("p")
		r.decides("p")
		time.Sleep(24 * time.Hour)
		r.answers()
		r.adds("q")
		r.decides("p", "q")
		r.ends()
	})
}

// TestRunWaitsForRoom limits the room for decisions: the loop decides only when it has
// room. Meanwhile it answers, and it ends with its context.
func TestRunWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, func(*running) {})
		for _, name := range []string{"p", "q", "r"} {
			r.adds(name)
		}
		r.decides()
		r.answers()
		time.Sleep(time.Hour)
		r.decides()
		r.room <- struct{}{}
		r.decides("p")
		r.answers()
		time.Sleep(time.Hour)
		r.decides("p")
		r.room <- struct{}{}
		r.decides("p", "q")
		r.ends()
		r.decides("p", "q")
	})
}

// TestRunEndsAmidWork ends a loop that always has work.
func TestRunEndsAmidWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, func(r *running) { close(r.room); r.fails = true })
		r.adds("p")
		time.Sleep(time.Hour)
		r.ends()
		before := len(r.made)
		time.Sleep(time.Hour)
		if before < 100 || len(r.made) != before {
			t.Errorf("%d decisions before the end and %d after it", before, len(r.made)-before)
		}
	})
}

// TestRunWakesByTheClock has every binding of a pod fail. The pod is retried only when
// its error backoff ends, without any other event. Backoffs take 1, 2, 4, 8, and then 10
// s. They are extended to the end of their second, by a whole second if they begin with
// one.
func TestRunWakesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond)
		r := run(t, func(r *running) { close(r.room); r.fails = true })
		began := time.Now()
		r.adds("p")
		time.Sleep(50 * time.Second)
		r.wantTimes(began, began.Round(0), 0, 1700, 4700, 9700, 18700, 29700, 40700)
		r.ends()
	})
}

// wantTimes checks the times of the decisions in milliseconds, by the bubble's clock and
// by the loop's clock, since the given beginnings.
func (r *running) wantTimes(began, loopBegan time.Time, want ...int64) {
	r.Helper()
	synctest.Wait()
	var got []int64
	for _, m := range r.made {
		got = append(got, m.at.Sub(began).Milliseconds())
		if m.loop != loopBegan.Add(m.at.Sub(began)) {
			r.Errorf("by the loop's clock a decision was made at %v, want %v", m.loop, loopBegan.Add(m.at.Sub(began)))
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("decisions after %v ms, want %v", got, want)
	}
}

// readsClocks checks how far the system's clock of the last round was ahead of the steady
// one.
func (r *running) readsClocks(by time.Duration) {
	r.Helper()
	if err := r.loop.Do(r.ctx, func() {
		if view := r.loop.State().View(); view.Wall().Round(0).Sub(view.Now()) != by {
			r.Errorf("the time is %v, and %v by the system's clock, want %v between", view.Now(), view.Wall(), by)
		}
	}); err != nil {
		r.Fatal(err)
	}
}

// TestRunWhileTheClockIsSet sets the system's clock forwards and back while a pod backs
// off. The pod is retried at the same times as without. View.Wall follows the system's
// clock.
func TestRunWhileTheClockIsSet(t *testing.T) {
	base := time.Now() // with a monotonic part, which times in a bubble lack
	base = base.Add(-time.Duration(base.Nanosecond()))
	for _, by := range []time.Duration{365 * 24 * time.Hour, time.Hour, time.Minute, -time.Minute, -time.Hour, -365 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var set atomic.Int64 // seconds
				began := time.Now()
				system := func() time.Time { return setBy(t, base.Add(time.Since(began)), set.Load()) }
				r := run(t, func(r *running) { close(r.room); r.fails = true; r.loop.GoBy(system) })
				r.adds("p")
				time.Sleep(1500 * time.Millisecond)
				set.Store(int64(by / time.Second))
				time.Sleep(5 * time.Second)
				r.readsClocks(by)
				set.Store(0)
				time.Sleep(20 * time.Second)
				r.wantTimes(began, base.Round(0), 0, 2000, 5000, 10000, 19000)
				r.ends()
			})
		})
	}
}

// setBy returns the reading of a system's clock that was set by some seconds: another
// wall time with the same monotonic time. Such a time can only be made by writing the
// seconds in its first word, which begin at bit 30 (see package time).
func setBy(t *testing.T, now time.Time, seconds int64) time.Time {
	set := now
	*(*uint64)(unsafe.Pointer(&set)) += uint64(seconds << 30)
	if set.Sub(now) != 0 || set.Round(0).Sub(now.Round(0)) != time.Duration(seconds)*time.Second {
		t.Fatalf("%v is not %v set by %d seconds", set, now, seconds)
	}
	return set
}

// TestClockFollowsTheLoop compares the clock for other goroutines with the system's time
// before the first decision, and with the loop's time after it.
func TestClockFollowsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &loop.Clock{}
		if now := clock.Now(); !now.Equal(time.Now()) {
			t.Errorf("before the first decision it is %v, want %v", now, time.Now())
		}
		clock.Standing(nil)
		clock.Round(&loop.Round{})
		if now := clock.Now(); !now.Equal(time.Now()) {
			t.Errorf("after a round without a decision it is %v, want %v", now, time.Now())
		}
		behind := time.Now().Round(0).Add(-time.Hour)
		round := &loop.Round{Popping: 5 * time.Millisecond, Deciding: 20 * time.Millisecond, Settling: 100 * time.Millisecond}
		round.Attempt = plan.ForPod(plan.QueuedPod{Popped: behind})
		time.Sleep(125 * time.Millisecond)
		clock.Round(round)
		time.Sleep(time.Minute)
		// later rounds are ignored
		round.Attempt.Members[0].Popped = behind.Add(time.Second)
		clock.Round(round)
		if got, want := clock.Now(), behind.Add(time.Minute+125*time.Millisecond); !got.Equal(want) {
			t.Errorf("it is %v, want %v", got, want)
		}
	})
}

// TestAskTakesAHundredthOfTheTime has three questions that take 2 ms each. After each,
// the next waits for 99 times as long, or until its context ends.
func TestAskTakesAHundredthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, nil)
		began := time.Now()
		var at []time.Duration
		for range 3 {
			if err := r.loop.Ask(r.ctx, func() {
				at = append(at, time.Since(began))
				time.Sleep(2 * time.Millisecond)
			}); err != nil {
				t.Fatal(err)
			}
		}
		if want := []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond}; !slices.Equal(at, want) {
			t.Errorf("questions were answered after %v, want %v", at, want)
		}
		late, cancel := context.WithTimeout(r.ctx, 100*time.Millisecond)
		defer cancel()
		if err := r.loop.Ask(late, func() { t.Error("a question was answered whose time was over") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		r.ends()
	})
}
