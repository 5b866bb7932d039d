package loop

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/gang"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Small pods can starve a group that needs much space at once: each takes what becomes
// free before the group can use it. So for a group that stays rejected longer than its
// patience, the loop computes a placement as if pods that came later were gone. If the
// members fit, the nodes of this placement are reserved: pods that do not outrank the
// group leave room there, as for nominated pods. The space becomes free as running pods
// end. After a while the reservation ends, and none follows for an equally long time, so
// that no pod waits for ever. The next reservation lasts twice as long.
//
// Reservations are kept in memory only. No pod is evicted: neither for the group nor for
// a pod that leaves room. Groups cannot block each other for ever, because each
// reservation ends.

const (
	// firstHold is the duration of a group's first reservation.
	firstHold = 5 * time.Minute
	// maxHolds bounds the number of reservations at a time.
	maxHolds = 4
	// searchEvery is the minimal pause between two searches for room. restPerMoved
	// extends it for each pod that the search moved: ten times the cost of taking a pod
	// off its node and putting it back.
	searchEvery, restPerMoved = time.Second, 200 * time.Microsecond
)

// roomHolds holds the reservations for groups.
type roomHolds struct {
	groups []roomHold // in the order of their reservations
	// rests is the earliest time of the next search.
	rests time.Time
}

// roomHold is the reservation for a group or a tree. uid is the UID of the PodGroup, or
// of the CompositePodGroup at the top.
type roomHold struct {
	root  model.RootKey
	uid   types.UID
	until time.Time
}

// next returns when the next reservation ends.
func (k *roomHolds) next() (at time.Time, ok bool) {
	for i := range k.groups {
		if until := k.groups[i].until; !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// endRoomHolds ends reservations that have expired, whose group is gone, or whose group
// cannot start because members are missing or gated. It reports whether any ended.
func (l *Loop) endRoomHolds(now time.Time) bool {
	before := len(l.holds.groups)
	l.holds.groups = slices.DeleteFunc(l.holds.groups, func(k roomHold) bool {
		over := !now.Before(k.until)
		if !over && l.isThere(&k) && l.queue.IsTried(k.root) {
			return false
		}
		l.state.EndRoomHold(k.root)
		if over {
			l.queue.ReservationFailed(now, k.root, firstHold)
		}
		return true
	})
	return len(l.holds.groups) < before
}

// isThere reports whether the object of a reservation still exists.
func (l *Loop) isThere(k *roomHold) bool {
	if k.root.Composite {
		object := l.state.View().Composite(k.root.Key)
		return object != nil && object.UID() == k.uid
	}
	object := l.state.View().Group(k.root.Key)
	return object != nil && object.UID() == k.uid
}

// holdRoom reserves room for a group or a tree that was just rejected, if it is overtaken
// and would have room without the later pods. A reservation ends when the group is
// placed, or when pods are evicted for it.
func (l *Loop) holdRoom(now time.Time, a *plan.Attempt) {
	if a.Group == nil {
		return
	}
	root := a.Root()
	if l.state.HoldsRoomFor(root) {
		if a.Outcome == plan.Placed || a.Waits() {
			l.state.EndRoomHold(root)
			l.holds.groups = slices.DeleteFunc(l.holds.groups, func(k roomHold) bool { return k.root == root })
		}
		return
	}
	if a.Outcome != plan.Unschedulable || a.Waits() || len(l.holds.groups) == maxHolds || !l.queue.IsOvertaken(now, root) || now.Before(l.holds.rests) {
		return
	}
	groups := []model.GroupKey{root.Key}
	if a.Tree != nil {
		groups = nil
		for group := range a.Tree.Leaves {
			groups = append(groups, group.Key)
		}
	}
	// it has just joined or left a tree
	if slices.ContainsFunc(groups, l.state.HoldsRoomForMembers) {
		return
	}
	room, moved := gang.Room(l.state, l.engine, a)
	// now is the beginning of the round
	l.holds.rests = now.Add(searchEvery + time.Duration(moved)*restPerMoved)
	if len(room) == 0 {
		l.queue.NoReservation(now, root)
		return
	}
	l.state.HoldRoom(root, groups, room)
	l.holds.groups = append(l.holds.groups, roomHold{root, a.Group.UID(), now.Add(l.queue.HoldTime(root, firstHold))})
}
