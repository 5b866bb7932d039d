package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/gangscheduling"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// groupQueue is a queue whose pods may be members of groups, with its state.
type groupQueue struct {
	*testing.T
	*Queue
	now time.Time
}

// newGroupQueue has the given PreEnqueue plugins in addition to those for gates and
// gangs.
func newGroupQueue(t *testing.T, more ...*plugin.PreEnqueue) *groupQueue {
	t.Helper()
	q, err := New(Config{
		Profiles: []*plugin.Profile{{QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: append([]*plugin.PreEnqueue{plugintest.PartsOf(gate{}).PreEnqueue, plugintest.PartsOf(gangscheduling.New()).PreEnqueue}, more...), EnqueueExtensions: plugintest.Registering(&fit{})}},
		Groups:   true, BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &groupQueue{T: t, Queue: q, now: start}
	g.apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.Allocatable("pods=99")))})
	return g
}

// apply applies changes and wakes the queue.
func (g *groupQueue) apply(changes ...model.Change) {
	g.Helper()
	g.State().SetNow(g.now)
	g.Wake(g.now, g.State().Apply(changes))
	g.audited()
}

func (g *groupQueue) audited() {
	g.Helper()
	if err := g.Audit(); err != nil {
		g.Fatal(err)
	}
}

// podGroup is a PodGroup with a minCount.
func podGroup(name string, minCount, priority int32) model.Change {
	object := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	object.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	object.Spec.Priority = &priority
	return model.Change{Kind: model.ObjectSet, Compiled: model.NewPodGroup(object)}
}

func groupGone(name string) model.Change {
	return model.Change{Kind: model.ObjectGone, Ref: model.GroupKey{Namespace: "ns", Name: name}.Ref()}
}

// memberOf is a pod of a group. Its labels may gate it.
func memberOf(group, name string, priority int32, labels ...string) model.Change {
	object := pod(name, priority).Object.DeepCopy()
	object.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
	for _, label := range labels {
		object.Labels = map[string]string{label: "yes"}
	}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(object)}
}

func podLeaves(name string) model.Change {
	return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: "ns", Name: name}}
}

// places returns the places of pods.
func (g *groupQueue) places(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, g.PlaceOf(model.PodKey{Namespace: "ns", Name: name}))
	}
	return strings.Join(all, ", ")
}

// pop takes the next work, and returns a description.
func (g *groupQueue) pop() (*plan.Attempt, string) {
	g.Helper()
	g.SetNow()
	work, ok := g.Pop(g.now)
	if !ok {
		return work, ""
	}
	text := ""
	if work.Group != nil {
		text = work.Group.Key.Name + ":"
	}
	for _, p := range work.Members {
		text += fmt.Sprint(" ", p.Pod.Name, p.Attempt)
		if !p.Popped.Equal(g.now) || p.Since.IsZero() {
			g.Errorf("pod %s is popped at %v, and could be tried since %v", p.Pod, p.Popped, p.Since)
		}
	}
	g.audited()
	return work, strings.TrimSpace(text)
}

// SetNow sets the time of the state.
func (g *groupQueue) SetNow() { g.State().SetNow(g.now) }

// settle ends the turn of a group. The named members are placed on the node a. The others
// are unschedulable if the group is placed, and otherwise have its outcome.
func (g *groupQueue) settle(work *plan.Attempt, outcome plan.Outcome, placed ...string) {
	g.Helper()
	work.Outcome = outcome
	for i := range work.Members {
		m := &work.Members[i]
		m.Outcome = outcome
		switch {
		case slices.Contains(placed, m.Pod.Name):
			m.Outcome = plan.Placed
			m.Placement = plan.Placement{Pod: m.Pod, NodeName: "a"}
			g.State().Assume(m.Placement)
		case outcome == plan.Placed, outcome == plan.Unschedulable:
			m.Outcome, m.Rejection = plan.Unschedulable, &plan.Rejection{Plugins: []string{"Fit"}}
		}
	}
	g.Settle(g.now, work)
	g.audited()
}

// preempts ends the turn of a group with evictions.
func (g *groupQueue) preempts(work *plan.Attempt, victims ...string) {
	g.Helper()
	RejectGroup(work, "Fit")
	for _, name := range victims {
		work.Members[0].Evictions = append(work.Members[0].Evictions, plan.Eviction{Pod: pod(name, 0), NodeName: "a"})
	}
	g.Settle(g.now, work)
	g.audited()
}

