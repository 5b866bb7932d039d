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

// LeaderAnnotation names the process that wrote it to a claim. A new leader writes it
// before it relies on the claim's allocation.
const LeaderAnnotation = "scheduler.berth.dev/leader"

// ResourceClaim is a compiled ResourceClaim.
type ResourceClaim struct {
	// Object is the API object, trimmed to what scheduling reads. Shared; never written.
	Object *resourcev1.ResourceClaim
	Key    ClaimKey
	// Asks is a canonical text of the claim's requests and constraints. It does not
	// contain the claim's name, so claims made from one template have equal Asks.
	Asks Need
}

// NewResourceClaim compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// Allocation returns the claim's allocation, or nil.
func (c *ResourceClaim) Allocation() *resourcev1.AllocationResult { return c.Object.Status.Allocation }

// DeviceRef returns the reference of the ResourceClaim with this key.
func (k ClaimKey) DeviceRef() Ref { return Ref{ResourceClaimKind, k.Namespace, k.Name} }

// DeviceClass is a compiled DeviceClass.
type DeviceClass struct {
	// Object is the API object. Shared; never written.
	Object *resourcev1.DeviceClass
	Name   string
	// Selects is a canonical text of the selectors. It determines the devices of the
	// class.
	Selects Need
}

// NewDeviceClass compiles an API object. It keeps the object, which must not be changed
// afterwards.
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

// NewResourceSlice compiles an API object. It keeps the object, which must not be changed
// afterwards.
func NewResourceSlice(object *resourcev1.ResourceSlice) *ResourceSlice {
	return &ResourceSlice{Object: object, Name: object.Name}
}

// Ref returns the reference of the slice.
func (s *ResourceSlice) Ref() Ref { return Ref{Kind: ResourceSliceKind, Name: s.Name} }

// UID returns the object's UID.
func (s *ResourceSlice) UID() types.UID { return s.Object.UID }

// Version returns the object's resourceVersion.
func (s *ResourceSlice) Version() string { return s.Object.ResourceVersion }

// DevicePool is a version of a driver's pool. It is shared and immutable.
type DevicePool struct {
	Driver string
	// Slices are the slices of all generations, by name. Their devices include the taints
	// added by rules. Their counters are reduced by the consumption of allocated devices
	// that are no longer published.
	Slices []*resourcev1.ResourceSlice
	// What hashes the slices without the names of node, pool and devices.
	What [sha256.Size]byte
}

// DeviceTaintRule is a compiled DeviceTaintRule.
type DeviceTaintRule struct {
	// Object is the API object. Shared; never written.
	Object *resourcev1.DeviceTaintRule
	Name   string
}

// NewDeviceTaintRule compiles an API object. It keeps the object, which must not be
// changed afterwards.
func NewDeviceTaintRule(object *resourcev1.DeviceTaintRule) *DeviceTaintRule {
	return &DeviceTaintRule{Object: object, Name: object.Name}
}

// Ref returns the reference of the rule.
func (r *DeviceTaintRule) Ref() Ref { return Ref{Kind: DeviceTaintRuleKind, Name: r.Name} }

// UID returns the object's UID.
func (r *DeviceTaintRule) UID() types.UID { return r.Object.UID }

// Version returns the object's resourceVersion.
func (r *DeviceTaintRule) Version() string { return r.Object.ResourceVersion }

// Applies reports whether the rule taints a device of a pool. A rule without a selector
// taints none.
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

// needOfJSON returns a canonical text of API types, whose JSON encoding is deterministic.
func needOfJSON(value any) Need {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", value, err)) // API types can always be encoded
	}
	return NeedOf(string(text))
}

// PodDevices are the ResourceClaims of a pod, in the order of its spec.
type PodDevices struct {
	Claims []PodResourceClaim
	// Err is kube-scheduler's error about the first claim whose name cannot be
	// determined, or nil. Claims are then the claims before it.
	Err error
}

// PodResourceClaim is a ResourceClaim that a pod uses. Spec entries that need no claim
// are left out.
type PodResourceClaim struct {
	// Entry is the name of the entry in the pod's spec.
	Entry string
	Key   ClaimKey
	// Owned means that the claim was made for the pod, which must be its owner.
	Owned bool
}

// Names reports whether the pod uses the claim.
func (d *PodDevices) Names(key ClaimKey) bool {
	return d != nil && slices.ContainsFunc(d.Claims, func(c PodResourceClaim) bool { return c.Key == key })
}

// Keys returns the keys of the claims, sorted and distinct.
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

// devicesOf returns the ResourceClaims of a pod, or nil if its spec has none.
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
