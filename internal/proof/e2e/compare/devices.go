package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// buildDevices creates a site's objects for devices. No driver runs, because no pod is
// started on these nodes.
func (st *stage) buildDevices(ctx context.Context, site *scene.Site) error {
	api := st.client.ResourceV1()
	if site.Slice != nil {
		err := rig.InParallel(site.Nodes, func(i int) error {
			_, err := api.ResourceSlices().Create(ctx, site.Slice(i), metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("create ResourceSlices: %w", err)
		}
	}
	for _, class := range site.DeviceClasses {
		if _, err := api.DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create device class: %w", err)
		}
	}
	for _, template := range site.Templates {
		if _, err := api.ResourceClaimTemplates(template.Namespace).Create(ctx, template, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create template of claims: %w", err)
		}
	}
	err := rig.InParallel(len(site.Claims), func(i int) error {
		claims := api.ResourceClaims(site.Claims[i].Namespace)
		claim, err := claims.Create(ctx, site.Claims[i], metav1.CreateOptions{})
		if err != nil {
			return err
		}
		claim.Status = site.Claims[i].Status // a creation does not store the status
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create claims: %w", err)
	}
	return nil
}

// awaitFreeDevices waits until the controller manager has removed the claims of the
// measured pods, which hold devices until then.
func (st *stage) awaitFreeDevices(ctx context.Context, s *scene.Scene) error {
	if s.Devices == 0 {
		return nil
	}
	left := 0
	err := wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := st.metadata.Resource(resourcev1.SchemeGroupVersion.WithResource("resourceclaims")).Namespace(s.Measured.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		left = len(list.Items)
		return left == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until claims of pods that are gone are gone, %d are left: %w", left, err)
	}
	return nil
}

// withHistory plays a round and records claims and pods meanwhile, if the scene has
// devices.
func (t *take) withHistory(ctx context.Context, play func(ctx context.Context) error) error {
	if t.scene.Devices == 0 {
		return play(ctx)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	history, err := rig.Record(following, t.stage.client, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	defer history.Wait()
	defer stop()
	t.history = history
	return play(ctx)
}

// someWrongs is the number of mistakes that a failure lists.
const someWrongs = 5

// checkDevices checks that each measured pod was bound with its devices, after they were
// reserved for it, on a node that can use them. It also checks that no device ever had
// two claims. It reports how long the controller manager took to create the claims.
func (t *take) checkDevices(ctx context.Context) error {
	if t.history == nil {
		return nil
	}
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	wrong := append(t.history.UsedTwice(), t.history.BoundTooEarly(func(pool, node string) bool { return pool == node })...)
	bound := 0
	for pod, devices := range t.history.Bound() {
		if _, ok := pod.Labels[measuredLabel]; !ok {
			continue
		}
		bound++
		if len(devices) != 1 || devices[0] != t.scene.Devices {
			wrong = append(wrong, fmt.Sprintf("pod %s was bound with %v devices by claim, want one claim and %d", pod.Name, devices, t.scene.Devices))
		}
	}
	if bound != t.scene.Measured.Count {
		wrong = append(wrong, fmt.Sprintf("%d pods were bound, want %d", bound, t.scene.Measured.Count))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d things were wrong with devices: %s", len(wrong), strings.Join(wrong[:min(someWrongs, len(wrong))], "; "))
	}
	made := t.history.Made()
	var waits []time.Duration
	for i, sent := range t.sent {
		if at, ok := made[t.scene.Measured.Pod(i).Name]; ok {
			waits = append(waits, at.Sub(sent))
		}
	}
	t.comparison.step("%s: %d claims were made, half of them within %.2f s of the request that creates the pod, 99 %% within %.2f s", t.scene.Name, len(waits),
		report.Percentile(waits, 50).Seconds(), report.Percentile(waits, 99).Seconds())
	return nil
}

// catchUp waits until the history has reached the present: a claim and a pod that are
// created for this and deleted afterwards.
func (t *take) catchUp(ctx context.Context) error {
	namespace, now := t.scene.Measured.Namespace, int64(0)
	mark := metav1.ObjectMeta{GenerateName: "mark-"}
	claims, pods := t.stage.client.ResourceV1().ResourceClaims(namespace), t.stage.client.CoreV1().Pods(namespace)
	claim, err := claims.Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: mark}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("mark the end of the round: %w", err)
	}
	pod := &v1.Pod{ObjectMeta: mark, Spec: v1.PodSpec{
		SchedulingGates: []v1.PodSchedulingGate{{Name: "example.com/mark"}}, Containers: []v1.Container{{Name: "main", Image: "registry.example/main:1"}},
	}}
	if pod, err = pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("mark the end of the round: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return t.history.Knows(claim) && t.history.Knows(pod), t.history.Failure()
	})
	return errors.Join(err, claims.Delete(ctx, claim.Name, metav1.DeleteOptions{}), pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}