// hears wakes the queue with the results of evictions.
func (g *groupQueue) hears(delta state.Delta) {
	g.Helper()
	g.SetNow()
	g.Wake(g.now, delta)
	g.audited()
}

// fails has a member's binding fail.
func (g *groupQueue) fails(work *plan.Attempt, name string) {
	g.Helper()
	for _, p := range work.Members {
		if p.Pod.Name == name {
			g.apply(model.Change{Kind: model.BindDone, Bind: &model.BindingResult{Pod: p.Pod, NodeName: "a", Err: errors.New("no")}})
		}
	}
}

// TestTurnAfterAPlacedGroup has a member that arrives after the turn of its group. If all
// pods were placed, the group starts a new wait behind later arrivals. If some members
// still wait, the group keeps its place, and their wait continues. After a rejection both
// start a new wait.
func TestTurnAfterAPlacedGroup(t *testing.T) {
	for _, row := range []struct {
		outcome plan.Outcome
		placed  []string
		next    string
		since   float64 // when the wait of pod b began
	}{
		{plan.Placed, []string{"a", "b"}, "p1", 0},
		{plan.Placed, []string{"a"}, "g: b2 c1", 0},
		{plan.Unschedulable, nil, "p1", 1},
	} {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
		work, _ := g.pop()
		g.now = at(0.5)
		g.apply(model.Change{Kind: model.PodSet, Pod: pod("p", 0)})
		g.now = at(1)
		g.settle(work, row.outcome, row.placed...)
		d, waits := g.Describe(g.now, model.PodKey{Namespace: "ns", Name: "b"})
		if !d.Since.Equal(at(row.since)) {
			t.Errorf("%s, %v placed: b waits since %v", row.outcome, row.placed, d.Since.Sub(start))
		}
		if waits && d.Group != nil && d.Group.Placed != len(row.placed) {
			t.Errorf("%s, %v placed: described as %d", row.outcome, row.placed, d.Group.Placed)
		}
		g.now = at(10)
		g.apply(memberOf("g", "c", 0))
		if _, text := g.pop(); text != row.next {
			t.Errorf("%s, %v placed: popped %q, want %q", row.outcome, row.placed, text, row.next)
		}
	}
}

// TestWhereAGroupWaits: events of its members and its PodGroup determine the place of a
// group.
func TestWhereAGroupWaits(t *testing.T) {
	g := newGroupQueue(t)
	for i, step := range []struct {
		change model.Change
		want   string // places of a, b and c
		counts Counts
	}{
		{memberOf("g", "a", 0), "incomplete, , ", Counts{Incomplete: 1}},
		{memberOf("g", "b", 0), "incomplete, incomplete, ", Counts{Incomplete: 2}},
		{podGroup("g", 3, 0), "gated, gated, ", Counts{Gated: 2}},
		{memberOf("g", "c", 0), "active, active, active", Counts{Active: 3}},
		{podGroup("g", 4, 0), "gated, gated, gated", Counts{Gated: 3}},
		{podGroup("g", 3, 0), "active, active, active", Counts{Active: 3}},
		{groupGone("g"), "incomplete, incomplete, incomplete", Counts{Incomplete: 3}},
		{podGroup("g", 3, 0), "active, active, active", Counts{Active: 3}},
		{memberOf("g", "d", 0, "gate"), "gated, gated, gated", Counts{Gated: 4}},
		// see below
		{memberOf("g", "d", 0, "other"), "gated, gated, gated", Counts{Gated: 4}},
		{podLeaves("d"), "active, active, active", Counts{Active: 3}},
		{memberOf("h", "x", 0, "gate"), "active, active, active", Counts{Active: 3, Gated: 1}},
		{podLeaves("b"), "gated, , gated", Counts{Gated: 3}},
		{model.Change{Kind: model.PodSet, Pod: onNode(memberOf("g", "r", 0).Pod)}, "active, , active", Counts{Active: 2, Gated: 1}},
		{podLeaves("a"), ", , gated", Counts{Gated: 2}},
		{podLeaves("c"), ", , ", Counts{Gated: 1}},
		{podLeaves("x"), ", , ", Counts{}},
	} {
		if i == 9 { // without its label the pod is no longer gated
			step.change = memberOf("g", "d", 0)
			step.want, step.counts = "active, active, active", Counts{Active: 4}
		}
		g.apply(step.change)
		if got := g.places("a", "b", "c"); got != step.want || g.Counts() != step.counts {
			t.Errorf("step %d: %s, %+v; want %s, %+v", i, got, g.Counts(), step.want, step.counts)
		}
	}
	if len(g.groups) > 0 {
		t.Errorf("%d groups are remembered", len(g.groups))
	}
}

