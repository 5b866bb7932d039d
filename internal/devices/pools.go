package devices

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
)

// A pool is local if all its slices are for one node, as those of nearly all drivers; all others are wide. What changes of a local pool is journalled on
// its node. Wide pools have a version, which who asks about a node makes part of the question.

// pool is the slices of a driver's pool, of all generations.
type pool struct {
	id PoolID
	// Invariant: published are its slices by name, and now has the same with what rules add. Of pools for which now.What is equal the allocator takes devices
	// at the same positions, as long as inUse is equal too.
	published []*model.ResourceSlice
	now       *model.DevicePool
	// local is the node that the pool is local to, nil if it is wide.
	local *node
	// inUse describes what is allocated of the devices, in their order.
	inUse string
	// selectors are the compiled selections of a wide pool, by slice.
	selectors []selection
}

// node is a node with a slot, or one that a pool is local to.
type node struct {
	name string
	slot int32 // -1 if it has none
	// Invariant: pools are those that are local to it, by driver and name.
	pools []*pool
	// Invariant: key joins what pools are and what is in use of them.
	key string
}

func (p *pool) compare(o *pool) int {
	return cmp.Or(strings.Compare(p.id.Driver, o.id.Driver), strings.Compare(p.id.Pool, o.id.Pool))
}

func poolOf(s *model.ResourceSlice) PoolID {
	return PoolID{s.Object.Spec.Driver, s.Object.Spec.Pool.Name}
}

func byName(a, b *model.ResourceSlice) int { return strings.Compare(a.Name, b.Name) }

// setSlice stores a version of a slice, nil if it is gone.
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
	s.rebuild(p)
	return before
}

// setRule stores a version of a rule, nil if it is gone.
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

// rebuild follows a change of a pool's slices, or of the rules that taint its devices.
func (s *Store) rebuild(p *pool) {
	s.work.Described++
	if len(p.published) == 0 {
		s.attach(p, nil)
		s.setWide(p, false)
		delete(s.pools, p.id)
		return
	}
	rules := s.rulesFor(p.id)
	p.now = &model.DevicePool{Driver: p.id.Driver, Slices: make([]*resourcev1.ResourceSlice, len(p.published))}
	for i, slice := range p.published {
		p.now.Slices[i] = tainted(slice.Object, rules)
	}
	p.describe()
	p.inUse = s.describeUse(p)
	name := p.nodeName()
	if name != "" {
		s.setWide(p, false)
		s.attach(p, s.nodeOf(name))
		return
	}
	p.selectors = nil
	for _, slice := range p.now.Slices {
		p.selectors = append(p.selectors, selectionOf(slice))
	}
	s.attach(p, nil)
	s.setWide(p, true)
}

// tainted returns a slice with the taints of rules; the same slice if none applies.
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

// nodeName returns the node that the pool is local to, empty if it is wide.
func (p *pool) nodeName() string {
	name := deref(p.now.Slices[0].Spec.NodeName)
	for _, slice := range p.now.Slices {
		if deref(slice.Spec.NodeName) != name {
			return ""
		}
	}
	return name
}

// described is what verdicts about a device can depend on besides its name.
type described struct {
	Generation, Slices int64
	Devices            []resourcev1.Device
	Counters           []resourcev1.CounterSet
}

// describe makes now.What. Names of devices are replaced by the positions at which they first occur: names that occur twice make a pool invalid.
func (p *pool) describe() {
	hash := sha256.New()
	_, _ = hash.Write([]byte(strconv.Quote(p.id.Driver)))
	first := map[string]int{}
	encoder := json.NewEncoder(hash)
	for _, slice := range p.now.Slices {
		spec := &slice.Spec
		d := described{spec.Pool.Generation - p.now.Slices[0].Spec.Pool.Generation, spec.Pool.ResourceSliceCount, slices.Clone(spec.Devices), spec.SharedCounters}
		for i := range d.Devices {
			name := d.Devices[i].Name
			if _, known := first[name]; !known {
				first[name] = len(first)
			}
			d.Devices[i].Name = strconv.Itoa(first[name])
			d.Devices[i].NodeName = nil
		}
		if err := encoder.Encode(d); err != nil {
			panic(fmt.Sprintf("encode the slice %s: %v", slice.Name, err)) // API types can always be encoded
		}
	}
	hash.Sum(p.now.What[:0])
}

// describeUse describes what is allocated of a pool's devices, in their order.
func (s *Store) describeUse(p *pool) string {
	var text []byte
	for _, slice := range p.now.Slices {
		for i := range slice.Spec.Devices {
			id := structured.MakeDeviceID(p.id.Driver, p.id.Pool, slice.Spec.Devices[i].Name)
			switch consumed, shared := s.allocated.AggregatedCapacity[id]; {
			case shared:
				text = append(text, 's')
				for _, name := range slices.Sorted(maps.Keys(consumed)) {
					text = strconv.AppendQuote(text, string(name))
					text = append(append(text, consumed[name].String()...), ' ')
				}
				if s.allocated.AllocatedDevices.Has(id) {
					text = append(text, '+')
				}
			case structured.IsDeviceAllocated(id, &s.allocated):
				text = append(text, 'x')
			default:
				text = append(text, '.')
			}
		}
	}
	return string(text)
}

