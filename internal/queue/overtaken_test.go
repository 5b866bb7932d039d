package queue

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

func TestOvertaken(t *testing.T) {
	key := model.GroupKey{Namespace: "ns", Name: "g"}
	root := model.RootKey{Key: key}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := &Queue{config: Config{GroupPatience: time.Minute, MaxBackoff: 10 * time.Second, State: state.New()}, groups: map[model.GroupKey]*group{}}
	if q.IsOvertaken(now, root) || q.IsTried(root) || q.HoldTime(root, time.Minute) != time.Minute {
		t.Error("a group that does not wait is overtaken")
	}
	q.ReservationFailed(now, root, time.Minute)
	q.NoReservation(now, root)
	g := &group{key: key, members: map[model.PodKey]*entry{{Name: "a"}: {}, {Name: "b"}: {}, {Name: "c"}: {}, {Name: "d"}: {}}}
	q.groups[key] = g
	if q.IsOvertaken(now.Add(time.Hour), root) {
		t.Error("a group that was not rejected is overtaken")
	}
	for _, at := range []struct {
		place place
		gate  string
		want  bool
	}{{active, "", true}, {errorBackoff, "", true}, {deciding, "", true}, {gated, preemptionPlugin, true}, {gated, "GangScheduling", false}, {gated, "", false}, {incomplete, "", false}} {
		if g.head.place, g.gate = at.place, at.gate; q.IsTried(root) != at.want {
			t.Errorf("%v %q: the group is tried: %t", at.place, at.gate, !at.want)
		}
	}
	g.overtaken.since = now
	for after, want := range map[time.Duration]bool{0: false, time.Minute - 1: false, time.Minute: true, time.Hour: true} {
		if q.IsOvertaken(now.Add(after), root) != want {
			t.Errorf("after %s: overtaken is not %t", after, want)
		}
	}
	q.config.GroupPatience = 0
	if q.IsOvertaken(now.Add(time.Hour), root) {
		t.Error("overtaken without an end of patience")
	}
	q.config.GroupPatience = time.Minute
	// A search that finds no room is repeated after 1, 2, 4 ... 32, 32 minutes. It does
	// not change the duration of reservations.
	at := now.Add(time.Hour)
	for _, minutes := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		q.NoReservation(at, root)
		at = at.Add(minutes * time.Minute)
		if q.IsOvertaken(at.Add(-1), root) || !q.IsOvertaken(at, root) {
			t.Errorf("it is not looked for after %d minutes", minutes)
		}
	}
	for _, minutes := range []time.Duration{5, 10, 20, 40, 80, 160, 160} {
		if got := q.HoldTime(root, 5*time.Minute); got != minutes*time.Minute {
			t.Errorf("room is held for %s, want %d minutes", got, minutes)
		}
		q.ReservationFailed(at, root, 5*time.Minute)
		at = at.Add(minutes * time.Minute)
		if q.IsOvertaken(at.Add(-1), root) || !q.IsOvertaken(at, root) {
			t.Errorf("it does not give way for %d minutes", minutes)
		}
	}
	head := &entry{heads: g}
	if got := q.maxBackoff(head); got != 20*time.Second {
		t.Errorf("four members back off for %s", got)
	}
	q.config.State.HoldRoom(root, []model.GroupKey{key}, nil)
	if got := q.maxBackoff(head); got != 10*time.Second {
		t.Errorf("while room is held, they back off for %s", got)
	}
	if _, err := New(Config{State: state.New(), BackoffInitial: 1, MaxBackoff: 1, MaxParked: 1, GroupPatience: -1}); err == nil || err.Error() != "patience of pod groups -1ns: must not be negative" {
		t.Errorf("a negative patience: %v", err)
	}
}
