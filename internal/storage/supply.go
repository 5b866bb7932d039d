package storage

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// What is free is found by class and node. A reach is the nodes that a volume or a capacity can be used on; volumes that are equal but for name and
// size are in one group. Most reaches are either of one node or of very many. What changes in a narrow one is journalled on its nodes; what changes
// in a wide one is not, since that would name very many nodes with each placed pod: who asks about a node makes the state of wide ones part of the
// question.

// class is a StorageClass that exists, or that claims, volumes or capacities name.
type class struct {
	*model.StorageClass // nil if it does not exist
	name                string
	// claims are those of the class that exist.
	claims map[*claim]struct{}
	// Invariant: groups has the groups of the class that are not empty, by their text; wide lists those whose reach is wide, by their text.
	groups map[model.Need]*Group
	wide   []*Group
	// capacities are those of the class, by namespace and name.
	capacities []*capacity
}

// Group is the free volumes of a class that differ in name and size only.
type Group struct {
	// Text is a canonical text of what they have in common. It identifies the group.
	Text model.Need
	// Sample is one that was in the group once: what it has in common with those that are in it is that of the group.
	Sample *model.Volume
	class  *class
	reach  *reach // nil if they can be used on every node
	// Invariant: volumes are sorted by size and name.
	volumes []*volume
}

// AtLeast calls yield with the volumes of at least that size in bytes, by size and name.
func (g *Group) AtLeast(size int64, yield func(*model.Volume) bool) {
	at, _ := slices.BinarySearchFunc(g.volumes, size, func(v *volume, size int64) int { return cmp.Compare(v.Capacity, size) })
	for _, v := range g.volumes[at:] {
		if !yield(v.Volume) {
			return
		}
	}
}

// Reaches returns the canonical text of the nodes that the volumes can be used on, zero for all.
func (g *Group) Reaches() model.Need { return g.Sample.Affinity }

// IsWide reports whether very many nodes are in the group's reach.
func (g *Group) IsWide() bool { return g.reach == nil || !g.reach.narrow }

// capacity is a StorageCapacity that exists.
type capacity struct {
	*model.StorageCapacity
	ref   model.Ref
	class *class
	reach *reach // nil if it can be used on no node
}

func (s *Store) classNamed(name string) *class {
	c := s.classes[name]
	if c == nil {
		c = &class{name: name, claims: map[*claim]struct{}{}, groups: map[model.Need]*Group{}}
		s.classes[name] = c
	}
	return c
}

func (s *Store) forgetClass(c *class) {
	if c.StorageClass == nil && len(c.claims) == 0 && len(c.groups) == 0 && len(c.capacities) == 0 {
		delete(s.classes, c.name)
	}
}

// enlist moves a claim from one class to another; the empty class lists none.
func (s *Store) enlist(c *claim, from, to string) {
	if from != "" {
		former := s.classes[from]
		delete(former.claims, c)
		s.forgetClass(former)
	}
	if to != "" {
		s.classNamed(to).claims[c] = struct{}{}
	}
}

func (s *Store) setClass(name string, now *model.StorageClass) (before *model.StorageClass) {
	c := s.classes[name]
	if c == nil && now == nil {
		return nil
	}
	if c == nil {
		c = s.classNamed(name)
	}
	before = c.StorageClass
	c.StorageClass = now
	if before == nil || now == nil || before.Object.Provisioner != now.Object.Provisioner {
		for claim := range c.claims { // of an object that hardly ever changes
			s.identify(claim)
		}
	}
	s.forgetClass(c)
	return before
}

// groupText returns what a volume has in common with those of its group.
func groupText(v *model.Volume) model.Need {
	spec := &v.Object.Spec
	text := make([]byte, 0, 256)
	part := func(p string) {
		text = append(strconv.AppendInt(text, int64(len(p)), 10), ':')
		text = append(text, p...)
	}
	part(v.Class)
	part(spec.StorageClassName) // scores are by this name, even where an annotation says otherwise
	part(v.Affinity.String())
	mode := string(v1.PersistentVolumeFilesystem)
	if spec.VolumeMode != nil {
		mode = string(*spec.VolumeMode)
	}
	part(mode)
	modes := make([]string, len(spec.AccessModes))
	for i, m := range spec.AccessModes {
		modes[i] = string(m)
	}
	slices.Sort(modes)
	part(strings.Join(modes, ","))
	if spec.VolumeAttributesClassName != nil {
		part(*spec.VolumeAttributesClassName)
	} else {
		part("")
	}
	part(labels.Set(v.Object.Labels).String())
	return model.NeedOf(string(text))
}

// isFree reports whether a claim that nobody has meant it for may have the volume.
func (v *volume) isFree() bool {
	return v.Volume != nil && v.heldAt == "" && v.Object.Spec.ClaimRef == nil && v.Object.DeletionTimestamp == nil &&
		v.Object.Status.Phase == v1.VolumeAvailable
}

func bySize(a, b *volume) int {
	return cmp.Or(cmp.Compare(a.Capacity, b.Capacity), strings.Compare(a.name, b.name))
}

