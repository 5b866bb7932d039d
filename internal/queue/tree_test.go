package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// newTreeQueue is a queue of groups that may belong to composite groups.
func newTreeQueue(t *testing.T, more ...*plugin.PreEnqueue) *groupQueue {
	t.Helper()
	g := newGroupQueue(t, more...)
	g.config.Trees = true
	return g
}

// composite is a CompositePodGroup with a minGroupCount; without a parent if that is
// empty.
func composite(name string, minGroupCount, priority int32, parent string) model.Change {
	object := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	object.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: minGroupCount}
	object.Spec.Priority = &priority
	if parent != "" {
		object.Spec.ParentCompositePodGroupName = &parent
	}
	return model.Change{Kind: model.ObjectSet, Compiled: model.NewCompositeGroup(object)}
}

func compositeGone(name string) model.Change {
	return model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.CompositePodGroupKind, Namespace: "ns", Name: name}}
}

// below is a PodGroup with a minCount below a composite group.
func below(parent, name string, minCount int32) model.Change {
	object := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	object.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	object.Spec.ParentCompositePodGroupName = &parent
	return model.Change{Kind: model.ObjectSet, Compiled: model.NewPodGroup(object)}
}

// TestTreeWaitsAsOne: members of all groups of a tree wait for missing ancestors, then
// for enough members, and have their turn together.
func TestTreeWaitsAsOne(t *testing.T) {
	g := newTreeQueue(t)
	step := func(want string, changes ...model.Change) {
		t.Helper()
		g.apply(changes...)
		if got := g.places("a", "b", "c"); got != want {
			t.Errorf("they are %q, want %q", got, want)
		}
	}
	step("incomplete, , ", memberOf("g", "a", 0))
	step("incomplete, , ", below("m", "g", 1))
	step("incomplete, incomplete, ", below("root", "h", 2), memberOf("h", "b", 0))
	step("incomplete, incomplete, ", composite("m", 1, 0, "root"))
	step("gated, gated, ", composite("root", 2, 7, "")) // group h has too few
	step("active, active, active", memberOf("h", "c", 0))
	work, text := g.pop()
	if text != "root: a1 b1 c1" || work.Tree == nil || work.Group.Priority != 7 {
		t.Fatalf("popped %q of priority %d, tree %v", text, work.Group.Priority, work.Tree)
	}
	g.settle(work, plan.Unschedulable)
	step("backing off, backing off, backing off")
	if n := g.Counts(); n.BackingOff != 3 {
		t.Errorf("%+v", n)
	}
	step("incomplete, gated, gated", compositeGone("m")) // the root needs two groups
	step("backing off, backing off, backing off", composite("m", 1, 0, "root"))
}

// TestTreeQuorum: a tree waits when a needed member leaves, and continues when minCount
// is lowered.
func TestTreeQuorum(t *testing.T) {
	g := newTreeQueue(t)
	g.apply(composite("root", 2, 0, ""), below("root", "g", 1), below("root", "h", 2), memberOf("g", "a", 0), memberOf("h", "b", 0), memberOf("h", "c", 0))
	for i, step := range []struct {
		change model.Change
		want   string
	}{
		{podLeaves("c"), "gated, gated, "}, {memberOf("h", "c", 0), "active, active, active"}, {below("root", "h", 3), "gated, gated, gated"}, {below("root", "h", 1), "active, active, active"},
		{groupGone("h"), "gated, incomplete, incomplete"}, {composite("root", 1, 0, ""), "active, incomplete, incomplete"}, {memberOf("g", "x", 0, "hold"), ""},
	} {
		g.apply(step.change)
		if got := g.places("a", "b", "c"); step.want != "" && got != step.want {
			t.Errorf("step %d: they are %q, want %q", i, got, step.want)
		}
	}
}

// TestTreesAndGroupsOfOneName: a tree and a group of one name are distinct.
func TestTreesAndGroupsOfOneName(t *testing.T) {
	g := newTreeQueue(t)
	g.apply(composite("x", 1, 0, ""), podGroup("x", 1, 0), below("x", "g", 1), memberOf("g", "a", 0), memberOf("x", "b", 0))
	for _, want := range []string{"x: a1", "x: b1"} {
		work, text := g.pop()
		if text != want || (work.Tree != nil) != (want == "x: a1") {
			t.Errorf("popped %q of tree %v, want %q", text, work.Tree, want)
		}
		g.settle(work, plan.Unschedulable)
	}
	if n := len(g.trees); n != 1 {
		t.Errorf("%d trees", n)
	}
	g.apply(podLeaves("a"), podLeaves("b"))
	if len(g.trees) != 0 || len(g.groups) != 0 {
		t.Errorf("%d trees and %d groups are left", len(g.trees), len(g.groups))
	}
}