func onNode(p *model.Pod) *model.Pod {
	object := p.Object.DeepCopy()
	object.Spec.NodeName = "a"
	return model.NewPod(object)
}

// TestTurnsOfGroups: a group has its turn by its own priority and the arrival of its
// first member. Its members are in kube-scheduler's order.
func TestTurnsOfGroups(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("low", 1, 0), podGroup("high", 2, 9), podGroup("same", 1, 5))
	for i, change := range []model.Change{
		memberOf("low", "z", 0), {Kind: model.PodSet, Pod: pod("single", 5)}, memberOf("same", "m", 5), memberOf("high", "q", 9), memberOf("high", "p", 9), memberOf("low", "y", 0), {Kind: model.PodSet, Pod: pod("last", 0)},
	} {
		g.now = at(float64(i))
		g.apply(change)
	}
	var turns []string
	for {
		work, text := g.pop()
		if text == "" {
			break
		}
		turns = append(turns, text)
		if work.Group == nil {
			SettlePod(g.Queue, g.now, work, plan.Decision{Outcome: plan.Terminating})
			continue
		}
		if got := g.PlaceOf(work.First().Key()); got != "deciding" {
			t.Errorf("%s is %s", work.First(), got)
		}
		g.settle(work, plan.Terminating)
	}
	if got, want := strings.Join(turns, ", "), "high: q1 p1, single1, same: m1, low: z1 y1, last1"; got != want {
		t.Errorf("turns: %s, want %s", got, want)
	}
	if len(g.groups)+len(g.entries) > 0 {
		t.Errorf("%d groups and %d pods are remembered", len(g.groups), len(g.entries))
	}
	// A group whose priority changes has its turn by the new priority.
	g.apply(memberOf("low", "a", 0), memberOf("same", "b", 0))
	g.apply(podGroup("low", 1, 7))
	if _, text := g.pop(); text != "low: a1" {
		t.Errorf("the turn is that of %s", text)
	}
}

// TestBackoffOfAGroup: the backoff doubles, up to the maximum of a pod times the root of
// the number of members. Errors count separately from rejections.
func TestBackoffOfAGroup(t *testing.T) {
	for _, outcome := range []plan.Outcome{plan.Unschedulable, plan.Failed} {
		for _, row := range []struct {
			members int
			want    []int
		}{{1, []int{1, 2, 4, 8, 10, 10}}, {3, []int{1, 2, 4, 8, 16, 17, 17}}, {4, []int{1, 2, 4, 8, 16, 20, 20}}} {
			g := newGroupQueue(t)
			g.apply(podGroup("g", 1, 0))
			for i := range row.members {
				g.apply(memberOf("g", fmt.Sprint("p", i), 0))
			}
			for n, want := range row.want {
				work, text := g.pop()
				if len(work.Members) != row.members || !strings.Contains(text, fmt.Sprint("p0", n+1)) {
					t.Fatalf("popped: %s", text)
				}
				g.settle(work, outcome)
				place := map[plan.Outcome]string{plan.Unschedulable: "backing off", plan.Failed: "backing off after an error"}[outcome]
				if got := g.places("p0"); got != place || g.Counts().BackingOff != row.members {
					t.Errorf("the group is %s, %+v", got, g.Counts())
				}
				before := g.now
				// the second of its end counts
				g.now = before.Add(time.Duration(want)*time.Second + 999*time.Millisecond)
				if _, text := g.pop(); text != "" {
					t.Fatalf("%s: %d members, attempt %d: popped before %d s are over", outcome, row.members, n+1, want)
				}
				g.now = g.now.Add(time.Millisecond)
			}
		}
	}
}

