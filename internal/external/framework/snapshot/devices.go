package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

var (
	_ fwk.SharedDRAManager     = (*Devices)(nil)
	_ fwk.ResourceClaimTracker = (*Devices)(nil)
	_ fwk.ResourceSliceLister  = (*Devices)(nil)
	_ fwk.DeviceClassLister    = classes{}
	_ fwk.DeviceClassResolver  = (*Devices)(nil)
)

// Devices are devices and claims for plugins, as of the beginning of a turn. Claims that
// are promised to placements are pending allocations. It is updated from the state's
// store once a plugin has called Ask. Any goroutine may use it; objects must not be
// changed. Plugins cannot promise devices themselves: that is for placements, which the
// state holds.
type Devices struct {
	asked atomic.Bool

	mu sync.RWMutex
	of *devices.Store // the store it was updated from; nil before the first turn
	// Objects by name; slices include the taints of rules. promised are the promises of
	// claims without allocation.
	claims   map[model.ClaimKey]*resourcev1.ResourceClaim
	promised map[model.ClaimKey]*devices.Promise
	slices   map[string]*resourcev1.ResourceSlice
	classes  map[string]*resourcev1.DeviceClass
}

// Ask returns the devices, which are updated from the next turn on.
func (d *Devices) Ask() *Devices {
	d.asked.Store(true)
	return d
}

// update copies the present devices.
func (d *Devices) update(v state.View) {
	if !d.asked.Load() {
		return
	}
	store := v.Devices()
	changed, all := store.News()
	d.mu.Lock()
	defer d.mu.Unlock()
	if all || d.of != store {
		d.of = store
		d.claims, d.promised = map[model.ClaimKey]*resourcev1.ResourceClaim{}, map[model.ClaimKey]*devices.Promise{}
		d.slices, d.classes = map[string]*resourcev1.ResourceSlice{}, map[string]*resourcev1.DeviceClass{}
		for ref := range store.Refs {
			d.take(ref)
		}
		return
	}
	for ref := range changed {
		d.take(ref)
	}
}

// take copies an object from the store. The caller holds mu.
func (d *Devices) take(ref model.Ref) {
	switch ref.Kind {
	case model.ResourceClaimKind:
		key := ref.ClaimKey()
		delete(d.claims, key)
		delete(d.promised, key)
		claim := d.of.Claim(key)
		if claim != nil {
			d.claims[key] = claim.Object
		}
		if promise := d.of.Promised(key); promise != nil && (claim == nil || claim.Allocation() == nil) {
			d.promised[key] = promise
		}
	case model.DeviceClassKind:
		delete(d.classes, ref.Name)
		if class := d.of.Class(ref.Name); class != nil {
			d.classes[ref.Name] = class.Object
		}
	case model.ResourceSliceKind:
		delete(d.slices, ref.Name)
		if slice := d.of.Slice(ref.Name); slice != nil {
			d.slices[ref.Name] = slice
		}
	case model.DeviceTaintRuleKind: // it may match any device
		for name := range d.slices {
			if slice := d.of.Slice(name); slice != nil {
				d.slices[name] = slice
			}
		}
	}
}

// read calls a function while nothing changes.
func (d *Devices) read(f func()) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.of == nil {
		return errors.New("SharedDRAManager of the Handle has no devices yet: get it when the plugin is created, and read it from the first attempt on")
	}
	f()
	return nil
}

// ResourceClaims returns the claims.
func (d *Devices) ResourceClaims() fwk.ResourceClaimTracker { return d }

// ResourceSlices returns the slices.
func (d *Devices) ResourceSlices() fwk.ResourceSliceLister { return d }

// DeviceClasses returns the classes.
func (d *Devices) DeviceClasses() fwk.DeviceClassLister { return classes{d} }

// DeviceClassResolver returns the classes by extended resource.
func (d *Devices) DeviceClassResolver() fwk.DeviceClassResolver { return d }

// List returns all claims by name.
func (d *Devices) List() (list []*resourcev1.ResourceClaim, err error) {
	err = d.read(func() { list = slices.Collect(maps.Values(d.claims)) })
	slices.SortFunc(list, func(a, b *resourcev1.ResourceClaim) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return list, err
}

// Get returns a claim. A missing claim is the API's NotFound error.
func (d *Devices) Get(namespace, name string) (claim *resourcev1.ResourceClaim, err error) {
	err = d.read(func() { claim = d.claims[model.ClaimKey{Namespace: namespace, Name: name}] })
	if err == nil && claim == nil {
		err = apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), namespace+"/"+name)
	}
	return claim, err
}