func (s *Store) enterGroup(v *volume) {
	if v.group != nil || !v.isFree() {
		return
	}
	c := s.classNamed(v.Class)
	text := groupText(v.Volume)
	g := c.groups[text]
	if g == nil {
		g = &Group{Text: text, Sample: v.Volume, class: c}
		if !v.Affinity.IsZero() {
			g.reach = s.reaches.get(s, v.Affinity)
			g.reach.groups = append(g.reach.groups, g)
		}
		c.groups[text] = g
		if g.IsWide() {
			c.listWide(g)
		}
	}
	at, _ := slices.BinarySearchFunc(g.volumes, v, bySize)
	g.volumes = slices.Insert(g.volumes, at, v)
	v.group = g
	s.touchSupply(g.reach)
}

func (s *Store) leaveGroup(v *volume) {
	g := v.group
	if g == nil {
		return
	}
	v.group = nil
	at, _ := slices.BinarySearchFunc(g.volumes, v, bySize)
	g.volumes = slices.Delete(g.volumes, at, at+1)
	s.touchSupply(g.reach)
	if len(g.volumes) > 0 {
		return
	}
	c := g.class
	delete(c.groups, g.Text)
	c.unlistWide(g)
	if r := g.reach; r != nil {
		r.groups = without(r.groups, g)
		s.reaches.forget(r)
	}
	s.forgetClass(c)
}

func byText(a *Group, text model.Need) int { return strings.Compare(a.Text.String(), text.String()) }

func (c *class) listWide(g *Group) {
	if at, listed := slices.BinarySearchFunc(c.wide, g.Text, byText); !listed {
		c.wide = slices.Insert(c.wide, at, g)
	}
}

func (c *class) unlistWide(g *Group) {
	if at, listed := slices.BinarySearchFunc(c.wide, g.Text, byText); listed {
		c.wide = slices.Delete(c.wide, at, at+1)
	}
}

// touchSupply notes that something in a reach has changed, on its nodes if it is narrow.
func (s *Store) touchSupply(r *reach) {
	if r == nil || !r.narrow {
		return
	}
	for _, n := range r.nodes {
		if n.slot >= 0 {
			s.touch(n.slot, model.Supply)
		}
	}
}

func (s *Store) setCapacity(ref model.Ref, now *model.StorageCapacity) (before *model.StorageCapacity) {
	if c := s.capacities[ref]; c != nil {
		before = c.StorageCapacity
		delete(s.capacities, ref)
		at, _ := slices.BinarySearchFunc(c.class.capacities, ref, capacityByRef)
		c.class.capacities = slices.Delete(c.class.capacities, at, at+1)
		s.touchSupply(c.reach)
		if r := c.reach; r != nil {
			r.capacities = without(r.capacities, c)
			if now == nil || now.Nodes != before.Nodes {
				s.reaches.forget(r)
			}
		}
		defer s.forgetClass(c.class)
	}
	if now == nil {
		return before
	}
	c := &capacity{StorageCapacity: now, ref: ref, class: s.classNamed(now.Class)}
	if !now.Nodes.IsZero() {
		c.reach = s.reaches.get(s, now.Nodes)
		c.reach.capacities = append(c.reach.capacities, c)
	}
	s.capacities[ref] = c
	at, _ := slices.BinarySearchFunc(c.class.capacities, ref, capacityByRef)
	c.class.capacities = slices.Insert(c.class.capacities, at, c)
	s.touchSupply(c.reach)
	return before
}

func capacityByRef(c *capacity, ref model.Ref) int { return compareRefs(c.ref, ref) }

func compareRefs(a, b model.Ref) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// WideGroups returns the groups of a class whose reach is wide, by their text. The slice is the store's own and valid until the next change.
func (s *Store) WideGroups(name string) []*Group {
	if c := s.classes[name]; c != nil {
		return c.wide
	}
	return nil
}

// GroupsAt calls yield with the groups of a class whose volumes can be used on the node of a slot, in no particular order.
func (s *Store) GroupsAt(slot int32, name string, yield func(*Group) bool) {
	c := s.classes[name]
	if c == nil || len(c.groups) == 0 {
		return
	}
	for _, g := range c.wide {
		if g.reach == nil && !yield(g) {
			return
		}
	}
	for _, r := range s.bySlot[slot].reaches {
		for _, g := range r.groups {
			if g.class == c && !yield(g) {
				return
			}
		}
	}
}

// WideCapacities calls yield with the capacities of a class whose reach is wide, by namespace and name.
func (s *Store) WideCapacities(name string, yield func(*model.StorageCapacity) bool) {
	c := s.classes[name]
	if c == nil {
		return
	}
	for _, x := range c.capacities {
		if x.reach != nil && !x.reach.narrow && !yield(x.StorageCapacity) {
			return
		}
	}
}

// CapacityAt returns, of the capacities of a class for the node of a slot in which a volume of the size can be provisioned, the first by namespace
// and name; nil if there is none.
func (s *Store) CapacityAt(slot int32, name string, size int64) *model.StorageCapacity {
	c := s.classes[name]
	if c == nil || len(c.capacities) == 0 {
		return nil
	}
	var first *capacity
	for _, r := range s.bySlot[slot].reaches {
		for _, x := range r.capacities {
			if x.class == c && x.Usable && x.Limit >= size && (first == nil || compareRefs(x.ref, first.ref) < 0) {
				first = x
			}
		}
	}
	if first == nil {
		return nil
	}
	return first.StorageCapacity
}
