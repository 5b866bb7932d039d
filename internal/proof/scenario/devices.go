package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// deviceDriver is the default driver of slices.
const deviceDriver = "example.com"

// The grammars of device objects.
var (
	deviceClassAttributes = []attribute[*resourcev1.DeviceClass]{
		{key: "select", value: celForm, apply: func(c *resourcev1.DeviceClass, _, value string) error {
			addSelector(&c.Spec.Selectors, value)
			return nil
		}},
		{key: "extended", value: "RESOURCE or none", apply: func(c *resourcev1.DeviceClass, _, value string) error {
			if c.Spec.ExtendedResourceName = nil; value != "none" {
				c.Spec.ExtendedResourceName = &value
			}
			return nil
		}},
	}
	sliceAttributes = []attribute[*resourcev1.ResourceSlice]{
		{key: "driver", value: "NAME", apply: func(s *resourcev1.ResourceSlice, _, value string) error { s.Spec.Driver = value; return nil }},
		{key: "pool", value: "NAME", apply: func(s *resourcev1.ResourceSlice, _, value string) error { s.Spec.Pool.Name = value; return nil }},
		{key: "generation", value: "NUMBER", apply: func(s *resourcev1.ResourceSlice, _, value string) error {
			return wholeNumber(&s.Spec.Pool.Generation, value)
		}},
		{key: "count", value: "NUMBER", apply: func(s *resourcev1.ResourceSlice, _, value string) error {
			return wholeNumber(&s.Spec.Pool.ResourceSliceCount, value)
		}},
		{key: "node", value: "NODE, all or TERM", apply: sliceNode},
		{key: "devices", value: "NAME,... or none", apply: sliceDevices},
		{key: "attr.", value: "[DEVICE:]VALUE", apply: sliceAttribute},
		{key: "capacity.", value: capacityForm, apply: sliceCapacity},
		{key: "shared", value: "DEVICE or *", apply: eachDevice(func(d *resourcev1.Device, _ string) error {
			d.AllowMultipleAllocations = new(true)
			return nil
		})},
		{key: "taint", value: "DEVICE:KEY[=VALUE]:EFFECT or none", apply: sliceTaint},
		{key: "condition", value: "DEVICE:TYPE", apply: eachDevice(func(d *resourcev1.Device, rest string) error {
			d.BindingConditions = append(d.BindingConditions, rest)
			return nil
		})},
		{key: "failure", value: "DEVICE:TYPE", apply: eachDevice(func(d *resourcev1.Device, rest string) error {
			d.BindingFailureConditions = append(d.BindingFailureConditions, rest)
			return nil
		})},
		{key: "binds", value: "DEVICE or *", apply: eachDevice(func(d *resourcev1.Device, _ string) error {
			d.BindsToNode = new(true)
			return nil
		})},
	}
	ruleAttributes = []attribute[*resourcev1.DeviceTaintRule]{
		{key: "driver", value: "NAME", apply: func(r *resourcev1.DeviceTaintRule, _, value string) error { selected(r).Driver = &value; return nil }},
		{key: "pool", value: "NAME", apply: func(r *resourcev1.DeviceTaintRule, _, value string) error { selected(r).Pool = &value; return nil }},
		{key: "device", value: "NAME", apply: func(r *resourcev1.DeviceTaintRule, _, value string) error { selected(r).Device = &value; return nil }},
		{key: "taint", value: "KEY[=VALUE]:EFFECT", apply: func(r *resourcev1.DeviceTaintRule, _, value string) (err error) {
			r.Spec.Taint, err = deviceTaint(value)
			return err
		}},
	}
	deviceClaimAttributes = []attribute[*resourcev1.ResourceClaim]{
		{key: "class", value: "NAME or none", apply: claimClass},
		{key: "first", value: "CLASS,...", apply: claimFirst},
		{key: "count", value: "NUMBER", apply: ofRequest(func(e *exact, _, value string) error { return wholeNumber(e.count, value) })},
		{key: "all", bare: true, value: "true", apply: ofRequest(func(e *exact, _, _ string) error {
			*e.mode, *e.count = resourcev1.DeviceAllocationModeAll, 0
			return nil
		})},
		{key: "select", value: celForm, apply: ofRequest(func(e *exact, _, value string) error { addSelector(e.selectors, value); return nil })},
		{key: "capacity.", value: "QUANTITY", apply: ofRequest(func(e *exact, rest, value string) error {
			q, err := resource.ParseQuantity(value)
			if err != nil {
				return fmt.Errorf("%q is not a quantity", value)
			}
			if *e.capacity == nil {
				*e.capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{}}
			}
			(*e.capacity).Requests[resourcev1.QualifiedName(rest)] = q
			return nil
		})},
		{key: "tolerate", value: "*, KEY[=VALUE][:EFFECT]", apply: ofRequest(claimToleration)},
		{key: "admin", bare: true, value: "true", apply: func(c *resourcev1.ResourceClaim, _, _ string) error {
			r, err := lastRequest(c)
			if err == nil && r.Exactly == nil {
				err = errors.New("a request with alternatives has no access for administrators")
			}
			if err == nil {
				r.Exactly.AdminAccess = new(true)
			}
			return err
		}},
		{key: "match", value: "ATTRIBUTE", apply: func(c *resourcev1.ResourceClaim, _, value string) error {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourcev1.DeviceConstraint{MatchAttribute: new(qualified(value))})
			return nil
		}},
		{key: "distinct", value: "ATTRIBUTE", apply: func(c *resourcev1.ResourceClaim, _, value string) error {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourcev1.DeviceConstraint{DistinctAttribute: new(qualified(value))})
			return nil
		}},
		{key: "allocated", value: "NODE or *:[DRIVER/]POOL/DEVICE,... or none", apply: claimAllocation},
		{key: "reserved", value: "POD or none", apply: func(c *resourcev1.ResourceClaim, _, value string) error {
			if value == none {
				c.Status.ReservedFor = nil
				return nil
			}
			// The UID is set when the claim is stored, because the pod may have none yet.
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: value})
			return nil
		}},
		{key: "reservedgroup", value: "PODGROUP", apply: func(c *resourcev1.ResourceClaim, _, value string) error {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: value})
			return nil
		}},
		{key: "condition", value: "DEVICE:TYPE[=STATUS]", apply: claimCondition},
		{key: "terminating", bare: true, value: "true", apply: func(c *resourcev1.ResourceClaim, rest, value string) error {
			protect(c) // without a finalizer the claim would be gone
			return terminating(c, rest, value)
		}},
	}
)