// TestBackoffOfAGroupThatShrinks: the backoff depends on the number of members at the
// attempt. A clock that is set back to before the attempt ends it.
func TestBackoffOfAGroupThatShrinks(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0), memberOf("g", "c", 0), memberOf("g", "d", 0))
	for range 6 { // the last backoff lasts for 20 s
		work, _ := g.pop()
		g.settle(work, plan.Unschedulable)
		g.now = g.now.Add(time.Minute)
	}
	g.now = g.now.Add(-time.Minute)
	g.apply(podLeaves("b"), podLeaves("c"), podLeaves("d"))
	for _, row := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {8 * time.Second, ""}, {20*time.Second + 999*time.Millisecond, ""}, {21 * time.Second, "g: a7"}} {
		h := g.now
		g.now = g.now.Add(row.after)
		g.hears(state.Delta{Groups: []model.GroupKey{{Namespace: "default", Name: "g"}}})
		if _, text := g.pop(); text != row.want {
			t.Errorf("popped %s after the attempt: %q, want %q", row.after, text, row.want)
		}
		g.now = h
	}

	g = newGroupQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0))
	work, _ := g.pop()
	g.settle(work, plan.Unschedulable)
	g.now = g.now.Add(-time.Hour)
	g.hears(state.Delta{Groups: []model.GroupKey{{Namespace: "default", Name: "g"}}})
	if _, text := g.pop(); text != "g: a2" {
		t.Errorf("popped when the clock was set back: %q, want g: a2", text)
	}
}

// TestBackoffOfAGroupCreatedAnew: attempts of a deleted PodGroup do not count for its
// namesake.
func TestBackoffOfAGroupCreatedAnew(t *testing.T) {
	other := podGroup("g", 1, 0)
	other.Compiled.(*model.PodGroup).Object.UID = "other"
	for i, outcome := range []plan.Outcome{plan.Unschedulable, plan.Failed, plan.Unschedulable, plan.Failed} {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0))
		for range 3 { // the next backoff would last for 8 s
			work, _ := g.pop()
			g.settle(work, outcome)
			g.now = g.now.Add(time.Minute)
		}
		work, _ := g.pop()
		g.settle(work, outcome)
		g.apply(podGroup("g", 1, 0))
		if _, text := g.pop(); text != "" {
			t.Fatalf("%s: popped with the same PodGroup: %q", outcome, text)
		}
		if i < 2 {
			g.apply(groupGone("g"))
			g.apply(podGroup("g", 1, 0))
		} else { // the watch missed the deletion
			g.apply(other)
		}
		work, text := g.pop()
		if text != "g: a5" {
			t.Fatalf("%s: popped: %q, want %q", outcome, text, "g: a5")
		}
		g.settle(work, outcome)
		g.now = g.now.Add(2 * time.Second)
		if _, text := g.pop(); text != "g: a6" {
			t.Errorf("%s: popped when the first backoff has ended: %q, want %q", outcome, text, "g: a6")
		}
	}
}

// TestOrderOfMembersThatArriveAtOnce: members are tried in the order of their arrival,
// whatever their names.
func TestOrderOfMembersThatArriveAtOnce(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 3, 0), memberOf("g", "c", 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
	for _, want := range []string{"g: c1 a1 b1", "g: c2 a2 b2"} {
		work, text := g.pop()
		if text != want {
			t.Fatalf("popped: %q, want %q", text, want)
		}
		g.settle(work, plan.Unschedulable)
		g.now = g.now.Add(time.Minute)
	}
}

// TestTurnAfterAnAttempt: after its attempt, a group is behind all earlier arrivals, even
// at the same time.
func TestTurnAfterAnAttempt(t *testing.T) {
	for outcome, want := range map[plan.Outcome]string{plan.Unschedulable: "h: b1, g: a2", plan.Failed: "h: b1, g: a2", plan.Placed: "g: c2, h: b1"} {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 1, 0), podGroup("h", 1, 0), memberOf("g", "a", 0), memberOf("h", "b", 0, "gate"))
		// some members still wait, so the group keeps its turn
		if outcome == plan.Placed {
			g.apply(memberOf("g", "c", 0))
		}
		work, _ := g.pop()
		g.settle(work, outcome, map[plan.Outcome]string{plan.Placed: "a"}[outcome])
		g.apply(memberOf("h", "b", 0))
		g.now = g.now.Add(2 * time.Second)
		_, first := g.pop()
		_, second := g.pop()
		if got := first + ", " + second; got != want {
			t.Errorf("%s: turns: %s, want %s", outcome, got, want)
		}
	}
}

