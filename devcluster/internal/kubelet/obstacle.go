package kubelet

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Reasons of the events of a pod that cannot start yet.
const (
	failedMount   = "FailedMount"
	failedPrepare = "FailedPrepareDynamicResources"
)

// pvcProtection is the finalizer that keeps a claim usable during its deletion.
const pvcProtection = "kubernetes.io/pvc-protection"

// obstacle is the reason and message of a kubelet's event while an admitted pod cannot
// start. The zero value is no obstacle.
type obstacle struct {
	reason, message string
}

// storehouse looks up a pod's volumes and devices.
type storehouse struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	// devices is nil if the API server does not serve ResourceClaims.
	devices resourcelisters.ResourceClaimLister
	// podGroups is set if a pod may use the ResourceClaims of its PodGroup.
	podGroups bool
}

// obstacle returns the obstacle of an admitted pod on its node: first volumes, then
// devices, like a kubelet.
func (s storehouse) obstacle(pod *v1.Pod, node *v1.Node) obstacle {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if err := s.mount(pod, volume, node); err != nil {
			return obstacle{failedMount, err.Error()}
		}
	}
	for _, claim := range deviceClaims(pod) {
		if err := s.prepare(pod, claim, node); err != nil {
			return obstacle{failedPrepare, fmt.Sprintf("Failed to prepare dynamic resources: prepare dynamic resources: %v", err)}
		}
	}
	return obstacle{}
}

// claimName returns the name of the PersistentVolumeClaim behind a volume, or nothing for
// other volumes.
func claimName(pod *v1.Pod, volume *v1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	}
	return ""
}

// mount returns the error that prevents mounting a volume, or nil.
func (s storehouse) mount(pod *v1.Pod, volume *v1.Volume, node *v1.Node) error {
	name := claimName(pod, volume)
	if name == "" {
		return nil
	}
	pv, err := s.boundVolume(pod, volume, name)
	if err != nil {
		//nolint:staticcheck // ST1005: the text is the real kubelet's
		return fmt.Errorf("Unable to attach or mount volumes: unmounted volumes=[%[1]s], unattached volumes=[], failed to process volumes=[%[1]s]: error processing PVC %s/%s: %w",
			volume.Name, pod.Namespace, name, err)
	}
	if err := storage.CheckNodeAffinity(pv, node.Labels); err != nil {
		return fmt.Errorf("MountVolume.NodeAffinity check failed for volume %q : %w", pv.Name, err)
	}
	return nil
}

// boundVolume returns the PersistentVolume of a pod's claim, or an error with the reason
// that it has none.
func (s storehouse) boundVolume(pod *v1.Pod, volume *v1.Volume, name string) (*v1.PersistentVolume, error) {
	claim, err := s.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, pvcProtection):
		return nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := s.volumes.Get(claim.Spec.VolumeName)
	switch {
	case err != nil:
		return nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("found PV object %s but it is not bound to the claim", pv.Name)
	}
	return pv, nil
}

// deviceClaims returns the claims in a pod's spec, and the scheduler's claim for its
// extended resources.
func deviceClaims(pod *v1.Pod) []v1.PodResourceClaim {
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil {
		return pod.Spec.ResourceClaims
	}
	return append(slices.Clip(pod.Spec.ResourceClaims), v1.PodResourceClaim{ResourceClaimName: &status.ResourceClaimName})
}

// deviceClaimName returns the name of a pod's ResourceClaim, or nothing if it has none,
// or none yet.
func deviceClaimName(pod *v1.Pod, claim v1.PodResourceClaim) string {
	name, _, err := resourceclaim.Name(pod, &claim)
	if err != nil || name == nil {
		return ""
	}
	return *name
}

// prepare returns the error that keeps a pod from using a claim's devices on a node, or
// nil. A kubelet does not check the devices' node; its driver does.
func (s storehouse) prepare(pod *v1.Pod, podClaim v1.PodResourceClaim, node *v1.Node) error {
	name, ofPod, err := resourceclaim.Name(pod, &podClaim)
	if err != nil || name == nil { // without a name, the pod needs no claim
		return err
	}
	if s.devices == nil {
		return fmt.Errorf("fetch ResourceClaim %s: the API server does not serve ResourceClaims", *name)
	}
	claim, err := s.devices.ResourceClaims(pod.Namespace).Get(*name)
	if err != nil {
		return fmt.Errorf("fetch ResourceClaim %s: %w", *name, err)
	}
	if ofPod {
		if err := resourceclaim.IsForPod(pod, claim, s.podGroups); err != nil {
			return err
		}
	}
	switch {
	case !resourceclaim.IsReservedForPod(pod, claim, s.podGroups):
		return fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, claim.Name, claim.UID)
	case claim.Status.Allocation == nil:
		return fmt.Errorf("ResourceClaim %s: not allocated", claim.Name)
	}
	return reachable(claim, node)
}

// reachable returns an error if a node cannot use a claim's devices.
func reachable(claim *resourcev1.ResourceClaim, node *v1.Node) error {
	if claim.Status.Allocation.NodeSelector == nil {
		return nil
	}
	selector, err := nodeaffinity.NewNodeSelector(claim.Status.Allocation.NodeSelector)
	if err != nil {
		return fmt.Errorf("ResourceClaim %s: %w", claim.Name, err)
	}
	if !selector.Match(node) {
		return fmt.Errorf("ResourceClaim %s: allocated devices are not available on node %s", claim.Name, node.Name)
	}
	return nil
}