const (
	celForm      = `"CEL" or none`
	capacityForm = "[DEVICE:]QUANTITY[,min:Q][,max:Q][,step:Q][,default:Q]"
)

// deviceStatements are the commands for device objects.
func deviceStatements() []statement {
	var all []statement
	all = append(all, statementsOf("deviceclass", model.DeviceClassKind, deviceClassAttributes, func(meta metav1.ObjectMeta) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{ObjectMeta: meta}
	})...)
	all = append(all, statementsOf("resourceslice", model.ResourceSliceKind, sliceAttributes, func(meta metav1.ObjectMeta) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, Pool: resourcev1.ResourcePool{Name: meta.Name, Generation: 1, ResourceSliceCount: 1},
		}}
	})...)
	all = append(all, statementsOf("devicetaintrule", model.DeviceTaintRuleKind, ruleAttributes, func(meta metav1.ObjectMeta) *resourcev1.DeviceTaintRule {
		return &resourcev1.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1.DeviceTaintRuleSpec{DeviceSelector: &resourcev1.DeviceTaintSelector{}}}
	})...)
	all = append(all, statementsWith("resourceclaim", model.ResourceClaimKind, deviceClaimAttributes, newDeviceClaim, nameReservations)...)
	return append(all,
		statement{word: "resourceclaimtemplate", usage: "resourceclaimtemplate NAME ATTRIBUTE...", command: setTemplate},
		statement{word: "delete resourceclaimtemplate", usage: "delete resourceclaimtemplate NAME", command: deleteTemplate})
}

func newDeviceClaim(meta metav1.ObjectMeta) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: meta}
}

