package devices

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Audit checks the invariants next to the fields of a Store. It builds a store from the
// same objects, slots and promises, and compares the two. seats are by slot. holds
// reports whether a pod's placement holds an object with a value. Audit changes nothing.
func (s *Store) Audit(v *audit.Violations, seats []Seat, holds func(object model.Ref, pod model.PodKey, value plan.Held) bool) {
	have, want := s.describe(), s.anew(seats).describe()
	for thing, text := range have {
		if other, ok := want[thing]; !ok {
			v.Add("%s is kept, and should not be: %s", thing, text)
		} else if other != text {
			v.Add("%s is %s, recounted %s", thing, text, other)
		}
	}
	for thing, text := range want {
		if _, ok := have[thing]; !ok {
			v.Add("%s is not kept, recounted %s", thing, text)
		}
	}
	givenBack := 0
	for key, c := range s.claims {
		if c.givingBack > 0 {
			givenBack++
		}
		if c.givingBack < 0 || c.givingBack > 0 && c.ResourceClaim == nil {
			v.Add("claim %s exists: %t, and is being given back by %d decisions", key, c.ResourceClaim != nil, c.givingBack)
		}
		if c.promise != nil && len(c.holders) == 0 {
			v.Add("claim %s is promised devices by no pod", key)
		}
		for _, pod := range c.holders {
			if c.promise == nil || !holds(key.DeviceRef(), pod, c.promise) {
				v.Add("claim %s is promised devices by pod %s, which does not hold them", key, pod)
			}
		}
	}
	s.auditWithdrawn(v)
	if givenBack != s.givenBack {
		v.Add("%d claims are being given back, recounted %d", s.givenBack, givenBack)
	}
}

// auditWithdrawn checks that all withdrawn devices are in use. The new store checks that
// no slice publishes them, since it forgets published ones.
func (s *Store) auditWithdrawn(v *audit.Violations) {
	for id, devices := range s.withdrawn {
		if len(devices) == 0 {
			v.Add("pool %v has an empty list of withdrawn devices", id)
		}
		for name, counters := range devices {
			if len(counters) == 0 || !s.InUse(structured.MakeDeviceID(id.Driver, id.Pool, name)) {
				v.Add("device %s of pool %v is remembered with %d counters, and is not in use", name, id, len(counters))
			}
		}
	}
}

// Seat is the state's view of a slot.
type Seat struct {
	Name   string // of the node; empty if the slot is free
	Exists bool
	Labels map[string]string
}

// anew returns a new store with the same objects, promises and slots.
func (s *Store) anew(seats []Seat) *Store {
	n := New(func(int32, model.Aspect) {})
	for slot, seat := range seats {
		if seat.Name != "" {
			n.Seat(int32(slot), seat.Name)
			n.SetNode(int32(slot), seat.Exists, seat.Labels)
		}
	}
	for len(n.bySlot) < len(seats) {
		n.bySlot = append(n.bySlot, nil)
	}
	for id, devices := range s.withdrawn {
		n.withdrawn[id] = maps.Clone(devices)
	}
	for name, c := range s.classes {
		n.setClass(name, c)
	}
	for name, r := range s.rules {
		n.setRule(name, r)
	}
	for name, slice := range s.slices {
		n.setSlice(name, slice)
	}
	for key, c := range s.claims {
		if c.ResourceClaim != nil {
			n.setClaim(key, c.ResourceClaim)
		}
		if c.promise != nil {
			for _, pod := range c.holders {
				n.Hold(key.DeviceRef(), pod, c.promise)
			}
		}
	}
	return n
}

// describe returns a text about each item, independent of history.
func (s *Store) describe() map[string]string {
	texts := map[string]string{}
	s.describeNodes(texts)
	s.describePools(texts)
	s.describeLists(texts)
	s.describeClasses(texts)
	s.describeClaims(texts)
	s.describeAllocated(texts)
	return texts
}

