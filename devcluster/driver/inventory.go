package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// sliceDevices is the number of devices in a ResourceSlice: the maximum for slices with
// tainted devices, so a taint does not move devices between slices.
const sliceDevices = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures

// all is the entry for all devices of a pool in an annotation.
const all = "*"

// Annotations for the devices of a node's pool, and the binding conditions, have the
// driver's name as prefix.
func (o *options) taintAnnotation() string  { return o.driver + "/taint" }
func (o *options) attachAnnotation() string { return o.driver + "/attach" }
func (o *options) attached() string         { return o.driver + "/attached" }
func (o *options) attachFailed() string     { return o.driver + "/attach-failed" }

// wanted is a pool's wanted state.
type wanted struct {
	owner  *resourceslice.Owner // the node of the pool; nil for a shared one
	taints string               // the annotations with its taints
	pool   resourceslice.Pool
}

// uid returns the UID of the pool's node, or nothing.
func (w *wanted) uid() types.UID {
	if w.owner == nil {
		return ""
	}
	return w.owner.UID
}

// pools returns the nodes' pools by name, and the errors in annotations. A pool with a
// wrong annotation has no taints.
func (o *options) pools(nodes []*v1.Node) (map[string]*wanted, []error) {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	pools := map[string]*wanted{}
	var wrong []error
	if o.sharedPool == "" {
		for _, node := range nodes {
			taints, errs := o.taints(node)
			wrong = append(wrong, errs...)
			pools[node.Name] = &wanted{
				owner:  &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
				taints: node.Annotations[o.taintAnnotation()], pool: o.pool(taints),
			}
		}
		return pools, wrong
	}
	union, text := map[string][]resourcev1.DeviceTaint{}, ""
	for _, node := range nodes {
		taints, errs := o.taints(node)
		wrong = append(wrong, errs...)
		for device, list := range taints {
			union[device] = append(union[device], list...)
		}
		if own := node.Annotations[o.taintAnnotation()]; own != "" {
			text += node.Name + " " + own + "\n"
		}
	}
	shared := &wanted{taints: text, pool: o.pool(union)}
	if o.nodes.Empty() {
		shared.pool.AllNodes = true
	} else {
		shared.pool.NodeSelector = nodeSelector(o.nodes)
	}
	pools[o.sharedPool] = shared
	return pools, wrong
}

// taints returns the device taints in a node's annotation, by device name.
func (o *options) taints(node *v1.Node) (map[string][]resourcev1.DeviceTaint, []error) {
	text := node.Annotations[o.taintAnnotation()]
	taints := map[string][]resourcev1.DeviceTaint{}
	for device, value := range entries(text) {
		taint, err := parseTaint(value)
		if err == nil {
			err = o.checkDevice(device)
		}
		if err != nil {
			return nil, []error{fmt.Errorf("node %s, annotation %s=%q: %w", node.Name, o.taintAnnotation(), text, err)}
		}
		taints[device] = append(taints[device], taint)
	}
	return taints, nil
}

// entries yields the pairs of an annotation: "gpu-0=a,gpu-1=b".
func entries(text string) func(yield func(device, value string) bool) {
	return func(yield func(device, value string) bool) {
		for entry := range strings.SplitSeq(text, ",") {
			device, value, _ := strings.Cut(strings.TrimSpace(entry), "=")
			if device+value != "" && !yield(device, value) {
				return
			}
		}
	}
}

// parseTaint parses KEY:EFFECT or KEY=VALUE:EFFECT.
func parseTaint(text string) (resourcev1.DeviceTaint, error) {
	before, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(before, "=")
	taint := resourcev1.DeviceTaint{Key: key, Value: value, Effect: resourcev1.DeviceTaintEffect(effect)}
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return taint, fmt.Errorf("the taint %q must be KEY:EFFECT or KEY=VALUE:EFFECT: key: %s", text, wrong[0])
	}
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		return taint, fmt.Errorf("the taint %q: value: %s", text, wrong[0])
	}
	switch taint.Effect {
	case resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute:
		return taint, nil
	}
	return taint, fmt.Errorf("the taint %q: effect %q is neither NoSchedule nor NoExecute nor None", text, effect)
}

// deviceName returns the name of the i-th device of a pool.
func deviceName(i int) string { return fmt.Sprint("gpu-", i) }

// checkDevice returns an error if a pool has no device with this name.
func (o *options) checkDevice(name string) error {
	if name == all {
		return nil
	}
	for i := range o.devices {
		if name == deviceName(i) {
			return nil
		}
	}
	return fmt.Errorf("there is no device %q among the %d of a pool", name, o.devices)
}

// pool returns a pool with its devices. A pool without devices has an empty slice, which
// shows that the driver runs.
func (o *options) pool(taints map[string][]resourcev1.DeviceTaint) resourceslice.Pool {
	var devices []resourcev1.Device
	for i := range o.devices {
		devices = append(devices, o.device(i, taints))
	}
	pool := resourceslice.Pool{}
	for chunk := range slices.Chunk(devices, sliceDevices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: chunk})
	}
	if len(pool.Slices) == 0 {
		pool.Slices = []resourceslice.Slice{{}}
	}
	return pool
}

// device returns the i-th device of a pool. The attribute numa is 0 for the first half of
// the pool and 1 for the second.
func (o *options) device(i int, taints map[string][]resourcev1.DeviceTaint) resourcev1.Device {
	device := resourcev1.Device{
		Name: deviceName(i),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: &o.model}, "index": {IntValue: new(int64(i))}, "numa": {IntValue: new(int64(i * 2 / o.devices))},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: o.memoryBytes}},
	}
	for _, taint := range slices.Concat(taints[device.Name], taints[all]) {
		if !slices.Contains(device.Taints, taint) {
			device.Taints = append(device.Taints, taint)
		}
	}
	if o.bindingConditions {
		device.BindingConditions, device.BindingFailureConditions = []string{o.attached()}, []string{o.attachFailed()}
		device.BindsToNode = new(true) // a device attached to one node is not available on another
	}
	return device
}

// operators maps label selector operators to node selector operators.
var operators = map[selection.Operator]v1.NodeSelectorOperator{
	selection.Equals: v1.NodeSelectorOpIn, selection.DoubleEquals: v1.NodeSelectorOpIn, selection.In: v1.NodeSelectorOpIn,
	selection.NotEquals: v1.NodeSelectorOpNotIn, selection.NotIn: v1.NodeSelectorOpNotIn,
	selection.Exists: v1.NodeSelectorOpExists, selection.DoesNotExist: v1.NodeSelectorOpDoesNotExist,
	selection.GreaterThan: v1.NodeSelectorOpGt, selection.LessThan: v1.NodeSelectorOpLt,
}

// nodeSelector converts a label selector to a node selector.
func nodeSelector(selector labels.Selector) *v1.NodeSelector {
	requirements, _ := selector.Requirements()
	term := v1.NodeSelectorTerm{}
	for _, r := range requirements {
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
			Key: r.Key(), Operator: operators[r.Operator()], Values: slices.Sorted(maps.Keys(r.Values())),
		})
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
}