// nameReservations sets the UIDs of the pods and pod groups in a claim's reservations.
func nameReservations(w *world, c *resourcev1.ResourceClaim) error {
	for i := range c.Status.ReservedFor {
		r := &c.Status.ReservedFor[i]
		if r.UID != "" {
			continue
		}
		if r.Resource == "podgroups" {
			group := w.cluster.Object(model.GroupKey{Namespace: c.Namespace, Name: r.Name}.Ref())
			if group == nil {
				return fmt.Errorf("there is no pod group %s that the claim is reserved for", r.Name)
			}
			r.UID = group.GetUID()
			continue
		}
		pod := w.cluster.Pod(model.PodKey{Namespace: c.Namespace, Name: r.Name})
		if pod == nil {
			return fmt.Errorf("there is no pod %s that the claim is reserved for", r.Name)
		}
		r.UID = pod.UID
	}
	return nil
}

func setTemplate(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	if rest, err = quoted(rest); err != nil {
		return nil, err
	}
	key := keyNamed(names[0])
	claim := newDeviceClaim(metav1.ObjectMeta{})
	if err := applyAll(deviceClaimAttributes, "resourceclaimtemplate", claim, rest); err != nil {
		return nil, err
	}
	if claim.Status.Allocation != nil || len(claim.Status.ReservedFor)+len(claim.Status.Devices) > 0 || claim.DeletionTimestamp != nil {
		return nil, errors.New("a template has no status")
	}
	template := &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claim.Spec},
	}
	return func(w *world) error { w.cluster.SetTemplate(template); return nil }, nil
}

func deleteTemplate(args []string, _ string) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, errNoName
	}
	return func(w *world) error {
		if !w.cluster.DeleteTemplate(model.ClaimKey(keyNamed(args[0]))) {
			return fmt.Errorf("there is no resourceclaimtemplate %s", args[0])
		}
		return nil
	}, nil
}

// quoted joins the words of values in double quotes, and removes the quotes. Such a value
// ends at the first word with a final quote.
func quoted(words []string) ([]string, error) {
	var joined []string
	for i := 0; i < len(words); i++ {
		key, value, opened := strings.Cut(words[i], `="`)
		if !opened {
			joined = append(joined, words[i])
			continue
		}
		for !strings.HasSuffix(value, `"`) {
			if i++; i == len(words) {
				return nil, fmt.Errorf("%s: the quotes are not closed", key)
			}
			value += " " + words[i]
		}
		joined = append(joined, key+"="+strings.TrimSuffix(value, `"`))
	}
	return joined, nil
}

func wholeNumber(to *int64, value string) error {
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil || number < 0 {
		return fmt.Errorf("%q is not a number", value)
	}
	*to = number
	return nil
}

func addSelector(to *[]resourcev1.DeviceSelector, value string) {
	if value == none {
		*to = nil
		return
	}
	*to = append(*to, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: value}})
}

// qualified returns the qualified name of an attribute, as in constraints.
func qualified(name string) resourcev1.FullyQualifiedName {
	if !strings.Contains(name, "/") {
		name = deviceDriver + "/" + name
	}
	return resourcev1.FullyQualifiedName(name)
}

// sliceNode sets the nodes that can use the devices.
func sliceNode(s *resourcev1.ResourceSlice, _, value string) error {
	s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector = nil, nil, nil
	switch {
	case value == "all":
		s.Spec.AllNodes = new(true)
	case strings.ContainsAny(value, "=!<>;@"):
		term, err := termOf(value)
		if err != nil {
			return err
		}
		s.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
	default:
		s.Spec.NodeName = &value
	}
	return nil
}

