package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// buildStorage creates a site's objects for volumes.
func (st *stage) buildStorage(ctx context.Context, site *scene.Site) error {
	for _, class := range site.Classes {
		if _, err := st.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create storage class: %w", err)
		}
	}
	if site.CSINode == nil {
		return nil
	}
	err := rig.InParallel(site.Nodes, func(i int) error {
		_, err := st.client.StorageV1().CSINodes().Create(ctx, site.CSINode(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create CSINodes: %w", err)
	}
	return nil
}

// awaitAccounts waits for the default service accounts of namespaces. If controllers
// create them, pods cannot be created before.
func (st *stage) awaitAccounts(ctx context.Context, namespaces []*v1.Namespace) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, n := range namespaces {
			_, err := st.client.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			if err != nil {
				return false, fmt.Errorf("wait for the service account of namespace %s: %w", n.Name, err)
			}
		}
		return true, nil
	})
}

// makeDisk creates the claim and the volume of a pod, in the order of scheduler_perf: the
// claim, its status, the volume, its status. Existing objects are kept.
func (st *stage) makeDisk(ctx context.Context, group *scene.Pods, i int) error {
	if group.Disk == nil {
		return nil
	}
	claim, volume := group.Disk(i)
	claims, volumes := st.client.CoreV1().PersistentVolumeClaims(claim.Namespace), st.client.CoreV1().PersistentVolumes()
	_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err == nil && claim.Status.Phase != "" {
		_, err = claims.Patch(ctx, claim.Name, types.MergePatchType, phase(string(claim.Status.Phase)), metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create claim %s: %w", claim.Name, err)
	}
	_, err = volumes.Create(ctx, volume, metav1.CreateOptions{})
	if err == nil && volume.Status.Phase != "" {
		_, err = volumes.Patch(ctx, volume.Name, types.MergePatchType, phase(string(volume.Status.Phase)), metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create volume %s: %w", volume.Name, err)
	}
	return nil
}

// phase is a patch of a status. Statuses are not part of a creation.
func phase(phase string) []byte { return fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase) }

// unprotect is a patch that removes finalizers, because controllers may be absent.
var unprotect = []byte(`{"metadata":{"finalizers":null}}`)

// removeDisks deletes the claims and volumes of pods.
func (st *stage) removeDisks(ctx context.Context, group *scene.Pods) error {
	if group.Disk == nil {
		return nil
	}
	core := st.client.CoreV1()
	err := rig.InParallel(group.Count, func(i int) error {
		claim, volume := group.Disk(i)
		claims, volumes := core.PersistentVolumeClaims(claim.Namespace), core.PersistentVolumes()
		errs := []error{claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}), volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{})}
		_, err := claims.Patch(ctx, claim.Name, types.MergePatchType, unprotect, metav1.PatchOptions{})
		errs = append(errs, err)
		_, err = volumes.Patch(ctx, volume.Name, types.MergePatchType, unprotect, metav1.PatchOptions{})
		errs = append(errs, err)
		for k, err := range errs {
			if apierrors.IsNotFound(err) {
				errs[k] = nil
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("delete claims and volumes: %w", err)
	}
	return nil
}
