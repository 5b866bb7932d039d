package storage

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/kit/shrink"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Free volumes and capacities are found by class and node. A reach is the set of nodes on
// which a volume or capacity can be used. Volumes that differ only in name, size and
// labels are in one group. Labels may differ for every volume, and only claims with a
// selector read them.
//
// Most reaches have either one node or very many. A change in a narrow reach is
// journalled on its nodes. A change in a wide reach is not, because each placed pod would
// then add very many nodes to the journal. So a need that reads the supply of a node must
// also include the state of the wide reaches.

// class is a StorageClass that exists, or that claims, volumes or capacities name.
type class struct {
	*model.StorageClass // nil if it does not exist
	name                string
	// Invariant: claims are the claims in use whose identity depends on the class, each
	// at its position.
	claims []*claim
	// Invariant: groups has the nonempty groups of the class, by their text; wideGroups
	// lists the groups with a wide reach, by their text.
	groups     map[model.Need]*Group
	groupsPeak int
	wideGroups []*Group
	// Invariant: capacities is the number of capacities of the class; wideCapacities
	// lists the capacities with a wide reach, by namespace and name.
	capacities     int
	wideCapacities []*capacity
}

// Group is the free volumes of a class that differ in name, size and labels only.
type Group struct {
	// Text is the canonical text of their common fields. It identifies the group.
	Text model.Need
	// Sample is any volume that was ever in the group; only the fields that define the
	// group may be read.
	Sample *model.Volume
	class  *class
	reach  *reach // nil if every node can use the volumes
	// Invariant: at is its position among the groups of its class in its reach.
	at int
	// Invariant: volumes are the free volumes with the group's text.
	volumes volumeList
}

// AtLeast calls yield with the volumes of at least that size in bytes, by size and name.
func (g *Group) AtLeast(size int64, yield func(*model.Volume) bool) {
	g.volumes.from(size, yield)
}

// Reaches returns the canonical text of the nodes that can use the volumes, zero for all.
func (g *Group) Reaches() model.Need { return g.Sample.Affinity }

// IsWide reports whether the group's reach has very many nodes.
func (g *Group) IsWide() bool { return g.reach == nil || !g.reach.narrow }

// capacity is a StorageCapacity that exists.
type capacity struct {
	*model.StorageCapacity
	ref   model.Ref
	class *class
	reach *reach // nil if no node can use it
	// Invariant: at is its position among the capacities of its class in its reach.
	at int
}

func (s *Store) classNamed(name string) *class {
	c := s.classes[name]
	if c == nil {
		c = &class{name: name, groups: map[model.Need]*Group{}}
		s.classes[name] = c
	}
	return c
}

func (s *Store) forgetClass(c *class) {
	if c.StorageClass == nil && len(c.claims) == 0 && len(c.groups) == 0 && c.capacities == 0 {
		delete(s.classes, c.name)
	}
}

func (s *Store) setClass(name string, now *model.StorageClass) (before *model.StorageClass) {
	c := s.classes[name]
	if c == nil {
		if now == nil {
			return nil
		}
		c = s.classNamed(name)
	}
	before = c.StorageClass
	c.StorageClass = now
	if before == nil || now == nil || before.Object.Provisioner != now.Object.Provisioner {
		for _, claim := range c.claims {
			s.identify(claim)
		}
	}
	s.forgetClass(c)
	return before
}

// groupText returns the common fields of a group's volumes.
func groupText(v *model.Volume) model.Need {
	spec := &v.Object.Spec
	text := make([]byte, 0, 256)
	part := func(p string) {
		text = append(strconv.AppendInt(text, int64(len(p)), 10), ':')
		text = append(text, p...)
	}
	part(v.Class)
	part(spec.StorageClassName) // scores read this name, even if an annotation differs
	part(v.Affinity.String())
	mode := v1.PersistentVolumeFilesystem
	if spec.VolumeMode != nil {
		mode = *spec.VolumeMode
	}
	part(string(mode))
	modes := slices.Clone(spec.AccessModes)
	slices.Sort(modes)
	modes = slices.Compact(modes)
	part(strconv.Itoa(len(modes)))
	for _, m := range modes {
		part(string(m))
	}
	if spec.VolumeAttributesClassName != nil {
		part(*spec.VolumeAttributesClassName)
	} else {
		part("")
	}
	return model.NeedOf(string(text))
}