// used follows a change of what is allocated of a pool.
func (s *Store) used(p *pool) {
	inUse := s.describeUse(p)
	if inUse == p.inUse {
		return
	}
	p.inUse = inUse
	if p.local == nil {
		s.wideVersion++
		return
	}
	s.changed(p.local)
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

// setWide lists a pool among the wide ones, or not; one that is there or was there has changed.
func (s *Store) setWide(p *pool, wide bool) {
	at, listed := slices.BinarySearchFunc(s.wide, p, (*pool).compare)
	if listed || wide {
		s.wideVersion++
	}
	switch {
	case wide && !listed:
		s.wide = slices.Insert(s.wide, at, p)
	case !wide && listed:
		s.wide = slices.Delete(s.wide, at, at+1)
	}
}

// changed reports that the devices of a node have changed.
func (s *Store) changed(n *node) {
	key := n.describe()
	if key == n.key {
		return
	}
	n.key = key
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

// Unseat takes the slot of a node, which does not exist and has no pods.
func (s *Store) Unseat(slot int32) {
	n := s.bySlot[slot]
	s.bySlot[slot] = nil
	n.slot = -1
	s.forgetNode(n)
}

// Move moves a node to another slot.
func (s *Store) Move(from, to int32) {
	s.bySlot[to], s.bySlot[from] = s.bySlot[from], nil
	s.bySlot[to].slot = to
}

// Cut cuts off the slots from n on, which no node has.
func (s *Store) Cut(n int) {
	clear(s.bySlot[n:])
	s.bySlot = s.bySlot[:n]
	if cap(s.bySlot) > 2*max(n, 1024) {
		s.bySlot = slices.Clone(s.bySlot)
	}
}

// HasDevices reports whether there are any devices that the node of a slot may use.
func (s *Store) HasDevices(slot int32) bool { return len(s.bySlot[slot].pools)+len(s.wide) > 0 }

// SlicesAt returns the slices, with the taints of rules, of all pools that the node of a slot may use; of wide pools all of them, which have to be matched
// against the node. It appends to what is given.
func (s *Store) SlicesAt(slot int32, to []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	for _, p := range s.bySlot[slot].pools {
		to = append(to, p.now.Slices...)
	}
	for _, p := range s.wide {
		to = append(to, p.now.Slices...)
	}
	return to
}

// AppendKey appends what tells the devices of a node from those of others: for nodes with equal keys the allocator finds a solution for a claim, or
// finds none, alike, as long as no wide pool changes. object is the node of the slot.
func (s *Store) AppendKey(to []byte, slot int32, object *v1.Node) []byte {
	n := s.bySlot[slot]
	to = append(to, n.key...)
	if len(s.wide) == 0 {
		return to
	}
	for _, p := range n.pools { // pools are searched in the order of their names
		at, _ := slices.BinarySearchFunc(s.wide, p, (*pool).compare)
		to = strconv.AppendInt(append(to, ' '), int64(at), 10)
	}
	for _, p := range s.wide {
		for i := range p.selectors {
			to = p.selectors[i].append(to, object)
		}
	}
	return to
}

// WideVersion changes with each change of the devices that more than one node can use, and of what is allocated of them; 0 if there were never any.
func (s *Store) WideVersion() uint64 { return s.wideVersion }

// selection says which nodes can use a slice, or each of its devices.
type selection struct {
	of []chosen
}

// chosen are the nodes that can use a slice or a device.
type chosen struct {
	all      bool
	name     string
	selector *nodeaffinity.NodeSelector
	invalid  bool
}

func chosenBy(name *string, all *bool, selector *v1.NodeSelector) (c chosen) {
	c.all, c.name = all != nil && *all, deref(name)
	if selector != nil {
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		c.selector, c.invalid = parsed, err != nil
	}
	return c
}

func selectionOf(slice *resourcev1.ResourceSlice) (s selection) {
	spec := &slice.Spec
	if spec.PerDeviceNodeSelection == nil || !*spec.PerDeviceNodeSelection {
		return selection{[]chosen{chosenBy(spec.NodeName, spec.AllNodes, spec.NodeSelector)}}
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		s.of = append(s.of, chosenBy(d.NodeName, d.AllNodes, d.NodeSelector))
	}
	return s
}

// append appends which of the devices a node can use.
func (s *selection) append(to []byte, node *v1.Node) []byte {
	for i := range s.of {
		c := &s.of[i]
		switch {
		case c.invalid:
			to = append(to, '!')
		case c.all, c.name != "" && c.name == node.Name, c.selector != nil && c.selector.Match(node):
			to = append(to, '1')
		default:
			to = append(to, '0')
		}
	}
	return append(to, ';')
}
