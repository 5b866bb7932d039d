// Package disruption computes the status of PodDisruptionBudgets as
// kube-controller-manager's disruption controller does.
//
// It takes budgets, versions of pods, and the replicas of their controllers. It returns
// the status. It owns the counts of each budget and the indexes of budgets and pods. It
// never writes an object or reads a clock: a pod in status.disruptedPods stays there.
package disruption

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Scale returns the desired replicas of a pod's controller. ok is false if the controller
// is unknown.
type Scale func(namespace string, owner *metav1.OwnerReference) (replicas int32, ok bool)

// Budget counts the pods of a PodDisruptionBudget. One goroutine uses it.
type Budget struct {
	object   *policyv1.PodDisruptionBudget
	selector labels.Selector
	// Invariant: healthy is the number of healthy pods, and replicas counts the pods of
	// each controller.
	pods     map[string]counted // by name
	healthy  int32
	replicas map[owner]int32
}

// counted is the contribution of a pod to a budget.
type counted struct {
	healthy bool
	owner   owner
}

// owner is a pod's controller; the zero value means none.
type owner struct{ apiVersion, kind, name string }

// New returns a budget without pods.
func New(object *policyv1.PodDisruptionBudget) *Budget {
	b := &Budget{object: object, selector: labels.Nothing(), pods: map[string]counted{}, replicas: map[owner]int32{}}
	if selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector); err == nil {
		// Unlike in preemption, an empty selector selects every pod of the namespace.
		b.selector = selector
	}
	return b
}

// Name returns the name of the budget.
func (b *Budget) Name() string { return b.object.Name }

// Replace stores a version of the object that counts the same pods. If the pods may
// differ, it returns false and does nothing.
func (b *Budget) Replace(object *policyv1.PodDisruptionBudget) bool {
	same := equality.Semantic.DeepEqual(b.object.Spec.Selector, object.Spec.Selector) &&
		equality.Semantic.DeepEqual(b.object.Status.DisruptedPods, object.Status.DisruptedPods)
	if same {
		b.object = object
	}
	return same
}

// IsKept reports whether the spec limits disruptions at all.
func IsKept(object *policyv1.PodDisruptionBudget) bool {
	return object.Spec.MinAvailable != nil || object.Spec.MaxUnavailable != nil
}

// Set adds or replaces a pod. It reports whether the status may change.
func (b *Budget) Set(pod *v1.Pod) bool {
	if pod.Namespace != b.object.Namespace || isFinished(pod) || !b.selector.Matches(labels.Set(pod.Labels)) {
		return b.Remove(pod.Namespace, pod.Name)
	}
	now := counted{healthy: b.isHealthy(pod)}
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		now.owner = owner{ref.APIVersion, ref.Kind, ref.Name}
	}
	before, known := b.pods[pod.Name]
	if known && before == now {
		return false
	}
	b.Remove(pod.Namespace, pod.Name)
	b.pods[pod.Name] = now
	b.count(now, +1)
	return true
}

// Remove removes a pod. It reports whether the status may change.
func (b *Budget) Remove(namespace, name string) bool {
	before, known := b.pods[name]
	if !known || namespace != b.object.Namespace {
		return false
	}
	delete(b.pods, name)
	b.count(before, -1)
	return true
}