// TestBackoffOfAMemberWhoseBindingFails: the group is retried at once after the first
// failure, and after the end of the backoff for the second. That also holds for an only
// member.
func TestBackoffOfAMemberWhoseBindingFails(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0))
	for i, want := range []string{"g: a1", "g: a2", ""} {
		work, text := g.pop()
		if text != want {
			t.Fatalf("turn %d: popped %q, want %q", i, text, want)
		}
		if text == "" {
			break
		}
		g.settle(work, plan.Placed, "a")
		g.apply(model.Change{Kind: model.BindDone, Bind: &model.BindingResult{Pod: work.First(), NodeName: "a", Err: errors.New("no")}})
	}
	g.now = g.now.Add(3 * time.Second)
	if _, text := g.pop(); text != "g: a3" {
		t.Errorf("when the backoff has ended: popped %q, want %q", text, "g: a3")
	}
}

// TestClockSetBackAfterAMembersBindingFailed: the following backoff of the group does not
// depend on the time of its last attempt.
func TestClockSetBackAfterAMembersBindingFailed(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
	for _, after := range []time.Duration{0, time.Hour} {
		work, _ := g.pop()
		g.settle(work, plan.Placed, "a")
		if g.now = g.now.Add(after); after > 0 {
			g.apply(memberOf("g", "c", 0, "gate")) // keeps the group from being ready
		}
		g.fails(work, "a")
	}
	g.apply(podLeaves("c"))
	if _, text := g.pop(); text != "" {
		t.Fatalf("popped %q at once after the second failure", text)
	}
	g.now = g.now.Add(-30 * time.Minute)
	g.hears(state.Delta{Groups: []model.GroupKey{{Namespace: "ns", Name: "g"}}})
	if _, text := g.pop(); text == "" {
		t.Error("when the clock was set back the group goes on backing off")
	}
}

// TestMovesOfALargeGroup: members arrive one after another while their group is
// incomplete, gated or active, and one member is gated and released. Each move of the
// group is a single move of all members.
func TestMovesOfALargeGroup(t *testing.T) {
	const members = 1000
	g := newGroupQueue(t)
	moved := func(what string, moves, pods int) {
		t.Helper()
		n, all := 0, g.TakeMoves()
		for _, m := range all {
			n += m.Pods
		}
		if len(all) != moves || n != pods {
			t.Errorf("%s: %d moves of %d pods, want %d of %d", what, len(all), n, moves, pods)
		}
	}
	// without an audit, which visits all members
	wake := func(changes ...model.Change) { g.Wake(g.now, g.State().Apply(changes)) }
	for i := range members / 2 {
		wake(memberOf("g", fmt.Sprint("a", i), 0))
	}
	moved("incomplete", 0, 0)
	wake(podGroup("g", members, 0))
	moved("complete, and too few", 1, members/2)
	for i := range members/2 - 1 {
		wake(memberOf("g", fmt.Sprint("b", i), 0))
	}
	moved("gated, one by one", members/2-1, members/2-1)
	if n := len(g.groups[model.GroupKey{Namespace: "ns", Name: "g"}].fresh); n != members-1 {
		t.Errorf("%d members have not been ready, want %d", n, members-1)
	}
	g.now = g.now.Add(time.Second)
	wake(memberOf("g", "last", 0))
	moved("enough", 2, members+1)
	g.audited()
	since := g.now
	for range 3 {
		g.now = g.now.Add(time.Second)
		wake(memberOf("g", "one", 0, "gate"))
		moved("one is held", 2, members+1)
		wake(podLeaves("one"))
		moved("it leaves", 1, members)
		if n := len(g.groups[model.GroupKey{Namespace: "ns", Name: "g"}].fresh); n != 0 {
			t.Errorf("%d members are looked at when the group moves", n)
		}
	}
	wake(memberOf("g", "another", 0))
	moved("active", 1, 1)
	work, _ := g.pop()
	for _, p := range work.Members {
		if want := map[bool]time.Time{true: g.now, false: since}[p.Pod.Name == "another"]; !p.Since.Equal(want) {
			t.Errorf("pod %s could be tried since %v, want %v", p.Pod, p.Since, want)
		}
	}
	if len(work.Members) != members+1 {
		t.Errorf("%d members are popped, want %d", len(work.Members), members+1)
	}
}

