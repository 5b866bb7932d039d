package cases

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// standing draws the status of a claim for a pod.
type standing func(h *hardware, p *v1.Pod, c *resourcev1.ResourceClaim)

// naming draws how a pod refers to a claim by an entry.
type naming func(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, from []standing)

// use gives a pod one or two claims.
func (h *hardware) use(p *v1.Pod, how []naming, from []standing) {
	for i := range 1 + h.r.IntN(2) {
		entry := v1.PodResourceClaim{Name: fmt.Sprintf("e%d", i)}
		pick(h.r, how...)(h, p, &entry, from)
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
		if len(p.Spec.Containers) > 0 && chance(h.r, 50) {
			p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: entry.Name})
		}
	}
}

// byName adds a claim that was created by hand.
func byName(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, from []standing) {
	c := h.claim(p.Namespace)
	pick(h.r, from...)(h, p, c)
	h.claims = append(h.claims, c)
	entry.ResourceClaimName = ptr(c.Name)
}

// byTemplate adds a claim that was created for the pod.
func byTemplate(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, from []standing) {
	c := h.claim(p.Namespace)
	pick(h.r, from...)(h, p, c)
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr(true)}}
	made(p, entry, &c.Name)
}

func made(p *v1.Pod, entry *v1.PodResourceClaim, name *string) {
	entry.ResourceClaimTemplateName = ptr("template")
	p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: entry.Name, ResourceClaimName: name})
}

// another adds a claim that another pod also uses.
func another(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, from []standing) {
	of := slices.DeleteFunc(slices.Clone(h.claims), func(c *resourcev1.ResourceClaim) bool { return c.Namespace != p.Namespace })
	if len(of) == 0 {
		byName(h, p, entry, from)
		return
	}
	entry.ResourceClaimName = ptr(pick(h.r, of...).Name)
}

// needless adds an entry without need for a claim.
func needless(_ *hardware, p *v1.Pod, entry *v1.PodResourceClaim, _ []standing) { made(p, entry, nil) }

// unmade adds an entry whose claim does not exist yet.
func unmade(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, _ []standing) {
	switch h.r.IntN(4) {
	case 0:
		entry.ResourceClaimTemplateName = ptr("template")
	case 1:
		made(p, entry, ptr("no-claim"))
	case 2:
		entry.ResourceClaimName = ptr("no-claim")
	}
}

// stranger adds a claim from a template, for another pod or for none.
func stranger(h *hardware, p *v1.Pod, entry *v1.PodResourceClaim, from []standing) {
	c := h.claim(p.Namespace)
	pick(h.r, from...)(h, p, c)
	if chance(h.r, 50) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: "another", Controller: ptr(true)}}
	}
	made(p, entry, &c.Name)
}

// claim draws the spec of a claim.
func (h *hardware) claim(namespace string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: h.meta("claim")}
	c.Namespace = namespace
	spec := &c.Spec.Devices
	h.tc.Add(c)
	if len(h.specs) > 0 && chance(h.r, h.alike) {
		of := pick(h.r, h.specs[max(0, len(h.specs)-6):]...)
		of.DeepCopyInto(spec)
		return c
	}
	for i := range 1 + h.r.IntN(2) {
		spec.Requests = append(spec.Requests, h.request(fmt.Sprintf("r%d", i)))
	}
	if h.has(matches) {
		for range h.r.IntN(3) {
			spec.Constraints = append(spec.Constraints, h.constraint(spec.Requests))
		}
	}
	if chance(h.r, 30) {
		config := resourcev1.DeviceClaimConfiguration{DeviceConfiguration: opaque(pick(h.r, gpuDriver, nicDriver), c.Name)}
		if chance(h.r, 50) {
			config.Requests = []string{pick(h.r, spec.Requests...).Name}
		}
		spec.Config = append(spec.Config, config)
	}
	h.specs = append(h.specs, *spec.DeepCopy())
	return c
}

