package queue_test

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// A few tenants share a cluster. Each has its own namespace, pool of nodes and taint;
// their pods have labels in common.

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func tenant(r *rand.Rand) string { return one(r, "red", "green", "blue") }

// tenantPod is a pending pod of a tenant.
func tenantPod(r *rand.Rand, i int) *v1.Pod {
	p := random.TopologyPod(r, i)
	p.Namespace = tenant(r)
	p.Labels = map[string]string{"app": one(r, "web", "db"), "part-of": "shop", "pod": fmt.Sprint(r.IntN(5))}
	if r.IntN(2) == 0 {
		p.Spec.NodeSelector = map[string]string{v1.LabelOSStable: one(r, "linux", "linux", "windows"), "pool": tenant(r)}
	}
	if r.IntN(2) == 0 {
		p.Spec.Tolerations = nil
	}
	for range r.IntN(3) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, tenantToleration(r))
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if a := p.Spec.Affinity; a.NodeAffinity == nil && r.IntN(2) == 0 {
		a.NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: poolTerms(r)}}
	}
	if r.IntN(2) == 0 {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: tenantTerms(r)}
	}
	if r.IntN(2) == 0 {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: tenantTerms(r)}
	}
	if r.IntN(2) == 0 {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: one(r, v1.LabelTopologyZone, "pool"), WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: tenantSelector(r),
		}}
	}
	return p
}

func tenantTaint(r *rand.Rand) v1.Taint {
	return v1.Taint{
		Key: one(r, "tenant", "tenant", "load"), Value: one(r, tenant(r), tenant(r), "7"),
		Effect: one(r, v1.TaintEffectNoSchedule, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule),
	}
}

func tenantToleration(r *rand.Rand) v1.Toleration {
	t := tenantTaint(r)
	return v1.Toleration{
		Key: one(r, t.Key, t.Key, t.Key, ""), Value: one(r, t.Value, t.Value, "5", "9"), Effect: one(r, "", t.Effect),
		Operator: one(r, "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpGt, v1.TolerationOpLt),
	}
}

func poolTerms(r *rand.Rand) (terms []v1.NodeSelectorTerm) {
	for range 1 + r.IntN(2) {
		var term v1.NodeSelectorTerm
		for range r.IntN(3) {
			term.MatchExpressions = append(term.MatchExpressions, one(r,
				v1.NodeSelectorRequirement{Key: "pool", Operator: v1.NodeSelectorOpIn, Values: []string{tenant(r), "spare"}},
				v1.NodeSelectorRequirement{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{tenant(r)}},
				v1.NodeSelectorRequirement{Key: "gpu", Operator: v1.NodeSelectorOpExists},
				v1.NodeSelectorRequirement{Key: "gpu", Operator: v1.NodeSelectorOpDoesNotExist},
				v1.NodeSelectorRequirement{Key: "cores", Operator: v1.NodeSelectorOpGt, Values: []string{one(r, "4", "8", "many")}},
			))
		}
		if r.IntN(5) == 0 {
			term.MatchFields = []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{one(r, "n", "m")}}}
		}
		terms = append(terms, term)
	}
	return terms
}

func tenantSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if r.IntN(4) > 0 {
		s.MatchLabels = map[string]string{"part-of": "shop", "app": one(r, "web", "db")}
	}
	if r.IntN(3) == 0 {
		s.MatchExpressions = append(s.MatchExpressions, one(r,
			metav1.LabelSelectorRequirement{Key: "pod", Operator: metav1.LabelSelectorOpIn, Values: []string{"0", "1", "2"}},
			metav1.LabelSelectorRequirement{Key: "pod", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0", "1"}},
			metav1.LabelSelectorRequirement{Key: "leader", Operator: metav1.LabelSelectorOpExists},
			metav1.LabelSelectorRequirement{Key: "leader", Operator: metav1.LabelSelectorOpDoesNotExist},
			metav1.LabelSelectorRequirement{Key: "broken", Operator: metav1.LabelSelectorOpIn},
		))
	}
	return s
}

func tenantTerms(r *rand.Rand) (terms []v1.PodAffinityTerm) {
	for range 1 + r.IntN(2) {
		term := v1.PodAffinityTerm{TopologyKey: one(r, v1.LabelTopologyZone, "pool"), LabelSelector: tenantSelector(r)}
		switch r.IntN(6) {
		case 0:
			term.Namespaces = []string{tenant(r), tenant(r)}
		case 1:
			term.NamespaceSelector = &metav1.LabelSelector{}
		case 2:
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
		case 3:
			for i := range 100 { // too many to list each key
				term.Namespaces = append(term.Namespaces, fmt.Sprintf("n%d", i))
			}
			term.Namespaces = append(term.Namespaces, tenant(r))
		}
		terms = append(terms, term)
	}
	return terms
}

// tenantEvent is an event about a node or a placed pod of a tenant.
func tenantEvent(r *rand.Rand) model.Event {
	if r.IntN(2) == 0 {
		before, after := model.NewNode(tenantNode(r)), model.NewNode(tenantNode(r))
		action := one(r, model.Add, model.Delete, model.UpdateNodeLabel, model.UpdateNodeLabel, model.UpdateNodeTaint, model.UpdateNodeTaint,
			model.UpdateNodeAllocatable)
		switch action {
		case model.Add:
			return model.Event{Resource: model.NodeEvent, Action: action, Node: after}
		case model.Delete:
			return model.Event{Resource: model.NodeEvent, Action: action, OldNode: before}
		default:
			return model.Event{Resource: model.NodeEvent, Action: action, OldNode: before, Node: after}
		}
	}
	pod := func(p *v1.Pod) *model.Pod {
		p.Spec.NodeName = one(r, "n", "n", "n", "")
		if r.IntN(3) == 0 {
			p.Labels["leader"] = "yes"
		}
		return model.NewPod(p)
	}
	before := tenantPod(r, 99)
	after := before.DeepCopy()
	after.Labels = tenantPod(r, 99).Labels
	event := model.Event{Resource: model.AssignedPodEvent, Action: one(r, model.Add, model.Delete, model.UpdatePodLabel, model.UpdatePodLabel, model.UpdatePodScaleDown)}
	if event.Action == model.UpdatePodScaleDown {
		after.Spec.Containers, after.Spec.InitContainers, after.Spec.Resources = after.Spec.Containers[:1], nil, nil
	}
	if event.Action != model.Add {
		event.OldPod = pod(before)
	}
	if event.Action != model.Delete {
		event.Pod = pod(after)
	}
	if r.IntN(6) == 0 {
		upTo := one(r, int32(-5), 0, 10)
		event.OnlyUpTo = &upTo
	}
	return event
}

func tenantNode(r *rand.Rand) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1.LabelOSStable: one(r, "linux", "linux", "windows")}}}
	for _, name := range []string{"pool", v1.LabelTopologyZone, "gpu", "cores"} {
		if r.IntN(4) > 0 {
			n.Labels[name] = map[string]string{"pool": one(r, tenant(r), "spare"), v1.LabelTopologyZone: one(r, "a", "b"), "gpu": "yes", "cores": one(r, "6", "12")}[name]
		}
	}
	for range r.IntN(3) {
		n.Spec.Taints = append(n.Spec.Taints, tenantTaint(r))
	}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(one(r, "1", "4")), v1.ResourceMemory: resource.MustParse("8Gi")}
	if r.IntN(5) > 0 {
		n.Status.Allocatable[v1.ResourcePods] = resource.MustParse(one(r, "10", "110"))
	}
	return n
}