// sliceDevices replaces the list of devices. Devices in both lists keep their properties.
func sliceDevices(s *resourcev1.ResourceSlice, _, value string) error {
	before := s.Spec.Devices
	s.Spec.Devices = nil
	if value == none {
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		device := resourcev1.Device{Name: name}
		if at := slices.IndexFunc(before, func(d resourcev1.Device) bool { return d.Name == name }); at >= 0 {
			device = before[at]
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return nil
}

// devicesNamed returns the devices for a name or *.
func devicesNamed(s *resourcev1.ResourceSlice, name string) ([]*resourcev1.Device, error) {
	var all []*resourcev1.Device
	for i := range s.Spec.Devices {
		if name == "*" || s.Spec.Devices[i].Name == name {
			all = append(all, &s.Spec.Devices[i])
		}
	}
	if all == nil && len(s.Spec.Devices) > 0 {
		return nil, fmt.Errorf("the slice has no device %q", name)
	}
	return all, nil
}

// eachDevice makes an attribute whose value begins with the name of a device.
func eachDevice(apply func(d *resourcev1.Device, rest string) error) func(*resourcev1.ResourceSlice, string, string) error {
	return func(s *resourcev1.ResourceSlice, _, value string) error {
		name, rest, _ := strings.Cut(value, ":")
		devices, err := devicesNamed(s, name)
		for _, d := range devices {
			err = errors.Join(err, apply(d, rest))
		}
		return err
	}
}

// sliceAttribute sets an attribute of one device or of all.
func sliceAttribute(s *resourcev1.ResourceSlice, key, value string) error {
	device, rest, one := strings.Cut(value, ":")
	if !one {
		device, rest = "*", value
	}
	devices, err := devicesNamed(s, device)
	for _, d := range devices {
		if d.Attributes == nil {
			d.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
		}
		d.Attributes[resourcev1.QualifiedName(key)] = attributeOf(rest)
	}
	return err
}

// attributeOf returns a number, a truth value or a text.
func attributeOf(value string) resourcev1.DeviceAttribute {
	if number, err := strconv.ParseInt(value, 10, 64); err == nil {
		return resourcev1.DeviceAttribute{IntValue: &number}
	}
	if is, err := truth(value); err == nil {
		return resourcev1.DeviceAttribute{BoolValue: &is}
	}
	return resourcev1.DeviceAttribute{StringValue: &value}
}

// sliceCapacity sets a capacity of one device or of all, with its request policy.
func sliceCapacity(s *resourcev1.ResourceSlice, key, value string) error {
	first, rest, _ := strings.Cut(value, ",")
	device, amount, one := strings.Cut(first, ":")
	if !one {
		device, amount = "*", first
	}
	q, err := resource.ParseQuantity(amount)
	if err != nil {
		return fmt.Errorf("%q is not a quantity", amount)
	}
	capacity := resourcev1.DeviceCapacity{Value: q}
	if rest != "" {
		if capacity.RequestPolicy, err = policyOf(rest); err != nil {
			return err
		}
	}
	devices, err := devicesNamed(s, device)
	for _, d := range devices {
		if d.Capacity == nil {
			d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}
		}
		d.Capacity[resourcev1.QualifiedName(key)] = capacity
	}
	return err
}

func policyOf(text string) (*resourcev1.CapacityRequestPolicy, error) {
	policy := &resourcev1.CapacityRequestPolicy{}
	valid := &resourcev1.CapacityRequestPolicyRange{}
	for item := range strings.SplitSeq(text, ",") {
		word, amount, _ := strings.Cut(item, ":")
		q, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, fmt.Errorf("%q is not a quantity", amount)
		}
		switch word {
		case "default":
			policy.Default = &q
			continue
		case "min":
			valid.Min = &q
		case "max":
			valid.Max = &q
		case "step":
			valid.Step = &q
		default:
			return nil, fmt.Errorf("%q is not min, max, step or default", word)
		}
		policy.ValidRange = valid
	}
	return policy, nil
}

func sliceTaint(s *resourcev1.ResourceSlice, _, value string) error {
	if value == none {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].Taints = nil
		}
		return nil
	}
	return eachDevice(func(d *resourcev1.Device, rest string) error {
		taint, err := deviceTaint(rest)
		d.Taints = append(d.Taints, taint)
		return err
	})(s, "", value)
}

func deviceTaint(value string) (taint resourcev1.DeviceTaint, err error) {
	rest, effect, ok := strings.Cut(value, ":")
	taint.Key, taint.Value, _ = strings.Cut(rest, "=")
	taint.Effect = resourcev1.DeviceTaintEffect(effect)
	if !ok || taint.Key == "" {
		return taint, fmt.Errorf("%q is not a key with an effect", value)
	}
	return taint, knownEffect(taint.Effect)
}

func knownEffect(effect resourcev1.DeviceTaintEffect) error {
	switch effect {
	case resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute:
		return nil
	}
	return fmt.Errorf("%q is not an effect: None, NoSchedule or NoExecute", effect)
}

func selected(r *resourcev1.DeviceTaintRule) *resourcev1.DeviceTaintSelector {
	return r.Spec.DeviceSelector
}