// TestTreePreempts: a tree is gated during its evictions, even when the member whose
// decision sent them is gone.
func TestTreePreempts(t *testing.T) {
	g := newTreeQueue(t, plugintest.PartsOf(preemptionGate{}).PreEnqueue)
	g.apply(composite("root", 1, 0, ""), below("root", "g", 1), below("root", "h", 1), memberOf("g", "a", 0), memberOf("h", "b", 0))
	work, _ := g.pop()
	g.preempts(work, "victim")
	if got := g.places("a", "b"); got != "gated, gated" {
		t.Fatalf("they are %s", got)
	}
	preemptor := work.First()
	g.apply(podLeaves("a"))
	if got := g.places("b"); got != "gated" {
		t.Fatalf("the other is %s", got)
	}
	g.hears(state.Delta{Preempted: []*model.PreemptionResult{{Preemptor: preemptor, Tree: work.Tree.Key(), Err: fmt.Errorf("forbidden")}}})
	if got := g.places("b"); got != "active" {
		t.Errorf("after an eviction failed it is %s", got)
	}
}

// TestTreeCreatedAnew: with another root a tree starts without history, and its backoff
// is over.
func TestTreeCreatedAnew(t *testing.T) {
	g := newTreeQueue(t)
	g.apply(composite("root", 1, 0, ""), below("root", "g", 1), memberOf("g", "a", 0))
	work, _ := g.pop()
	g.settle(work, plan.Unschedulable)
	g.now = g.now.Add(100 * time.Millisecond)
	g.apply(compositeGone("root"))
	if got := g.places("a"); got != "incomplete" {
		t.Errorf("without a root it is %s", got)
	}
	g.apply(composite("root", 1, 0, ""))
	if got := g.places("a"); got != "active" {
		t.Errorf("with another root it is %s", got)
	}
}

// TestWorkOfATree: a member that arrives when its group has enough members does not cause
// visits of the others of a tree.
func TestWorkOfATree(t *testing.T) {
	g := newTreeQueue(t)
	g.apply(composite("root", 2, 0, ""), below("root", "g", 1), below("root", "h", 1), memberOf("g", "a", 0), memberOf("h", "b", 0))
	tree := g.trees[model.GroupKey{Namespace: "ns", Name: "root"}]
	if !tree.quorum.known {
		t.Fatal("the quorum is not known")
	}
	tree.quorum.gate = "kept"
	g.apply(memberOf("g", "c", 0))
	if tree.quorum.gate != "kept" {
		t.Error("it was found out again")
	}
	g.apply(podLeaves("c"))
	if tree.quorum.gate != "" {
		t.Error("it is not found out again when a member leaves")
	}
	runs := memberOf("h", "runs", 0)
	runs.Pod.NodeName = "a"
	g.apply(below("root", "h", 2), runs)
	if got := g.places("a", "b"); got != "active, active" {
		t.Fatalf("with a member that runs they are %s", got)
	}
	g.apply(podLeaves("runs"), memberOf("g", "d", 0))
	if got := g.places("a", "b"); got != "gated, gated" {
		t.Errorf("when a member that ran is gone, and another comes, they are %s", got)
	}
}

// TestGroupJoinsAnActiveTree: members of a group that joins an active tree count as ready
// from then on.
func TestGroupJoinsAnActiveTree(t *testing.T) {
	g := newTreeQueue(t)
	g.apply(composite("root", 1, 0, ""), below("root", "g", 1), memberOf("g", "a", 0), memberOf("h", "b", 0))
	if got := g.places("a", "b"); got != "active, incomplete" {
		t.Fatalf("they are %s", got)
	}
	g.now = at(1)
	g.apply(below("root", "h", 1))
	g.now = at(2)
	g.apply(model.Change{Kind: model.PodSet, Pod: onNode(memberOf("h", "r", 0).Pod)})
	if d, _ := g.Describe(g.now, model.PodKey{Namespace: "ns", Name: "a"}); !d.Group.Tree || d.Group.Placed != 1 || d.Group.MinCount != 0 || d.Group.Waiting != 2 {
		t.Errorf("described as %+v", d.Group)
	}
	work, text := g.pop()
	if text != "root: a1 b1" || !work.Members[1].Since.Equal(at(1)) {
		t.Errorf("popped %q, the last of which could be tried since %v", text, work.Members[1].Since)
	}
}

// TestAuditFindsEachViolationOfTrees corrupts a tree in one way after the other.
func TestAuditFindsEachViolationOfTrees(t *testing.T) {
	for _, row := range []struct {
		want    string
		corrupt func(q *Queue, tree *group)
	}{
		{"", func(*Queue, *group) {}},
		{"tree ns/root counts 2 members of group ns/g, recounted 1", func(_ *Queue, tree *group) { tree.of[model.GroupKey{Namespace: "ns", Name: "g"}]++ }},
		{"it is listed: false", func(q *Queue, tree *group) {
			q.trees = map[model.GroupKey]*group{{Namespace: "ns", Name: "other"}: tree}
		}},
		{"group ns/g waits in tree ns/root, to which it does not belong", func(q *Queue, _ *group) { q.config.Trees = false }},
		{"tree ns/root counts the members of 2 groups, recounted 1", func(_ *Queue, tree *group) { tree.of[model.GroupKey{Namespace: "ns", Name: "h"}] = 1 }},
	} {
		g := newTreeQueue(t)
		g.apply(composite("root", 1, 0, ""), below("root", "g", 1), memberOf("g", "a", 0))
		row.corrupt(g.Queue, g.trees[model.GroupKey{Namespace: "ns", Name: "root"}])
		if err := g.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}
