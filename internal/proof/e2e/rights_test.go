package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// asScheduler returns a client with a scheduler's permissions, from Kubernetes' bootstrap
// roles.
func (w *world) asScheduler() *kubernetes.Clientset {
	w.Helper()
	config, err := rig.Config(cluster.SchedulerKubeconfig)
	w.must(err)
	client, err := kubernetes.NewForConfig(config)
	w.must(err)
	return client
}

// TestSchedulerHasTheRightsForVolumes checks the permissions in the bootstrap roles
// system:kube-scheduler and system:volume-scheduler.
func TestSchedulerHasTheRightsForVolumes(t *testing.T) {
	w := newWorld(t, "volume-rights")
	w.checkRights([]right{
		{"", "persistentvolumes", "patch", true},
		{"", "persistentvolumeclaims", "patch", true},
		{"", "persistentvolumes", "list", true},
		{"", "persistentvolumes", "watch", true},
		{"", "persistentvolumeclaims", "list", true},
		{"", "persistentvolumeclaims", "watch", true},
		{"storage.k8s.io", "storageclasses", "list", true},
		{"storage.k8s.io", "storageclasses", "watch", true},
		{"storage.k8s.io", "csinodes", "list", true},
		{"storage.k8s.io", "csinodes", "watch", true},
		{"storage.k8s.io", "csidrivers", "list", true},
		{"storage.k8s.io", "csidrivers", "watch", true},
		{"storage.k8s.io", "csistoragecapacities", "list", true},
		{"storage.k8s.io", "csistoragecapacities", "watch", true},
		{"storage.k8s.io", "volumeattachments", "list", true},
		{"storage.k8s.io", "volumeattachments", "watch", true},
		// Permissions that a scheduler lacks.
		{"", "persistentvolumes", "delete", false},
		{"", "persistentvolumes", "create", false},
		{"", "persistentvolumeclaims", "delete", false},
		{"", "persistentvolumeclaims/status", "patch", false},
		{"storage.k8s.io", "csinodes", "patch", false},
	})
}

// TestSchedulerHasTheRightsForDevices checks the permissions for ResourceClaims. The API
// server requires "binding" if a request for a claim's status changes its allocation or
// reservations.
func TestSchedulerHasTheRightsForDevices(t *testing.T) {
	w := newWorld(t, "device-rights")
	const group = "resource.k8s.io"
	w.checkRights([]right{
		{group, "deviceclasses", "list", true},
		{group, "deviceclasses", "watch", true},
		{group, "resourceslices", "list", true},
		{group, "resourceslices", "watch", true},
		{group, "devicetaintrules", "list", true},
		{group, "devicetaintrules", "watch", true},
		{group, "resourceclaims", "get", true},
		{group, "resourceclaims", "list", true},
		{group, "resourceclaims", "watch", true},
		{group, "resourceclaims", "create", true},
		{group, "resourceclaims", "update", true},
		{group, "resourceclaims", "patch", true},
		{group, "resourceclaims", "delete", true},
		{group, "resourceclaims/status", "update", true},
		{group, "resourceclaims/status", "patch", true},
		{group, "resourceclaims/binding", "update", true},
		{group, "resourceclaims/binding", "patch", true},
		{"", "pods/status", "patch", true},
		{"", "pods/finalizers", "update", true},
		// Permissions that a scheduler lacks.
		{group, "resourceclaimtemplates", "list", false},
		{group, "resourceslices", "update", false},
	})
}

// right is a permission that a scheduler has or lacks. A subresource follows a slash.
type right struct {
	group, resource, verb string
	want                  bool
}

// checkRights checks the scheduler's permissions with the API server.
func (w *world) checkRights(rights []right) {
	w.Helper()
	reviews := w.asScheduler().AuthorizationV1().SelfSubjectAccessReviews()
	for _, r := range rights {
		resource, subresource, _ := strings.Cut(r.resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: r.group, Resource: resource, Subresource: subresource, Verb: r.verb},
		}}
		got, err := reviews.Create(w.ctx, review, metav1.CreateOptions{})
		w.must(err)
		if got.Status.Allowed != r.want {
			w.Errorf("%s %s %s: allowed %v, want %v: %s", r.verb, r.group, r.resource, got.Status.Allowed, r.want, got.Status.Reason)
		}
	}
}

// TestPatchOfAnOldVersionIsRefused patches a claim and a volume as a scheduler, in the
// way in which Berth writes its choice: with the version of its decision. The API server
// refuses any other version, as in an update.
func TestPatchOfAnOldVersionIsRefused(t *testing.T) {
	w := newWorld(t, "volume-patches")
	scheduler := w.asScheduler().CoreV1()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	class, modes := "by-hand", []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	volumes := w.client.CoreV1().PersistentVolumes()
	volume, err := volumes.Create(w.ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume-patches"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: "another", AccessModes: modes, Capacity: size,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/disk"}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	t.Cleanup(func() { w.must(volumes.Delete(context.Background(), volume.Name, metav1.DeleteOptions{})) })

	patches := map[string]func(version, value string) (string, error){
		"claim": func(version, value string) (string, error) {
			patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{"volume.kubernetes.io/selected-node":%q}}}`, version, value)
			got, err := scheduler.PersistentVolumeClaims(w.namespace).Patch(w.ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return got.ResourceVersion, err
		},
		"volume": func(version, value string) (string, error) {
			patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{"pv.kubernetes.io/bound-by-controller":%q}},"spec":{"claimRef":`+
				`{"kind":"PersistentVolumeClaim","apiVersion":"v1","namespace":%q,"name":%q,"uid":%q}}}`, version, value, w.namespace, "another", "no-such")
			got, err := scheduler.PersistentVolumes().Patch(w.ctx, volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return got.ResourceVersion, err
		},
	}
	current := map[string]func() string{
		"claim": func() string {
			got, err := scheduler.PersistentVolumeClaims(w.namespace).Get(w.ctx, claim.Name, metav1.GetOptions{})
			w.must(err)
			return got.ResourceVersion
		},
		"volume": func() string {
			got, err := scheduler.PersistentVolumes().Get(w.ctx, volume.Name, metav1.GetOptions{})
			w.must(err)
			return got.ResourceVersion
		},
	}
	for kind, patch := range patches {
		old := current[kind]()
		now := ""
		w.await("the "+kind+" is written", func() bool { // the controller manager writes it, too
			old = current[kind]()
			now, err = patch(old, "yes")
			return err == nil
		})
		if now == old {
			t.Errorf("%s: the patch changed nothing", kind)
		}
		if _, err := patch(old, "no"); !apierrors.IsConflict(err) {
			t.Errorf("%s: a patch of version %s, which is now %s: %v, want a conflict", kind, old, now, err)
		}
	}
}
