package kubelet

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// attachLimitExceeded is a kubelet's reason for a pod whose volumes exceed its node's
// attach limit.
const attachLimitExceeded = "VolumeAttachmentLimitExceeded"

// csiVolume is a driver's volume. A node attaches it once for all pods.
type csiVolume struct {
	driver, handle string
}

// csiVolumes returns the CSI volumes of a pod's bound claims, without migrated in-tree
// volumes.
func (s storehouse) csiVolumes(pod *v1.Pod) []csiVolume {
	var volumes []csiVolume
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		pv, err := s.boundVolume(pod, &pod.Spec.Volumes[i], name)
		if err == nil && pv.Spec.CSI != nil {
			volumes = append(volumes, csiVolume{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle})
		}
	}
	return volumes
}

// attach attaches a pod's volumes to its node. A message names the driver whose limit
// they exceed.
//
// As for admission, no refusal is based on a stale cache.
func (k *kubelets) attach(ctx context.Context, pod *v1.Pod) (message string, err error) {
	wanted := k.store.csiVolumes(pod)
	if len(wanted) == 0 {
		return "", nil
	}
	limits, err := k.limits.Get(pod.Spec.NodeName)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("look up CSINode %s: %w", pod.Spec.NodeName, err)
	}
	if k.attachWithin(limits, pod, wanted) == "" {
		return "", nil
	}
	limits, err = k.config.Client.StorageV1().CSINodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		limits, err = nil, nil
	}
	if err != nil {
		return "", fmt.Errorf("read CSINode %s: %w", pod.Spec.NodeName, err)
	}
	if err := k.releaseGone(ctx, pod.Spec.NodeName); err != nil {
		return "", err
	}
	return k.attachWithin(limits, pod, wanted), nil
}

// attachWithin attaches a pod's volumes if its node's limits allow it. A nil CSINode has
// no limits.
func (k *kubelets) attachWithin(limits *storagev1.CSINode, pod *v1.Pod, wanted []csiVolume) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.rooms.tenant(pod)
	if t == nil || t.attached {
		return ""
	}
	if driver := k.overLimit(limits, pod, wanted); driver != "" {
		return fmt.Sprintf("Node has reached its volume attachment limit, rejecting pod: driver %s", driver)
	}
	t.attached = true
	return ""
}

// overLimit returns a driver whose limit on a pod's node would be exceeded, or nothing.
// Callers hold the lock.
func (k *kubelets) overLimit(node *storagev1.CSINode, pod *v1.Pod, wanted []csiVolume) string {
	if node == nil {
		return ""
	}
	attached := map[csiVolume]bool{}
	for _, volume := range wanted {
		attached[volume] = true
	}
	for _, t := range k.rooms.tenants[pod.Spec.NodeName] {
		// A pod that an earlier run started has attached volumes too.
		if t.pod.UID == pod.UID || !t.attached && t.pod.Status.Phase != v1.PodRunning {
			continue
		}
		for _, volume := range k.store.csiVolumes(t.pod) {
			attached[volume] = true
		}
	}
	count := map[string]int32{}
	for volume := range attached {
		count[volume.driver]++
	}
	for _, d := range node.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil && needs(wanted, d.Name) && count[d.Name] > *d.Allocatable.Count {
			return d.Name
		}
	}
	return ""
}

func needs(wanted []csiVolume, driver string) bool {
	for _, volume := range wanted {
		if volume.driver == driver {
			return true
		}
	}
	return false
}
