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
	// Selector selects pods of the namespace: none if the object's selector is missing or
	// invalid, all if it is empty.
	Selector labels.Selector
	// SelectsAll means that the object's selector is {}.
	SelectsAll bool
	// Allowed is the number of these pods that may be disrupted now.
	Allowed int32
}

// NewDisruptionBudget compiles an API object. It keeps the object, which must not be
// changed afterwards.
func NewDisruptionBudget(object *policyv1.PodDisruptionBudget) *DisruptionBudget {
	b := &DisruptionBudget{
		Object: object, Namespace: Interned(object.Namespace), Selector: labels.Nothing(), Allowed: object.Status.DisruptionsAllowed,
	}
	if selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector); err == nil {
		b.Selector, b.SelectsAll = selector, selector.Empty()
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

// BudgetRules choose the pods that budgets protect from preemption. They differ between
// releases: the zero value has the rules of Kubernetes 1.37. The eviction API protects
// all pods that a budget selects.
type BudgetRules struct {
	// EmptySelector includes budgets with the selector {}.
	EmptySelector bool
	// UnlabelledPods includes pods without labels.
	UnlabelledPods bool
}

// AllSelected are the rules of the eviction API.
func AllSelected() BudgetRules { return BudgetRules{EmptySelector: true, UnlabelledPods: true} }

// Protects reports whether any budget may protect the pod.
func (r BudgetRules) Protects(pod *Pod) bool { return r.UnlabelledPods || len(pod.Labels) > 0 }

// Include reports whether the budget protects any pod.
func (r BudgetRules) Include(b *DisruptionBudget) bool { return r.EmptySelector || !b.SelectsAll }

// Covers reports whether the budget counts the disruption of a pod. Pods whose disruption
// has been counted already do not count.
func (b *DisruptionBudget) Covers(pod *Pod, r BudgetRules) bool {
	return b.Namespace == pod.Namespace && r.Protects(pod) && r.Include(b) && b.Selector.Matches(pod.Labels) && b.Counts(pod)
}

// Counts is Covers for a pod that the budget protects.
func (b *DisruptionBudget) Counts(pod *Pod) bool {
	_, counted := b.Object.Status.DisruptedPods[pod.Name]
	return !counted
}
