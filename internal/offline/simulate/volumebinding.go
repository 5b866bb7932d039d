package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/model"
)

// syncClaim brings a claim one write closer to being bound.
func (v *volumeController) syncClaim(key model.ClaimKey) {
	claim := v.claims[key]
	if claim == nil {
		return
	}
	if isBound(claim) {
		switch pv := v.volumes[claim.Spec.VolumeName]; {
		case pv == nil:
		case pv.Spec.ClaimRef == nil || volume.IsVolumeBoundToClaim(pv, claim):
			v.bind(claim, pv)
		default:
			v.lose(key)
		}
		return
	}
	if pv := v.volumeFor(claim); pv != nil {
		v.bind(claim, pv)
	} else if claim.Spec.VolumeName == "" {
		v.provision(claim)
	}
}

// waits reports whether a claim has delayed binding (WaitForFirstConsumer).
func (v *volumeController) waits(claim *v1.PersistentVolumeClaim) bool {
	class := v.classes[volume.GetPersistentVolumeClaimClass(claim)]
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// volumeFor returns the volume to bind a claim to, or nil. The volume that the claim
// names comes first, then one that names the claim. For a claim without delayed binding,
// the smallest matching volume follows.
func (v *volumeController) volumeFor(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	if name := claim.Spec.VolumeName; name != "" {
		pv := v.volumes[name]
		if pv != nil && (volume.IsVolumeBoundToClaim(pv, claim) || pv.Spec.ClaimRef == nil && isLargeEnough(pv, claim)) {
			return pv
		}
		return nil
	}
	key, class, waits := claimKeyOf(claim), volume.GetPersistentVolumeClaimClass(claim), v.waits(claim)
	var meant []*v1.PersistentVolume
	for name := range v.named[key] {
		meant = append(meant, v.volumes[name])
	}
	slices.SortFunc(meant, compareVolumes)
	free := v.free[class]
	if waits {
		free = nil
	}
	for _, pv := range slices.Concat(meant, free[fromSize(free, claim):]) {
		// A selector that cannot be parsed finds nothing.
		if found, err := volume.FindMatchingVolume(claim, []*v1.PersistentVolume{pv}, nil, nil, waits, true); err == nil && found != nil &&
			volume.CheckAccessModes(claim, pv) {
			drop(v.unmatched, class, key)
			return found
		}
	}
	if !waits {
		add(v.unmatched, class, key, true)
	}
	return nil
}

// fromSize returns the index of the first volume that is large enough for the claim, in a
// list sorted by size.
func fromSize(volumes []*v1.PersistentVolume, claim *v1.PersistentVolumeClaim) int {
	at, _ := slices.BinarySearchFunc(volumes, claim, func(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) int {
		if isLargeEnough(pv, claim) {
			return 1
		}
		return -1
	})
	return at
}

func isLargeEnough(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	size, request := pv.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
	return size.Cmp(request) >= 0
}

// bind makes the next write of a binding: the volume names the claim, the volume becomes
// Bound, the claim names the volume, the claim becomes Bound.
func (v *volumeController) bind(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	bound, dirty, err := volume.GetBindVolumeToClaim(pv, claim)
	switch {
	case err != nil: // cannot happen: every stored claim can be referenced
	case dirty:
		v.put(bound)
	case pv.Status.Phase != v1.VolumeBound:
		v.setVolumePhase(pv, v1.VolumeBound)
	case !isBound(claim):
		now := claim.DeepCopy()
		if now.Spec.VolumeName == "" {
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, volume.AnnBoundByController, "yes")
		}
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, volume.AnnBindCompleted, "yes")
		now.Spec.VolumeName = pv.Name
		v.put(now)
	case claim.Status.Phase != v1.ClaimBound:
		now := claim.DeepCopy()
		now.Status.Phase, now.Status.Capacity, now.Status.AccessModes = v1.ClaimBound, pv.Spec.Capacity, pv.Spec.AccessModes
		v.put(now)
		v.c.happened["claim: bound"]++
	}
}

// lose marks a bound claim whose volume is gone or bound to another claim.
func (v *volumeController) lose(key model.ClaimKey) {
	if claim := v.claims[key]; isBound(claim) && claim.Status.Phase != v1.ClaimLost {
		now := claim.DeepCopy()
		now.Status.Phase = v1.ClaimLost
		v.put(now)
		v.c.happened["claim: lost"]++
	}
}

// syncVolume brings a volume one write closer to the state of the claim that it names.
func (v *volumeController) syncVolume(name string) {
	pv := v.volumes[name]
	if pv == nil {
		return
	}
	key, ok := namedBy(pv)
	claim := v.claims[key]
	switch {
	case !ok || pv.Spec.ClaimRef.UID == "":
		if claim == nil || claim.Spec.VolumeName != name {
			v.setVolumePhase(pv, v1.VolumeAvailable)
		}
	case claim == nil || claim.UID != pv.Spec.ClaimRef.UID:
		v.release(pv)
	case claim.Spec.VolumeName == "": // the claim is reconciled next
	case claim.Spec.VolumeName == name:
		v.setVolumePhase(pv, v1.VolumeBound)
	default:
		v.unbind(pv)
	}
}

func (v *volumeController) setVolumePhase(pv *v1.PersistentVolume, phase v1.PersistentVolumePhase) {
	if pv.Status.Phase != phase {
		now := pv.DeepCopy()
		now.Status.Phase = phase
		v.put(now)
	}
}

// release handles a volume whose claim is gone.
func (v *volumeController) release(pv *v1.PersistentVolume) {
	if pv.Status.Phase != v1.VolumeReleased {
		v.setVolumePhase(pv, v1.VolumeReleased)
		v.c.happened["volume: released"]++
	} else if pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		v.c.DeleteObject(model.VolumeRef(pv.Name))
		v.c.happened["volume: deleted"]++
	}
}

// unbind handles a volume whose claim was bound to another volume.
func (v *volumeController) unbind(pv *v1.PersistentVolume) {
	v.c.happened["volume: unbound"]++
	_, provisioned := pv.Annotations[volume.AnnDynamicallyProvisioned]
	if provisioned && pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete {
		v.c.DeleteObject(model.VolumeRef(pv.Name))
		return
	}
	now := pv.DeepCopy()
	if _, byController := pv.Annotations[volume.AnnBoundByController]; byController {
		now.Spec.ClaimRef = nil
		delete(now.Annotations, volume.AnnBoundByController)
	} else {
		now.Spec.ClaimRef.UID = ""
	}
	v.put(now)
}
