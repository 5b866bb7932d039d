package queue

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// newWakingQueue has groups that events wake.
func newWakingQueue(t *testing.T, more ...*plugin.PreEnqueue) *groupQueue {
	t.Helper()
	g := newGroupQueue(t, more...)
	g.config.GroupPatience = DefaultGroupPatience
	return g
}

// roomComes is an event that helps every pod that Fit rejected.
func (g *groupQueue) roomComes(seconds float64) {
	g.Helper()
	g.now = at(seconds)
	g.hears(podDeleted)
}

// rejected pops and rejects the group g at each of the times. The last time follows from
// an event or the end of a backoff.
func (g *groupQueue) rejected(times ...float64) {
	g.Helper()
	for _, seconds := range times {
		g.now = at(seconds)
		work, text := g.pop()
		if work.Group == nil {
			g.Fatalf("at %v s: popped %q, want a group", seconds, text)
		}
		g.settle(work, plan.Unschedulable)
	}
}

// TestEventWakesAGroup: a group that was retried only by backoff is ready at once. It has
// its place in the order of turns, before newer pods.
func TestEventWakesAGroup(t *testing.T) {
	g := newWakingQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "m", 0))
	g.rejected(0, 2, 5, 10)
	g.roomComes(11)
	g.now = at(11.5)
	g.apply(model.Change{Kind: model.PodSet, Pod: pod("newer", 0)})
	work, text := g.pop()
	if text != "g: m5" {
		t.Fatalf("popped %q when room came, want the group", text)
	}
	if got, want := work.Members[0].Woken, (plan.Woken{Event: victimGone, Plugin: "Fit"}); got != want {
		t.Errorf("the group is woken by %+v, want %+v", got, want)
	}
	g.settle(work, plan.Unschedulable)
	if _, text := g.pop(); text != "newer1" {
		t.Errorf("popped %q next, want the newer pod", text)
	}
}

// TestEventEndsNoBackoffOfAGroup: after an attempt that an event caused, the next event
// waits for the end of the backoff, unless nothing else is ready.
func TestEventEndsNoBackoffOfAGroup(t *testing.T) {
	for _, busy := range []bool{true, false} {
		g := newWakingQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "m", 0))
		g.rejected(0)
		g.roomComes(3) // and the backoff is over
		g.rejected(3)  // until 5
		g.roomComes(3.5)
		if got := g.places("m"); got != "backing off" || g.Counts().BackingOff != 1 {
			t.Fatalf("the group is %s, %+v", got, g.Counts())
		}
		g.apply(podLeaves("none"), memberOf("g", "gated", 0, "gate"))
		if got := g.places("m"); got != "gated" {
			t.Errorf("with a gated member the group is %s", got)
		}
		g.apply(podLeaves("gated"))
		want := "g: m3"
		if busy {
			g.apply(model.Change{Kind: model.PodSet, Pod: pod("other", 0)})
			want = "other1"
		}
		if _, text := g.pop(); text != want {
			t.Errorf("others are ready: %t: popped %q, want %q", busy, text, want)
		}
		if g.now = at(6); busy {
			if _, text := g.pop(); text != "g: m3" {
				t.Errorf("popped %q when the backoff was over, want the group", text)
			}
		}
	}
}

// TestEventsWakeNoGroup: events do not help a group whose attempt ended in an error,
// whose members no plugin rejected, or whose patience is unlimited. Earlier events do not
// help either.
func TestEventsWakeNoGroup(t *testing.T) {
	for name, outcome := range map[string]plan.Outcome{"error": plan.Failed, "no patience": plan.Unschedulable, "no plugin": plan.Unschedulable} {
		g := newWakingQueue(t)
		if name == "no patience" {
			g.config.GroupPatience = 0
		}
		g.apply(podGroup("g", 1, 0), memberOf("g", "m", 0))
		if name == "error" {
			g.rejected(0)
			g.now = at(2)
		}
		work, _ := g.pop()
		if name == "no plugin" {
			work.Conclude(plan.Decision{Outcome: outcome, Rejection: &plan.Rejection{Group: "no"}})
			g.Settle(g.now, work)
		} else {
			g.settle(work, outcome)
		}
		g.roomComes(g.now.Sub(start).Seconds() + 0.5)
		if _, text := g.pop(); text != "" {
			t.Errorf("%s: popped %q", name, text)
		}
	}
}

