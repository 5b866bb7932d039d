package kubelet

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	core "k8s.io/client-go/testing"
)

// diskFor returns a claim and its bound CSI volume.
func diskFor(name, driver string) []runtime.Object {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	claim.Spec.VolumeName, claim.Status.Phase = name, v1.ClaimBound
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)}
	volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
	return []runtime.Object{claim, volume}
}

func limited(node string, limits map[string]int32) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for driver, count := range limits {
		d := storagev1.CSINodeDriver{Name: driver, NodeID: node}
		if count >= 0 {
			d.Allocatable = &storagev1.VolumeNodeResources{Count: new(count)}
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

// TestNodeAttachesSoManyVolumes has room for two volumes of one driver and any number of
// the other's.
func TestNodeAttachesSoManyVolumes(t *testing.T) {
	before := []runtime.Object{testNode("a", 20), limited("a", map[string]int32{"few": 2, "many": -1})}
	for _, name := range []string{"d1", "d2", "d3"} {
		before = append(before, diskFor(name, "few")...)
	}
	for _, name := range []string{"m1", "m2", "m3"} {
		before = append(before, diskFor(name, "many")...)
	}
	run(t, func(w *world) {
		w.add(withClaim(bound("m1"), "m1"), withClaim(bound("m2"), "m2"), withClaim(bound("m3"), "m3"))
		w.add(withClaim(bound("one"), "d1"))
		w.add(withClaim(bound("same"), "d1")) // attached already
		w.add(withClaim(bound("two"), "d2"))
		w.add(withClaim(bound("three"), "d3"))
		w.expect("m1 Running, m2 Running, m3 Running, one Running, same Running, two Running, three Failed VolumeAttachmentLimitExceeded")
		w.add(withClaim(bound("again"), "d2"), bound("plain"))
		w.expect("again Running, plain Running")
		for _, name := range []string{"one", "same"} {
			w.must(w.CoreV1().Pods("default").Delete(w.Context(), name, metav1.DeleteOptions{}))
		}
		w.add(withClaim(bound("three-again"), "d3"))
		w.expect("three-again Running")
	}, before...)
}

// TestVolumesOfAnEarlierRunAreAttached expects that pods running at the program's start
// count and waiting ones do not.
func TestVolumesOfAnEarlierRunAreAttached(t *testing.T) {
	runs := withClaim(bound("runs"), "d1")
	runs.Status.Phase, runs.Status.PodIPs = v1.PodRunning, []v1.PodIP{{IP: "10.0.0.1"}}
	waits := withClaim(bound("waits"), "d3")
	waits.Spec.Volumes = append(waits.Spec.Volumes, withClaim(bound("waits"), "missing").Spec.Volumes...)
	waits.Status.StartTime = new(metav1.Now())
	before := append(append(diskFor("d1", "few"), diskFor("d2", "few")...), diskFor("d3", "few")...)
	before = append(before, diskFor("m1", "many")...)
	before = append(before, testNode("a", 20), limited("a", map[string]int32{"few": 2, "many": 1}), runs, waits)
	run(t, func(w *world) {
		w.add(withClaim(bound("x"), "d2"))
		w.expect("runs Running, waits Pending, x Running")
		w.add(withClaim(bound("y"), "d3"))
		w.expect("y Failed VolumeAttachmentLimitExceeded")
		_, err := w.StorageV1().CSINodes().Update(w.Context(), limited("a", map[string]int32{"few": 1, "many": 1}), metav1.UpdateOptions{})
		w.must(err)
		w.add(withClaim(bound("z"), "m1")) // the other driver is above its limit now
		w.expect("z Running")
	}, before...)
}

func TestAttachLimitDoesNotComeFromAStaleCache(t *testing.T) {
	run(t, func(w *world) {
		w.PrependReactor("get", "csinodes", func(core.Action) (bool, runtime.Object, error) {
			return true, limited("a", map[string]int32{"few": 1}), nil
		})
		w.add(withClaim(bound("x"), "d1"))
		w.expect("x Running")
	}, append(diskFor("d1", "few"), testNode("a", 20), limited("a", map[string]int32{"few": 0}))...)
}
