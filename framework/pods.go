package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
)

// GetPodKey returns the UID, which is the pod's key in a NodeInfo. A pod without UID is
// an error.
func GetPodKey(pod *v1.Pod) (string, error) {
	if pod.UID == "" {
		return "", errors.New("cannot get cache key for pod with empty UID")
	}
	return string(pod.UID), nil
}

// GetPodFullName returns name_namespace.
func GetPodFullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// GetPodNamespacedName returns namespace/name.
func GetPodNamespacedName(pod *v1.Pod) string { return GetNamespacedName(pod.Namespace, pod.Name) }

// GetNamespacedName returns namespace/name.
func GetNamespacedName(namespace, name string) string { return namespace + "/" + name }

// MoreImportantPod reports whether the first pod is more important than the second: it
// has a higher priority or, with equal priorities, started earlier. A pod that has not
// started is less important than all that have.
func MoreImportantPod(first, second *v1.Pod) bool {
	if a, b := corev1.PodPriority(first), corev1.PodPriority(second); a != b {
		return a > b
	}
	a, b := first.Status.StartTime, second.Status.StartTime
	switch {
	case a == nil:
		return false
	case b == nil:
		return true
	}
	return a.Before(b)
}

// DeletePod deletes a pod from the API server, whatever its UID.
func DeletePod(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) error {
	return client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}

// PatchPodStatus writes the difference between two statuses to the API server. Equal
// statuses need no request. On conflicts and while the API server is unreachable, it
// retries for a fraction of a second. A nil new status writes nothing, and a nil old
// status counts as empty.
func PatchPodStatus(ctx context.Context, client kubernetes.Interface, name, namespace string, oldStatus, newStatus *v1.PodStatus) error {
	if newStatus == nil {
		return nil
	}
	if oldStatus == nil {
		oldStatus = &v1.PodStatus{}
	}
	patch, err := statusPatch(oldStatus, newStatus)
	if err != nil {
		return fmt.Errorf("failed to create merge patch for pod %q/%q: %w", namespace, name, err)
	}
	if patch == nil {
		return nil
	}
	return retry.OnError(retry.DefaultBackoff, isWorthRetrying, func() error {
		_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// statusPatch returns the strategic merge patch between two statuses; nil if they are
// equal.
func statusPatch(before, after *v1.PodStatus) ([]byte, error) {
	old, err := json.Marshal(v1.Pod{Status: *before})
	if err != nil {
		return nil, err
	}
	updated, err := json.Marshal(v1.Pod{Status: *after})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, updated, &v1.Pod{})
	if err != nil || string(patch) == "{}" {
		return nil, err
	}
	return patch, nil
}

func isWorthRetrying(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsConflict(err) || net.IsConnectionRefused(err)
}
