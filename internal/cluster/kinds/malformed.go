package kinds

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// MalformedTaint is the taint of a malformed node, and of the devices of a malformed
// DeviceTaintRule.
const MalformedTaint = "scheduler.berth.dev/malformed"

// SetAside returns the change for an object of the kind that cannot be compiled. It fails
// closed: a pod stays pending if the object, once readable, might prevent its placement.
// For some kinds a stand-in is stored, such as a node without room. Objects of the other
// kinds count as absent, which keeps the pods that need them pending.
func (r *Row) SetAside(object Object) model.Change {
	change := r.gone(r.Ref(object))
	switch o := object.(type) {
	case *v1.Node:
		change = nodeChange(nodeWithoutRoom(o))
	case *storagev1.CSINode:
		change = standIn(object, withoutVolumes(o))
	case *storagev1.CSIDriver:
		change = standIn(object, &model.CSIDriver{Object: &storagev1.CSIDriver{ObjectMeta: identity(o)}, Name: o.Name, TracksCapacity: true, MustBeInstalled: true})
	case *policyv1.PodDisruptionBudget:
		change = standIn(object, &model.DisruptionBudget{
			Object: &policyv1.PodDisruptionBudget{ObjectMeta: identity(o)}, Namespace: model.Interned(o.Namespace), Selector: labels.Everything(),
		})
	case *resourcev1.ResourceClaim:
		change = standIn(object, heldClaim(o))
	case *resourcev1.DeviceTaintRule:
		change = standIn(object, model.NewDeviceTaintRule(&resourcev1.DeviceTaintRule{ObjectMeta: identity(o), Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: o.Spec.DeviceSelector,
			Taint:          resourcev1.DeviceTaint{Key: MalformedTaint, Effect: resourcev1.DeviceTaintEffectNoSchedule},
		}}))
	}
	if change.Kind == model.ObjectSet {
		change.Ref = r.Ref(object)
	}
	return change
}

func standIn(object Object, compiled model.Compiled) model.Change {
	return model.Change{Kind: model.ObjectSet, Object: object, Compiled: compiled}
}

// identity keeps the fields that identify an object.
func identity(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		CreationTimestamp: object.GetCreationTimestamp(),
	}
}

// nodeWithoutRoom returns a node that accepts no pod. It keeps its labels, because its
// running pods still count in their topologies.
func nodeWithoutRoom(of *v1.Node) *v1.Node {
	node := &v1.Node{ObjectMeta: identity(of)}
	node.Labels = of.Labels
	node.Spec = v1.NodeSpec{Unschedulable: true, Taints: []v1.Taint{{Key: MalformedTaint, Effect: v1.TaintEffectNoSchedule}}}
	return node
}

// withoutVolumes returns a CSINode whose drivers can attach no volumes.
func withoutVolumes(of *storagev1.CSINode) *model.CSINode {
	node := &model.CSINode{Object: &storagev1.CSINode{ObjectMeta: identity(of)}, Name: of.Name, Drivers: map[string]int64{}, Limited: true}
	for i := range of.Spec.Drivers {
		node.Drivers[of.Spec.Drivers[i].Name] = 0
	}
	return node
}

// heldClaim keeps the allocation, whose devices are in use, and marks the claim as being
// deleted, so that no further pod uses it. An absent claim would free its devices.
func heldClaim(of *resourcev1.ResourceClaim) *model.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: identity(of)}
	claim.OwnerReferences, claim.DeletionTimestamp = of.OwnerReferences, &claim.CreationTimestamp
	claim.Finalizers = of.Finalizers
	claim.Status = resourcev1.ResourceClaimStatus{Allocation: of.Status.Allocation, ReservedFor: of.Status.ReservedFor}
	return model.NewResourceClaim(claim)
}

// trimOrKeep trims an object. If trimming fails, the object is passed on unchanged, and
// ingest sets it aside if it cannot be compiled. An error instead would make the watch
// repeat its list forever.
func (r *Row) trimOrKeep(s *sharing, object Object) {
	defer func() { _ = recover() }()
	r.trim(s, object)
}
