package model

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// DisruptionBudget is a compiled PodDisruptionBudget. It is immutable.
type DisruptionBudget struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object    *policyv1.PodDisruptionBudget
	Namespace string
	// Selector selects pods of the namespace. As in kube-scheduler, it selects none if
	// the object's selector is missing, empty or invalid. In the API, an empty selector
	// selects all pods.
	Selector labels.Selector
	// Allowed is the number of these pods that may be disrupted now.
	Allowed int32
}

// NewDisruptionBudget compiles an API object. It keeps the object, which must not be
// changed afterwards.
func NewDisruptionBudget(object *policyv1.PodDisruptionBudget) *DisruptionBudget {
	b := &DisruptionBudget{
		Object: object, Namespace: Interned(object.Namespace), Selector: labels.Nothing(), Allowed: object.Status.DisruptionsAllowed,
	}
	if selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector); err == nil && !selector.Empty() {
		b.Selector = selector
	}
	return b
}

// Ref returns the reference of the budget.
func (b *DisruptionBudget) Ref() Ref {
	return Ref{Kind: PodDisruptionBudgetKind, Namespace: b.Namespace, Name: b.Object.Name}
}

// UID returns the object's UID.
func (b *DisruptionBudget) UID() types.UID { return b.Object.UID }

// Version returns the object's resourceVersion.
func (b *DisruptionBudget) Version() string { return b.Object.ResourceVersion }

// Covers reports whether the budget counts the disruption of a pod. Pods without labels
// do not count, nor do pods whose disruption has been counted already.
func (b *DisruptionBudget) Covers(pod *Pod) bool {
	return b.Namespace == pod.Namespace && len(pod.Labels) > 0 && b.Selector.Matches(pod.Labels) && b.Counts(pod)
}

// Counts is Covers for a pod that the budget selects.
func (b *DisruptionBudget) Counts(pod *Pod) bool {
	_, counted := b.Object.Status.DisruptedPods[pod.Name]
	return !counted
}