// exact has the fields of a request for devices of one class, whether exact or an
// alternative.
type exact struct {
	selectors   *[]resourcev1.DeviceSelector
	mode        *resourcev1.DeviceAllocationMode
	count       *int64
	capacity    **resourcev1.CapacityRequirements
	tolerations *[]resourcev1.DeviceToleration
}

// ofRequest makes an attribute of the last request of a claim, or of each of its
// alternatives.
func ofRequest(apply func(e *exact, rest, value string) error) func(*resourcev1.ResourceClaim, string, string) error {
	return func(c *resourcev1.ResourceClaim, rest, value string) error {
		r, err := lastRequest(c)
		if err != nil {
			return err
		}
		if e := r.Exactly; e != nil {
			return apply(&exact{&e.Selectors, &e.AllocationMode, &e.Count, &e.Capacity, &e.Tolerations}, rest, value)
		}
		for i := range r.FirstAvailable {
			s := &r.FirstAvailable[i]
			err = errors.Join(err, apply(&exact{&s.Selectors, &s.AllocationMode, &s.Count, &s.Capacity, &s.Tolerations}, rest, value))
		}
		return err
	}
}

func lastRequest(c *resourcev1.ResourceClaim) (*resourcev1.DeviceRequest, error) {
	requests := c.Spec.Devices.Requests
	if len(requests) == 0 {
		return nil, errors.New("it belongs to a request, which class= or first= begins")
	}
	return &requests[len(requests)-1], nil
}

// newRequest adds a request to a claim: r, r1, r2 and so on.
func newRequest(c *resourcev1.ResourceClaim) *resourcev1.DeviceRequest {
	name := "r"
	if n := len(c.Spec.Devices.Requests); n > 0 {
		name += strconv.Itoa(n)
	}
	c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: name})
	return &c.Spec.Devices.Requests[len(c.Spec.Devices.Requests)-1]
}

func claimClass(c *resourcev1.ResourceClaim, _, value string) error {
	if value == none {
		c.Spec.Devices.Requests = nil
		return nil
	}
	newRequest(c).Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: value, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	return nil
}

// claimFirst adds a request with alternatives, which are named after their classes.
func claimFirst(c *resourcev1.ResourceClaim, _, value string) error {
	r := newRequest(c)
	for class := range strings.SplitSeq(value, ",") {
		r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
			Name: class, DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return nil
}

func claimToleration(e *exact, _, value string) error {
	rest, effect, given := strings.Cut(value, ":")
	t := resourcev1.DeviceToleration{Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffect(effect)}
	if key, val, valued := strings.Cut(rest, "="); valued {
		t.Key, t.Value, t.Operator = key, val, resourcev1.DeviceTolerationOpEqual
	} else if rest != "*" {
		t.Key = rest
	}
	*e.tolerations = append(*e.tolerations, t)
	if given {
		return knownEffect(t.Effect)
	}
	return nil
}

func protect(c *resourcev1.ResourceClaim) {
	if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
		c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
	}
}

// claimAllocation allocates devices to a claim. Its requests take their counts from the
// list in order.
func claimAllocation(c *resourcev1.ResourceClaim, _, value string) error {
	if value == none {
		c.Status.Allocation = nil
		return nil
	}
	node, text, ok := strings.Cut(value, ":")
	if !ok {
		return fmt.Errorf("%q names no devices", value)
	}
	now := metav1.NewTime(firstDay)
	a := &resourcev1.AllocationResult{AllocationTimestamp: &now}
	if node != "*" {
		a.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}},
		}}}}
	}
	var requests []string
	for i := range c.Spec.Devices.Requests {
		r, times := &c.Spec.Devices.Requests[i], int64(1)
		if r.Exactly != nil {
			times = max(times, r.Exactly.Count)
		}
		requests = append(requests, slices.Repeat([]string{r.Name}, int(times))...)
	}
	if requests == nil {
		requests = []string{"r"}
	}
	for i, device := range strings.Split(text, ",") {
		parts := strings.Split(device, "/")
		if len(parts) == 2 {
			parts = append([]string{deviceDriver}, parts...)
		}
		if len(parts) != 3 {
			return fmt.Errorf("%q is not a device: want POOL/DEVICE", device)
		}
		a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: requests[min(i, len(requests)-1)], Driver: parts[0], Pool: parts[1], Device: parts[2],
		})
	}
	c.Status.Allocation = a
	protect(c)
	return nil
}

