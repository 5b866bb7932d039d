package podgrouppodscount_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/decide/plugins/podgrouppodscount"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestScorePlacements(t *testing.T) {
	group := model.NewPodGroup(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "g"}})
	for _, row := range []struct {
		name   string
		before int
		placed []int
		want   []int64
	}{
		{"as many", 0, []int{4, 4}, []int64{100, 100}},
		{"rounded down", 0, []int{4, 6, 1}, []int64{66, 100, 16}},
		{"with those on nodes", 2, []int{1, 4}, []int64{50, 100}},
	} {
		var on []*v1.Pod
		for i := range row.before {
			p := build.Pod(build.Named(string(rune('a'+i))), build.NodeName("n"))
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
			on = append(on, p)
		}
		s := plugintest.Cluster([]*v1.Node{build.Node("n")}, on...)
		proposals, scores := make([]plugin.Proposal, len(row.placed)), make([]int64, len(row.placed))
		for i, n := range row.placed {
			proposals[i].Members = make([]*model.Pod, n)
		}
		if err := podgrouppodscount.New().ScorePlacements(s.View(), model.TreeOf(group), proposals, scores); err != nil || !slices.Equal(scores, row.want) {
			t.Errorf("%s: %v, %v, want %v", row.name, scores, err, row.want)
		}
	}
	err := podgrouppodscount.New().ScorePlacements(plugintest.Cluster(nil).View(), model.TreeOf(group), make([]plugin.Proposal, 2), make([]int64, 2))
	if want := "no pods from pod group are assigned to any of the candidate placements"; err == nil || err.Error() != want {
		t.Errorf("without members: %v, want %s", err, want)
	}
	if name := podgrouppodscount.New().Name(); name != "PodGroupPodsCount" {
		t.Errorf("the plugin calls itself %s", name)
	}
}