// TestUpdateWakesAGroup: an update of a rejected member is handled like an update of a
// parked pod.
func TestUpdateWakesAGroup(t *testing.T) {
	g := newWakingQueue(t)
	g.profiles[""].registered["Fit"] = append(g.profiles[""].registered["Fit"], model.EventToRegister{Resource: model.TargetPodEvent, Actions: model.UpdatePodLabel})
	g.apply(podGroup("g", 1, 0), memberOf("g", "m", 0))
	g.rejected(0, 2)
	g.now = at(3)
	g.apply(memberOf("g", "m", 0))
	if _, text := g.pop(); text != "" {
		t.Fatalf("popped %q after an update without a change", text)
	}
	g.apply(memberOf("g", "m", 0, "other"))
	if _, text := g.pop(); text != "g: m3" {
		t.Errorf("popped %q after a change of labels, want the group", text)
	}
}

// TestGroupAwaitsItsVictims: a preempting group is woken when its last victim is gone,
// and not before. A group whose preemption failed waits for none.
func TestGroupAwaitsItsVictims(t *testing.T) {
	leaves := func(name string) state.Delta {
		return state.Delta{Events: []model.Event{{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: onNode(pod(name, 0))}}}
	}
	for _, broken := range []error{nil, errors.New("forbidden")} {
		g := newWakingQueue(t, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
		g.apply(podGroup("g", 1, 9), memberOf("g", "m", 9))
		g.rejected(0)
		g.now = at(2)
		work, _ := g.pop()
		g.preempts(work, "v", "w")
		g.hears(ended(work.First(), false, broken))
		g.hears(terminates("w"))
		if broken != nil {
			g.rejected(2)
		}
		for i, name := range []string{"v", "w"} {
			g.now = at(2.1 + float64(i))
			g.hears(leaves(name))
			want := map[bool][]string{true: {"", "g: m3"}, false: {"g: m4", ""}}[broken == nil][i]
			if _, text := g.pop(); text != want {
				t.Errorf("evictions ended with %v, %s is gone: popped %q, want %q", broken, name, text, want)
			}
		}
	}
}

// TestHeldGroupsRememberEvents: an event that helps a gated group wakes it when it is no
// longer gated. After an attempt the event is forgotten.
func TestHeldGroupsRememberEvents(t *testing.T) {
	for _, row := range []struct {
		name             string
		hold, event, end func(g *groupQueue)
	}{
		{
			"while its evictions are sent", func(g *groupQueue) {},
			func(g *groupQueue) { g.roomComes(0.2) }, func(g *groupQueue) { g.hears(terminates("w")) },
		},
		{
			"while a member is held",
			func(g *groupQueue) { g.hears(terminates("w")); g.apply(memberOf("g", "held", 0, "gate")) },
			func(g *groupQueue) { g.roomComes(0.2) }, func(g *groupQueue) { g.apply(podLeaves("held")) },
		},
		{
			"the end of its victims, while a member is held", func(g *groupQueue) { g.apply(memberOf("g", "held", 0, "gate")) },
			func(g *groupQueue) { g.hears(victimLeft("v", "w")) },
			func(g *groupQueue) { g.hears(terminates("w")); g.apply(podLeaves("held")) },
		},
		{
			"while members are missing", func(g *groupQueue) { g.hears(terminates("w")); g.apply(podLeaves("n")) },
			func(g *groupQueue) { g.roomComes(0.2) }, func(g *groupQueue) { g.apply(memberOf("g", "o", 0)) },
		},
	} {
		for _, helped := range []bool{true, false} {
			g := newWakingQueue(t, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
			g.apply(podGroup("g", 2, 9), memberOf("g", "m", 9), memberOf("g", "n", 9))
			g.now = at(0.1)
			work, _ := g.pop()
			g.preempts(work, "v", "w")
			row.hold(g)
			if helped {
				row.event(g)
			}
			if got := g.places("m"); got != "gated" {
				t.Fatalf("%s: the group is %s", row.name, got)
			}
			row.end(g)
			want := map[bool]string{true: "backing off", false: "backing off after an error"}[helped]
			if got := g.head("g").place.String(); got != want {
				t.Errorf("%s: with an event (%t) the group is %s then, want %s", row.name, helped, got, want)
			}
			if work, ok := g.Pop(g.now); ok != helped {
				t.Errorf("%s: with an event (%t) the group is tried: %t", row.name, helped, ok)
			} else if ok {
				g.settle(work, plan.Unschedulable)
			}
			if got := g.head("g").place.String(); got != "backing off after an error" {
				t.Errorf("%s: after its attempt the group is %s", row.name, got)
			}
		}
	}
}

// TestEventsWakeNoGroupWhoseBindingFails: a binding that failed twice is not retried
// before the end of the backoff, whether an event helps the group before or after the
// failure.
func TestEventsWakeNoGroupWhoseBindingFails(t *testing.T) {
	for _, before := range []bool{true, false} {
		g := newWakingQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
		work, _ := g.pop()
		g.settle(work, plan.Placed, "a")
		g.fails(work, "a")
		work, _ = g.pop()
		g.settle(work, plan.Placed, "a")
		g.rejected(0) // b
		g.now = at(0.2)
		if before {
			g.roomComes(0.2)
		}
		g.fails(work, "a")
		if !before {
			g.roomComes(0.2)
		}
		if _, text := g.pop(); text != "" {
			t.Errorf("an event before the failure: %t; popped %q at once", before, text)
		}
		g.now = at(4)
		if _, text := g.pop(); text != "g: b4 a3" && text != "g: a3 b4" {
			t.Errorf("an event before the failure: %t; popped %q after the backoff", before, text)
		}
	}
}

// TestReadyGroupBacksOffWhenABindingFails: a group is ready again after each attempt that
// placed only a single member of two. It is not retried before the end of the backoff of
// a binding that fails each time, such as for a pod whose deletion the watch has yet to
// show.
func TestReadyGroupBacksOffWhenABindingFails(t *testing.T) {
	g := newWakingQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
	attempts := 0
	for range 100 { // at one instant
		work, text := g.pop()
		if text == "" {
			break
		}
		attempts++
		g.settle(work, plan.Placed, "a")
		g.fails(work, "a")
	}
	if attempts != 2 {
		t.Errorf("%d attempts at one instant, want 2", attempts)
	}
	g.now = at(4)
	if _, text := g.pop(); text == "" {
		t.Error("the group is not tried after the backoff")
	}
}

// TestAnotherPodGroupRemembersNothing: an event that helped a gated PodGroup does not
// concern the PodGroup that replaces it.
func TestAnotherPodGroupRemembersNothing(t *testing.T) {
	for _, helped := range []bool{true, false} {
		g := newWakingQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "m", 0))
		g.rejected(0)
		g.apply(memberOf("g", "held", 0, "gate"))
		if helped {
			g.roomComes(0.1)
		}
		another := podGroup("g", 1, 0)
		another.Compiled.(*model.PodGroup).Object.UID = "another"
		g.apply(another)
		g.roomComes(0.2)
		g.apply(podLeaves("held"))
		if got := g.places("m"); got != "active" {
			t.Errorf("the members of another PodGroup are %s", got)
		}
	}
}