func (h *hardware) constraint(requests []resourcev1.DeviceRequest) (c resourcev1.DeviceConstraint) {
	attribute := resourcev1.FullyQualifiedName(pick(h.r, rootAttribute, rootAttribute, "gpu.example.com/model", "gpu.example.com/index"))
	switch {
	case h.has(fails) && chance(h.r, 8): // neither attribute is set
	case chance(h.r, 65):
		c.MatchAttribute = &attribute
	default:
		c.DistinctAttribute = &attribute
	}
	if chance(h.r, 40) {
		of := pick(h.r, requests...)
		c.Requests = []string{of.Name}
		if len(of.FirstAvailable) > 0 && chance(h.r, 40) {
			c.Requests = []string{of.Name + "/" + of.FirstAvailable[0].Name}
		}
	}
	return c
}

// request draws a request.
func (h *hardware) request(name string) resourcev1.DeviceRequest {
	of := resourcev1.DeviceRequest{Name: name}
	if h.has(lists) && chance(h.r, 65) {
		count := 1 + h.r.IntN(4)
		for i := range count {
			ask := h.ask()
			// alternatives with decreasing counts
			if ask.AllocationMode == resourcev1.DeviceAllocationModeExactCount && chance(h.r, 60) {
				ask.Count = int64(count - i)
			}
			of.FirstAvailable = append(of.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprintf("s%d", i), DeviceClassName: ask.DeviceClassName, Selectors: ask.Selectors, AllocationMode: ask.AllocationMode, Count: ask.Count,
				Tolerations: ask.Tolerations, Capacity: ask.Capacity,
			})
		}
		return of
	}
	ask := h.ask()
	if h.has(admin) && chance(h.r, 35) {
		ask.AdminAccess = ptr(true)
	}
	of.Exactly = &ask
	if h.has(fails) && chance(h.r, 6) {
		of.Exactly = nil // of an unknown kind
	}
	return of
}

// ask draws an exact request.
func (h *hardware) ask() resourcev1.ExactDeviceRequest {
	ask := resourcev1.ExactDeviceRequest{
		DeviceClassName: pick(h.r, "gpu", "gpu", "gpu", "big-gpu", "roomy", "nic", "any", "any"),
		AllocationMode:  resourcev1.DeviceAllocationModeExactCount, Count: pick[int64](h.r, 1, 1, 1, 2, 3),
	}
	switch {
	case chance(h.r, 1):
		ask.DeviceClassName = "no-class"
	case h.has(fails) && chance(h.r, 12):
		ask.DeviceClassName = pick(h.r, "rare", "rare", "broken", "")
	case h.has(shares) && chance(h.r, 20):
		ask.DeviceClassName = "shared"
	}
	if h.has(all) && chance(h.r, 50) {
		ask.AllocationMode, ask.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	if chance(h.r, 35) {
		ask.Selectors = append(ask.Selectors, h.selector(ask.DeviceClassName))
	}
	if h.has(taints) {
		for range h.r.IntN(3) {
			ask.Tolerations = append(ask.Tolerations, resourcev1.DeviceToleration{
				Key: pick(h.r, "example.com/hot", "example.com/hot", "example.com/old"), Operator: pick(h.r, resourcev1.DeviceTolerationOpExists, resourcev1.DeviceTolerationOpEqual),
				Effect: pick(h.r, "", "", resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute),
			})
			if last := &ask.Tolerations[len(ask.Tolerations)-1]; last.Operator == resourcev1.DeviceTolerationOpEqual {
				last.Value = pick(h.r, "", "yes")
			} else if chance(h.r, 20) {
				last.Key = ""
			}
		}
	}
	if (h.has(shares) || chance(h.r, 10)) && chance(h.r, 60) {
		ask.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			pick[resourcev1.QualifiedName](h.r, "memory", "memory", "gpu.example.com/memory", "bandwidth"): gi(pick[int64](h.r, 1, 2, 3, 5, 8, 20)),
		}}
	}
	return ask
}