// claimCondition sets a condition of an allocated device, as its driver does.
func claimCondition(c *resourcev1.ResourceClaim, _, value string) error {
	device, rest, ok := strings.Cut(value, ":")
	if !ok {
		return fmt.Errorf("%q has no type", value)
	}
	condition := metav1.Condition{Type: rest, Status: metav1.ConditionTrue, Reason: "Scenario", Message: "as written"}
	if kind, status, given := strings.Cut(rest, "="); given {
		condition.Type, condition.Status = kind, metav1.ConditionStatus(status)
	}
	if c.Status.Allocation == nil {
		return nil // the condition is about the future allocation
	}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if r.Device != device {
			continue
		}
		at := slices.IndexFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if at < 0 {
			at = len(c.Status.Devices)
			c.Status.Devices = append(c.Status.Devices, resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device})
		}
		d := &c.Status.Devices[at]
		d.Conditions = append(slices.DeleteFunc(d.Conditions, func(o metav1.Condition) bool { return o.Type == condition.Type }), condition)
		return nil
	}
	return fmt.Errorf("the device %q is not allocated", device)
}

// podDevices adds a claim for devices to a pod.
func podDevices(p *v1.Pod, _, value string) error {
	return addDevices(p, value, v1.PodResourceClaim{ResourceClaimName: &value})
}

// podTemplate adds a claim for devices that is made from a template.
func podTemplate(p *v1.Pod, _, value string) error {
	return addDevices(p, value, v1.PodResourceClaim{ResourceClaimTemplateName: &value})
}

// addDevices adds an entry named after the claim or the template, with a number if that
// name is taken.
func addDevices(p *v1.Pod, value string, entry v1.PodResourceClaim) error {
	if value == none {
		p.Spec.ResourceClaims = nil
		return nil
	}
	entry.Name = value
	for n := 2; slices.ContainsFunc(p.Spec.ResourceClaims, func(o v1.PodResourceClaim) bool { return o.Name == entry.Name }); n++ {
		entry.Name = fmt.Sprint(value, "-", n)
	}
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
	return nil
}

// expectExtended checks the claim that was created for a pod's extended resources.
func expectExtended(args []string, text string) (check, error) {
	if len(args) != 1 || text == "" {
		return nil, errors.New("want a pod, a colon and what has become of the claim")
	}
	return func(w *world) error {
		have, key := "none", keyNamed(args[0])
		pod := w.cluster.Pod(model.PodKey{Namespace: key.Namespace, Name: key.Name})
		if pod != nil && pod.Status.ExtendedResourceClaimStatus != nil {
			have = "gone"
			claim := model.ClaimKey{Namespace: key.Namespace, Name: pod.Status.ExtendedResourceClaimStatus.ResourceClaimName}
			if object := w.cluster.Object(claim.DeviceRef()); object != nil {
				have = deviceClaimStatus(object)
			}
		}
		if have != text {
			return fmt.Errorf("%s: want %s, is %s", args[0], text, have)
		}
		return nil
	}, nil
}

// deviceClaimStatus describes a ResourceClaim.
func deviceClaimStatus(object kinds.Object) string {
	claim := object.(*resourcev1.ResourceClaim)
	word := "free"
	if a := claim.Status.Allocation; a != nil {
		var devices, pods []string
		for i := range a.Devices.Results {
			r := &a.Devices.Results[i]
			device := r.Pool + "/" + r.Device
			if r.Driver != deviceDriver {
				device = r.Driver + "/" + device
			}
			devices = append(devices, device)
		}
		for _, r := range claim.Status.ReservedFor {
			if r.Resource == "podgroups" {
				r.Name = "podgroup " + r.Name
			}
			pods = append(pods, r.Name)
		}
		slices.Sort(pods)
		if word = "allocated " + strings.Join(devices, ","); len(pods) > 0 {
			word += " for " + strings.Join(pods, ",")
		} else {
			word += ", unreserved"
		}
	}
	if claim.DeletionTimestamp != nil {
		word += ", terminating"
	}
	return word
}