// isFree reports whether a version of a volume is available to any claim, unless a
// placement holds it.
func isFree(v *model.Volume) bool {
	return v != nil && v.Object.Spec.ClaimRef == nil && v.Object.DeletionTimestamp == nil && v.Object.Status.Phase == v1.VolumeAvailable
}

func (s *Store) enterGroup(v *volume) {
	if v.group != nil || len(v.holders) > 0 || !isFree(v.Volume) {
		return
	}
	c := s.classNamed(v.Class)
	text := groupText(v.Volume)
	g := c.groups[text]
	if g == nil {
		g = &Group{Text: text, Sample: v.Volume, class: c}
		if !v.Affinity.IsZero() {
			g.reach = s.reaches.get(s, v.Affinity)
			share := g.reach.share(c)
			g.at = len(share.groups)
			share.groups = append(share.groups, g)
		}
		c.groups[text] = g
		c.groups = shrink.Map(c.groups, &c.groupsPeak)
		if g.IsWide() {
			c.listWide(g)
		}
	}
	g.volumes.insert(v)
	v.group = g
	s.touchSupply(g.reach)
}

func (s *Store) leaveGroup(v *volume) {
	g := v.group
	if g == nil {
		return
	}
	v.group = nil
	g.volumes.remove(v)
	s.touchSupply(g.reach)
	if !g.volumes.isEmpty() {
		return
	}
	c := g.class
	delete(c.groups, g.Text)
	c.groups = shrink.Map(c.groups, &c.groupsPeak)
	c.unlistWide(g)
	if r := g.reach; r != nil {
		share := r.share(c)
		share.groups = drop(share.groups, g.at, func(moved *Group, at int) { moved.at = at })
		s.reaches.release(r, c)
	}
	s.forgetClass(c)
}

func byText(a *Group, text model.Need) int { return strings.Compare(a.Text.String(), text.String()) }

func (c *class) listWide(g *Group) {
	if at, listed := slices.BinarySearchFunc(c.wideGroups, g.Text, byText); !listed {
		c.wideGroups = slices.Insert(c.wideGroups, at, g)
	}
}

func (c *class) unlistWide(g *Group) {
	if at, listed := slices.BinarySearchFunc(c.wideGroups, g.Text, byText); listed {
		c.wideGroups = shorter(slices.Delete(c.wideGroups, at, at+1))
	}
}

func byRef(c *capacity, ref model.Ref) int { return compareRefs(c.ref, ref) }

func (c *class) listWideCapacity(x *capacity) {
	if at, listed := slices.BinarySearchFunc(c.wideCapacities, x.ref, byRef); !listed {
		c.wideCapacities = slices.Insert(c.wideCapacities, at, x)
	}
}

func (c *class) unlistWideCapacity(x *capacity) {
	if at, listed := slices.BinarySearchFunc(c.wideCapacities, x.ref, byRef); listed {
		c.wideCapacities = shorter(slices.Delete(c.wideCapacities, at, at+1))
	}
}

// touchSupply reports a change in a narrow reach on its nodes.
func (s *Store) touchSupply(r *reach) {
	if r == nil || !r.narrow {
		return
	}
	for _, n := range r.nodes {
		if n.slot >= 0 {
			s.changed(n.slot, model.Supply)
		}
	}
}

