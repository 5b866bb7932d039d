package loop

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

// keptFor is a group or a tree that room is kept for, until a time. uid is that of the PodGroup, or of the CompositePodGroup at the top.
type keptFor struct {
	root  model.RootKey
	uid   types.UID
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
		over := !now.Before(k.until)
		if !over && l.isThere(&k) && l.queue.IsTried(k.root) {
			return false
		}
		l.state.GiveWay(k.root)
		if over {
			l.queue.KeptInVain(now, k.root, keptFirst)
		}
		return true
	})
	return len(l.kept.groups) < before
}

// isThere reports whether the object that room is kept for exists.
func (l *Loop) isThere(k *keptFor) bool {
	if k.root.Composite {
		object := l.state.View().Composite(k.root.Key)
		return object != nil && object.UID() == k.uid
	}
	object := l.state.View().Group(k.root.Key)
	return object != nil && object.UID() == k.uid
}

// keepRoom keeps room for a group or a tree that has just been rejected, if it is overtaken and would have room otherwise. The room is given up when the group is placed, or
// pods are evicted for it.
func (l *Loop) keepRoom(now time.Time, d *plan.GroupDecision) {
	root := d.Root()
	if l.state.KeepsFor(root) {
		if d.Outcome == plan.Placed || d.Waits() {
			l.state.GiveWay(root)
			l.kept.groups = slices.DeleteFunc(l.kept.groups, func(k keptFor) bool { return k.root == root })
		}
		return
	}
	if d.Outcome != plan.Unschedulable || d.Waits() || len(l.kept.groups) == mostKept || !l.queue.IsOvertaken(now, root) || now.Before(l.kept.rests) {
		return
	}
	groups := []model.GroupKey{root.Key}
	if d.Tree != nil {
		groups = nil
		for group := range d.Tree.Leaves {
			groups = append(groups, group.Key)
		}
	}
	if slices.ContainsFunc(groups, l.state.KeepsForMembers) { // it has just become part of a tree, or is no longer
		return
	}
	room, moved := group.Room(l.state, l.engine, d)
	l.kept.rests = now.Add(searchEvery + time.Duration(moved)*restPerMoved) // now is when the round began
	if len(room) == 0 {
		l.queue.SoughtInVain(now, root)
		return
	}
	l.state.Keep(root, groups, room)
	l.kept.groups = append(l.kept.groups, keptFor{root, d.Group.UID(), now.Add(l.queue.KeepsFor(root, keptFirst))})
}
