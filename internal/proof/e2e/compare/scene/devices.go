package scene

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The driver of devices, the number of devices on scheduler_perf's nodes, and the names
// in pods.
const (
	gpuDriver   = "gpu.example.com"
	gpusPerNode = 10
	gpuClass    = "gpu"
	gpuTemplate = "gpu"
	gpuResource = "example.com/gpu"
	gpuClaim    = "gpu" // in a pod
	sameRoot    = "resource.kubernetes.io/pciRoot"
	gpuRoots    = 2
	together    = 10 // number of pods at a time in a steady state
)

// ofAllGPUs is an expression that is true for every device but needs attributes and
// capacity.
const ofAllGPUs = `device.attributes["` + gpuDriver + `"].driverVersion.major() >= 1 && device.capacity["` + gpuDriver + `"].memory.isGreaterThan(quantity("1Mi"))`

// steady keeps the cluster constant. Few pods exist at a time, ten at full size, and each
// bound pod is deleted to make room for the next.
func steady(s *Scene, c counts) { s.Measured.Together = min(together, max(1, c.measured/5)) }

// half and full allocate devices to claims without pods from the start: a half of all
// devices, or all but as many as pods exist at a time in a steady state.
func half(s *Scene, c counts) { taken(s, c, c.nodes*gpusPerNode/2) }

func full(s *Scene, c counts) { taken(s, c, c.nodes*gpusPerNode-s.Measured.Together) }

// taken allocates n devices to claims, spread over the nodes. The measured pods are
// limited to the remaining devices, unless they come and go.
func taken(s *Scene, c counts, n int) {
	n = max(0, n)
	for i := range n {
		s.Site.Claims = append(s.Site.Claims, allocated(i, i%c.nodes, i/c.nodes))
	}
	if s.Measured.Together == 0 {
		s.Measured.Count = min(s.Measured.Count, c.nodes*gpusPerNode-n)
	}
}

// fromTemplate builds a workload whose pods have a claim each. The controller manager
// creates it from a template with the given number of requests for a device.
func fromTemplate(requests int, change func(*resourcev1.ResourceClaimSpec), more ...func(s *Scene, c counts)) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		withDevices(s, requests)
		s.Site.DeviceClasses = []*resourcev1.DeviceClass{deviceClass(gpuClass)}
		spec := claimFor(requests)
		if change != nil {
			change(&spec)
		}
		s.Site.Templates = []*resourcev1.ResourceClaimTemplate{{
			ObjectMeta: metav1.ObjectMeta{Namespace: measured, Name: gpuTemplate}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec},
		}}
		s.Measured.Pod = func(i int) *v1.Pod {
			template := gpuTemplate
			p := lightPod(i)
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: gpuClaim, ResourceClaimTemplateName: &template}}
			p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: gpuClaim}}
			return p
		}
		for _, f := range more {
			f(s, c)
		}
		// otherwise the answer depends on when devices become free
		if requests == 1 && s.Measured.Together == 0 {
			s.Answer = inFreeDevices(c.nodes, len(s.Site.Claims))
		}
	}
}

// selectingGPUs adds an expression to each request that is true for every device.
func selectingGPUs(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		spec.Devices.Requests[i].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: ofAllGPUs}}}
	}
}

// onSameRoot requires an equal attribute for all devices of a claim.
func onSameRoot(spec *resourcev1.ResourceClaimSpec) {
	attribute := resourcev1.FullyQualifiedName(sameRoot)
	spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
}

// requesting builds a workload whose pods request a device of one of several classes, in
// turns, as an extended resource. They use the class's explicit name for it or the
// implicit one. The scheduler creates their claims. Half of the devices are taken by as
// many requesting pods; the assignment between these does not affect others.
func requesting(classes int, explicit bool) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		withDevices(s, 1)
		name := func(i int) v1.ResourceName {
			if explicit {
				return v1.ResourceName(fmt.Sprint(gpuResource, "-", i%classes))
			}
			return v1.ResourceName(fmt.Sprint(resourcev1.ResourceDeviceClassPrefix, gpuClass, "-", i%classes))
		}
		for i := range classes {
			class := deviceClass(fmt.Sprint(gpuClass, "-", i))
			if explicit {
				resource := string(name(i))
				class.Spec.ExtendedResourceName = &resource
			}
			s.Site.DeviceClasses = append(s.Site.DeviceClasses, class)
		}
		s.Measured.Pod = func(i int) *v1.Pod { return requests(lightPod(i), name(i)) }
		half(s, c)
		c.before = len(s.Site.Claims)
		s.Standing = []Pods{standing(c, 1, s.Measured.Pod)}
	}
}

