package main

import (
	"context"
	"fmt"
	"strings"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// gatesFlag returns the flag that enables the site's feature gates, or nil.
func gatesFlag(site *scene.Site) []string {
	if len(site.Gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(site.Gates, "=true,") + "=true"}
}

// clusterFlags returns gatesFlag for an API server, which then also serves the API
// versions of the gates.
func clusterFlags(site *scene.Site) []string {
	flags := gatesFlag(site)
	if len(flags) > 0 {
		flags = append(flags, "--runtime-config="+schedulingv1beta1.SchemeGroupVersion.String()+"=true")
	}
	return flags
}

// makeGroups creates the pod groups of a scene.
func (st *stage) makeGroups(ctx context.Context, s *scene.Scene) error {
	err := rig.InParallel(len(s.Groups), func(i int) error {
		group := s.Groups[i]
		_, err := st.client.SchedulingV1beta1().PodGroups(group.Namespace).Create(ctx, group, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create pod groups: %w", err)
	}
	return nil
}

// removeGroups deletes the pod groups of a scene, because each round needs new ones
// without conditions.
func (st *stage) removeGroups(ctx context.Context, s *scene.Scene) error {
	err := rig.InParallel(len(s.Groups), func(i int) error {
		groups, name := st.client.SchedulingV1beta1().PodGroups(s.Groups[i].Namespace), s.Groups[i].Name
		// The finalizer is for a controller, which does not run.
		_, err := groups.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = groups.Delete(ctx, name, metav1.DeleteOptions{})
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete pod groups: %w", err)
	}
	return nil
}
