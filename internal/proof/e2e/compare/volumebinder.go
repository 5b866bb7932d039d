package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// claimOf returns the claim of a pod's first volume.
func claimOf(pod *v1.Pod) string {
	if len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].PersistentVolumeClaim == nil {
		return ""
	}
	return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
}

// bindWithVolumes gives every pod the next free volume, whether it fits the claim or not.
// Once the controller manager has confirmed that, it binds the pod to the volume's node,
// with a Scheduled event. It makes no decisions and writes volumes as far ahead as
// possible. So no scheduler can bind such pods faster than the controller manager
// confirms their claims.
func bindWithVolumes(ctx context.Context, client kubernetes.Interface, pods []v1.Pod) error {
	volumes, err := freeVolumes(ctx, client)
	if err != nil {
		return err
	}
	if len(volumes) < len(pods) {
		return fmt.Errorf("there are %d volumes for %d pods", len(volumes), len(pods))
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims()
	// Each claim is confirmed once, so no sender ever waits.
	confirmed := make(chan string, len(pods))
	byClaim, node := map[string]*v1.Pod{}, map[string]string{}
	for i := range pods {
		name := pods[i].Namespace + "/" + claimOf(&pods[i])
		byClaim[name] = &pods[i]
		node[name] = volumes[i].Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
	}
	bound := func(o any) bool { return o.(*v1.PersistentVolumeClaim).Status.Phase == v1.ClaimBound }
	_, err = claims.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, now any) {
		name := cache.MetaObjectToName(now.(metav1.Object)).String()
		if bound(now) && !bound(before) && byClaim[name] != nil {
			confirmed <- name
		}
	}})
	if err != nil {
		return fmt.Errorf("watch claims: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	factory.WaitForCacheSync(ctx.Done())

	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error { return giveVolumes(workCtx, client, pods, volumes, claims.Informer().GetStore()) })
	work.Go(func() error {
		binding, bindCtx := errgroup.WithContext(workCtx)
		binding.SetLimit(binderInFlight)
		for range pods {
			select {
			case name := <-confirmed:
				binding.Go(func() error { return bindOne(bindCtx, client, byClaim[name], node[name]) })
			case <-bindCtx.Done():
				return errors.Join(context.Cause(bindCtx), binding.Wait())
			}
		}
		return binding.Wait()
	})
	if err := work.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// freeVolumes lists the local volumes that have no claim.
func freeVolumes(ctx context.Context, client kubernetes.Interface) ([]v1.PersistentVolume, error) {
	list, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var free []v1.PersistentVolume
	for i := range list.Items {
		if v := &list.Items[i]; v.Spec.ClaimRef == nil && v.Spec.Local != nil {
			free = append(free, *v)
		}
	}
	return free, nil
}

// giveVolumes writes the claims of pods into volumes.
func giveVolumes(ctx context.Context, client kubernetes.Interface, pods []v1.Pod, volumes []v1.PersistentVolume, claims cache.Store) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(binderInFlight)
	for i := range pods {
		name := pods[i].Namespace + "/" + claimOf(&pods[i])
		object, exists, err := claims.GetByKey(name)
		if err != nil || !exists {
			return errors.Join(fmt.Errorf("find claim %s", name), err, work.Wait())
		}
		claim, volume := object.(*v1.PersistentVolumeClaim), volumes[i].Name
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":`+
			`{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q}}}`,
			claim.Namespace, claim.Name, claim.UID, claim.ResourceVersion)
		work.Go(func() error {
			_, err := client.CoreV1().PersistentVolumes().Patch(ctx, volume, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				return fmt.Errorf("give volume %s to claim %s: %w", volume, name, err)
			}
			return nil
		})
	}
	return work.Wait()
}
