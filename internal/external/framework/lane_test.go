package framework

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

func newTestLane(t *testing.T, deadline time.Duration) *Lane {
	l := NewLane(t.Context(), deadline, nil, klog.Logger{})
	t.Cleanup(l.Close)
	return l
}

// TestLaneEnds ends calls in every way. Each gets a result, and the lane continues.
func TestLaneEnds(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		l := newTestLane(t, 20*time.Millisecond)
		release := make(chan struct{})
		for _, test := range []struct {
			name string
			f    func(context.Context) int
			want string
		}{
			{"returns", func(context.Context) int { return 7 }, ""},
			{"panics", func(context.Context) int { panic("boom") }, `plugin "P" at Filter: panicked: boom`},
			{"panics with an error whose text panics", func(context.Context) int { panic(badText{}) }, `plugin "P" at Filter: panicked: %!v(PANIC=Error method: no text)`},
			{"panics with nil", func(context.Context) int { panic(nil) }, `plugin "P" at Filter: panicked: panic called with nil argument`},
			{"ends its goroutine", func(context.Context) int { runtime.Goexit(); return 1 }, `plugin "P" at Filter: called runtime.Goexit`},
			{"hangs", func(context.Context) int { <-release; return 1 }, `plugin "P" at Filter: has not returned within 20ms`},
			{"returns again", func(context.Context) int { return 7 }, ""},
		} {
			got, err := call(l, Filter, "P", test.f)
			var failure *Failure
			switch {
			case test.want == "" && (err != nil || got != 7):
				t.Errorf("%s: %v, %v", test.name, got, err)
			case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want) || got != 0 || !errors.As(err, &failure) || failure.Plugin != "P"):
				t.Errorf("%s: %v, %v; want %s", test.name, got, err, test.want)
			}
		}
		if ever, running := l.Abandoned(); ever != 1 || running != 1 {
			t.Errorf("%d calls were given up, %d run; want 1 and 1", ever, running)
		}
		close(release)
		eventually(t, func() bool { _, running := l.Abandoned(); return running == 0 })
	})
}

type badText struct{}

func (badText) Error() string { panic("no text") }

// TestLateResults has a call that writes and returns its result after it was abandoned.
// Later calls get their own results. Run it with -race.
func TestLateResults(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		l := newTestLane(t, 5*time.Millisecond)
		release, written := make(chan struct{}), make(chan struct{})
		var told atomic.Bool
		late, err := call(l, Score, "P", func(ctx context.Context) []int {
			result := []int{0}
			<-ctx.Done()
			told.Store(true)
			<-release
			result[0] = 1
			close(written)
			return result
		})
		if err == nil || late != nil {
			t.Fatalf("%v, %v", late, err)
		}
		for i := range 100 {
			if got, err := call(l, Score, "P", func(context.Context) int { return i }); got != i || err != nil {
				t.Fatalf("%v, %v; want %d", got, err, i)
			}
			if i == 50 {
				close(release)
				<-written
			}
		}
		if !told.Load() {
			t.Error("the context of a call that was given up has not ended")
		}
	})
}

// TestHungCallsAreBounded makes a plugin hang repeatedly. In the end it is not called
// until a call returns. Other plugins are always called.
func TestHungCallsAreBounded(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		l := newTestLane(t, time.Millisecond)
		release := make(chan struct{})
		var called atomic.Int64
		hang := func(context.Context) int { called.Add(1); <-release; return 0 }
		for range maxHung + 20 {
			if _, err := call(l, Filter, "Hung", hang); err == nil {
				t.Fatal("a call that hangs has returned")
			}
		}
		if n := called.Load(); n != maxHung {
			t.Errorf("the plugin was called %d times, want %d", n, maxHung)
		}
		l.deadline = time.Minute
		if _, err := call(l, Filter, "Other", func(context.Context) int { return 0 }); err != nil {
			t.Error(err)
		}
		close(release)
		eventually(t, func() bool { _, running := l.Abandoned(); return running == 0 })
		if _, err := call(l, Filter, "Hung", func(context.Context) int { return 0 }); err != nil {
			t.Error(err)
		}
	})
}

// TestTurnContext checks that the context of a turn's calls ends with the turn, and that
// the lane continues.
func TestTurnContext(t *testing.T) {
	l := newTestLane(t, time.Minute)
	own := func(ctx context.Context) context.Context { return ctx }
	l.beginTurn(nil)
	one, _ := call(l, Filter, "P", own)
	two, _ := call(l, Score, "P", own)
	if one != two || one.Err() != nil {
		t.Errorf("calls of a turn have other contexts, or ended ones: %v", one.Err())
	}
	l.endTurn()
	if one.Err() == nil {
		t.Error("the context goes on after the turn")
	}
	if next, _ := call(l, PreEnqueue, "P", own); next.Err() != nil {
		t.Error("there is no context after the turn")
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("it has not come true in 5 s")
}
