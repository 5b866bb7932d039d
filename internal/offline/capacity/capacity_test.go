package capacity

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// on returns a pod on a node.
func on(node, name, requests string, with ...build.PodOption) *v1.Pod {
	return build.Pod(append([]build.PodOption{build.Named(name), build.Container(requests), func(p *v1.Pod) { p.Spec.NodeName = node }}, with...)...)
}

// byZone puts nodes together by their zone.
func byZone(n *v1.Node) string { return n.Labels[v1.LabelTopologyZone] }

// node returns a node of a zone.
func node(name, zone, allocatable string) *v1.Node {
	return build.Node(name, build.Allocatable(allocatable), func(n *v1.Node) { n.Labels = map[string]string{v1.LabelTopologyZone: zone} })
}

// show describes an amount.
func show(a *Amount) string {
	return fmt.Sprintf("%s of %s free, %s requested, %d%% in fragments", &a.Free, &a.Allocatable, &a.Requested, a.FragmentedPercent)
}

// TestCount counts two zones: a full node, a cordoned node, a node without places for
// pods, overcommitted nodes, and finished and pending pods, which count nowhere.
func TestCount(t *testing.T) {
	cordoned, none := node("a3", "a", "cpu=100 memory=100Gi pods=10"), build.Node("z", build.Allocatable("cpu=1 memory=1Gi pods=1"))
	cordoned.Spec.Unschedulable = true
	c := &manifest.Cluster{
		Nodes: []*v1.Node{
			node("a1", "a", "cpu=8 memory=8Gi pods=10 example.com/gpu=4"), node("a2", "a", "cpu=4 memory=8Gi pods=10"), cordoned,
			node("b1", "b", "cpu=4 memory=4Gi pods=1"), none,
		},
		Pods: []*v1.Pod{
			on("a1", "p1", "cpu=2 memory=1Gi example.com/gpu=1"), on("a1", "p2", "cpu=1 memory=1Gi"),
			on("a2", "p3", "cpu=3500m memory=1Gi"), on("a3", "p4", "cpu=1 memory=1Gi"),
			on("b1", "p5", "cpu=1 memory=5Gi"), on("", "p6", "cpu=1"),
			on("a1", "p7", "cpu=5", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
			on("a1", "p8", "cpu=5", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }),
		},
	}
	groups := Count(c, c.Nodes, byZone)
	if len(groups) != 3 || groups[0].Name != "a" || groups[1].Name != "b" || groups[2].Name != "" {
		t.Fatalf("%+v", groups)
	}
	a, b := &groups[0], &groups[1]
	for _, test := range []struct{ got, want string }{
		{show(&a.CPU), "5500m of 112 free, 7500m requested, 9% in fragments"},
		{show(&a.Memory), "13Gi of 116Gi free, 4Gi requested, 54% in fragments"},
		{show(&a.Pods), "17 of 30 free, 4 requested, 0% in fragments"},
		{show(&b.CPU), "3 of 4 free, 1 requested, 100% in fragments"},
		{show(&b.Memory), "0 of 4Gi free, 5Gi requested, 0% in fragments"},
		{show(&b.Pods), "0 of 1 free, 1 requested, 0% in fragments"},
		{fmt.Sprint(a.Nodes, a.Unschedulable, a.Devices), "3 1 [{example.com/gpu false 4 1 3}]"},
		{fmt.Sprintf("%s %s %s", &a.LargestCPU.CPU, &a.LargestCPU.Memory, a.LargestCPU.Node), "5 6Gi a1"},
		{fmt.Sprintf("%s %s %s", &a.LargestMemory.CPU, &a.LargestMemory.Memory, a.LargestMemory.Node), "500m 7Gi a2"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
	if b.LargestCPU != nil || b.LargestMemory != nil {
		t.Errorf("a node without places for pods takes %+v", b.LargestCPU)
	}
}

// TestCountDevices counts the devices of DRA drivers by node: of the latest slices, and
// without those for administrators.
func TestCountDevices(t *testing.T) {
	slice := func(node string, generation int64, devices ...string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourcev1.ResourcePool{Name: node, Generation: generation}}}
		if node != "shared" {
			s.Spec.NodeName = &node
		}
		for _, name := range devices {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
		}
		return s
	}
	admin := true
	claim := func(results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: results}}}}
	}
	cordoned := node("n2", "a", "cpu=1 memory=1Gi pods=1")
	cordoned.Spec.Unschedulable = true
	c := &manifest.Cluster{
		Nodes:          []*v1.Node{node("n1", "a", "cpu=1 memory=1Gi pods=1"), cordoned},
		ResourceSlices: []*resourcev1.ResourceSlice{slice("n1", 1, "old", "older"), slice("n1", 2, "g0", "g1", "g2"), slice("n2", 1, "g0"), slice("shared", 1, "s")},
		ResourceClaims: []*resourcev1.ResourceClaim{
			{ObjectMeta: metav1.ObjectMeta{Name: "unallocated"}},
			claim(resourcev1.DeviceRequestAllocationResult{Driver: "gpu.example.com", Pool: "n1", Device: "g0"}),
			claim(resourcev1.DeviceRequestAllocationResult{Driver: "gpu.example.com", Pool: "n1", Device: "g1", AdminAccess: &admin}),
		},
	}
	groups := Count(c, c.Nodes, byZone)
	if want := "[{gpu.example.com true 4 1 2}]"; fmt.Sprint(groups[0].Devices) != want {
		t.Errorf("%v, want %s", groups[0].Devices, want)
	}
}

// TestCountResizes: a pod whose resize is not finished counts with the larger request, as
// in the scheduler.
func TestCountResizes(t *testing.T) {
	shrinks := on("n", "p", "cpu=1", func(p *v1.Pod) {
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: p.Spec.Containers[0].Name, AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("3")}}}
	})
	c := &manifest.Cluster{Nodes: []*v1.Node{node("n", "a", "cpu=4 memory=1Gi pods=2")}, Pods: []*v1.Pod{shrinks}}
	groups := Count(c, c.Nodes, byZone)
	if got, want := show(&groups[0].CPU), "1 of 4 free, 3 requested"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