// selector draws a selector that mostly can be evaluated for devices of the class.
func (h *hardware) selector(class string) resourcev1.DeviceSelector {
	texts := []string{`device.driver == "gpu.example.com"`, `device.driver != "nic.example.com"`}
	if class != "any" && class != "nic" && class != "shared" {
		texts = []string{
			`device.attributes["gpu.example.com"].index > 1`, `device.attributes["gpu.example.com"].model == "small"`, `device.attributes["gpu.example.com"].healthy`,
			`device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) < 0`, `"rare" in device.attributes["gpu.example.com"]`,
			`device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.3.0"))`, `device.attributes["gpu.example.com"].?rare.orValue("no") == "yes"`,
		}
	}
	if h.has(fails) && chance(h.r, 35) {
		texts = []string{
			`device.attributes["gpu.example.com"].rare == "yes"`, `1 / device.attributes["gpu.example.com"].index > 0`, `device.driver`, `device.driver ==`,
			`device.attributes["gpu.example.com"].model > 3`,
		}
	}
	return expression(pick(h.r, texts...))
}

// The times of allocations: long before and long after any run of the tests.
var (
	longAgo = metav1.Time{Time: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)}
	ahead   = metav1.Time{Time: time.Date(2120, 1, 2, 3, 4, 5, 0, time.UTC)}
)

// fresh has no allocation.
func fresh(h *hardware, _ *v1.Pod, c *resourcev1.ResourceClaim) {
	if chance(h.r, 10) {
		c.Finalizers = []string{resourcev1.Finalizer}
	}
}

// unreserved is allocated without a reservation.
func unreserved(h *hardware, _ *v1.Pod, c *resourcev1.ResourceClaim) { h.allocate(c, nil) }

// reservedForPod is allocated and reserved for the pod itself.
func reservedForPod(h *hardware, p *v1.Pod, c *resourcev1.ResourceClaim) {
	h.allocate(c, nil)
	reserve(c, p.Name, p.UID)
}

// reservedForOthers is allocated and reserved for another pod, and sometimes also for
// this one.
func reservedForOthers(h *hardware, p *v1.Pod, c *resourcev1.ResourceClaim) {
	h.allocate(c, nil)
	reserve(c, "another", "another")
	if chance(h.r, 30) {
		reserve(c, p.Name, p.UID)
	}
}

// reserve reserves a claim for a pod, if it has an allocation.
func reserve(c *resourcev1.ResourceClaim, pod string, uid types.UID) {
	if c.Status.Allocation == nil {
		return
	}
	c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: uid})
}

// goneDevice is allocated a device that does not exist any more.
func goneDevice(h *hardware, _ *v1.Pod, c *resourcev1.ResourceClaim) {
	c.Finalizers = []string{resourcev1.Finalizer}
	node := "node-gone"
	if len(h.tc.Nodes) > 0 && chance(h.r, 60) {
		node = pick(h.r, h.tc.Nodes...).Name
	}
	c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: on(node), AllocationTimestamp: longAgo.DeepCopy()}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: requestOf(h, c), Driver: gpuDriver, Pool: "gone", Device: "gone"}}
}

// deleted is being deleted.
func deleted(h *hardware, p *v1.Pod, c *resourcev1.ResourceClaim) {
	if chance(h.r, 50) {
		reservedForOthers(h, p, c)
	}
	c.Finalizers, c.DeletionTimestamp = []string{resourcev1.Finalizer}, longAgo.DeepCopy()
}

// unreadable has an allocation with an invalid node selector.
func unreadable(h *hardware, _ *v1.Pod, c *resourcev1.ResourceClaim) {
	h.allocate(c, nil)
	if a := c.Status.Allocation; a != nil {
		a.NodeSelector = on("node-0")
		a.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Operator = "Like"
	}
}

