package compare

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// TestDifferences has an example of each intended difference from kube-scheduler; see
// docs/differences.md. The random cases avoid these, and fail on any other difference.
func TestDifferences(t *testing.T) {
	const none = "none"
	volumes := []runtime.Object{
		build.CSINode("n1", "d=1"),
		build.PersistentVolume("v1", "phase=Bound csi=d/v1"), build.PersistentVolumeClaim("c1", "bound=v1"),
		build.VolumeAttachment("a1", "attacher=d node=n1 volume=v1"),
	}
	provisioned := func(capacity string, sizes ...string) (all []runtime.Object) {
		all = []runtime.Object{
			build.StorageClass("dp", "provisioner=d"), build.CSIDriver("d", "storageCapacity"),
			build.CSIStorageCapacity("a", "class=dp "+capacity, "everything"),
		}
		for i, size := range sizes {
			all = append(all, build.PersistentVolumeClaim([]string{"c1", "c2"}[i], "class=dp storage="+size))
		}
		return all
	}
	for _, row := range []struct {
		name    string
		pod     *v1.Pod
		objects []runtime.Object
		// kube and berth are part of the first objection to the node.
		kube, berth string
	}{
		{"a volume that is attached already", build.Pod(build.Claims("c1")), volumes, "node(s) exceed max volume count", none},
		{"claims that share a capacity", build.Pod(build.Claims("c1 c2")), provisioned("capacity=100Gi", "60Gi", "60Gi"),
			none, "node(s) did not have enough free storage"},
		{"a volume may be larger than what is left", build.Pod(build.Claims("c1")), provisioned("capacity=30Gi maximum=60Gi", "50Gi"),
			none, "node(s) did not have enough free storage"},
		{"an allocated device that is not published any more", asksForDevice(), partitions(), none, "cannot allocate all claims"},
		{"memory beyond 64 bits", build.Pod(build.Container("memory=7E"), build.Container("memory=7E")), nil, none, "Insufficient memory"},
		{"a resource beyond 64 bits", build.Pod(build.Container("example.com/gpu=7E"), build.Container("example.com/gpu=7E")), nil,
			none, "Insufficient example.com/gpu"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tc := cases.Case{Config: cases.EmptyConfig()}
			tc.Nodes = []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 memory=8Gi pods=110 example.com/gpu=4"))}
			tc.Pods = []*v1.Pod{row.pod}
			for _, o := range row.objects {
				tc.Add(o)
			}
			r, err := InProcess().Case(tc)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(r.Differences, func(d Difference) bool {
				return d.Node == "n1" && d.What == "first objection" && strings.Contains(d.KubeScheduler, row.kube) && strings.Contains(d.Berth, row.berth)
			}) {
				t.Errorf("want kube-scheduler %q, Berth %q, have:", row.kube, row.berth)
				for _, d := range r.Differences {
					t.Log(d)
				}
			}
		})
	}
}

// partitions returns a card with two partitions. The partition that takes all of its
// memory is allocated, and is left in a slice of an older generation.
func partitions() []runtime.Object {
	memory := func(gib int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: *resource.NewQuantity(gib<<30, resource.BinarySI)}}
	}
	slice := func(name string, generation, count int64) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"}}
		s.Spec = resourcev1.ResourceSliceSpec{Driver: "d", NodeName: new("n1"), Pool: resourcev1.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: count}}
		return s
	}
	part := func(name string, gib int64) resourcev1.Device {
		return resourcev1.Device{Name: name, ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "card", Counters: memory(gib)}}}
	}
	old, counters, parts := slice("old", 1, 2), slice("counters", 2, 2), slice("parts", 2, 2)
	old.Spec.Devices, parts.Spec.Devices = []resourcev1.Device{part("whole", 40)}, []resourcev1.Device{part("part", 10)}
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "card", Counters: memory(40)}}
	taken, free := deviceClaim("taken"), deviceClaim("free")
	taken.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "whole"}},
	}}
	return []runtime.Object{old, counters, parts, taken, free, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "part", UID: "part", ResourceVersion: "1"}}}
}

func deviceClaim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name), ResourceVersion: "1"}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "part", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}
	return c
}

// asksForDevice returns a pod that uses the claim free.
func asksForDevice() *v1.Pod {
	p := build.Pod()
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new("free")}}
	return p
}
