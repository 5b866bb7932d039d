package capacity

import (
	"cmp"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// deviceKey identifies a kind of devices.
type deviceKey struct {
	dra  bool
	name string
}

func (k deviceKey) compare(other deviceKey) int {
	if k.dra != other.dra {
		if k.dra {
			return 1
		}
		return -1
	}
	return cmp.Compare(k.name, other.name)
}

// device identifies one device of a DRA driver.
type device struct{ driver, pool, name string }

// devicesOf returns the devices of DRA drivers on each node, by driver. Only slices of
// one node count: other devices belong to no group. Devices that share counters are
// counted one by one, so their free number is an upper bound.
func devicesOf(c *manifest.Cluster) map[string][]Device {
	allocated := map[device]bool{}
	for _, claim := range c.ResourceClaims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.AdminAccess == nil || !*r.AdminAccess {
				allocated[device{r.Driver, r.Pool, r.Device}] = true
			}
		}
	}
	// An old slice of a pool may exist beside the new ones.
	latest := map[device]int64{}
	for _, s := range c.ResourceSlices {
		key := device{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}
		latest[key] = max(latest[key], s.Spec.Pool.Generation)
	}
	all := map[string][]Device{}
	for _, s := range c.ResourceSlices {
		pool := device{driver: s.Spec.Driver, pool: s.Spec.Pool.Name}
		if s.Spec.NodeName == nil || s.Spec.Pool.Generation < latest[pool] {
			continue
		}
		d := Device{Name: s.Spec.Driver, DRA: true, Allocatable: int64(len(s.Spec.Devices))}
		for i := range s.Spec.Devices {
			if allocated[device{s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name}] {
				d.Requested++
			}
		}
		all[*s.Spec.NodeName] = append(all[*s.Spec.NodeName], d)
	}
	return all
}
