package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// tree is the CompositePodGroup t with a minGroupCount of 2.
func tree(uid types.UID) *schedulingv1alpha3.CompositePodGroup {
	c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "t", UID: uid}}
	c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
	return c
}

// newTree is a scheduler with a waiting tree of the groups g and h, with the members a
// and b. Two pods that were created later use the node.
func newTree(t *testing.T) *overtaking {
	o := &overtaking{grouping: newGroupingWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true}, "")}
	o.nodes(2)
	o.changes.Set(tree("uid-t"))
	for group, name := range map[string]string{"g": "a", "h": "b"} {
		o.changes.Set(gang(1, func(g *schedulingv1beta1.PodGroup) {
			g.Name, g.UID, g.Spec.ParentCompositePodGroupName = group, types.UID("uid-"+group), new("t")
		}))
		p := member(name)
		p.Spec.SchedulingGroup.PodGroupName, p.CreationTimestamp = &group, metav1.NewTime(o.now)
		o.changes.Set(p)
	}
	o.later("n0")
	o.later("n0")
	o.once()
	return o
}

// once runs a round. It returns the decisions, and the PodGroups whose conditions are
// written with each member.
func (o *overtaking) once() string {
	o.Helper()
	before := len(o.commit.made)
	o.loop.Once(o.now)
	if err := o.loop.Audit(); err != nil {
		o.Fatal(err)
	}
	return o.decided(before)
}

func (o *overtaking) decided(from int) string {
	var lines []string
	for _, d := range o.commit.made[from:] {
		line := fmt.Sprint(d.Pod.Name, " ", d.Outcome)
		for _, w := range d.Writes {
			line += fmt.Sprint(", of ", w.Resource.Resource, " ", w.Name)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// TestConditionsOfTree writes the condition of each group of a tree with the decision
// about its own member.
func TestConditionsOfTree(t *testing.T) {
	o := newTree(t)
	if got := o.decided(0); got != "a unschedulable, of podgroups g; b unschedulable, of podgroups h" {
		t.Error(got)
	}
	for i := range 2 {
		o.changes.Remove(keyOf(fmt.Sprint("small-", i)).Ref())
	}
	o.now = o.now.Add(time.Minute)
	if got := o.once(); got != "a placed, of podgroups g; b placed, of podgroups h" {
		t.Error(got)
	}
}

// TestRoomIsKeptForTree reserves room for an overtaken tree, until another
// CompositePodGroup of its name exists.
func TestRoomIsKeptForTree(t *testing.T) {
	o := newTree(t)
	o.now = o.now.Add(2 * queue.DefaultGroupPatience)
	o.changes.Remove(keyOf("small-0").Ref())
	o.later("n0")
	o.once()
	if n := o.loop.State().RoomHolds(); n != 1 {
		t.Fatalf("room is held for %d trees", n)
	}
	o.now = o.now.Add(time.Second)
	o.changes.Set(build.Node("n0", build.Allocatable("cpu=99 memory=8Gi pods=2")))
	o.once()
	if n := o.loop.State().RoomHolds(); n != 1 {
		t.Fatalf("after a second room is held for %d trees", n)
	}
	o.changes.Remove(model.Ref{Kind: model.CompositePodGroupKind, Namespace: "default", Name: "t"})
	o.changes.Set(tree("uid-another"))
	o.once()
	if n := o.loop.State().RoomHolds(); n != 0 {
		t.Errorf("room is held for %d trees that are gone", n)
	}
}
