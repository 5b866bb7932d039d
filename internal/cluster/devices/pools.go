package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
)

// A pool is local if all its slices are for one node, as for nearly all drivers; all
// others are wide. Changes of a local pool are journalled on its node; see wide.go for
// the others.

// pool is the slices of a driver's pool, of all generations.
type pool struct {
	id PoolID
	// Invariant: published are the slices by name, and now has them in the form that
	// offer makes for the allocator. For two pools with equal now.What and inUse, the
	// allocator takes devices at the same positions.
	published []*model.ResourceSlice
	now       *model.DevicePool
	// local is the node that the pool is local to, nil if it is wide.
	local *node
	// inUse describes the allocations of a local pool's devices, in their order.
	inUse string
	// Invariant: absent has the devices with counters that slices of some generations do
	// not publish, by name. It is empty if the pool has no counters.
	absent map[string]*absentee
	widePool
}

// node is a node with a slot or a local pool.
type node struct {
	name string
	slot int32 // -1 without a slot
	// Invariant: pools are the node's local pools, by driver and name.
	pools []*pool
	// Invariant: key joins the descriptions of the pools and their allocations.
	key string
	nodeWide
}

func (p *pool) compare(o *pool) int { return p.id.compare(o.id) }

func (id PoolID) compare(o PoolID) int {
	return cmp.Or(strings.Compare(id.Driver, o.Driver), strings.Compare(id.Pool, o.Pool))
}

func poolOf(s *model.ResourceSlice) PoolID {
	return PoolID{s.Object.Spec.Driver, s.Object.Spec.Pool.Name}
}

func byName(a, b *model.ResourceSlice) int { return strings.Compare(a.Name, b.Name) }

// setSlice stores a version of a slice; nil deletes it.
func (s *Store) setSlice(name string, now *model.ResourceSlice) (before *model.ResourceSlice) {
	before = s.slices[name]
	if before == nil && now == nil {
		return nil
	}
	if before != nil {
		p := s.pools[poolOf(before)]
		at, _ := slices.BinarySearchFunc(p.published, before, byName)
		p.published = slices.Delete(p.published, at, at+1)
		if now == nil || poolOf(now) != p.id {
			s.withdraw(p, before)
			s.rebuild(p)
		}
	}
	if now == nil {
		delete(s.slices, name)
		return before
	}
	s.slices[name] = now
	p := s.pools[poolOf(now)]
	if p == nil {
		p = &pool{id: poolOf(now)}
		s.pools[p.id] = p
	}
	at, _ := slices.BinarySearchFunc(p.published, now, byName)
	p.published = slices.Insert(p.published, at, now)
	if before != nil && poolOf(before) == p.id {
		s.withdraw(p, before)
	}
	s.republish(p.id, now)
	s.rebuild(p)
	return before
}

// setRule stores a version of a rule; nil deletes it.
func (s *Store) setRule(name string, now *model.DeviceTaintRule) (before *model.DeviceTaintRule) {
	before = s.rules[name]
	if before != nil {
		delete(s.rules, name)
		s.listRule(before, false)
	}
	if now != nil {
		s.rules[name] = now
		s.listRule(now, true)
	}
	for id, p := range s.pools {
		if before != nil && before.Concerns(id.Driver, id.Pool) || now != nil && now.Concerns(id.Driver, id.Pool) {
			s.rebuild(p)
		}
	}
	return before
}

