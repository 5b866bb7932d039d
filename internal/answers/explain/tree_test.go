package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
)

// TestTreeWouldStart explains a gang in a tree of three gangs with two members each, on
// nodes with room for two pods. Each suggested change lets the tree start, and no smaller
// one does.
func TestTreeWouldStart(t *testing.T) {
	for _, row := range []struct {
		nodes, minGroups int
		starts           bool
		want             string // changes that would let it start
	}{
		{3, 3, true, ""},
		{2, 3, false, "2 groups, 1 like n0"},
		{1, 3, false, "1 groups, 2 like n0"},
		{1, 2, false, "1 groups, 1 like n0"},
		{0, 1, false, ""},
	} {
		snapshot := func(nodes, minGroups int) *explain.Snapshot {
			root := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "root"}}
			root.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(minGroups)}
			objects := []runtime.Object{root}
			var all []*v1.Node
			for i := range nodes {
				all = append(all, node(fmt.Sprint("n", i), "8"))
			}
			var pods []*v1.Pod
			for _, name := range []string{"g", "h", "i"} {
				group := gang(2)
				group.Name, group.Spec.ParentCompositePodGroupName = name, &root.Name
				objects = append(objects, group)
				for i := range 2 {
					p := member(fmt.Sprint(name, "-", i), "1", "")
					p.Spec.SchedulingGroup.PodGroupName = &name
					pods = append(pods, p)
				}
			}
			return explaintest.SnapshotWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true}, all, pods, objects...)
		}
		s := snapshot(row.nodes, row.minGroups)
		tree := ofGroup(t, s).Tree
		var helps []string
		for _, h := range tree.WouldStart {
			nodes, minGroups := row.nodes+h.Nodes, row.minGroups
			if h.MinGroupCount > 0 {
				helps, minGroups = append(helps, fmt.Sprint(h.MinGroupCount, " groups")), h.MinGroupCount
			} else {
				helps = append(helps, fmt.Sprint(h.Nodes, " like ", h.Like))
			}
			if !ofGroup(t, snapshot(nodes, minGroups)).Tree.Starts {
				t.Errorf("%d nodes, %d groups: with %+v it does not start", row.nodes, row.minGroups, h)
			}
			if less := h.Nodes - 1; less >= 0 && ofGroup(t, snapshot(row.nodes+less, row.minGroups)).Tree.Starts {
				t.Errorf("%d nodes, %d groups: with a node less than %+v it starts", row.nodes, row.minGroups, h)
			}
		}
		if got := strings.Join(helps, ", "); got != row.want || tree.Starts != row.starts || tree.Unfinished {
			t.Errorf("%d nodes, %d groups: starts: %t, would start with %q, unfinished: %t; want %t, %q", row.nodes, row.minGroups, tree.Starts, got, tree.Unfinished, row.starts, row.want)
		}
		again := ofGroup(t, s).Tree
		if !slices.Equal(again.WouldStart, tree.WouldStart) {
			t.Errorf("another time: %+v", again.WouldStart)
		}
	}
}
