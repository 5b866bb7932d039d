package commit_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// isOpen reports whether a channel of Room is closed.
func isOpen(room <-chan struct{}) bool {
	select {
	case <-room:
		return true
	default:
		return false
	}
}

// TestRoom fills the queue of bindings, with one in flight, and frees it in each way: a
// waiting caller continues in that instant.
func TestRoom(t *testing.T) {
	for _, row := range []struct {
		name  string
		frees func(f *fixture, stop func(why error))
		takes time.Duration
	}{
		{"the binding in flight is stored", func(*fixture, func(error)) {}, 3 * time.Second},
		{"one that waits is cancelled", func(f *fixture, _ func(error)) {
			time.Sleep(time.Second)
			if !f.Cancel(podNamed("p2").UID, errNo) {
				t.Error("it cannot be cancelled")
			}
		}, time.Second},
		{"the process stops", func(f *fixture, stop func(error)) {
			time.Sleep(2 * time.Second)
			go stop(errGone)
		}, 2 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, func(c *commit.Config) { c.InFlight, c.MaxBindings = 1, 2 })
				f.server.answer = func(_ http.ResponseWriter, _ *http.Request, r request) bool {
					if r.what == "bind" {
						time.Sleep(3 * time.Second)
					}
					return false
				}
				stop := f.run(t)
				for _, name := range names(3) { // the first is sent, two wait
					if !isOpen(f.Room()) {
						t.Fatalf("no room before %s", name)
					}
					f.Start(placed(podNamed(name)))
					synctest.Wait()
				}
				room := f.Room()
				if isOpen(room) || f.Room() != room {
					t.Fatal("there is room, or whoever waits is not woken together")
				}
				began := time.Now()
				go row.frees(f, stop)
				<-room
				if took := time.Since(began); took != row.takes {
					t.Errorf("there is room after %v, want %v", took, row.takes)
				}
				if !isOpen(f.Room()) {
					t.Error("there is room, and Room says there is none")
				}
				if row.takes < 3*time.Second {
					return
				}
				f.Start(placed(podNamed("p3"))) // one is in flight, one waits
				if again := f.Room(); isOpen(again) || again == room {
					t.Error("there is room when it is full again")
				}
			})
		})
	}
}

// TestInFlight makes the API server take a second for each binding: exactly the maximum
// are in flight.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *commit.Config) { c.InFlight = 3 })
		f.server.answer = func(http.ResponseWriter, *http.Request, request) bool {
			time.Sleep(time.Second)
			return false
		}
		f.run(t)
		began, binds := time.Now(), map[time.Duration]int{}
		for _, name := range names(9) {
			f.Start(placed(podNamed(name)))
		}
		for range 9 {
			if outcome := f.outcomes.next(t); outcome.Err != nil {
				t.Error(outcome.Err)
			}
			binds[time.Since(began)]++
		}
		// One worker prefers events: none is due at the beginning, and one or two
		// in each second after that.
		if binds[time.Second] != 3 {
			t.Errorf("bindings were stored after %v, want three in the first second", binds)
		}
		time.Sleep(time.Minute)
		for _, s := range f.recorder.of([]string{"bind", "event"}) {
			others := 0
			for _, other := range f.recorder.of([]string{"bind", "event"}) {
				if !other.begin.After(s.begin) && other.end.After(s.begin) {
					others++
				}
			}
			if others > 3 {
				t.Fatalf("%d requests are in flight when that about %s begins", others, s.pod)
			}
		}
		if n := len(f.recorder.of([]string{"bind", "event"})); n != 18 {
			t.Errorf("%d requests were sent, want a binding and an event for each pod", n)
		}
	})
}

// TestTimeout makes the API server ignore all requests of one kind: each is given up
// after its timeout.
func TestTimeout(t *testing.T) {
	for kind, of := range answerKinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newInMemory(t, func(c *commit.Config) { c.Timeout = 7 * time.Second })
				defer m.stop()
				m.misbehave(kind, "silent")
				of.start(m)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				all := m.recorder.of([]string{of.what})
				if len(all) == 0 {
					t.Fatal("nothing was sent")
				}
				for _, s := range all {
					if took := s.end.Sub(s.begin); took != 7*time.Second {
						t.Errorf("a request of kind %s takes %v", s.what, took)
					}
				}
			})
		})
	}
}

// TestStepTimeout makes the API server ignore the write of a step and, for five minutes,
// the write that undoes it.
func TestStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, func(c *commit.Config) { c.Timeout = 7 * time.Second })
		defer m.stop()
		began := time.Now()
		well := func() bool { return time.Since(began) > 5*time.Minute }
		m.server.answer = func(_ http.ResponseWriter, h *http.Request, r request) bool {
			if r.what == "patch" && !well() {
				<-h.Context().Done()
			}
			return false
		}
		d := stepped("p", "PreBind/a w u")
		for _, write := range []*plan.Write{d.Placement.Steps[0].Write, d.Placement.Steps[0].Undo} {
			write.Namespace, write.Resource.Version, write.Resource.Resource, write.Type, write.Data = "ns", "v1", "claims", types.MergePatchType, []byte("{}")
		}
		m.Start(d)
		outcome := m.outcomes.next(t)
		if outcome.Err == nil || !strings.HasPrefix(outcome.Err.Error(), `running PreBind plugin "a": `) || !well() {
			t.Errorf("after %v it has ended with %v", time.Since(began), outcome.Err)
		}
		sent := map[string]int{}
		for _, s := range m.recorder.of([]string{"patch"}) {
			sent[s.pod]++
			if took := s.end.Sub(s.begin); took != 7*time.Second && s.end.Before(began.Add(5*time.Minute)) {
				t.Errorf("the patch of %s takes %v", s.pod, took)
			}
		}
		if sent["a"] != 4 || sent["undo a"] < 20 {
			t.Errorf("%v patches were sent, want 4 of the step and those that undo it until they are taken", sent)
		}
		if binds := m.server.got("bind"); len(binds) > 0 {
			t.Errorf("%v were sent", binds)
		}
	})
}