// TestSettledGroups checks a group after each outcome of its turn.
func TestSettledGroups(t *testing.T) {
	setUp := func(t *testing.T) (*groupQueue, *plan.Attempt) {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0), memberOf("g", "c", 0))
		work, text := g.pop()
		if text != "g: a1 b1 c1" {
			t.Fatalf("popped: %s", text)
		}
		return g, work
	}
	for _, row := range []struct {
		name    string
		outcome plan.Outcome
		placed  []string
		want    string
		next    string // the next pop, at once
	}{
		{"all are placed", plan.Placed, []string{"a", "b", "c"}, "binding, binding, binding", ""},
		{"some are placed", plan.Placed, []string{"a", "b"}, "binding, binding, active", "g: c2"},
		{"none is placed", plan.Unschedulable, nil, "backing off, backing off, backing off", ""},
		{"an error", plan.Failed, nil, "backing off after an error, backing off after an error, backing off after an error", ""},
		{"all are being deleted", plan.Terminating, nil, ", , ", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, work := setUp(t)
			g.settle(work, row.outcome, row.placed...)
			if got := g.places("a", "b", "c"); got != row.want {
				t.Errorf("they are %s, want %s", got, row.want)
			}
			if _, text := g.pop(); text != row.next {
				t.Errorf("popped next: %q, want %q", text, row.next)
			}
		})
	}
}

// TestGroupSettledKeepsItsTime: the remaining members of a placed group keep their time,
// so they come before later pods. Members of a rejected group go to the end.
func TestGroupSettledKeepsItsTime(t *testing.T) {
	for outcome, want := range map[plan.Outcome]string{plan.Placed: "g: b2", plan.Unschedulable: "single1"} {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 1, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
		g.now = at(1)
		g.apply(model.Change{Kind: model.PodSet, Pod: pod("single", 0)})
		g.now = at(2)
		work, _ := g.pop()
		if outcome == plan.Placed {
			g.settle(work, outcome, "a")
		} else {
			g.settle(work, outcome)
			g.now = at(60)
		}
		if _, text := g.pop(); text != want {
			t.Errorf("after %s: popped %s, want %s", outcome, text, want)
		}
	}
}

// TestMemberWhoseBindingFails: the member joins its group again. The first time the group
// is retried at once; later it waits for the backoff of its errors. A rejection resets
// the count.
func TestMemberWhoseBindingFails(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
	work, _ := g.pop()
	g.settle(work, plan.Placed, "a", "b")
	for n, wait := range []int{0, 2, 4} {
		g.fails(work, "b")
		if wait > 0 {
			if got := g.places("a", "b"); got != "binding, backing off" {
				t.Errorf("failure %d: they are %s", n+1, got)
			}
			g.now = g.now.Add(time.Duration(wait)*time.Second + 999*time.Millisecond)
			if _, text := g.pop(); text != "" {
				t.Fatalf("failure %d: %s is popped at once", n+1, text)
			}
			g.now = g.now.Add(time.Millisecond)
		}
		var text string
		if work, text = g.pop(); text != fmt.Sprint("g: b", n+2) {
			t.Fatalf("failure %d: popped %q", n+1, text)
		}
		g.settle(work, plan.Placed, "b")
	}
	g.fails(work, "b")
	g.now = g.now.Add(time.Minute)
	work, _ = g.pop()
	g.settle(work, plan.Unschedulable)
	g.now = g.now.Add(time.Minute)
	work, _ = g.pop()
	g.settle(work, plan.Placed, "b")
	if g.fails(work, "b"); g.places("b") != "active" {
		t.Errorf("after a rejection, a binding fails once, and the member is %s", g.places("b"))
	}
	// A member whose binding fails during the turn of another member waits for the end of
	// the turn.
	g.apply(memberOf("g", "c", 0))
	work, _ = g.pop()
	if len(work.Members) != 2 {
		t.Errorf("popped: %+v", work.Members)
	}
}