// TestMembersAreIndexedOnce: a member of a large group is gated and released, over and
// over. The other members are not indexed again.
func TestMembersAreIndexedOnce(t *testing.T) {
	const members = 1000
	g := newWakingQueue(t)
	changes := []model.Change{podGroup("g", 1, 0)}
	for i := range members {
		changes = append(changes, memberOf("g", fmt.Sprint("m", i), 0))
	}
	g.apply(changes...)
	g.rejected(0)
	for range 10 {
		g.Wake(g.now, g.State().Apply([]model.Change{memberOf("g", "one", 0, "gate")}))
		g.Wake(g.now, g.State().Apply([]model.Change{podLeaves("one")}))
	}
	if g.audited(); g.parked.parkings != members {
		t.Errorf("%d members were indexed %d times", members, g.parked.parkings)
	}
}

// TestGroupsMoveInSlices: a slice has fewer groups the more members they have, for events
// and for ends of backoffs.
func TestGroupsMoveInSlices(t *testing.T) {
	for what, move := range map[string]func(g *groupQueue){
		"an event": func(g *groupQueue) { g.roomComes(0.5) },
		"the end of a backoff": func(g *groupQueue) {
			g.now = at(3)
			g.pop()
		},
	} {
		g := newWakingQueue(t)
		for i := range 30 {
			name := fmt.Sprint("g", i)
			changes := []model.Change{podGroup(name, 1, 0)}
			for j := range 2 * membersPerMove {
				changes = append(changes, memberOf(name, fmt.Sprint(name, "-", j), 0))
			}
			g.apply(changes...)
		}
		for range 30 {
			g.rejected(0)
		}
		g.config.Slice = 30
		move(g)
		moved := 0
		for _, of := range g.groups {
			if of.head.place != errorBackoff {
				moved++
			}
		}
		if moved != 10 {
			t.Errorf("%s moves %d groups at once, want 10", what, moved)
		}
	}
}

