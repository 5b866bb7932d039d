package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// recordedHints records its calls.
type recordedHints struct {
	calls []string
	next  time.Time // when it can continue, unless zero
}

func (a *recordedHints) Rejected(_ time.Time, _ *engine.Engine, s *state.State, d *plan.Decision) string {
	a.calls = append(a.calls, fmt.Sprintf("%s is rejected, %d pods are on nodes", d.Pod.Name, s.Pods()))
	return "ask for less, " + d.Pod.Name
}

func (a *recordedHints) Search(_ time.Time, _ *engine.Engine, s *state.State) {
	a.calls = append(a.calls, fmt.Sprintf("search, %d pods are on nodes", s.Pods()))
}

func (a *recordedHints) Next() (at time.Time, ok bool) { return a.next, !a.next.IsZero() }

// TestHints calls Hints before each round, and after an unschedulable decision
// about a single pod. The event of the pod contains the returned hint.
func TestHints(t *testing.T) {
	g := newGrouping(t, "")
	by := &recordedHints{}
	g.loop.SetHints(by)
	g.nodes(1)
	g.changes.Set(build.Pod(build.Named("first"), build.Container("cpu=1")))
	g.round()
	g.now = g.now.Add(time.Second)
	g.changes.Set(build.Pod(build.Named("second"), build.Container("cpu=1")))
	g.round()
	g.changes.Set(gang(1))
	g.changes.Set(member("a"))
	g.round()
	want := []string{
		"search, 0 pods are on nodes", "search, 1 pods are on nodes", "second is rejected, 1 pods are on nodes", "search, 1 pods are on nodes",
	}
	if !slices.Equal(by.calls, want) {
		t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(by.calls, "\n"), strings.Join(want, "\n"))
	}
	for _, d := range g.commit.made {
		want := ""
		if name := d.Pod.Name; name == "second" {
			want = "ask for less, second"
		}
		if d.Advice != want {
			t.Errorf("the advice about %s is %q, want %q", d.Pod.Name, d.Advice, want)
		}
	}
}

// TestHintsGoOn runs a round when Hints can continue, unless another round is
// due earlier.
func TestHintsGoOn(t *testing.T) {
	g := newGrouping(t, "")
	by := &recordedHints{}
	g.loop.SetHints(by)
	if at, ok := g.loop.Next(); ok {
		t.Fatalf("the next round is at %s", at)
	}
	by.next = g.now.Add(time.Hour)
	if at, ok := g.loop.Next(); !ok || !at.Equal(by.next) {
		t.Errorf("the next round is at %s (%t), want %s", at, ok, by.next)
	}
	g.nodes(0)
	g.changes.Set(build.Pod(build.Named("first"), build.Container("cpu=1")))
	g.round()
	at, ok := g.loop.Next() // the queue's next time
	if !ok || !at.Before(by.next) {
		t.Fatalf("the next round is at %s (%t), not before %s", at, ok, by.next)
	}
	by.next = at.Add(-time.Second)
	if got, _ := g.loop.Next(); !got.Equal(by.next) {
		t.Errorf("the next round is at %s, want %s", got, by.next)
	}
}
