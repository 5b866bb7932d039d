package devices

import (
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
)

// An allocated device keeps its counters while no slice publishes it. Drivers may publish
// only the partitions that can still be allocated, or delete their slices during a
// restart. The allocator counts published devices only, and would allocate the counters
// twice.
//
// So the store keeps the counters of an allocated device when its last slice is deleted.
// The counter sets for the allocator are smaller by that amount, which has the same
// effect as if the device were still published. Adding the device to a slice instead was
// rejected, since it would fail requests for all devices.
//
// The counters do not survive a restart: no API object names the counters of an
// unpublished device. Blocking the whole pool in this case was rejected: a pool often has
// all cards of a node.

// absentee is a device with counters that slices of some generations do not publish.
type absentee struct {
	counters []resourcev1.DeviceCounterConsumption
	// in are the generations whose slices publish the device; none if it is withdrawn.
	in []int64
}

// withdraw records the used devices of a changed or deleted slice that no slice of the
// pool publishes any more.
func (s *Store) withdraw(p *pool, slice *model.ResourceSlice) {
	var published map[string]bool
	for i := range slice.Object.Spec.Devices {
		d := &slice.Object.Spec.Devices[i]
		if len(d.ConsumesCounters) == 0 || !s.InUse(structured.MakeDeviceID(p.id.Driver, p.id.Pool, d.Name)) {
			continue
		}
		if published == nil {
			published = p.deviceNames()
		}
		if published[d.Name] {
			continue
		}
		if s.withdrawn[p.id] == nil {
			s.withdrawn[p.id] = map[string][]resourcev1.DeviceCounterConsumption{}
		}
		s.withdrawn[p.id][d.Name] = d.ConsumesCounters
	}
}

func (p *pool) deviceNames() map[string]bool {
	names := map[string]bool{}
	for _, slice := range p.published {
		for i := range slice.Object.Spec.Devices {
			names[slice.Object.Spec.Devices[i].Name] = true
		}
	}
	return names
}

// republish removes the withdrawn devices of a pool that a slice publishes again.
func (s *Store) republish(id PoolID, slice *model.ResourceSlice) {
	for i := range slice.Object.Spec.Devices {
		if len(s.withdrawn[id]) == 0 {
			return
		}
		s.forgetWithdrawn(id, slice.Object.Spec.Devices[i].Name)
	}
}

// release removes the withdrawn devices of a pool that are no longer in use.
func (s *Store) release(id PoolID, devices []string) {
	if s.withdrawn[id] == nil {
		return
	}
	for _, device := range devices {
		if !s.InUse(structured.MakeDeviceID(id.Driver, id.Pool, device)) {
			s.forgetWithdrawn(id, device)
		}
	}
}

func (s *Store) forgetWithdrawn(id PoolID, device string) {
	if delete(s.withdrawn[id], device); len(s.withdrawn[id]) == 0 {
		delete(s.withdrawn, id)
	}
}

// offer builds the slices for the allocator: with the taints of rules, and without the
// counters of devices that are in use and not published.
func (s *Store) offer(p *pool) {
	rules := s.rulesFor(p.id)
	p.now = &model.DevicePool{Driver: p.id.Driver, Slices: make([]*resourcev1.ResourceSlice, len(p.published))}
	for i, slice := range p.published {
		p.now.Slices[i] = tainted(slice.Object, rules)
	}
	p.absent = s.absentFrom(p)
	if len(p.absent) == 0 {
		return
	}
	var used []*absentee
	for _, name := range slices.Sorted(maps.Keys(p.absent)) {
		if s.InUse(structured.MakeDeviceID(p.id.Driver, p.id.Pool, name)) {
			used = append(used, p.absent[name])
		}
	}
	for i, slice := range p.now.Slices {
		p.now.Slices[i] = without(slice, used)
	}
}

// absentFrom returns, by name, the devices that the slices of at least one generation of
// a pool do not publish: withdrawn devices, and devices of another generation. The
// allocator takes all devices of a node from slices of one generation, so it would
// overlook the counters of these. It returns nil if the pool has no counters.
func (s *Store) absentFrom(p *pool) map[string]*absentee {
	generations := p.generations()
	if !p.hasCounters() || len(generations) < 2 && len(s.withdrawn[p.id]) == 0 {
		return nil
	}
	absent := map[string]*absentee{}
	for name, counters := range s.withdrawn[p.id] {
		absent[name] = &absentee{counters: counters}
	}
	if len(generations) < 2 {
		return absent
	}
	for _, generation := range generations {
		p.addPublished(absent, generation)
	}
	maps.DeleteFunc(absent, func(_ string, a *absentee) bool { return len(a.counters) == 0 || len(a.in) == len(generations) })
	return absent
}

// addPublished adds the devices with counters of a generation. Generations must be added
// in ascending order.
func (p *pool) addPublished(to map[string]*absentee, generation int64) {
	for _, slice := range p.published {
		spec := &slice.Object.Spec
		if spec.Pool.Generation != generation {
			continue
		}
		for i := range spec.Devices {
			d := &spec.Devices[i]
			a := to[d.Name]
			if a == nil {
				a = &absentee{}
				to[d.Name] = a
			}
			a.counters = d.ConsumesCounters
			if !slices.Contains(a.in, generation) {
				a.in = append(a.in, generation)
			}
		}
	}
}

// generations returns the generations of the pool's slices, the earliest first.
func (p *pool) generations() (all []int64) {
	for _, slice := range p.published {
		if g := slice.Object.Spec.Pool.Generation; !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	slices.Sort(all)
	return all
}

func (p *pool) hasCounters() bool {
	return slices.ContainsFunc(p.published, func(s *model.ResourceSlice) bool { return len(s.Object.Spec.SharedCounters) > 0 })
}

// without returns a slice whose counters are reduced by those of used devices that the
// slice's generation does not publish. It returns the same slice if nothing changes. A
// counter may become negative, which the allocator treats as none available.
func without(slice *resourcev1.ResourceSlice, used []*absentee) *resourcev1.ResourceSlice {
	if len(slice.Spec.SharedCounters) == 0 {
		return slice
	}
	with := slice
	for _, a := range used {
		if slices.Contains(a.in, slice.Spec.Pool.Generation) {
			continue
		}
		if with == slice {
			with = slice.DeepCopy()
		}
		for i := range a.counters {
			subtract(with.Spec.SharedCounters, &a.counters[i])
		}
	}
	return with
}

// subtract subtracts a device's consumption from the counter set that it names. A set or
// a counter that the pool no longer has is ignored.
func subtract(sets []resourcev1.CounterSet, consumed *resourcev1.DeviceCounterConsumption) {
	for i := range sets {
		if sets[i].Name != consumed.CounterSet {
			continue
		}
		for name, counter := range consumed.Counters {
			if left, ok := sets[i].Counters[name]; ok {
				left.Value = difference(left.Value, counter.Value)
				sets[i].Counters[name] = left
			}
		}
	}
}

// difference returns a - b in the format of a, so that the order of subtractions has no
// effect.
func difference(a, b resource.Quantity) resource.Quantity {
	format := a.Format
	a = a.DeepCopy()
	a.Sub(b)
	a.Format = format
	return a
}
