package gangscheduling_test

import (
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/gangscheduling"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestQuorum: a gang is gated while it has fewer members than its minCount. A group with
// a basic policy, or without a known policy, is never gated.
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

// TestQuorumOfATree: a tree is gated until, at each level, enough groups below each
// composite group have enough members.
func TestQuorumOfATree(t *testing.T) {
	leaf := func(name string, least int32) *model.GroupTree {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
		return model.TreeOf(model.NewPodGroup(g))
	}
	composite := func(name string, least int32, below ...*model.GroupTree) *model.GroupTree {
		c := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: least}
		return &model.GroupTree{Composite: model.NewCompositeGroup(c), Below: below}
	}
	tree := composite("root", 2, leaf("a", 2), composite("b", 1, leaf("c", 1), leaf("d", 3)))
	for _, row := range []struct {
		all  map[string]int
		want string
	}{
		{map[string]int{"a": 2, "c": 1}, ""},
		{map[string]int{"a": 3, "d": 3}, ""},
		{map[string]int{"a": 1, "c": 1, "d": 3}, `waiting for composite pod group "root" tree to meet quorum`},
		{map[string]int{"a": 2, "d": 2}, `waiting for composite pod group "root" tree to meet quorum`},
		{nil, `waiting for composite pod group "root" tree to meet quorum`},
	} {
		if got := gangscheduling.New().PreEnqueueTree(tree, func(key model.GroupKey) int { return row.all[key.Name] }); got != row.want {
			t.Errorf("%v: %q, want %q", row.all, got, row.want)
		}
	}
}

// TestContract: the plugin implements PreEnqueue and Permit, and no pod waits at Permit.
func TestContract(t *testing.T) {
	p := gangscheduling.New()
	if parts := p.Parts(); parts.PreEnqueue.Group == nil || parts.PreEnqueue.Tree == nil || parts.Permit.Name != "GangScheduling" {
		t.Errorf("parts of %s: %+v", parts.Name, parts)
	}
	if steps, err := p.Permit(state.View{}, &plan.Placement{}); len(steps) > 0 || err != nil {
		t.Errorf("steps at Permit: %v, %v", steps, err)
	}
}
