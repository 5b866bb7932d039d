package attribution

import (
	"slices"
	"testing"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestTextOfOthers has two versions of an object that is neither a node nor a pod.
func TestTextOfOthers(t *testing.T) {
	group := func(minCount int32) *schedulingv1beta1.PodGroup {
		g := &schedulingv1beta1.PodGroup{}
		if g.Spec.SchedulingPolicy.Basic = (&schedulingv1beta1.BasicSchedulingPolicy{}); minCount > 0 {
			g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}}
		}
		return g
	}
	for _, row := range []struct {
		before, after kinds.Object
		want          string
	}{
		{group(3), group(4), "has minCount 4 instead of 3"},
		{group(3), group(3), "has changed"},
		{group(3), group(0), "has changed"},
		{group(0), group(4), "has changed"},
		{build.PersistentVolumeClaim("c", ""), build.PersistentVolumeClaim("c", ""), "has changed"},
	} {
		if got := textOfOthers(row.before, row.after); got != row.want {
			t.Errorf("%s, want %s", got, row.want)
		}
	}
}

// TestUnionOf lists the units of some nodes, each once.
func TestUnionOf(t *testing.T) {
	if got := unionOf(map[string][]int{"a": {5, 2}, "b": {2, 3}, "c": {9}}, []string{"b", "a"}); !slices.Equal(got, []int{2, 3, 5}) {
		t.Errorf("%v", got)
	}
}
