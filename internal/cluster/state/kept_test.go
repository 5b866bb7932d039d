package state

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestNothingIsKeptOfWhatIsGone fills a state with one object of everything, and removes
// them all.
func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	s := New()
	withImage := build.Node("a", build.NodeLabels("zone=z"), func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{"image:1"}}} })
	apart := build.Pod(build.NodeName("a"), build.RequiredAntiAffinity(build.Term("zone", "app=x")))
	service := model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: "web"}
	set := model.Ref{Kind: model.ReplicaSetKind, Namespace: "ns", Name: "web-1"}
	space := model.Ref{Kind: model.NamespaceKind, Name: "ns"}
	claim := model.NewClaim(build.PersistentVolumeClaim("c", "class=fast bound=v"))
	stored := []model.Compiled{
		claim, model.NewVolume(build.PersistentVolume("v", "class=fast csi=d/h")),
		model.NewVolume(build.PersistentVolume("local", "class=fast", build.VolumeAffinity("zone In z1"))), model.NewCSINode(build.CSINode("a", "d=1")),
		model.NewStorageClass(build.StorageClass("fast", "provisioner=d")), model.NewCSIDriver(build.CSIDriver("d", "")),
		model.NewStorageCapacity(build.CSIStorageCapacity("room", "class=fast capacity=1Gi", "zone=z1")),
		model.NewVolumeAttachment(build.VolumeAttachment("at", "attacher=d node=b volume=v")),
		model.NewDeviceClass(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}),
		model.NewResourceSlice(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "drv", NodeName: new("b"), Pool: resourcev1.ResourcePool{Name: "p"}, Devices: []resourcev1.Device{{Name: "d"}},
		}}),
		model.NewResourceSlice(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "drv", AllNodes: new(true), Pool: resourcev1.ResourcePool{Name: "w"},
		}}),
		model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Status: resourcev1.ResourceClaimStatus{
			Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "drv", Pool: "p", Device: "d"}},
			}},
		}}),
		model.NewDeviceTaintRule(&resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{},
		}}),
	}
	build.Claims("c")(apart)
	for _, object := range stored {
		s.Apply([]model.Change{compiled(object)})
	}
	s.Apply([]model.Change{
		{Kind: model.NodeSet, Node: model.NewNode(withImage)},
		{Kind: model.PodSet, Pod: model.NewPod(apart)},
		{Kind: model.ObjectSet, Ref: space, Object: build.Namespace("ns", "team=a")},
		{Kind: model.ObjectSet, Ref: service, Object: build.Service("web", map[string]string{"app": "x"})},
		{Kind: model.ObjectSet, Ref: set, Object: &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{}}}},
	})
	if have, want := s.Sizes(), (Sizes{Terms: 1, Topologies: 1, Images: 1, Selectors: 2, Namespaces: 1, LabelSets: 1, Storage: storage.Sizes{
		Claims: 1, Volumes: 2, Classes: 1, Drivers: 1, Nodes: 2, Attachments: 1, Capacities: 1, Reaches: 2, Groups: 2, Used: 1,
	}, Devices: devices.Sizes{Claims: 1, Classes: 1, Slices: 2, Rules: 1, Pools: 2, Wide: 1, Nodes: 2, Used: 1, Alike: 1}}); have != want {
		t.Errorf("kept is %+v, want %+v", have, want)
	}
	s.Apply([]model.Change{
		{Kind: model.PodGone, Key: model.PodKey{Namespace: apart.Namespace, Name: apart.Name}},
		{Kind: model.NodeGone, Name: "a"},
		{Kind: model.ObjectGone, Ref: set}, {Kind: model.ObjectGone, Ref: service}, {Kind: model.ObjectGone, Ref: space},
	})
	for _, object := range stored {
		s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: object.Ref()}})
	}
	// Topologies are swept later; a bounded number of reaches is kept for a while.
	if have, want := s.Sizes(), (Sizes{Topologies: 1, Storage: storage.Sizes{Reaches: 2}}); have != want {
		t.Errorf("kept is %+v after all is gone, want %+v", have, want)
	}
}
