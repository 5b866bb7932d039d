package loop

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/internal/engine/group"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// Room for a group that others overtake. A group that needs much room at once is passed by pods that take what becomes free bit by bit, for ever if they keep
// coming. So a group that has been rejected for longer than it has patience is looked for room as if the pods were gone that came after it. If there is room then, it
// is kept: from then on pods that do not outrank the group leave it, on those nodes and nowhere else, as they would for nominated pods, and it becomes free as they
// end. After a while the group gives way for as long, so that nobody waits for ever, and then room is kept for twice as long.
//
// All of it is in memory alone, and no pod is evicted: not for the group, nor for a pod that leaves it room. Groups cannot block each other for ever:
// each gives its room up in time.

const (
	// keptFirst is how long room is kept for a group the first time.
	keptFirst = 5 * time.Minute
	// mostKept is for how many groups room is kept at a time.
	mostKept = 4
	// searchEvery is how long no other group is looked for room at least after one was, restPerMoved for how long besides for each pod that was moved for that: ten times
	// as long as it takes to take a pod off its node and put it back.
	searchEvery, restPerMoved = time.Second, 200 * time.Microsecond
)

// keeping is what the loop knows of the room that is kept for groups.
type keeping struct {
	groups []keptFor // in the order in which it was found
	// rests is until when no group is looked for room.
	rests time.Time
}

// keptFor is a group that room is kept for, until a time.
type keptFor struct {
	group *model.PodGroup
	until time.Time
}

// next returns when room is next given up.
func (k *keeping) next() (at time.Time, ok bool) {
	for i := range k.groups {
		if until := k.groups[i].until; !ok || until.Before(at) {
			at, ok = until, true
		}
	}
	return at, ok
}

// endKeeping gives up the room of groups whose time is over, that are gone, or that cannot start: members are missing, or held. It reports whether there were any.
func (l *Loop) endKeeping(now time.Time) bool {
	before := len(l.kept.groups)
	l.kept.groups = slices.DeleteFunc(l.kept.groups, func(k keptFor) bool {
		key := k.group.Key
		object := l.state.View().Group(key)
		over := !now.Before(k.until)
		if !over && object != nil && object.UID() == k.group.UID() && l.queue.IsTried(key) {
			return false
		}
		l.state.GiveWay(key)
		if over {
			l.queue.KeptInVain(now, key, keptFirst)
		}
		return true
	})
	return len(l.kept.groups) < before
}

// keepRoom keeps room for a group that has just been rejected, if it is overtaken and would have room otherwise. The room is given up when the group is placed, or
// pods are evicted for it.
func (l *Loop) keepRoom(now time.Time, d *plan.GroupDecision) {
	if d.Tree != nil { // the room of a tree is not kept
		return
	}
	key := d.Group.Key
	if l.state.KeepsFor(key) {
		if d.Outcome == plan.Placed || d.Waits() {
			l.state.GiveWay(key)
			l.kept.groups = slices.DeleteFunc(l.kept.groups, func(k keptFor) bool { return k.group.Key == key })
		}
		return
	}
	if d.Outcome != plan.Unschedulable || d.Waits() || len(l.kept.groups) == mostKept || !l.queue.IsOvertaken(now, key) || now.Before(l.kept.rests) {
		return
	}
	room, moved := group.Room(l.state, l.engine, d)
	l.kept.rests = now.Add(searchEvery + time.Duration(moved)*restPerMoved) // now is when the round began
	if len(room) == 0 {
		l.queue.SoughtInVain(now, key)
		return
	}
	l.state.Keep(key, room)
	l.kept.groups = append(l.kept.groups, keptFor{d.Group, now.Add(l.queue.KeepsFor(key, keptFirst))})
}