func (s *Store) listRule(r *model.DeviceTaintRule, add bool) {
	selector := r.Object.Spec.DeviceSelector
	if selector == nil {
		return
	}
	key := PoolID{deref(selector.Driver), deref(selector.Pool)}
	list := slices.DeleteFunc(s.rulesOf[key], func(other *model.DeviceTaintRule) bool { return other.Name == r.Name })
	if add {
		list = append(list, r)
	}
	if len(list) == 0 {
		delete(s.rulesOf, key)
		return
	}
	s.rulesOf[key] = list
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// rulesFor returns the rules that may taint devices of a pool, by name.
func (s *Store) rulesFor(id PoolID) []*model.DeviceTaintRule {
	var rules []*model.DeviceTaintRule
	for _, key := range []PoolID{id, {Driver: id.Driver}, {Pool: id.Pool}, {}} {
		rules = append(rules, s.rulesOf[key]...)
	}
	slices.SortFunc(rules, func(a, b *model.DeviceTaintRule) int { return strings.Compare(a.Name, b.Name) })
	return rules
}

// rebuild updates a pool after a change of its slices or its taint rules.
func (s *Store) rebuild(p *pool) {
	s.work.Described++
	if len(p.published) == 0 {
		s.attach(p, nil)
		s.setWide(p, false)
		delete(s.pools, p.id)
		return
	}
	s.offer(p)
	p.selects = selectionsOf(p.now.Slices)
	p.describe()
	name := p.nodeName()
	if name != "" {
		s.setWide(p, false)
		p.inUse = s.describeUse(p)
		s.attach(p, s.nodeOf(name))
		return
	}
	p.inUse = ""
	s.attach(p, nil)
	s.setWide(p, true)
}

// tainted returns a slice with the taints of rules, or the same slice if none applies.
func tainted(slice *resourcev1.ResourceSlice, rules []*model.DeviceTaintRule) *resourcev1.ResourceSlice {
	with := slice
	for _, r := range rules {
		for i := range slice.Spec.Devices {
			if !r.Applies(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name) {
				continue
			}
			if with == slice {
				with = slice.DeepCopy()
			}
			with.Spec.Devices[i].Taints = append(with.Spec.Devices[i].Taints, r.Object.Spec.Taint)
		}
	}
	return with
}

// nodeName returns the node that the pool is local to, or "" if it is wide.
func (p *pool) nodeName() string {
	name := deref(p.now.Slices[0].Spec.NodeName)
	for _, slice := range p.now.Slices {
		if deref(slice.Spec.NodeName) != name {
			return ""
		}
	}
	return name
}

// described is everything except the name that verdicts about devices can depend on.
type described struct {
	Generation, Slices int64
	// Selections belong to the slice, or to each of its devices.
	Selections []int
	Devices    []resourcev1.Device
	Counters   []resourcev1.CounterSet
}

// describe computes now.What. Device names are replaced by the positions at which they
// first occur: a name that occurs twice makes a pool invalid.
func (p *pool) describe() {
	hash := sha256.New()
	_, _ = hash.Write([]byte(strconv.Quote(p.id.Driver)))
	first := map[string]int{}
	encoder := json.NewEncoder(hash)
	for i, slice := range p.now.Slices {
		spec := &slice.Spec
		d := described{
			spec.Pool.Generation - p.now.Slices[0].Spec.Pool.Generation, spec.Pool.ResourceSliceCount, p.selects.of[i], slices.Clone(spec.Devices), spec.SharedCounters,
		}
		for i := range d.Devices {
			name := d.Devices[i].Name
			if _, known := first[name]; !known {
				first[name] = len(first)
			}
			d.Devices[i].Name = strconv.Itoa(first[name])
			d.Devices[i].NodeName = nil
		}
		if err := encoder.Encode(d); err != nil {
			// API types can always be encoded.
			panic(fmt.Sprintf("encode the slice %s: %v", slice.Name, err))
		}
	}
	hash.Sum(p.now.What[:0])
}

// describeUse describes the allocations of a pool's devices, in their order.
func (s *Store) describeUse(p *pool) string {
	var text []byte
	for _, slice := range p.now.Slices {
		for i := range slice.Spec.Devices {
			text = s.appendUse(text, p.id, slice.Spec.Devices[i].Name)
		}
	}
	return string(text)
}

// free is the description of an unallocated device.
const free = "."

// appendUse appends the allocations of a device.
func (s *Store) appendUse(text []byte, pool PoolID, device string) []byte {
	s.work.Described++
	id := structured.MakeDeviceID(pool.Driver, pool.Pool, device)
	switch {
	case s.sharers[id] > 0:
		text = append(text, 's')
		consumed := s.allocated.AggregatedCapacity[id]
		for _, name := range slices.Sorted(maps.Keys(consumed)) {
			text = model.AppendQuote(text, string(name))
			text = append(append(text, consumed[name].String()...), ' ')
		}
		if s.users[id] > 0 {
			text = append(text, '+')
		}
		return text
	case s.users[id] > 0:
		return append(text, 'x')
	}
	return append(text, free...)
}

// used updates a pool after allocations of some of its devices changed.
func (s *Store) used(p *pool, devices []string) {
	offers := slices.ContainsFunc(devices, func(device string) bool { return p.absent[device] != nil })
	if offers {
		s.offer(p)
		p.describe()
	}
	if p.local == nil {
		s.usedWide(p, devices, offers)
		return
	}
	if inUse := s.describeUse(p); inUse != p.inUse || offers {
		p.inUse = inUse
		s.changed(p.local)
	}
}

// attach makes a pool local to a node, or to none.
func (s *Store) attach(p *pool, to *node) {
	if from := p.local; from != nil && from != to {
		p.local = nil
		at, _ := slices.BinarySearchFunc(from.pools, p, (*pool).compare)
		from.pools = slices.Delete(from.pools, at, at+1)
		s.changed(from)
		s.forgetNode(from)
	}
	if to == nil {
		return
	}
	if p.local == nil {
		p.local = to
		at, _ := slices.BinarySearchFunc(to.pools, p, (*pool).compare)
		to.pools = slices.Insert(to.pools, at, p)
	}
	s.changed(to)
}

// changed reports changed devices of a node.
func (s *Store) changed(n *node) {
	key := n.describe()
	if key == n.key {
		return
	}
	n.key = key
	s.place(n)
	if n.slot >= 0 {
		s.work.Touched++
		s.touch(n.slot, model.Devices)
	}
}

func (n *node) describe() string {
	var key []byte
	for _, p := range n.pools {
		key = append(key, p.now.What[:]...)
		key = append(append(key, p.inUse...), ';')
	}
	return string(key)
}

func (s *Store) nodeOf(name string) *node {
	n := s.nodes[name]
	if n == nil {
		n = &node{name: name, slot: -1}
		s.nodes[name] = n
	}
	return n
}

func (s *Store) forgetNode(n *node) {
	if n.slot < 0 && len(n.pools) == 0 {
		delete(s.nodes, n.name)
	}
}

// Seat gives a slot to a node, which keeps it until Unseat.
func (s *Store) Seat(slot int32, name string) {
	for int(slot) >= len(s.bySlot) {
		s.bySlot = append(s.bySlot, nil)
	}
	n := s.nodeOf(name)
	n.slot = slot
	s.bySlot[slot] = n
}

// Unseat frees the slot of a node that does not exist and has no pods.
func (s *Store) Unseat(slot int32) {
	n := s.bySlot[slot]
	s.bySlot[slot] = nil
	n.slot = -1
	s.match(n)
	s.forgetNode(n)
}

// Move moves a node to another slot.
func (s *Store) Move(from, to int32) {
	s.bySlot[to], s.bySlot[from] = s.bySlot[from], nil
	s.bySlot[to].slot = to
}

// Cut removes the slots from n on, which must be free.
func (s *Store) Cut(n int) {
	clear(s.bySlot[n:])
	s.bySlot = s.bySlot[:n]
	if cap(s.bySlot) > 2*max(n, 1024) {
		s.bySlot = slices.Clone(s.bySlot)
	}
}

// SlicesAt appends the slices, with the taints of rules, of all pools that the node of a
// slot can use any part of. For wide pools these are all slices, which the allocator
// matches against the node.
func (s *Store) SlicesAt(slot int32, to []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	n := s.bySlot[slot]
	for _, p := range n.pools {
		to = append(to, p.now.Slices...)
	}
	for i := range n.wide {
		to = append(to, n.wide[i].pool.now.Slices...)
	}
	return to
}

// AppendKey appends the key of a node's devices. For nodes with equal keys, at any time,
// the allocator finds equivalent solutions for a claim, or none.
func (s *Store) AppendKey(to []byte, slot int32) []byte {
	n := s.bySlot[slot]
	to = append(to, n.key...)
	for i := range n.wide {
		w := &n.wide[i]
		to = n.appendPlace(to, w)
		to = append(append(to, w.pool.now.What[:]...), w.pool.use[:]...)
	}
	return to
}

// Usable are the devices of a slice that a node can use.
type Usable struct {
	Driver, Pool string
	Devices      []*resourcev1.Device
}

// UsableSlices yields the usable part of each slice for the node of a slot, of any
// generation. It yields an error for a slice with an invalid node selection. object is
// the node.
func (s *Store) UsableSlices(slot int32, object *v1.Node) iter.Seq2[Usable, error] {
	return func(yield func(Usable, error) bool) {
		n := s.bySlot[slot]
		for _, p := range n.pools {
			for _, slice := range p.now.Slices {
				u := Usable{Driver: p.id.Driver, Pool: p.id.Pool}
				for i := range slice.Spec.Devices {
					u.Devices = append(u.Devices, &slice.Spec.Devices[i])
				}
				if !yield(u, nil) {
					return
				}
			}
		}
		for i := range n.wide {
			p := n.wide[i].pool
			for at, slice := range p.now.Slices {
				u, err := p.selects.usable(at, slice, object)
				u.Driver, u.Pool = p.id.Driver, p.id.Pool
				if !yield(u, err) || err != nil {
					return
				}
			}
		}
	}
}
