package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// TestVolumesComeToTheirPods runs pods with provisioned volumes, and as many with local
// volumes, at the same time.
func TestVolumesComeToTheirPods(t *testing.T) {
	w := newStorage(t, "volumes")
	each := *volumePods
	w.provisioner()
	w.class("provisioned", w.driver, storagev1.VolumeBindingWaitForFirstConsumer)
	w.localVolumes("local", each)
	w.podsWithClaims("provisioned", each)
	w.podsWithClaims("local", each)
	w.awaitRunning(2*each, w.scheduler(nil))
	w.volumesAreWell(2 * each)
}

// TestProvisionerFailsAThirdOfTheTime fails a third of the provisionings. The provisioner
// removes the selected node from the claim, and the pod is scheduled again.
func TestProvisionerFailsAThirdOfTheTime(t *testing.T) {
	w := newStorage(t, "provisioner-fails")
	pods := *volumePods
	w.provisioner("--fail-share=0.3334")
	w.class("provisioned", w.driver, storagev1.VolumeBindingWaitForFirstConsumer)
	w.podsWithClaims("provisioned", pods)
	w.awaitRunning(pods, w.scheduler(nil))
	w.volumesAreWell(pods)
	if n := int(w.handedBack.Load()); n < pods/4 {
		t.Errorf("claims were handed back %d times, want about %d", n, pods/2)
	} else {
		t.Logf("claims were handed back %d times", n)
	}
}

// TestSchedulerDiesWithVolumes kills the scheduler five times with SIGKILL, while it
// binds pods with volumes and a third of the provisionings fail. Its choices are then
// only in the claims and volumes.
func TestSchedulerDiesWithVolumes(t *testing.T) {
	const deaths = 5
	w := newStorage(t, "volumes-deaths")
	each := *volumePods
	w.provisioner("--fail-share=0.3334", fmt.Sprint("--seed=", *failSeed))
	w.class("provisioned", w.driver, storagev1.VolumeBindingWaitForFirstConsumer)
	w.localVolumes("local", each)
	w.podsWithClaims("provisioned", each)
	w.podsWithClaims("local", each)
	for death := range deaths {
		p := w.scheduler(nil)
		w.awaitBound(2 * each * (death + 1) / (deaths + 2))
		p.Kill()
		n, _ := w.bound()
		t.Logf("%s: killed when %d pods were bound", clock(time.Now()), n)
	}
	w.awaitRunning(2*each, w.scheduler(nil))
	w.volumesAreWell(2 * each)
}

// TestVolumesAsUsers covers rare cases: volumes that exist before their pod, ephemeral
// volumes, volumes with the reach of a zone, nodes with few attachments, and nearly full
// storage.
func TestVolumesAsUsers(t *testing.T) {
	const each = 30
	w := newStorage(t, "volumes-kinds")
	// Zones have room for 40 volumes of 1Gi: 120 in all.
	w.provisioner("--topology-key="+v1.LabelTopologyZone, "--volumes-per-node=2", "--capacity=40Gi")
	w.class("immediate", w.driver, storagev1.VolumeBindingImmediate)
	w.class("late", w.driver, storagev1.VolumeBindingWaitForFirstConsumer)
	w.class("zone-b", w.driver, storagev1.VolumeBindingWaitForFirstConsumer, "eu-1b")
	scheduler := w.scheduler(nil)
	w.podsWithClaims("zone-b", each/2)
	w.awaitRunning(each/2, scheduler) // before others take the room in that zone
	w.podsWithClaims("immediate", each)
	w.must(rig.CreatePods(w.ctx, w.client, w.namespace, each, func(i int) *v1.Pod {
		pod := w.podWith(fmt.Sprint("ephemeral-", i), "")
		class := w.className("late")
		pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: claimSpec(class)},
		}}}}
		return pod
	}))
	w.awaitRunning(2*each+each/2, scheduler)
	w.volumesAreWell(2*each + each/2)
	// Two pods fit on a node, whatever other room it has.
	perNode := map[string]int{}
	for _, pod := range w.pods() {
		perNode[pod.Spec.NodeName]++
		if zone := w.zoneOf(pod.Spec.NodeName); pod.Labels["class"] == "zone-b" && zone != "eu-1b" {
			t.Errorf("pod %s is in zone %s, which its class does not allow", pod.Name, zone)
		}
	}
	for node, n := range perNode {
		if n > 2 {
			t.Errorf("%d pods with a volume each are on node %s, which attaches 2", n, node)
		}
	}
	// 45 more volumes are left. The pods of the others stay pending, and their claims
	// free.
	w.podsWithClaims("late", 2*each)
	w.await("the rest of the storage is in use", func() bool { n, ok := w.bound(); return ok && n >= 120 })
	waiting := func() int {
		return len(slices.DeleteFunc(w.pods(), func(p v1.Pod) bool { return p.Spec.NodeName != "" || rejected(&p) == "" }))
	}
	w.await("the other pods are rejected", func() bool { return waiting() == 15 })
	for _, pod := range w.pods() {
		if pod.Spec.NodeName != "" {
			continue
		}
		if want := fmt.Sprintf("0/%d nodes are available: ", cluster.Nodes); len(rejected(&pod)) <= len(want) || rejected(&pod)[:len(want)] != want {
			t.Errorf("pod %s is rejected with %q", pod.Name, rejected(&pod))
		}
	}
	// A deleted pod releases its storage.
	now := int64(0)
	w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, "ephemeral-0", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	w.await("a pod has the storage of one that went", func() bool { return waiting() == 14 })
}

// rejected returns the message of a pending pod's condition.
func rejected(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}
