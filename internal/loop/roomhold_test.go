package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// overtaking is a scheduler with a waiting gang of two. A node has room for two pods, but
// two pods that were created later run there. Another node has two more such pods.
type overtaking struct {
	*grouping
	small int // number of small pods so far
}

func newOvertaking(t *testing.T) *overtaking {
	o := &overtaking{grouping: newGrouping(t, "")}
	o.nodes(2, 2)
	o.changes.Set(gang(2))
	for _, name := range []string{"a", "b"} {
		p := member(name)
		p.CreationTimestamp = metav1.NewTime(o.now)
		o.changes.Set(p)
	}
	for _, node := range []string{"n1", "n1", "n0", "n0"} {
		o.later(node)
	}
	if got := o.round(); !strings.Contains(got, "a unschedulable") || o.loop.State().RoomHolds() != 0 {
		t.Fatalf("%q; room is held for %d groups", got, o.loop.State().RoomHolds())
	}
	return o
}

// later starts a small pod on a node. It was created after the gang.
func (o *overtaking) later(node string) {
	p := build.Pod(build.Named(fmt.Sprint("small-", o.small)), build.Container("cpu=1"), build.NodeName(node))
	p.CreationTimestamp = metav1.NewTime(o.now.Add(time.Second))
	o.changes.Set(p)
	o.small++
}

// overtake ends the oldest pod on n0, lets another pod take its room, and retries the
// gang. It returns the number of reservations after that.
func (o *overtaking) overtake(after time.Duration) int {
	o.Helper()
	o.now = o.now.Add(after)
	o.changes.Remove(keyOf(fmt.Sprint("small-", o.small-2)).Ref())
	o.later("n0")
	for o.round() != "" {
	}
	return o.loop.State().RoomHolds()
}

// TestRoomIsKeptForTheOvertaken follows a gang that others overtake: its patience, the
// reservation, the pause after it, and its start.
func TestRoomIsKeptForTheOvertaken(t *testing.T) {
	const first = 5 * time.Minute
	o := newOvertaking(t)
	began := o.now
	for o.now.Add(15*time.Second).Sub(began) < queue.DefaultGroupPatience {
		if n := o.overtake(15 * time.Second); n != 0 {
			t.Fatalf("room is held for %d groups after %s", n, o.now.Sub(began))
		}
	}
	expect := func(want int, got int) {
		t.Helper()
		if got != want {
			t.Errorf("after %s room is held for %d groups, want %d", o.now.Sub(began), got, want)
		}
	}
	for times := range time.Duration(2) { // the second time for twice as long
		expect(1, o.overtake(15*time.Second))
		end := o.now.Add(first << times)
		if at, ok := o.loop.Next(); !ok || at.After(end) {
			t.Errorf("the next round is at %s (%t), room is held until %s", at, ok, end)
		}
		o.now = end.Add(-time.Millisecond)
		o.round()
		expect(1, o.loop.State().RoomHolds())
		o.now = end
		o.round()
		expect(0, o.loop.State().RoomHolds())
		// it pauses for the same time
		for o.now.Add(15*time.Second).Sub(end) < first<<times {
			expect(0, o.overtake(15*time.Second))
		}
	}
	expect(1, o.overtake(15*time.Second))
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", o.small-1-i)).Ref())
	}
	o.now = o.now.Add(15 * time.Second)
	if got := o.round(); !strings.Contains(got, "a placed on n0") || !strings.Contains(got, "b placed on n0") {
		t.Error(got)
	}
	expect(0, o.loop.State().RoomHolds())
	if at, ok := o.loop.Next(); ok {
		t.Errorf("the next round is at %s, and nobody waits", at)
	}
}

// TestOvertakenStarts places the gang in the first attempt after its patience. No search
// for room follows.
func TestOvertakenStarts(t *testing.T) {
	o := newOvertaking(t)
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", o.small-1-i)).Ref())
	}
	o.now = o.now.Add(2 * queue.DefaultGroupPatience)
	if got := o.round(); !strings.Contains(got, "b placed on n0") || o.loop.State().RoomHolds() != 0 {
		t.Errorf("%q; room is held for %d groups", got, o.loop.State().RoomHolds())
	}
}

// TestRoomIsOfOnePodGroup replaces a PodGroup with reserved room by another of the same
// name. That ends the reservation.
func TestRoomIsOfOnePodGroup(t *testing.T) {
	o := newOvertaking(t)
	if n := o.overtake(2 * queue.DefaultGroupPatience); n != 1 {
		t.Fatalf("room is held for %d groups", n)
	}
	another := gang(2)
	another.UID = "uid-another"
	o.changes.Remove(model.GroupKey{Namespace: "default", Name: "g"}.Ref())
	o.changes.Set(another)
	o.now = o.now.Add(time.Second)
	o.once()
	if n := o.loop.State().RoomHolds(); n != 0 {
		t.Errorf("room is held for %d groups", n)
	}
}

// TestNoRoomEvenWithoutLater has a gang wait for room of older pods. No room is reserved,
// and the next search waits for the gang's patience.
func TestNoRoomEvenWithoutLater(t *testing.T) {
	o := newOvertaking(t)
	o.now = o.now.Add(-time.Hour) // the creation time of the following pods
	for range 2 {
		o.overtake(0)
	}
	o.now = o.now.Add(time.Hour)
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", i)).Ref())
	}
	o.changes.Remove(model.Ref{Kind: model.NodeKind, Name: "n1"})
	if n := o.overtake(2 * queue.DefaultGroupPatience); n != 0 {
		t.Errorf("room is held for %d groups", n)
	}
	// later pods replace these: the next search follows after the gang's patience
	for range 2 {
		if n := o.overtake(15 * time.Second); n != 0 {
			t.Errorf("room is held for %d groups, and the gang rests", n)
		}
	}
	if n := o.overtake(queue.DefaultGroupPatience); n != 1 {
		t.Errorf("room is held for %d groups after the rest", n)
	}
}

// TestNextEndOfRoom runs a round at the end of a reservation, with and without other
// reasons for a round, and in both orders of two groups.
func TestNextEndOfRoom(t *testing.T) {
	g := newGrouping(t, "")
	other := gang(1)
	other.Name, other.UID = "h", "uid-h"
	g.changes.Set(gang(1))
	g.changes.Set(other)
	g.round()
	if at, ok := g.loop.Next(); ok {
		t.Fatalf("the next round is at %s", at)
	}
	group := func(name string) *model.PodGroup {
		return g.loop.State().View().Group(model.GroupKey{Namespace: "default", Name: name})
	}
	expect := func(want time.Time) {
		t.Helper()
		if at, ok := g.loop.Next(); !ok || !at.Equal(want) {
			t.Errorf("the next round is at %s (%t), want %s", at, ok, want)
		}
	}
	g.loop.HoldFor(group("g"), nil, g.now.Add(2*time.Hour))
	expect(g.now.Add(2 * time.Hour))
	g.loop.HoldFor(group("h"), nil, g.now.Add(3*time.Hour))
	expect(g.now.Add(2 * time.Hour))
	g.loop.HoldFor(group("h"), nil, g.now.Add(time.Hour))
	expect(g.now.Add(time.Hour))
}