func (s *Store) describeNodes(texts map[string]string) {
	for slot, n := range s.bySlot {
		if n != nil {
			texts[fmt.Sprintf("slot %d", slot)] = fmt.Sprintf("%s at %d", n.name, n.slot)
		}
	}
	for name, n := range s.nodes {
		text := fmt.Sprintf("slot %d, key %x, pools", n.slot, n.key)
		for _, p := range n.pools {
			text += fmt.Sprintf(" %v", p.id)
		}
		for _, w := range n.wide {
			text += fmt.Sprintf(", can use %v by %s", w.pool.id, w.selected)
		}
		if n.alike != nil {
			text += fmt.Sprintf(", listed %t as %q", n.at < len(n.alike.nodes) && n.alike.nodes[n.at] == n && s.alike[n.alike.key] == n.alike, n.alike.key)
		}
		texts["node "+name] = text
	}
}

func (s *Store) describePools(texts map[string]string) {
	for id, p := range s.pools {
		text := fmt.Sprintf("what %x, in use %q %x %v, local %t, too new %t, slices", p.now.What, p.inUse, p.use, p.states, p.local != nil, p.version > s.wideVersion)
		for i, slice := range p.published {
			text += fmt.Sprintf(" %s/%s", slice.Name, slice.Version())
			for _, d := range p.now.Slices[i].Spec.Devices {
				text += fmt.Sprintf(" %d", len(d.Taints))
			}
		}
		texts[fmt.Sprintf("pool %v", id)] = text
	}
	for id, devices := range s.withdrawn {
		texts[fmt.Sprintf("withdrawn from %v", id)] = fmt.Sprint(slices.Sorted(maps.Keys(devices)))
	}
}

// describeLists describes the lists of wide pools and of nodes with equal devices.
func (s *Store) describeLists(texts map[string]string) {
	for _, p := range s.wide {
		var users []string
		for _, a := range p.users {
			users = append(users, a.key)
		}
		slices.Sort(users)
		texts[fmt.Sprintf("wide pool %v", p.id)] = fmt.Sprintf("listed, for %q", users)
	}
	for key, a := range s.alike {
		texts[fmt.Sprintf("list %q", key)] = fmt.Sprintf("of %d nodes", len(a.nodes))
	}
}

func (s *Store) describeClasses(texts map[string]string) {
	for key, rules := range s.rulesOf {
		var names []string
		for _, r := range rules {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		texts[fmt.Sprintf("rules of %v", key)] = fmt.Sprint(names)
	}
	for resource, classes := range s.standIns {
		var names []string
		for _, c := range classes {
			names = append(names, c.Name)
		}
		texts["classes for "+resource.Value()] = fmt.Sprint(names)
	}
}

func (s *Store) describeClaims(texts map[string]string) {
	for pod, claims := range s.made {
		texts["claims made for pod "+string(pod)] = fmt.Sprint(claims)
	}
	for key, c := range s.claims {
		texts["claim "+key.String()] = fmt.Sprintf("exists %t, promised %t, to %d", c.ResourceClaim != nil, c.promise != nil, len(c.holders))
	}
}

// describeAllocated describes the devices, shares and capacities in use.
func (s *Store) describeAllocated(texts map[string]string) {
	for id, n := range s.users {
		texts["device "+id.String()] = fmt.Sprintf("%d users, allocated %t", n, s.allocated.AllocatedDevices.Has(id))
	}
	for _, id := range slices.Collect(maps.Keys(s.allocated.AllocatedDevices)) {
		if s.users[id] == 0 {
			texts["allocated device "+id.String()] = "without users"
		}
	}
	for id, n := range s.sharers {
		texts["shared device "+id.String()] = fmt.Sprintf("%d shares", n)
	}
	for id := range s.allocated.AllocatedSharedDeviceIDs {
		texts["share "+id.String()] = "allocated"
	}
	for id, consumed := range s.allocated.AggregatedCapacity {
		texts["capacity of "+id.String()] = describeCapacity(consumed)
	}
}

func describeCapacity(consumed structured.ConsumedCapacity) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(consumed)) {
		text += fmt.Sprintf("%s=%s ", name, consumed[name])
	}
	return text
}
