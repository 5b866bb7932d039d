package gangscheduling_test

import (
	"testing"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/gangscheduling"
	"github.com/berth-scheduler/berth/internal/state"
)

// TestQuorum: a gang is held while it has fewer members than its minCount; a group of a basic policy, or of none that is known, never is.
func TestQuorum(t *testing.T) {
	const waits = "waiting for minCount pods from a gang to appear in scheduling queue"
	gang := schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 3}}
	basic := schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	for _, row := range []struct {
		name   string
		policy schedulingv1beta1.PodGroupSchedulingPolicy
		all    int
		want   string
	}{
		{"two of three", gang, 2, waits}, {"three", gang, 3, ""}, {"more", gang, 4, ""}, {"basic", basic, 1, ""}, {"none", schedulingv1beta1.PodGroupSchedulingPolicy{}, 0, ""},
	} {
		group := model.NewPodGroup(&schedulingv1beta1.PodGroup{Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: row.policy}})
		if got := gangscheduling.New().PreEnqueueGroup(group, row.all); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestContract: the plugin takes part at PreEnqueue and at Permit, where nobody waits.
func TestContract(t *testing.T) {
	p := gangscheduling.New()
	if _, ok := plugin.AsPreEnqueue(p); !ok || p.Name() != "GangScheduling" {
		t.Errorf("%s is a PreEnqueue plugin: %t", p.Name(), ok)
	}
	if steps, err := p.Permit(state.View{}, &plan.Placement{}); len(steps) > 0 || err != nil {
		t.Errorf("steps at Permit: %v, %v", steps, err)
	}
}
