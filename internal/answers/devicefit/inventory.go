package devicefit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
)

// inventory is the devices that a node can use.
type inventory struct {
	store   *devices.Store
	devices []device
}

// pool is the newest generation of a pool.
type pool struct {
	name       string
	generation int64
	slices     []*resourcev1.ResourceSlice
	// problem is the reason why the allocator takes no device of the pool, or empty.
	problem string
	// left are the counters that allocated devices leave, by set and counter.
	left map[string]map[string]resource.Quantity
}

// inventory collects the devices of the node, each with its pool. Devices of an older
// generation do not count.
func (x *Examiner) inventory(q *Question) *inventory {
	on := &inventory{store: q.Store}
	all := q.Store.SlicesAt(q.Slot, nil)
	pools := map[devices.PoolID]*pool{}
	for _, slice := range all {
		id := devices.PoolID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name}
		p := pools[id]
		if p == nil || slice.Spec.Pool.Generation > p.generation {
			p = &pool{name: id.Pool, generation: slice.Spec.Pool.Generation}
			pools[id] = p
		}
		if slice.Spec.Pool.Generation == p.generation {
			p.slices = append(p.slices, slice)
		}
	}
	for _, p := range pools {
		p.judge()
		p.count(q.Store)
	}
	at := 0
	for usable, err := range q.Store.UsableSlices(q.Slot, q.Node) {
		slice := all[at]
		at++
		p := pools[devices.PoolID{Driver: usable.Driver, Pool: usable.Pool}]
		if err != nil || slice.Spec.Pool.Generation != p.generation {
			continue
		}
		for _, spec := range usable.Devices {
			on.devices = append(on.devices, device{pool: p, spec: spec, driver: usable.Driver, id: structured.MakeDeviceID(usable.Driver, usable.Pool, spec.Name)})
		}
	}
	return on
}

// judge finds the problem of a pool.
func (p *pool) judge() {
	if want := p.slices[0].Spec.Pool.ResourceSliceCount; int64(len(p.slices)) != want {
		p.problem = fmt.Sprintf("pool %s has %d of %d slices", p.name, len(p.slices), want)
		return
	}
	names := map[string]bool{}
	for _, slice := range p.slices {
		for i := range slice.Spec.Devices {
			name := slice.Spec.Devices[i].Name
			if names[name] {
				p.problem = fmt.Sprintf("pool %s has two devices with the name %s", p.name, name)
				return
			}
			names[name] = true
		}
	}
}

// count computes the counters that allocated devices leave.
func (p *pool) count(store *devices.Store) {
	p.left = map[string]map[string]resource.Quantity{}
	for _, slice := range p.slices {
		for i := range slice.Spec.SharedCounters {
			set := &slice.Spec.SharedCounters[i]
			p.left[set.Name] = map[string]resource.Quantity{}
			for name, c := range set.Counters {
				p.left[set.Name][name] = c.Value.DeepCopy()
			}
		}
	}
	for _, slice := range p.slices {
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			if !store.InUse(structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)) {
				continue
			}
			p.take(d)
		}
	}
}

// take subtracts the counters of a device.
func (p *pool) take(d *resourcev1.Device) {
	for i := range d.ConsumesCounters {
		set := p.left[d.ConsumesCounters[i].CounterSet]
		for name, c := range d.ConsumesCounters[i].Counters {
			if left, ok := set[name]; ok {
				left.Sub(c.Value)
				set[name] = left
			}
		}
	}
}

// exhausted returns the first counter that is too low for a device, or "".
func (p *pool) exhausted(d *device) string {
	for i := range d.spec.ConsumesCounters {
		of := &d.spec.ConsumesCounters[i]
		for _, name := range slices.Sorted(maps.Keys(of.Counters)) {
			needs, left := of.Counters[name].Value, p.left[of.CounterSet][name]
			if needs.Cmp(left) > 0 {
				return fmt.Sprintf("needs %s of counter %s in set %s, %s left", needs.String(), name, of.CounterSet, left.String())
			}
		}
	}
	return ""
}