// conditional is allocated with binding conditions: some are met, some are not, some have
// failed, some have timed out.
func conditional(h *hardware, p *v1.Pod, c *resourcev1.ResourceClaim) {
	h.allocate(c, nil)
	a := c.Status.Allocation
	if a == nil {
		return
	}
	a.AllocationTimestamp = pick(h.r, longAgo.DeepCopy(), ahead.DeepCopy(), ahead.DeepCopy(), nil)
	for i := range a.Devices.Results {
		result := &a.Devices.Results[i]
		if chance(h.r, 80) {
			result.BindingConditions = pick(h.r, []string{"Ready"}, []string{"Ready", "Attached"})
			result.BindingFailureConditions = pick(h.r, []string{"Failed"}, nil)
		}
		if chance(h.r, 20) {
			continue
		}
		of := resourcev1.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		if result.ShareID != nil && chance(h.r, 50) {
			of.ShareID = ptr(string(*result.ShareID))
		}
		for _, kind := range []string{"Ready", "Attached", "Failed"} {
			if chance(h.r, map[string]int{"Ready": 70, "Attached": 70, "Failed": 25}[kind]) {
				of.Conditions = append(of.Conditions, metav1.Condition{
					Type: kind, Status: pick(h.r, metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown),
					Reason: "Because", Message: "it is so", LastTransitionTime: longAgo,
				})
			}
		}
		c.Status.Devices = append(c.Status.Devices, of)
	}
	if chance(h.r, 50) {
		reserve(c, p.Name, p.UID)
	}
}

// requestOf draws one request of a claim and returns its name in the form of results.
func requestOf(h *hardware, c *resourcev1.ResourceClaim) string {
	r := pick(h.r, c.Spec.Devices.Requests...)
	if len(r.FirstAvailable) > 0 {
		return r.Name + "/" + pick(h.r, r.FirstAvailable...).Name
	}
	return r.Name
}

// allocate allocates one or two existing devices to a claim, on the given node if any, as
// a scheduler would. Without devices the claim does not change.
func (h *hardware) allocate(c *resourcev1.ResourceClaim, node *v1.Node) {
	free := slices.DeleteFunc(slices.Clone(h.there), func(d *device) bool {
		return d.used || node != nil && (d.nodes == nil || len(d.nodes.NodeSelectorTerms[0].MatchFields) == 0 || d.nodes.NodeSelectorTerms[0].MatchFields[0].Values[0] != node.Name)
	})
	if len(free) == 0 {
		return
	}
	first := pick(h.r, free...)
	given := []*device{first}
	if chance(h.r, 35) {
		if at := slices.IndexFunc(free, func(d *device) bool { return d != first && d.nodes == first.nodes }); at >= 0 {
			given = append(given, free[at])
		}
	}
	c.Finalizers = []string{resourcev1.Finalizer}
	a := &resourcev1.AllocationResult{NodeSelector: first.nodes.DeepCopy(), AllocationTimestamp: pick(h.r, longAgo.DeepCopy(), longAgo.DeepCopy(), nil)}
	for _, d := range given {
		a.Devices.Results = append(a.Devices.Results, h.result(c, d))
	}
	c.Status.Allocation = a
}

func (h *hardware) result(c *resourcev1.ResourceClaim, d *device) resourcev1.DeviceRequestAllocationResult {
	result := resourcev1.DeviceRequestAllocationResult{Request: requestOf(h, c), Driver: d.driver, Pool: d.pool, Device: d.Name}
	if h.has(admin) && chance(h.r, 25) {
		result.AdminAccess = ptr(true)
		return result
	}
	if d.AllowMultipleAllocations == nil {
		d.used = true
		return result
	}
	result.ShareID = ptr(h.uid())
	result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{}
	for name, of := range d.Capacity {
		amount := of.Value
		if of.RequestPolicy != nil {
			amount = *of.RequestPolicy.Default
		}
		result.ConsumedCapacity[name] = amount.DeepCopy()
	}
	return result
}

// hold allocates devices of a pod's node to a new claim of the pod.
func (h *hardware) hold(p *v1.Pod) {
	at := slices.IndexFunc(h.tc.Nodes, func(n *v1.Node) bool { return n.Name == p.Spec.NodeName })
	if at < 0 {
		return
	}
	c := h.claim(p.Namespace)
	h.allocate(c, h.tc.Nodes[at])
	reserve(c, p.Name, p.UID)
	h.claims = append(h.claims, c)
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "held", ResourceClaimName: ptr(c.Name)})
}