// ListAllAllocatedDevices returns the devices that are exclusively allocated or promised
// to claims.
func (d *Devices) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	all, err := d.GatherAllocatedState()
	if err != nil {
		return nil, err
	}
	return all.AllocatedDevices, nil
}

// GatherAllocatedState returns the allocations and promises of claims.
func (d *Devices) GatherAllocatedState() (all *structured.AllocatedState, err error) {
	err = d.read(func() {
		all = devices.AllocatedBy(func(yield func(*resourcev1.AllocationResult) bool) {
			for _, claim := range d.claims {
				if a := claim.Status.Allocation; a != nil && !yield(a) {
					return
				}
			}
			for _, promise := range d.promised {
				if !yield(promise.Allocation) {
					return
				}
			}
		})
	})
	return all, err
}

// GetPendingAllocation returns the promise of a claim without allocation, or nil.
func (d *Devices) GetPendingAllocation(uid types.UID) (pending *resourcev1.AllocationResult) {
	if err := d.read(func() {
		for _, promise := range d.promised {
			if promise.UID == uid {
				pending = promise.Allocation
			}
		}
	}); err != nil {
		panic(err) // returning nil would be wrong
	}
	return pending
}

// errNoPromise is why plugins cannot change claims here.
var errNoPromise = errors.New("SharedDRAManager().ResourceClaims() of the Handle cannot be changed: claims are allocated by DynamicResources, or in the API")

// SignalClaimPendingAllocation returns an error.
func (d *Devices) SignalClaimPendingAllocation(types.UID, *resourcev1.ResourceClaim) error {
	return fmt.Errorf("SignalClaimPendingAllocation: %w", errNoPromise)
}

// MaybeRemoveClaimPendingAllocation removes nothing: no pending allocation is a plugin's.
func (d *Devices) MaybeRemoveClaimPendingAllocation(types.UID, bool) (deleted bool) { return false }

// AssumeClaimAfterAPICall returns an error. The claim appears when the watch delivers it.
func (d *Devices) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error {
	return fmt.Errorf("AssumeClaimAfterAPICall: %w", errNoPromise)
}

// AssumedClaimRestore does nothing, because claims are never assumed.
func (d *Devices) AssumedClaimRestore(string, string) {}

// ListWithDeviceTaintRules returns all slices by name, with the taints of rules.
func (d *Devices) ListWithDeviceTaintRules() (list []*resourcev1.ResourceSlice, err error) {
	err = d.read(func() { list = slices.Collect(maps.Values(d.slices)) })
	slices.SortFunc(list, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// GetDeviceClass returns the class of an extended resource, or nil. If the resource's
// name contains the class's name, that class is returned. Otherwise it is the newest
// class with that resource name, and among equally new ones the first by name.
func (d *Devices) GetDeviceClass(resource v1.ResourceName) (class *resourcev1.DeviceClass) {
	if err := d.read(func() {
		if name, ok := strings.CutPrefix(string(resource), resourcev1.ResourceDeviceClassPrefix); ok {
			class = d.classes[name]
			return
		}
		for _, c := range d.classes {
			if c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == string(resource) && (class == nil || isNewer(c, class)) {
				class = c
			}
		}
	}); err != nil {
		panic(err) // returning nil would be wrong
	}
	return class
}

func isNewer(a, b *resourcev1.DeviceClass) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(b.Name, a.Name)) > 0
}

// classes lists and gets the classes.
type classes struct{ d *Devices }

// List returns all classes by name.
func (c classes) List() (list []*resourcev1.DeviceClass, err error) {
	err = c.d.read(func() { list = slices.Collect(maps.Values(c.d.classes)) })
	slices.SortFunc(list, func(a, b *resourcev1.DeviceClass) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Get returns a class. A missing class is the API's NotFound error.
func (c classes) Get(name string) (class *resourcev1.DeviceClass, err error) {
	err = c.d.read(func() { class = c.d.classes[name] })
	if err == nil && class == nil {
		err = apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
	}
	return class, err
}
