package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/queue"
)

// overtaking is a scheduler in which a gang of two waits for a node with room for two, on which two pods are that came later. There are two more such pods on another node.
type overtaking struct {
	*grouping
	small int // how many small pods there were
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
	if got := o.round(); !strings.Contains(got, "a unschedulable") || o.loop.State().Keeps() != 0 {
		t.Fatalf("%q; room is kept for %d groups", got, o.loop.State().Keeps())
	}
	return o
}

// later has a small pod run on a node that was created after the gang.
func (o *overtaking) later(node string) {
	p := build.Pod(build.Named(fmt.Sprint("small-", o.small)), build.Container("cpu=1"), build.NodeName(node))
	p.CreationTimestamp = metav1.NewTime(o.now.Add(time.Second))
	o.changes.Set(p)
	o.small++
}

// overtake has the older pod on n0 end and another one take its room, and the gang tried again. It returns for how many groups room is kept then.
func (o *overtaking) overtake(after time.Duration) int {
	o.Helper()
	o.now = o.now.Add(after)
	o.changes.Remove(keyOf(fmt.Sprint("small-", o.small-2)).Ref())
	o.later("n0")
	for o.round() != "" {
	}
	return o.loop.State().Keeps()
}

// TestRoomIsKeptForTheOvertaken follows a gang that others overtake: its patience, for how long room is kept for it, for how long it gives way then, and its start.
func TestRoomIsKeptForTheOvertaken(t *testing.T) {
	const first = 5 * time.Minute
	o := newOvertaking(t)
	began := o.now
	for o.now.Add(15*time.Second).Sub(began) < queue.DefaultGroupPatience {
		if n := o.overtake(15 * time.Second); n != 0 {
			t.Fatalf("room is kept for %d groups after %s", n, o.now.Sub(began))
		}
	}
	expect := func(want int, got int) {
		t.Helper()
		if got != want {
			t.Errorf("after %s room is kept for %d groups, want %d", o.now.Sub(began), got, want)
		}
	}
	for times := range time.Duration(2) { // the second time for twice as long
		expect(1, o.overtake(15*time.Second))
		end := o.now.Add(first << times)
		if at, ok := o.loop.Next(); !ok || at.After(end) {
			t.Errorf("the next round is at %s (%t), room is kept until %s", at, ok, end)
		}
		o.now = end.Add(-time.Millisecond)
		o.round()
		expect(1, o.loop.State().Keeps())
		o.now = end
		o.round()
		expect(0, o.loop.State().Keeps())
		for o.now.Add(15*time.Second).Sub(end) < first<<times { // it gives way for as long
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
	expect(0, o.loop.State().Keeps())
	if at, ok := o.loop.Next(); ok {
		t.Errorf("the next round is at %s, and nobody waits", at)
	}
}

// TestOvertakenStarts has the gang find room in the first attempt after its patience: no room is looked for any more.
func TestOvertakenStarts(t *testing.T) {
	o := newOvertaking(t)
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", o.small-1-i)).Ref())
	}
	o.now = o.now.Add(2 * queue.DefaultGroupPatience)
	if got := o.round(); !strings.Contains(got, "b placed on n0") || o.loop.State().Keeps() != 0 {
		t.Errorf("%q; room is kept for %d groups", got, o.loop.State().Keeps())
	}
}

// TestRoomIsOfOnePodGroup has another PodGroup of the same name take the place of the one that room is kept for: that room is given up.
func TestRoomIsOfOnePodGroup(t *testing.T) {
	o := newOvertaking(t)
	if n := o.overtake(2 * queue.DefaultGroupPatience); n != 1 {
		t.Fatalf("room is kept for %d groups", n)
	}
	another := gang(2)
	another.UID = "uid-another"
	o.changes.Remove(model.GroupKey{Namespace: "default", Name: "g"}.Ref())
	o.changes.Set(another)
	o.now = o.now.Add(time.Second)
	o.once()
	if n := o.loop.State().Keeps(); n != 0 {
		t.Errorf("room is kept for %d groups", n)
	}
}

// TestNoRoomEvenWithoutLater has a gang wait for room that pods have which came before it: none is kept, and none is looked for until it has had patience once more.
func TestNoRoomEvenWithoutLater(t *testing.T) {
	o := newOvertaking(t)
	o.now = o.now.Add(-time.Hour) // when the pods were created that are there from now on
	for range 2 {
		o.overtake(0)
	}
	o.now = o.now.Add(time.Hour)
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", i)).Ref())
	}
	o.changes.Remove(model.Ref{Kind: model.NodeKind, Name: "n1"})
	if n := o.overtake(2 * queue.DefaultGroupPatience); n != 0 {
		t.Errorf("room is kept for %d groups", n)
	}
	for range 2 { // pods that came later take the place of these: the gang is looked for room again after its patience
		if n := o.overtake(15 * time.Second); n != 0 {
			t.Errorf("room is kept for %d groups, and the gang rests", n)
		}
	}
	if n := o.overtake(queue.DefaultGroupPatience); n != 1 {
		t.Errorf("room is kept for %d groups after the rest", n)
	}
}

// TestNextEndOfRoom has a round when the room of a group is to be given up, whether or not there is another reason for one, and whichever of two groups comes first.
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
	g.loop.KeepFor(group("g"), nil, g.now.Add(2*time.Hour))
	expect(g.now.Add(2 * time.Hour))
	g.loop.KeepFor(group("h"), nil, g.now.Add(3*time.Hour))
	expect(g.now.Add(2 * time.Hour))
	g.loop.KeepFor(group("h"), nil, g.now.Add(time.Hour))
	expect(g.now.Add(time.Hour))
}