// TestEarlyAttemptsOfGroupsAreLimited: each member counts as a pod. A group of a thousand
// may fail early once in five seconds.
func TestEarlyAttemptsOfGroupsAreLimited(t *testing.T) {
	g := newWakingQueue(t)
	changes := []model.Change{podGroup("g", 1, 0)}
	for i := range earlyBurst {
		changes = append(changes, memberOf("g", fmt.Sprint("m", i), 0))
	}
	g.apply(changes...)
	g.rejected(0)
	early := 0
	for i := 1; i <= 40; i++ { // every quarter of a second, until 10 s
		g.roomComes(float64(i) / 4)
		if work, ok := g.Pop(g.now); ok && g.head("g").early {
			early++
			g.settle(work, plan.Unschedulable)
		} else if ok {
			g.settle(work, plan.Unschedulable)
		}
	}
	if early < 1 || early > 3 {
		t.Errorf("%d attempts were early in ten seconds, want 1 to 3", early)
	}
}

// TestBurstOfWokenGroupsIsLimited: an event wakes 150 groups that have waited for long.
// After a hundred failed attempts, one for each ten members of the limit, a newer pod is
// next. The other groups are tried when their backoffs end. Successful attempts are not
// limited.
func TestBurstOfWokenGroupsIsLimited(t *testing.T) {
	const groups, members = 150, 10
	for outcome, want := range map[plan.Outcome]int{plan.Unschedulable: earlyBurst / members, plan.Placed: groups} {
		g := newWakingQueue(t)
		for i := range groups {
			name := fmt.Sprint("g", i)
			changes := []model.Change{podGroup(name, 1, 0)}
			for j := range members {
				changes = append(changes, memberOf(name, fmt.Sprint(name, "-", j), 0))
			}
			g.apply(changes...)
		}
		for _, seconds := range []float64{0, 2, 5} {
			if g.now = at(seconds); g.tryGroups(plan.Unschedulable) != groups {
				t.Fatalf("not all groups are tried by backoff at %v s", seconds)
			}
		}
		g.roomComes(7) // all back off until 9
		g.apply(model.Change{Kind: model.PodSet, Pod: pod("newer", 0)})
		if n := g.tryGroups(outcome); n != want {
			t.Errorf("%s: %d groups are tried before the newer pod, want %d", outcome, n, want)
		}
		g.now = at(20)
		if n := g.tryGroups(outcome); n != groups && outcome != plan.Placed {
			t.Errorf("%d groups are tried after the end of their backoff, want all %d", n, groups)
		}
	}
}

