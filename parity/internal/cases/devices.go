package cases

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The drivers. Devices of the last one have no attributes.
const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	accDriver = "acc.example.com"
)

// rootAttribute is an attribute of devices of several drivers.
const rootAttribute = "dra.example.com/root"

// trait is a feature of devices and requests.
type trait uint16

const (
	shares   trait = 1 << iota // shareable devices with capacity policies; requested amounts
	counters                   // shared counters of a pool
	taints                     // taints on devices, and tolerations
	prepared                   // binding conditions
	lists                      // alternatives
	all                        // requests for all devices
	admin                      // admin access
	matches                    // match and distinct attributes
	// selectors that cannot be compiled or evaluated, and constraints without an
	// attribute
	fails
	updates // pools that are incomplete, invalid, or have old slices
)

// hardware draws the devices of one case, and the claims for them.
type hardware struct {
	r      *rand.Rand
	tc     *Case
	traits trait
	made   int
	there  []*device
	claims []*resourcev1.ResourceClaim // that several pods may use
	specs  []resourcev1.DeviceClaim    // of the claims so far
	// alike is the percentage of claims with the spec of another one, as from one
	// template.
	alike int
	// models are the devices of every node, by driver, as in a fleet of equal machines.
	// It is nil if each node has its own.
	models map[string][]resourcev1.Device
}

// fleet gives all nodes the same devices.
func (h *hardware) fleet() {
	h.models = map[string][]resourcev1.Device{}
	for _, driver := range []string{gpuDriver, nicDriver} {
		h.models[driver] = h.devices(driver, 1+h.r.IntN(3))
	}
}

// machine returns the devices of a node.
func (h *hardware) machine(driver string) []resourcev1.Device {
	if h.models == nil {
		return h.devices(driver, 1+h.r.IntN(4))
	}
	var devices []resourcev1.Device
	for i := range h.models[driver] {
		d := h.models[driver][i].DeepCopy()
		d.Name = fmt.Sprintf("%c-dev-%d", 'a'+rune(h.r.IntN(26)), h.number())
		devices = append(devices, *d)
	}
	return devices
}

// device is a published device.
type device struct {
	*resourcev1.Device
	driver, pool string
	nodes        *v1.NodeSelector // that can use it; nil for all
	used         bool
}

func (h *hardware) has(t trait) bool { return h.traits&t != 0 }

func (h *hardware) number() int { h.made++; return h.made }

// meta names an object such that the order of names differs from the order of drawing.
func (h *hardware) meta(kind string) metav1.ObjectMeta {
	name := fmt.Sprintf("%c-%s-%d", 'a'+rune(h.r.IntN(26)), kind, h.number())
	return metav1.ObjectMeta{Name: name, UID: h.uid(), ResourceVersion: "1"}
}

func (h *hardware) uid() types.UID {
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", h.r.Uint32(), h.number()))
}

// classes draws the classes, without some referenced ones.
func (h *hardware) classes() {
	selectors := map[string]string{
		"gpu":     `device.driver == "gpu.example.com"`,
		"big-gpu": `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "big"`,
		"roomy":   `device.driver == "gpu.example.com" && device.capacity["gpu.example.com"].memory.compareTo(quantity("20Gi")) >= 0`,
		"nic":     `device.driver == "nic.example.com"`,
		"any":     "",
		"shared":  `device.allowMultipleAllocations == true`,
		"rare":    `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].rare == "yes"`,
		"broken":  `device.nothing == 1`,
	}
	for _, name := range []string{"gpu", "big-gpu", "roomy", "nic", "any", "shared", "rare", "broken"} {
		if chance(h.r, 4) {
			continue
		}
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: h.uid(), ResourceVersion: "1"}}
		if text := selectors[name]; text != "" {
			class.Spec.Selectors = []resourcev1.DeviceSelector{expression(text)}
		}
		if chance(h.r, 30) {
			class.Spec.Config = []resourcev1.DeviceClassConfiguration{{DeviceConfiguration: opaque(pick(h.r, gpuDriver, nicDriver), name)}}
		}
		h.tc.Add(class)
	}
}

