package absent

import (
	"fmt"
	"testing"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// three is a plugin that generates three placements.
type three struct{}

func (three) Name() string { return "Three" }
func (three) GeneratePlacements(state.View, *model.PodGroup) ([]plugin.DomainPlacement, error) {
	return make([]plugin.DomainPlacement, 3), nil
}

func TestComposites(t *testing.T) {
	for _, row := range []struct {
		of     plugin.PlacementGenerate
		parent *string
		want   string
	}{
		{three{}, nil, "Three 3 <nil>"},
		{nil, nil, "CompositePodGroup 1 <nil>"},
		{three{}, new("tree"), `Three 0 composite pod groups are not part of this version of Berth: the pod group belongs to composite pod group "tree"`},
		{nil, new("tree"), `CompositePodGroup 0 composite pod groups are not part of this version of Berth: the pod group belongs to composite pod group "tree"`},
	} {
		group := model.NewPodGroup(&schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{ParentCompositePodGroupName: row.parent}})
		c := Composites{Of: row.of}
		placements, err := c.GeneratePlacements(state.View{}, group)
		if got := fmt.Sprint(c.Name(), " ", len(placements), " ", err); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
		for _, p := range placements {
			if p.Nodes != nil {
				t.Errorf("%s: placed on some nodes", row.want)
			}
		}
	}
}