func (s *Store) setCapacity(ref model.Ref, now *model.StorageCapacity) (before *model.StorageCapacity) {
	c := s.capacities[ref]
	if c != nil {
		before = c.StorageCapacity
		if now != nil && now.Class == before.Class && now.Nodes == before.Nodes {
			c.StorageCapacity = now
			s.touchSupply(c.reach)
			return before
		}
		s.dropCapacity(c)
	}
	if now == nil {
		return before
	}
	c = &capacity{StorageCapacity: now, ref: ref, class: s.classNamed(now.Class)}
	s.capacities[ref] = c
	c.class.capacities++
	if now.Nodes.IsZero() {
		return before
	}
	c.reach = s.reaches.get(s, now.Nodes)
	share := c.reach.share(c.class)
	c.at = len(share.capacities)
	share.capacities = append(share.capacities, c)
	if !c.reach.narrow {
		c.class.listWideCapacity(c)
	}
	s.touchSupply(c.reach)
	return before
}

func (s *Store) dropCapacity(c *capacity) {
	delete(s.capacities, c.ref)
	c.class.capacities--
	if r := c.reach; r != nil {
		s.touchSupply(r)
		c.class.unlistWideCapacity(c)
		share := r.share(c.class)
		share.capacities = drop(share.capacities, c.at, func(moved *capacity, at int) { moved.at = at })
		s.reaches.release(r, c.class)
	}
	s.forgetClass(c.class)
}

func compareRefs(a, b model.Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// WideGroups returns the groups of a class whose reach is wide, by their text. The slice
// is the store's own and valid until the next change.
func (s *Store) WideGroups(name string) []*Group {
	if c := s.classes[name]; c != nil {
		return c.wideGroups
	}
	return nil
}

// GroupsAt yields the groups of a class whose volumes can be used on the node of a slot,
// in no particular order.
func (s *Store) GroupsAt(slot int32, name string, yield func(*Group) bool) {
	c := s.classes[name]
	if c == nil || len(c.groups) == 0 {
		return
	}
	for _, g := range c.wideGroups {
		if g.reach == nil && !yield(g) {
			return
		}
	}
	for _, r := range s.bySlot[slot].reaches {
		share := r.of[c]
		if share == nil {
			continue
		}
		for _, g := range share.groups {
			if !yield(g) {
				return
			}
		}
	}
}

// WideCapacities calls yield with the capacities of a class whose reach is wide, by
// namespace and name.
func (s *Store) WideCapacities(name string, yield func(*model.StorageCapacity) bool) {
	c := s.classes[name]
	if c == nil {
		return
	}
	for _, x := range c.wideCapacities {
		if !yield(x.StorageCapacity) {
			return
		}
	}
}

// CapacityAt returns a capacity of a class for the node of a slot that suffices for a
// volume of the size. It returns the first by namespace and name, or nil.
func (s *Store) CapacityAt(slot int32, name string, size int64) *model.StorageCapacity {
	c := s.classes[name]
	if c == nil || c.capacities == 0 {
		return nil
	}
	var first *capacity
	for _, r := range s.bySlot[slot].reaches {
		share := r.of[c]
		if share == nil {
			continue
		}
		for _, x := range share.capacities {
			if x.Usable && x.Limit >= size && (first == nil || compareRefs(x.ref, first.ref) < 0) {
				first = x
			}
		}
	}
	if first == nil {
		return nil
	}
	return first.StorageCapacity
}

// RoomAt returns the sum of the usable capacities of a class for the node of a slot, in
// bytes. kube-scheduler instead compares each claim of a pod with a capacity separately.
func (s *Store) RoomAt(slot int32, name string) (room int64) {
	c := s.classes[name]
	if c == nil || c.capacities == 0 {
		return 0
	}
	for _, r := range s.bySlot[slot].reaches {
		if share := r.of[c]; share != nil {
			for _, x := range share.capacities {
				if x.Usable {
					room = amount.Add(room, x.Room())
				}
			}
		}
	}
	return room
}
