package cases

import (
	"path"

	resourcev1 "k8s.io/api/resource/v1"
)

// SameDevices returns a copy without the inputs of which kube-scheduler 1.38 allocates
// devices in another way than 1.37: names of capacities with the driver's domain, and
// requests for all devices, whose pool may be incomplete.
func (tc *Case) SameDevices() Case {
	same := tc.Clone()
	for _, o := range same.Devices {
		switch o := o.(type) {
		case *resourcev1.ResourceClaim:
			plainRequests(o)
			plainResults(o.Status.Allocation)
		case *resourcev1.ResourceSlice:
			for i := range o.Spec.Devices {
				d := &o.Spec.Devices[i]
				d.Capacity = plainNames(d.Capacity)
			}
		}
	}
	return same
}

// plainResults removes the domains from the names of the consumed capacities.
func plainResults(a *resourcev1.AllocationResult) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		r.ConsumedCapacity = plainNames(r.ConsumedCapacity)
	}
}

// plainRequests replaces requests for all devices by requests for one, and removes the
// domains from the names of capacities.
func plainRequests(claim *resourcev1.ResourceClaim) {
	one := func(mode *resourcev1.DeviceAllocationMode, count *int64) {
		if *mode == resourcev1.DeviceAllocationModeAll {
			*mode, *count = resourcev1.DeviceAllocationModeExactCount, 1
		}
	}
	named := func(c *resourcev1.CapacityRequirements) {
		if c != nil {
			c.Requests = plainNames(c.Requests)
		}
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			one(&r.Exactly.AllocationMode, &r.Exactly.Count)
			named(r.Exactly.Capacity)
		}
		for j := range r.FirstAvailable {
			one(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
			named(r.FirstAvailable[j].Capacity)
		}
	}
}

func plainNames[T any](named map[resourcev1.QualifiedName]T) map[resourcev1.QualifiedName]T {
	if named == nil {
		return nil
	}
	plain := map[resourcev1.QualifiedName]T{}
	for name, value := range named {
		short := resourcev1.QualifiedName(path.Base(string(name)))
		if _, both := named[short]; short == name || !both {
			plain[short] = value
		}
	}
	return plain
}
