package defaultpreemption

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestUnitsAreEvictedWhole evicts members of groups. If a group's disruptionMode is all,
// its other members are evicted after the victims, on any node, once each and by name. Of
// other groups only the victims are evicted.
func TestUnitsAreEvictedWhole(t *testing.T) {
	s := plugintest.Cluster([]*v1.Node{build.Node("n0"), build.Node("n1")})
	pods := map[string]*model.Pod{}
	group := func(name string, whole bool, on ...string) {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name}}
		if whole {
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		}
		plugintest.Set(s, g)
		for i, node := range on {
			p := build.Pod(build.Named(fmt.Sprint(name, i)), build.NodeName(node))
			p.UID, p.Spec.SchedulingGroup = types.UID(p.Name), &v1.PodSchedulingGroup{PodGroupName: &name}
			pod := model.NewPod(p)
			pods[p.Name] = pod
			s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
		}
	}
	group("whole", true, "n1", "n0", "n1", "n0", "n1")
	group("other", true, "n0", "n1")
	group("single", false, "n0", "n1")
	for _, row := range []struct {
		groups  Groups
		victims string
		want    string
	}{
		{Groups{Units: true}, "whole1", "whole1@n0 whole0@n1 whole2@n1 whole3@n0 whole4@n1"},
		{Groups{Units: true}, "whole3 single0 whole1", "whole3@n0 single0@n0 whole1@n0 whole0@n1 whole2@n1 whole4@n1"},
		{Groups{Units: true}, "other0 whole1", "other0@n0 whole1@n0 other1@n1 whole0@n1 whole2@n1 whole3@n0 whole4@n1"},
		{Groups{Units: true}, "single0", "single0@n0"},
		{Groups{}, "whole1", "whole1@n0"},
	} {
		var victims []*model.Pod
		for _, name := range strings.Fields(row.victims) {
			victims = append(victims, pods[name])
		}
		p, err := row.groups.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range p.evictions(s.View(), "n0", victims) {
			got = append(got, e.Pod.Name+"@"+e.NodeName)
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%+v, %s: %s, want %s", row.groups, row.victims, got, row.want)
		}
		if p.Parts().PostFilter.Group.OwnPolicy {
			t.Error("a group's own policy counts without its gate")
		}
	}
	if p, _ := (Groups{OwnPolicy: true}).New(nil); !p.Parts().PostFilter.Group.OwnPolicy {
		t.Error("a group's own policy does not count")
	}
}
