package simulate

import (
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
)

// This file has the API server's rules for writes to ResourceClaims.

// admitted returns the object to store for a patched object, or the reason for its
// refusal. A write to the status subresource changes only the status, and a write to the
// claim leaves the status as it is.
func admitted(stored, patched kinds.Object, subresource string) (kinds.Object, error) {
	now, ok := patched.(*resourcev1.ResourceClaim)
	if !ok {
		return patched, nil
	}
	before := stored.(*resourcev1.ResourceClaim)
	var refused field.ErrorList
	if subresource == "status" {
		now.ObjectMeta, now.Spec = *before.ObjectMeta.DeepCopy(), *before.Spec.DeepCopy()
		now.Status.Devices = ofAllocated(&now.Status)
		refused = checkClaimStatus(now, before)
	} else {
		now.Status = *before.Status.DeepCopy()
		now.DeletionTimestamp = before.DeletionTimestamp
		refused = checkClaim(now, before)
	}
	if len(refused) > 0 {
		return nil, apierrors.NewInvalid(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim").GroupKind(), now.Name, refused)
	}
	return now, nil
}

// ofAllocated returns the states of allocated devices. The others are dropped with the
// allocation.
func ofAllocated(status *resourcev1.ResourceClaimStatus) []resourcev1.AllocatedDeviceStatus {
	return slices.DeleteFunc(slices.Clone(status.Devices), func(d resourcev1.AllocatedDeviceStatus) bool {
		return status.Allocation == nil || !slices.ContainsFunc(status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
			return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device
		})
	})
}

func checkClaimStatus(now, before *resourcev1.ResourceClaim) (refused field.ErrorList) {
	status := field.NewPath("status")
	reserved := now.Status.ReservedFor
	for i, r := range reserved {
		if r.Resource == "" || r.Name == "" || r.UID == "" {
			refused = append(refused, field.Required(status.Child("reservedFor").Index(i), ""))
		}
		if slices.ContainsFunc(reserved[:i], func(o resourcev1.ResourceClaimConsumerReference) bool { return o.UID == r.UID }) {
			refused = append(refused, field.Duplicate(status.Child("reservedFor").Index(i), r.UID))
		}
		if now.DeletionTimestamp != nil && !slices.Contains(before.Status.ReservedFor, r) {
			refused = append(refused, field.Forbidden(status.Child("reservedFor"), "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	if len(reserved) > resourcev1.ResourceClaimReservedForMaxSize {
		refused = append(refused, field.TooMany(status.Child("reservedFor"), len(reserved), resourcev1.ResourceClaimReservedForMaxSize))
	}
	if len(reserved) > 0 && now.Status.Allocation == nil {
		refused = append(refused, field.Forbidden(status.Child("reservedFor"), "may not be specified when `allocated` is not set"))
	}
	if before.Status.Allocation != nil && now.Status.Allocation != nil && !equality.Semantic.DeepEqual(before.Status.Allocation, now.Status.Allocation) {
		refused = append(refused, field.Invalid(status.Child("allocation"), now.Status.Allocation, "field is immutable"))
	}
	return refused
}

func checkClaim(now, before *resourcev1.ResourceClaim) (refused field.ErrorList) {
	if !equality.Semantic.DeepEqual(before.Spec, now.Spec) {
		refused = append(refused, field.Invalid(field.NewPath("spec"), now.Spec, "field is immutable"))
	}
	added := slices.ContainsFunc(now.Finalizers, func(f string) bool { return !slices.Contains(before.Finalizers, f) })
	if before.DeletionTimestamp != nil && added {
		refused = append(refused, field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"))
	}
	return refused
}

// deferred returns the object to store if a deleted object has finalizers. It returns nil
// if the object goes at once.
func deferred(object kinds.Object, at time.Time) kinds.Object {
	claim, ok := object.(*resourcev1.ResourceClaim)
	if !ok || len(claim.Finalizers) == 0 {
		return nil
	}
	if claim.DeletionTimestamp != nil {
		return claim
	}
	now := claim.DeepCopy()
	now.DeletionTimestamp = &metav1.Time{Time: at}
	return now
}

// isOver reports whether storing this version removes the object: it is being deleted,
// and its last finalizer is gone.
func isOver(object kinds.Object) bool {
	claim, ok := object.(*resourcev1.ResourceClaim)
	return ok && claim.DeletionTimestamp != nil && len(claim.Finalizers) == 0
}