// tooSmall returns the first capacity that is below the request, or "". A claim takes a
// shared device's default or whole capacity of each kind that it does not request.
func (on *inventory) tooSmall(s *spec, d *device) string {
	var requests map[resourcev1.QualifiedName]resource.Quantity
	if s.capacity != nil {
		requests = s.capacity.Requests
	}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if _, ok := d.spec.Capacity[name]; !ok {
			return fmt.Sprintf("has no capacity %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.spec.Capacity)) {
		has := d.spec.Capacity[name]
		request, requested := requests[name]
		if !requested && !d.isShared() {
			continue
		}
		left := has.Value.DeepCopy()
		if used, ok := on.store.Allocated().AggregatedCapacity[d.id][name]; ok && used != nil {
			left.Sub(*used)
		}
		needs, ok := consumed(request, requested, &has)
		if !ok {
			return fmt.Sprintf("capacity %s: %s is more than one claim may have", name, request.String())
		}
		if needs.Cmp(left) > 0 {
			return fmt.Sprintf("capacity %s: needs %s, %s of %s left", name, needs.String(), left.String(), has.Value.String())
		}
	}
	return ""
}

// together explains that the free devices of a request exhaust the counters that they
// share. Devices that need little are taken first.
func together(requests []Request) string {
	for i := range requests {
		r := &requests[i]
		if r.Needs < 2 || r.All {
			continue
		}
		byNeed := slices.Clone(r.free)
		slices.SortStableFunc(byNeed, func(a, b *device) int { return cmp.Compare(a.share(), b.share()) })
		taken := int64(0)
		left := map[*pool]*pool{}
		for _, d := range byNeed {
			p := left[d.pool]
			if p == nil {
				p = d.pool.copy()
				left[d.pool] = p
			}
			if p.exhausted(d) == "" {
				p.take(d.spec)
				taken++
			}
		}
		if taken < r.Needs {
			return fmt.Sprintf("request %s needs %d devices; the counters that the %d free ones share are enough for %d", r.Name, r.Needs, len(r.free), taken)
		}
	}
	return ""
}

// share returns the largest fraction of any remaining counter that a device needs.
func (d *device) share() (most float64) {
	for i := range d.spec.ConsumesCounters {
		of := &d.spec.ConsumesCounters[i]
		for name, c := range of.Counters {
			left := d.pool.left[of.CounterSet][name]
			most = max(most, c.Value.AsApproximateFloat64()/max(left.AsApproximateFloat64(), 1e-9))
		}
	}
	return most
}

// copy returns a pool with the same counters left.
func (p *pool) copy() *pool {
	own := &pool{left: map[string]map[string]resource.Quantity{}}
	for set, counters := range p.left {
		own.left[set] = map[string]resource.Quantity{}
		for name, left := range counters {
			own.left[set][name] = left.DeepCopy()
		}
	}
	return own
}

// consumed returns the capacity that a claim takes for a request, which the device's
// policy may round up. ok is false if the policy allows no such amount.
func consumed(request resource.Quantity, requested bool, of *resourcev1.DeviceCapacity) (needs resource.Quantity, ok bool) {
	policy := of.RequestPolicy
	switch {
	case !requested && policy != nil && policy.Default != nil:
		return policy.Default.DeepCopy(), true
	case !requested:
		return of.Value.DeepCopy(), true
	case policy == nil:
		return request, true
	}
	if r := policy.ValidRange; r != nil {
		needs = request.DeepCopy()
		if r.Min != nil && needs.Cmp(*r.Min) < 0 {
			needs = r.Min.DeepCopy()
		} else if r.Min != nil && r.Step != nil && r.Step.Value() > 0 {
			steps := (needs.Value() - r.Min.Value() + r.Step.Value() - 1) / r.Step.Value()
			needs = *resource.NewQuantity(r.Min.Value()+steps*r.Step.Value(), r.Step.Format)
		}
		return needs, r.Max == nil || needs.Cmp(*r.Max) <= 0
	}
	if len(policy.ValidValues) == 0 {
		return request, true
	}
	for i := range policy.ValidValues { // ascending
		if v := policy.ValidValues[i]; v.Cmp(request) >= 0 {
			return v.DeepCopy(), true
		}
	}
	return request, false
}