func expression(text string) resourcev1.DeviceSelector {
	return resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}}
}

func opaque(driver, text string) resourcev1.DeviceConfiguration {
	raw := runtime.RawExtension{Raw: fmt.Appendf(nil, `{"for":%q}`, text)}
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: driver, Parameters: raw}}
}

// slice publishes devices in a slice. The caller sets its nodes.
func (h *hardware) slice(driver, pool string, generation, count int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: h.meta("slice"), Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count}, Devices: devices,
	}}
	h.tc.Add(s)
	return s
}

// know adds the devices of a slice to those that claims may have.
func (h *hardware) know(s *resourcev1.ResourceSlice, nodes *v1.NodeSelector) {
	for i := range s.Spec.Devices {
		h.there = append(h.there, &device{Device: &s.Spec.Devices[i], driver: s.Spec.Driver, pool: s.Spec.Pool.Name, nodes: nodes})
	}
}

// devices draws some devices of a driver.
func (h *hardware) devices(driver string, count int) []resourcev1.Device {
	var drawn []resourcev1.Device
	for range count {
		drawn = append(drawn, h.device(driver))
	}
	return drawn
}

func (h *hardware) device(driver string) resourcev1.Device {
	d := resourcev1.Device{Name: fmt.Sprintf("%c-dev-%d", 'a'+rune(h.r.IntN(26)), h.number())}
	d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
	qualified := func(name string) resourcev1.QualifiedName {
		if chance(h.r, 20) {
			return resourcev1.QualifiedName(driver + "/" + name)
		}
		return resourcev1.QualifiedName(name)
	}
	switch driver {
	case gpuDriver:
		d.Attributes[qualified("model")] = resourcev1.DeviceAttribute{StringValue: ptr(pick(h.r, "big", "small"))}
		d.Attributes[qualified("index")] = resourcev1.DeviceAttribute{IntValue: ptr(int64(h.r.IntN(4)))}
		d.Attributes[qualified("healthy")] = resourcev1.DeviceAttribute{BoolValue: ptr(chance(h.r, 80))}
		d.Attributes[qualified("version")] = resourcev1.DeviceAttribute{VersionValue: ptr(pick(h.r, "1.2.0", "1.10.0"))}
		if chance(h.r, 70) {
			d.Attributes[qualified("rare")] = resourcev1.DeviceAttribute{StringValue: ptr(pick(h.r, "yes", "no"))}
		}
		d.Capacity[qualified("memory")] = h.capacity()
	case nicDriver:
		d.Attributes[qualified("speed")] = resourcev1.DeviceAttribute{IntValue: ptr(pick[int64](h.r, 10, 100))}
		d.Capacity[qualified("bandwidth")] = h.capacity()
	}
	if driver != accDriver && chance(h.r, 75) {
		d.Attributes[rootAttribute] = resourcev1.DeviceAttribute{StringValue: ptr(pick(h.r, "root-0", "root-1"))}
	}
	if h.has(shares) && chance(h.r, 65) {
		d.AllowMultipleAllocations = ptr(true)
	}
	if h.has(taints) {
		for range max(0, h.r.IntN(5)-2) {
			d.Taints = append(d.Taints, h.taint())
		}
	}
	if h.has(prepared) && chance(h.r, 45) {
		d.BindingConditions = pick(h.r, []string{"Ready"}, []string{"Ready", "Attached"})
		d.BindingFailureConditions = pick(h.r, []string{"Failed"}, []string{"Failed", "Lost"})
		if chance(h.r, 30) {
			d.BindsToNode = ptr(true)
		}
	}
	return d
}

