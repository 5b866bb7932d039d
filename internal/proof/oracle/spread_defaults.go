package oracle

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// systemConstraints are the constraints of defaultingType System for pods without
// constraints of their own.
func systemConstraints() []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{
		{TopologyKey: v1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: v1.ScheduleAnyway},
		{TopologyKey: v1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: v1.ScheduleAnyway},
	}
}

func (cy *cycle) defaultConstraints() []v1.TopologySpreadConstraint {
	if cy.listDefaults() {
		return cy.profile.Spread.DefaultConstraints
	}
	return systemConstraints()
}

func (cy *cycle) listDefaults() bool {
	return cy.profile.Spread.DefaultingType == configv1.ListDefaulting
}

// defaultSelector selects the pods of the same services and controller as the pod. It is
// empty, and so selects every pod, if the pod has neither.
func (cy *cycle) defaultSelector() selector {
	labels := map[string]string{}
	for _, s := range cy.cluster.Services {
		if s.Namespace == cy.pod.Namespace && s.Spec.Selector != nil && hasLabels(cy.pod.Labels, s.Spec.Selector) {
			maps.Copy(labels, s.Spec.Selector)
		}
	}
	owner := metav1.GetControllerOf(cy.pod)
	if owner == nil {
		return equal(labels)
	}
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController":
		if rc := named(cy.cluster.ReplicationControllers, cy.pod.Namespace, owner.Name); rc != nil {
			maps.Copy(labels, rc.Spec.Selector)
		}
	case "apps/v1 ReplicaSet":
		if rs := named(cy.cluster.ReplicaSets, cy.pod.Namespace, owner.Name); rs != nil && rs.Spec.Selector != nil {
			return equal(labels).and(selectorOf(rs.Spec.Selector))
		}
	case "apps/v1 StatefulSet":
		if set := named(cy.cluster.StatefulSets, cy.pod.Namespace, owner.Name); set != nil && set.Spec.Selector != nil {
			return equal(labels).and(selectorOf(set.Spec.Selector))
		}
	}
	return equal(labels)
}

// named finds an object by name, or returns nil. Upstream looks owners up by name, so an
// owner replaced by another of the same name counts.
func named[T interface {
	*E
	metav1.Object
}, E any](all []T, namespace, name string) T {
	at := slices.IndexFunc(all, func(o T) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if at < 0 {
		return nil
	}
	return all[at]
}