// tryGroups settles the groups that are ready, until another pod is next. It returns
// their number.
func (g *groupQueue) tryGroups(outcome plan.Outcome) (n int) {
	g.Helper()
	for ; ; n++ {
		work, ok := g.Pop(g.now)
		for !ok && g.Unfinished() {
			g.Wake(g.now, state.Delta{})
			work, ok = g.Pop(g.now)
		}
		if !ok || work.Group == nil {
			return n
		}
		var placed []string
		for _, p := range work.Members {
			if outcome == plan.Placed {
				placed = append(placed, p.Pod.Name)
			}
		}
		g.settle(work, outcome, placed...)
	}
}

// TestGroupWhoseVictimsLeftIsNotPostponed: the room is for this group, however many other
// attempts have failed early.
func TestGroupWhoseVictimsLeftIsNotPostponed(t *testing.T) {
	for _, wokenBefore := range []bool{false, true} {
		g := newWakingQueue(t, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
		g.apply(podGroup("g", 1, 9), memberOf("g", "m", 9))
		g.rejected(0, 2)
		g.now = at(5)
		work, _ := g.pop()
		g.preempts(work, "v")
		g.hears(ended(work.First(), false, nil))
		g.hears(terminates("v"))
		g.now = at(8) // the next attempt by backoff is at 9
		g.early.inVain(g.now, 2*earlyBurst)
		if wokenBefore {
			g.hears(podDeleted)
		}
		g.hears(state.Delta{Events: []model.Event{{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: onNode(pod("v", 0))}}})
		if _, text := g.pop(); text != "g: m4" {
			t.Errorf("woken before: %t: popped %q when the victim was gone, want the group", wokenBefore, text)
		}
	}
}

func (g *groupQueue) head(name string) *entry {
	return &g.groups[model.GroupKey{Namespace: "ns", Name: name}].head
}

// TestEventWakesOnlyGroupsThatItHelps: 5,000 groups wait for nodes of different pools. A
// node of one pool wakes one group, and calls one hint.
func TestEventWakesOnlyGroupsThatItHelps(t *testing.T) {
	const groups = 5000
	g := newWakingQueue(t)
	g.profiles[""].registered["Fit"] = poolEvents()
	for i := range groups {
		name := fmt.Sprint("g", i)
		g.Wake(g.now, g.State().Apply([]model.Change{podGroup(name, 1, 0), memberOf(name, "m"+name, 0, "pool-"+name), memberOf(name, "n"+name, 0, "pool-"+name)}))
	}
	for range groups {
		work, _ := g.Pop(g.now)
		RejectGroup(work, "Fit")
		g.Settle(g.now, work)
	}
	g.now = at(0.1)
	before := g.HintsAsked()
	g.apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("b", func(n *v1.Node) { n.Labels = map[string]string{"pool-g77": "yes"} }))})
	if asked := g.HintsAsked() - before; asked != 1 {
		t.Errorf("%d hints were called, want 1", asked)
	}
	if _, text := g.pop(); text != "g77: mg772 ng772" {
		t.Errorf("popped %q, want the group of the pool", text)
	}
	if _, text := g.pop(); text != "" {
		t.Errorf("popped %q next, want none", text)
	}
}

// poolEvents registers for new nodes with a label of the pod.
func poolEvents() []model.EventToRegister {
	keyOf := func(labels map[string]string) model.Key {
		for label := range labels {
			return model.Key{Name: label}
		}
		return model.Key{}
	}
	return []model.EventToRegister{{
		Resource: model.NodeEvent, Actions: model.Add,
		Hint: func(waiting *model.Pod, event model.Event) bool {
			return keyOf(waiting.Object.Labels) == keyOf(event.Node.Object.Labels)
		},
		Alike: func(pod *model.Pod) model.Need { return model.NeedOf(keyOf(pod.Object.Labels).Name) },
		Cause: func(pod *model.Pod) model.Cause {
			key := keyOf(pod.Object.Labels)
			return model.Cause{Wants: []model.Way{{{key}}}, Keys: []model.Key{key}}
		},
		Touches: func(event model.Event, to *model.Touch) { to.Has = append(to.Has, keyOf(event.Node.Object.Labels)) },
	}}
}