func (h *hardware) capacity() resourcev1.DeviceCapacity {
	c := resourcev1.DeviceCapacity{Value: pick(h.r, gi(10), gi(20), gi(40))}
	if !h.has(shares) {
		return c
	}
	switch h.r.IntN(5) {
	case 0:
		c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr(gi(4)), ValidValues: []resource.Quantity{gi(2), gi(4), gi(10)}}
	case 1:
		c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr(gi(4)), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: ptr(gi(2)), Step: ptr(gi(2))}}
	case 2:
		c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr(gi(3)), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: ptr(gi(3)), Max: ptr(gi(9))}}
	case 3:
		c.RequestPolicy = &resourcev1.CapacityRequestPolicy{Default: ptr(gi(1))}
	}
	return c
}

func gi(n int64) resource.Quantity { return *resource.NewQuantity(n<<30, resource.BinarySI) }

func (h *hardware) taint() resourcev1.DeviceTaint {
	return resourcev1.DeviceTaint{
		Key: pick(h.r, "example.com/hot", "example.com/old"), Value: pick(h.r, "", "yes"),
		Effect: pick(h.r, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNone),
	}
}

// rules draws rules that taint devices.
func (h *hardware) rules() {
	for range h.r.IntN(9) {
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: h.meta("rule"), Spec: resourcev1.DeviceTaintRuleSpec{Taint: h.taint()}}
		h.tc.Add(rule)
		if len(h.there) == 0 || chance(h.r, 10) {
			continue // without a selector, it taints nothing
		}
		d := pick(h.r, h.there...)
		selector := &resourcev1.DeviceTaintSelector{}
		rule.Spec.DeviceSelector = selector
		switch h.r.IntN(8) {
		case 0, 6, 7:
			selector.Driver = ptr(d.driver)
		case 1:
			selector.Pool = ptr(d.pool)
		case 2:
			selector.Device = ptr(d.Name)
		case 3: // of another driver
			selector.Driver, selector.Device = ptr(accDriver), ptr(d.Name)
		default:
			selector.Driver, selector.Pool, selector.Device = ptr(d.driver), ptr(d.pool), ptr(d.Name)
		}
	}
}

// local draws the pools of a node.
func (h *hardware) local(n *v1.Node) {
	for _, driver := range []string{gpuDriver, nicDriver, accDriver} {
		if !chance(h.r, map[string]int{gpuDriver: 80, nicDriver: 45, accDriver: 15}[driver]) {
			continue
		}
		if h.has(counters) && driver == gpuDriver {
			h.counting(n)
			continue
		}
		name := fmt.Sprintf("%s-pool-%d", n.Name, h.number())
		var published []*resourcev1.ResourceSlice
		publish := func(generation, count int64, devices ...resourcev1.Device) {
			published = append(published, h.slice(driver, name, generation, count, devices...))
		}
		devices := h.machine(driver)
		kind := h.r.IntN(100)
		if !h.has(updates) {
			kind = min(kind, 30)
		}
		switch {
		case h.models != nil && (len(devices) == 0 || chance(h.r, 5)):
			continue
		case h.models != nil && chance(h.r, 85):
			publish(1, 1, devices...)
		case kind < 25 && len(devices) > 1:
			publish(1, 2, devices[0])
			publish(1, 2, devices[1:]...)
		case kind < 60:
			publish(pick[int64](h.r, 1, 7), 1, devices...)
		case kind < 70: // one slice is missing
			publish(1, 2, devices...)
		case kind < 78: // two devices of one name
			publish(1, 1, append(devices, devices[0])...)
		case kind < 85:
			publish(1, 2, devices...)
			publish(1, 2, devices[0])
		case kind < 93: // the older slice does not count
			publish(1, 1, h.devices(driver, 2)...)
			publish(2, 1, devices...)
		default: // the newer generation is not complete
			publish(1, 1, h.devices(driver, 2)...)
			publish(2, 2, devices...)
		}
		for _, s := range published {
			s.Spec.NodeName = ptr(n.Name)
			h.know(s, on(n.Name))
		}
	}
}