// TestMembersOfNoGroup: without the gate GenericWorkload a member is like any other pod.
func TestMembersOfNoGroup(t *testing.T) {
	g := newGroupQueue(t)
	g.config.Groups = false
	g.apply(memberOf("g", "a", 0))
	if _, text := g.pop(); text != "a1" {
		t.Errorf("without the gate, a member is popped as %q", text)
	}
}

// TestMovesOfGroups: kube-scheduler's counters of moves count each member.
func TestMovesOfGroups(t *testing.T) {
	g := newGroupQueue(t)
	moves := func() string {
		counts := map[string]int{}
		for _, m := range g.TakeMoves() {
			counts[fmt.Sprint(m.Queue, " ", m.Event)] += m.Pods
		}
		return fmt.Sprint(counts)
	}
	g.apply(memberOf("g", "a", 0), memberOf("g", "b", 0))
	first := moves()
	g.apply(podGroup("g", 1, 0))
	second := moves()
	work, _ := g.pop()
	g.settle(work, plan.Unschedulable)
	third := moves()
	if got, want := strings.Join([]string{first, second, third}, "; "), "map[]; map[active PodGroupUpdate:2]; map[backoff ScheduleAttemptFailure:2]"; got != want {
		t.Errorf("moves: %s, want %s", got, want)
	}
}

// TestAuditFindsEachViolationOfGroups corrupts the queue in one way after the other.
func TestAuditFindsEachViolationOfGroups(t *testing.T) {
	entryOf := func(q *Queue, name string) *entry { return q.entries[model.PodKey{Namespace: "ns", Name: name}] }
	for _, row := range []struct {
		want    string
		corrupt func(q *Queue, g *group)
	}{
		{"", func(*Queue, *group) {}},
		{"pod ns/a, which names group ns/g, is in its group; it is a member: false", func(q *Queue, _ *group) { entryOf(q, "a").group = nil }},
		{"pod ns/a is not listed as a member of group ns/g", func(q *Queue, g *group) { delete(g.members, entryOf(q, "a").pod.Key()) }},
		{"pod ns/a is deciding and its group ns/g is active", func(q *Queue, _ *group) { entryOf(q, "a").place = deciding }},
		{"of which 1 are held, recounted 0", func(_ *Queue, g *group) { g.held++ }},
		{"1 joined, recounted 2", func(_ *Queue, g *group) { g.joined = 1 }},
		{"group ns/g is active and not at position 9 of the heap for that", func(_ *Queue, g *group) { g.head.index = 9 }},
		{"group ns/g is active, and 1 of its members are held", func(q *Queue, g *group) { entryOf(q, "a").place, g.held, g.joined = gated, 1, 1 }},
		{"group ns/g is active, and it is not known since when 1 of its members could be tried", func(q *Queue, g *group) { g.fresh[entryOf(q, "a")] = struct{}{} }},
		{"group ns/g is parked", func(_ *Queue, g *group) { g.head.place = parked }},
		{"-1 more members are waiting than groups list", func(_ *Queue, g *group) { g.members[model.PodKey{Name: "other"}] = &entry{} }},
		{"members of groups by place are counted as", func(q *Queue, _ *group) { q.joined[active]++ }},
	} {
		g := newGroupQueue(t)
		g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0), model.Change{Kind: model.PodSet, Pod: pod("single", 0)})
		row.corrupt(g.Queue, g.groups[model.GroupKey{Namespace: "ns", Name: "g"}])
		if err := g.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestWhatATurnLeaves: a turn replaces the results of the last turn, for the group and