// requests adds one unit of an extended resource to a pod's requests.
func requests(p *v1.Pod, name v1.ResourceName) *v1.Pod {
	r := &p.Spec.Containers[0].Resources
	r.Requests[name] = resource.MustParse("1")
	r.Limits = v1.ResourceList{name: resource.MustParse("1")}
	return p
}

// eachItsOwn builds a workload without devices. Each node has one unit of an extended
// resource of its own, which one pod requests.
func eachItsOwn(s *Scene, c counts) {
	name := func(i int) v1.ResourceName { return v1.ResourceName(fmt.Sprint("example.com/bar-", i)) }
	s.Site.Node = func(i int) *v1.Node {
		n := plainNode(i)
		for _, list := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			list[name(i)] = resource.MustParse("1")
		}
		return n
	}
	s.Measured.Count = c.nodes
	s.Measured.Pod = func(i int) *v1.Pod { return requests(lightPod(i), name(i)) }
	s.Answer = inTurns(c.nodes)
}

// withDevices gives each node a pool of devices, and each measured pod a claim for the
// given number of them.
func withDevices(s *Scene, each int) {
	s.Devices = each
	s.Site.Controllers = true // to create claims from templates, and remove claims of deleted pods
	s.Site.Slice = func(i int) *resourcev1.ResourceSlice { return slice(numbered("node", i)) }
}

// slice returns the devices of a node, with as many attributes as a real driver's. As
// with real ones, the devices of a node differ, and those on two nodes are alike.
func slice(node string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: gpuDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		},
	}
	text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
	version, virtual := "1.2.3", true
	for i := range gpusPerNode {
		address, root := fmt.Sprintf("0000:%02x:00.0", i), i%gpuRoots
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: gpu(i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"driver": text("example"), "driverVersion": {VersionValue: &version}, "family": text("E"), "model": text("E-100"), "type": text("gpu"), "health": text("Healthy"),
				"pciAddress": text(address), "pciId": text("0x1234"), "pciRoot": text(fmt.Sprintf("%02x", root)), "sriov": {BoolValue: &virtual},
				"resource.kubernetes.io/pciBusID": text(address), sameRoot: text(fmt.Sprintf("pci0000:%02x", root)),
			},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: resource.MustParse("24Gi")}, "millicores": {Value: resource.MustParse("1k")},
			},
		})
	}
	return s
}

func gpu(i int) string { return fmt.Sprint("gpu-", i) }

func deviceClass(name string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}}},
	}}
}

// claimFor requests devices, each by a request of its own.
func claimFor(requests int) resourcev1.ResourceClaimSpec {
	var spec resourcev1.ResourceClaimSpec
	for i := range requests {
		spec.Devices.Requests = append(spec.Devices.Requests, resourcev1.DeviceRequest{
			Name:    request(i),
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: gpuClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		})
	}
	return spec
}

func request(i int) string { return fmt.Sprint("req-", i) }

// allocated returns the i-th claim without a pod, with a device of a node.
func allocated(i, node, device int) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: before, Name: numbered("taken", i)},
		Spec:       claimFor(1),
		Status:     resourcev1.ResourceClaimStatus{Allocation: allocation(node, device)},
	}
}

// allocation allocates a device of a node for a claim with one request.
func allocation(node, device int) *resourcev1.AllocationResult {
	pool := numbered("node", node)
	return &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: request(0), Driver: gpuDriver, Pool: pool, Device: gpu(device),
		}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{pool}}},
		}}},
	}
}