// on selects a node in the form of allocations.
func on(nodeName string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}},
	}}}
}

// counting draws a pool whose devices are parts of one device.
func (h *hardware) counting(n *v1.Node) {
	name := fmt.Sprintf("%s-parts-%d", n.Name, h.number())
	counter := func(amount int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: gi(amount)}, "engines": {Value: *resource.NewQuantity(amount/10, resource.DecimalSI)}}
	}
	sets := h.slice(gpuDriver, name, 1, 2)
	sets.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "set-0", Counters: counter(40)}, {Name: "set-1", Counters: counter(20)}}
	devices := h.devices(gpuDriver, 2+h.r.IntN(4))
	for i := range devices {
		used := resourcev1.DeviceCounterConsumption{CounterSet: pick(h.r, "set-0", "set-0", "set-1"), Counters: counter(pick[int64](h.r, 10, 10, 20, 40))}
		if h.has(updates) && chance(h.r, 5) {
			used.CounterSet = "set-9"
		}
		devices[i].ConsumesCounters = append(devices[i].ConsumesCounters, used)
		if chance(h.r, 15) && used.CounterSet == "set-0" {
			devices[i].ConsumesCounters = append(devices[i].ConsumesCounters, resourcev1.DeviceCounterConsumption{CounterSet: "set-1", Counters: counter(10)})
		}
	}
	parts := h.slice(gpuDriver, name, 1, 2, devices...)
	sets.Spec.NodeName, parts.Spec.NodeName = ptr(n.Name), ptr(n.Name)
	h.know(parts, on(n.Name))
}

// wide draws a pool that several nodes can use.
func (h *hardware) wide() {
	driver, name := pick(h.r, gpuDriver, nicDriver), fmt.Sprintf("%c-wide-%d", 'a'+rune(h.r.IntN(26)), h.number())
	devices := h.devices(driver, 1+h.r.IntN(4))
	count := int64(1)
	if h.has(updates) && chance(h.r, 20) {
		count = 2
	}
	zone := func() *v1.NodeSelector {
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: shelf, Operator: pick(h.r, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{pick(h.r, "s0", "s1", "s2")}}}}}}
	}
	switch h.r.IntN(5) {
	case 0:
		s := h.slice(driver, name, 1, count, devices...)
		s.Spec.AllNodes = ptr(true)
		h.know(s, nil)
	case 1, 2:
		s := h.slice(driver, name, 1, count, devices...)
		s.Spec.NodeSelector = zone()
		h.know(s, s.Spec.NodeSelector)
	case 3: // a pool of slices for different nodes
		for i := range devices {
			s := h.slice(driver, name, 1, int64(len(devices)), devices[i])
			s.Spec.NodeSelector = zone()
			h.know(s, s.Spec.NodeSelector)
		}
	default:
		s := h.slice(driver, name, 1, count, devices...)
		s.Spec.PerDeviceNodeSelection = ptr(true)
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			switch h.r.IntN(3) {
			case 0:
				d.AllNodes = ptr(true)
				h.there = append(h.there, &device{Device: d, driver: driver, pool: name})
			case 1:
				d.NodeSelector = zone()
				h.there = append(h.there, &device{Device: d, driver: driver, pool: name, nodes: d.NodeSelector})
			default:
				node := "node-gone"
				if len(h.tc.Nodes) > 0 {
					node = pick(h.r, h.tc.Nodes...).Name
				}
				d.NodeName = ptr(node)
				h.there = append(h.there, &device{Device: d, driver: driver, pool: name, nodes: on(node)})
			}
		}
	}
}

// shelf is the label by which pools select nodes.
const shelf = "example.com/shelf"

// label assigns most nodes to shelves.
func (h *hardware) label() {
	for _, n := range h.tc.Nodes {
		if chance(h.r, 90) {
			metav1.SetMetaDataLabel(&n.ObjectMeta, shelf, pick(h.r, "s0", "s1", "s2"))
		}
	}
}