// for each of its members.
func TestWhatATurnLeaves(t *testing.T) {
	g := newGroupQueue(t)
	g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0), memberOf("g", "c", 0))
	a := g.entries[model.PodKey{Namespace: "ns", Name: "a"}]
	h := &a.group.head
	says := func(what string, plugins []string, rejections, errors, ofGroup int) {
		t.Helper()
		if !slices.Equal(a.plugins, plugins) || a.pending != nil || a.rejections != rejections || a.errors != errors || h.rejections+h.errors != ofGroup {
			t.Errorf("%s: pod a is rejected by %v, pending %v, %d rejections and %d errors; the group has %d and %d", what, a.plugins, a.pending, a.rejections, a.errors, h.rejections, h.errors)
		}
	}
	turn := func(outcome plan.Outcome, placed ...string) {
		t.Helper()
		g.now = g.now.Add(time.Minute)
		g.Activate(g.now, []model.PodKey{a.pod.Key()})
		work, text := g.pop()
		if text == "" {
			t.Fatalf("the group has no turn before it ends %s", outcome)
		}
		g.settle(work, outcome, placed...)
	}
	turn(plan.Unschedulable)
	says("no room", []string{"Fit"}, 1, 0, 1)
	turn(plan.Failed)
	says("a failure", nil, 1, 1, 2)
	turn(plan.Failed)
	says("another", nil, 1, 2, 3)
	turn(plan.Unschedulable)
	says("no room again", []string{"Fit"}, 2, 0, 2)
	turn(plan.Placed, "b", "c")
	says("there is room for the others", []string{"Fit"}, 3, 0, 0)
	turn(plan.Placed, "a")
	says("there is room", nil, 3, 0, 0)
	if a.place != binding {
		t.Errorf("pod a is %s", g.places("a"))
	}
}

// TestGroupIsHeldWhileItPreempts: a group is gated until its last victim leaves or the
// evictions fail. Then it backs off like any rejected group. After a first failure it has
// its next turn at once; after more failures it waits for its backoff.
func TestGroupIsHeldWhileItPreempts(t *testing.T) {
	broken := errors.New("forbidden")
	for _, row := range []struct {
		name   string
		held   bool
		happen func(g *groupQueue, member *model.Pod)
		want   string
	}{
		{"nothing yet", true, func(*groupQueue, *model.Pod) {}, "gated"},
		{"its profile holds nobody", false, func(*groupQueue, *model.Pod) {}, "backing off"},
		{"its backoff has ended", true, func(g *groupQueue, _ *model.Pod) { g.now = g.now.Add(time.Hour); g.apply() }, "gated"},
		{"the first victim leaves", true, func(g *groupQueue, _ *model.Pod) { g.hears(terminates("first")) }, "gated"},
		{"the last victim leaves", true, func(g *groupQueue, _ *model.Pod) { g.hears(terminates("last")) }, "backing off"},
		{"the last victim leaves late", true, func(g *groupQueue, _ *model.Pod) { g.now = g.now.Add(time.Hour); g.hears(terminates("last")) }, "active"},
		{"evictions end before the last is seen to leave", true, func(g *groupQueue, m *model.Pod) { g.hears(ended(m, false, nil)) }, "gated"},
		{"evictions end, the last leaves", true, func(g *groupQueue, m *model.Pod) { g.hears(ended(m, false, nil)); g.hears(terminates("last")) }, "backing off"},
		{"the last victim was not bound", true, func(g *groupQueue, m *model.Pod) { g.hears(ended(m, true, nil)) }, "active"},
		{"evictions fail", true, func(g *groupQueue, m *model.Pod) { g.hears(ended(m, false, broken)) }, "active"},
		{"evictions fail again", true, func(g *groupQueue, m *model.Pod) {
			g.hears(ended(m, false, broken))
			work, _ := g.pop()
			g.preempts(work, "first", "last")
			g.hears(ended(m, false, broken))
		}, "backing off"},
		{"of a pod that is no member", true, func(g *groupQueue, _ *model.Pod) { g.hears(ended(pod("x", 0), false, broken)) }, "gated"},
		{"its members are gone", true, func(g *groupQueue, _ *model.Pod) {
			g.apply(podLeaves("a"), podLeaves("b"))
			g.hears(terminates("last"))
		}, ""},
	} {
		var more []*plugin.PreEnqueue
		if row.held {
			more = append(more, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
		}
		g := newGroupQueue(t, more...)
		g.apply(podGroup("g", 2, 0), memberOf("g", "a", 0), memberOf("g", "b", 0))
		work, _ := g.pop()
		g.preempts(work, "first", "last")
		row.happen(g, work.First())
		if got := g.places("a", "b"); got != row.want+", "+row.want {
			t.Errorf("%s: the members are %s, want %s", row.name, got, row.want)
		}
	}
}
