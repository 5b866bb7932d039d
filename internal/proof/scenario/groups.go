package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// readGates sets feature gates.
func readGates(s *Scenario, args []string, _ string) error {
	if len(args) == 0 {
		return fmt.Errorf("there is no gate; want NAME=true or NAME=false, once or more")
	}
	s.gates = map[string]bool{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q: want NAME=true or NAME=false", arg)
		}
		s.gates[name] = on
	}
	return nil
}

// groupAttributes are the grammar of pod groups.
var groupAttributes = []attribute[*schedulingv1beta1.PodGroup]{
	{key: "min", value: "COUNT", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		count, err := strconv.ParseInt(value, 10, 32)
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(count)}}
		return err
	}},
	{key: "topology", value: "KEY", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		key, err := topologyKey(value)
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
		return err
	}},
	{key: "claim", value: "RESOURCECLAIM", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		g.Spec.ResourceClaims = append(g.Spec.ResourceClaims, schedulingv1beta1.PodGroupResourceClaim{Name: value, ResourceClaimName: &value})
		return nil
	}},
	{key: "claimtemplate", value: "RESOURCECLAIMTEMPLATE", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		g.Spec.ResourceClaims = append(g.Spec.ResourceClaims, schedulingv1beta1.PodGroupResourceClaim{Name: value, ResourceClaimTemplateName: &value})
		return nil
	}},
	{key: "parent", value: "NAME", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		g.Spec.ParentCompositePodGroupName = &value
		return nil
	}},
	{key: "priority", value: "NUMBER", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		priority, err := strconv.ParseInt(value, 10, 32)
		g.Spec.Priority = new(int32(priority))
		return err
	}},
	{key: "disruption", value: "all or single", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		switch value {
		case "all":
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		case "single":
			g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}}
		default:
			return fmt.Errorf("%q is not a disruption mode", value)
		}
		return nil
	}},
	{key: "preempts", value: "never or lower", apply: func(g *schedulingv1beta1.PodGroup, _, value string) error {
		policies := map[string]schedulingv1beta1.PreemptionPolicy{"never": schedulingv1beta1.PreemptNever, "lower": schedulingv1beta1.PreemptLowerPriority}
		policy, ok := policies[value]
		if !ok {
			return fmt.Errorf("%q is not a policy", value)
		}
		g.Spec.PreemptionPolicy = &policy
		return nil
	}},
}

// compositeAttributes are the grammar of composite pod groups.
var compositeAttributes = []attribute[*schedulingv1alpha3.CompositePodGroup]{
	{key: "min", value: "COUNT", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		count, err := strconv.ParseInt(value, 10, 32)
		g.Spec.SchedulingPolicy = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(count)}}
		return err
	}},
	{key: "topology", value: "KEY", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		key, err := topologyKey(value)
		g.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: key}}}
		return err
	}},
	{key: "parent", value: "NAME", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		g.Spec.ParentCompositePodGroupName = &value
		return nil
	}},
	{key: "priority", value: "NUMBER", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		priority, err := strconv.ParseInt(value, 10, 32)
		g.Spec.Priority = new(int32(priority))
		return err
	}},
	{key: "disruption", value: "all or single", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		switch value {
		case "all":
			g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		case "single":
			g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}}
		default:
			return fmt.Errorf("%q is not a disruption mode", value)
		}
		return nil
	}},
	{key: "preempts", value: "never or lower", apply: func(g *schedulingv1alpha3.CompositePodGroup, _, value string) error {
		policies := map[string]schedulingv1alpha3.PreemptionPolicy{"never": schedulingv1alpha3.PreemptNever, "lower": schedulingv1alpha3.PreemptLowerPriority}
		policy, ok := policies[value]
		if !ok {
			return fmt.Errorf("%q is not a policy", value)
		}
		g.Spec.PreemptionPolicy = &policy
		return nil
	}},
}

// compositeStatements are the commands for composite pod groups. Without min, their
// policy is basic.
func compositeStatements() []statement {
	return statementsOf("compositepodgroup", model.CompositePodGroupKind, compositeAttributes, func(meta metav1.ObjectMeta) *schedulingv1alpha3.CompositePodGroup {
		return &schedulingv1alpha3.CompositePodGroup{ObjectMeta: meta, Spec: schedulingv1alpha3.CompositePodGroupSpec{
			SchedulingPolicy: schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Basic: &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}},
		}}
	})
}

// groupStatements are the commands for pod groups. Without min, their policy is basic.
func groupStatements() []statement {
	return statementsOf("podgroup", model.PodGroupKind, groupAttributes, func(meta metav1.ObjectMeta) *schedulingv1beta1.PodGroup {
		return &schedulingv1beta1.PodGroup{ObjectMeta: meta, Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}},
		}}
	})
}

// setGroup makes a pod a member of a group.
func setGroup(p *v1.Pod, _, value string) error {
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &value}
	return nil
}

// groupStatusOf describes the condition of a pod group.
func groupStatusOf(object kinds.Object) string {
	g := object.(*schedulingv1beta1.PodGroup)
	c := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	switch {
	case c == nil:
		return "none"
	case c.Status == metav1.ConditionTrue:
		return "scheduled"
	}
	return c.Reason + " " + c.Message
}