func (b *Budget) count(c counted, sign int32) {
	if c.healthy {
		b.healthy += sign
	}
	if c.owner == (owner{}) {
		return
	}
	if b.replicas[c.owner] += sign; b.replicas[c.owner] == 0 {
		delete(b.replicas, c.owner)
	}
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// isHealthy reports whether a pod counts as healthy. A placed pod without a Ready
// condition counts: pods that are written by hand or placed by a simulation have no
// kubelet.
func (b *Budget) isHealthy(pod *v1.Pod) bool {
	if _, disrupted := b.object.Status.DisruptedPods[pod.Name]; disrupted || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return true
}

// Status returns the status that follows from the counted pods.
func (b *Budget) Status(scale Scale) policyv1.PodDisruptionBudgetStatus {
	status := b.object.Status
	status.ObservedGeneration = b.object.Generation
	status.CurrentHealthy, status.DisruptionsAllowed = b.healthy, 0
	expected, desired, ok := b.demand(scale)
	if status.ExpectedPods, status.DesiredHealthy = expected, desired; ok && expected > 0 {
		status.DisruptionsAllowed = max(0, b.healthy-desired)
	}
	return status
}

// demand returns the expected number of pods, and how many of them must be healthy. ok is
// false if the disruption controller would report an error and allow no disruption.
func (b *Budget) demand(scale Scale) (expected, desired int32, ok bool) {
	spec := &b.object.Spec
	switch {
	case spec.MaxUnavailable != nil:
		if expected, ok = b.expected(scale); !ok {
			return 0, 0, false
		}
		unavailable, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		return expected, max(0, expected-int32(unavailable)), err == nil
	case spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.Int:
		return int32(len(b.pods)), spec.MinAvailable.IntVal, true
	case spec.MinAvailable != nil:
		if expected, ok = b.expected(scale); !ok {
			return 0, 0, false
		}
		available, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
		return expected, int32(available), err == nil
	}
	return 0, 0, true
}

// expected returns the desired replicas of the pods' controllers. Pods without a
// controller do not count.
func (b *Budget) expected(scale Scale) (sum int32, ok bool) {
	for o, pods := range b.replicas {
		if hasNoScale(o) {
			return 0, false
		}
		ref := metav1.OwnerReference{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name}
		if replicas, known := scale(b.object.Namespace, &ref); known {
			pods = replicas
		}
		sum += pods
	}
	return sum, true
}

// hasNoScale reports whether a kind of controller has no number of replicas.
func hasNoScale(o owner) bool {
	switch o.apiVersion + " " + o.kind {
	case "apps/v1 DaemonSet", "batch/v1 Job", "v1 Node":
		return true
	}
	return false
}

// Replicas returns the desired replicas of a controller. ok is false if the object is not
// a built-in controller.
func Replicas(controller any) (replicas int32, ok bool) {
	var want *int32
	switch o := controller.(type) {
	case *v1.ReplicationController:
		want = o.Spec.Replicas
	case *appsv1.ReplicaSet:
		want = o.Spec.Replicas
	case *appsv1.StatefulSet:
		want = o.Spec.Replicas
	default:
		return 0, false
	}
	if want == nil {
		return 1, true
	}
	return *want, true
}

// Controllers holds the desired replicas of controllers.
type Controllers map[controller]int32

// controller identifies a controller.
type controller struct {
	namespace string
	owner     owner
}

// Add adds an object. Objects other than built-in controllers are ignored.
func (c Controllers) Add(object any) {
	if replicas, ok := Replicas(object); ok {
		of, _ := controllerOf(object)
		c[of] = replicas
	}
}

// controllerOf returns the identity of a controller. ok is false if the object is not a
// built-in controller.
func controllerOf(object any) (of controller, ok bool) {
	switch object.(type) {
	case *v1.ReplicationController:
		of.owner = owner{apiVersion: "v1", kind: "ReplicationController"}
	case *appsv1.ReplicaSet:
		of.owner = owner{apiVersion: "apps/v1", kind: "ReplicaSet"}
	case *appsv1.StatefulSet:
		of.owner = owner{apiVersion: "apps/v1", kind: "StatefulSet"}
	default:
		return controller{}, false
	}
	meta := object.(metav1.Object)
	of.namespace, of.owner.name = meta.GetNamespace(), meta.GetName()
	return of, true
}

// Scale returns the desired replicas of an added controller.
func (c Controllers) Scale(namespace string, ref *metav1.OwnerReference) (replicas int32, ok bool) {
	replicas, ok = c[controller{namespace, owner{ref.APIVersion, ref.Kind, ref.Name}}]
	return replicas, ok
}
