package model

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// LeaderAnnotation names the process that wrote it to a claim when it had taken over and
// was about to rely on the claim's allocation.
const LeaderAnnotation = "scheduler.berth.dev/leader"

// ResourceClaim is a compiled ResourceClaim.
type ResourceClaim struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *resourcev1.ResourceClaim
	Key    ClaimKey
	// Asks is what the claim demands of devices: requests and constraints, in a canonical text that names no claim. Claims that were made from one
	// template ask the same.
	Asks Need
}

// NewResourceClaim compiles an API object. The object is kept and must not be changed afterwards.
func NewResourceClaim(object *resourcev1.ResourceClaim) *ResourceClaim {
	return &ResourceClaim{
		Object: object, Key: ClaimKey{Interned(object.Namespace), object.Name},
		Asks: needOfJSON(resourcev1.DeviceClaim{Requests: object.Spec.Devices.Requests, Constraints: object.Spec.Devices.Constraints}),
	}
}

// Ref returns the reference of the claim.
func (c *ResourceClaim) Ref() Ref { return c.Key.DeviceRef() }

// UID returns the object's UID.
func (c *ResourceClaim) UID() types.UID { return c.Object.UID }

// Version returns the object's resourceVersion.
func (c *ResourceClaim) Version() string { return c.Object.ResourceVersion }

// Allocation returns what is allocated to the claim, nil if nothing is.
func (c *ResourceClaim) Allocation() *resourcev1.AllocationResult { return c.Object.Status.Allocation }

// DeviceRef returns the reference of the ResourceClaim of a key.
func (k ClaimKey) DeviceRef() Ref { return Ref{ResourceClaimKind, k.Namespace, k.Name} }

// DeviceClass is a compiled DeviceClass.
type DeviceClass struct {
	// Object is the API object. Shared; never written.
	Object *resourcev1.DeviceClass
	Name   string
	// Selects is a canonical text of its selectors, on which alone it depends which devices are of the class.
	Selects Need
}

// NewDeviceClass compiles an API object. The object is kept and must not be changed afterwards.
func NewDeviceClass(object *resourcev1.DeviceClass) *DeviceClass {
	return &DeviceClass{Object: object, Name: object.Name, Selects: needOfJSON(object.Spec.Selectors)}
}

// Ref returns the reference of the class.
func (c *DeviceClass) Ref() Ref { return Ref{Kind: DeviceClassKind, Name: c.Name} }

// UID returns the object's UID.
func (c *DeviceClass) UID() types.UID { return c.Object.UID }

// Version returns the object's resourceVersion.
func (c *DeviceClass) Version() string { return c.Object.ResourceVersion }

// ResourceSlice is a compiled ResourceSlice.
type ResourceSlice struct {
	// Object is the API object. Shared; never written.
	Object *resourcev1.ResourceSlice
	Name   string
}

// NewResourceSlice compiles an API object. The object is kept and must not be changed afterwards.
func NewResourceSlice(object *resourcev1.ResourceSlice) *ResourceSlice {
	return &ResourceSlice{Object: object, Name: object.Name}
}

// Ref returns the reference of the slice.
func (s *ResourceSlice) Ref() Ref { return Ref{Kind: ResourceSliceKind, Name: s.Name} }

// UID returns the object's UID.
func (s *ResourceSlice) UID() types.UID { return s.Object.UID }

// Version returns the object's resourceVersion.
func (s *ResourceSlice) Version() string { return s.Object.ResourceVersion }

// DevicePool is what there is of a driver's pool at one time. Shared; never written.
type DevicePool struct {
	Driver string
	// Slices are those of all generations, by name, with the taints that rules add to their
	// devices, and without the counters of allocated devices that are not published.
	Slices []*resourcev1.ResourceSlice
	// What describes the slices without the names of node, pool and devices, hashed.
	What [sha256.Size]byte
}

// DeviceTaintRule is a compiled DeviceTaintRule.
type DeviceTaintRule struct {
	// Object is the API object. Shared; never written.
	Object *resourcev1.DeviceTaintRule
	Name   string
}

// NewDeviceTaintRule compiles an API object. The object is kept and must not be changed afterwards.
func NewDeviceTaintRule(object *resourcev1.DeviceTaintRule) *DeviceTaintRule {
	return &DeviceTaintRule{Object: object, Name: object.Name}
}

// Ref returns the reference of the rule.
func (r *DeviceTaintRule) Ref() Ref { return Ref{Kind: DeviceTaintRuleKind, Name: r.Name} }

// UID returns the object's UID.
func (r *DeviceTaintRule) UID() types.UID { return r.Object.UID }

// Version returns the object's resourceVersion.
func (r *DeviceTaintRule) Version() string { return r.Object.ResourceVersion }

// Applies reports whether the rule taints a device of a pool. A rule without a selector taints none.
func (r *DeviceTaintRule) Applies(driver, pool, device string) bool {
	if !r.Concerns(driver, pool) {
		return false
	}
	only := r.Object.Spec.DeviceSelector.Device
	return only == nil || *only == device
}

// Concerns reports whether the rule may taint devices of a pool.
func (r *DeviceTaintRule) Concerns(driver, pool string) bool {
	s := r.Object.Spec.DeviceSelector
	return s != nil && (s.Driver == nil || *s.Driver == driver) && (s.Pool == nil || *s.Pool == pool)
}

// needOfJSON returns a canonical text of API types, whose encoding has an order.
func needOfJSON(value any) Need {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err)) // API types can always be encoded
	}
	return NeedOf(string(text))
}

// PodDevices are the claims for devices of a pod, in the order of its spec.
type PodDevices struct {
	Claims []PodResourceClaim
	// Err is why not all of them can be named, as kube-scheduler says it; nil if they can. Claims are those before the first that cannot.
	Err error
}

// PodResourceClaim is a claim for devices that a pod uses. Entries of the spec for which no claim is needed are left out.
type PodResourceClaim struct {
	// Entry is the entry's name in the pod's spec.
	Entry string
	Key   ClaimKey
	// Owned means that the claim was made for the pod, which must be its owner.
	Owned bool
}

// Names reports whether the pod uses the claim.
func (d *PodDevices) Names(key ClaimKey) bool {
	return d != nil && slices.ContainsFunc(d.Claims, func(c PodResourceClaim) bool { return c.Key == key })
}

// Keys returns the keys of the claims, sorted, each once.
func (d *PodDevices) Keys() []ClaimKey {
	if d == nil {
		return nil
	}
	keys := make([]ClaimKey, len(d.Claims))
	for i, c := range d.Claims {
		keys[i] = c.Key
	}
	slices.SortFunc(keys, ClaimKey.Compare)
	return slices.Compact(keys)
}

// devicesOf returns the claims for devices of a pod, nil if its spec has none.
func devicesOf(pod *v1.Pod) *PodDevices {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	devices := &PodDevices{Claims: make([]PodResourceClaim, 0, len(pod.Spec.ResourceClaims))}
	namespace := Interned(pod.Namespace)
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		name, owned, err := resourceclaim.Name(pod, entry)
		switch {
		case err != nil:
			devices.Err = err
			return devices
		case name != nil:
			devices.Claims = append(devices.Claims, PodResourceClaim{Interned(entry.Name), ClaimKey{namespace, *name}, owned})
		}
	}
	return devices
}
