package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Seat describes a slot as its owner records it: the name of its node (empty if the slot
// is free), whether the node exists, its labels, and its pods.
type Seat struct {
	Name   string
	Exists bool
	Labels labels.Set
	Pods   []*model.Pod
}

// Audit checks the invariants that are documented next to the fields of a Store. It
// builds a second store from the same objects, slots, pods and holders, and compares the
// two. Values that depend on history, such as positions, are checked directly. seats are
// by slot, nominated are the nominated pods, and holds reports whether the placement of a
// pod holds an object. Audit changes nothing.
func (s *Store) Audit(v *audit.Violations, seats []Seat, nominated []*model.Pod, holds func(model.Ref, model.PodKey) bool) {
	if !s.auditPositions(v) {
		return // the other checks would index out of range
	}
	have, want := s.describe(), s.anew(seats, nominated).describe()
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
	for slot, seat := range seats {
		if n := at(s.bySlot, slot); n != nil && !maps.Equal(n.labels, seat.Labels) {
			v.Add("node %s has the labels %v, and is known by %v", n.name, seat.Labels, n.labels)
		}
	}
	for name, volume := range s.volumes {
		for _, pod := range volume.holders {
			if !holds(model.VolumeRef(name), pod) {
				v.Add("volume %s is held by pod %s, which holds nothing of it", name, pod)
			}
		}
	}
	s.auditClasses(v)
	s.auditReaches(v)
}

// anew returns a store with the same objects, and the given slots and nominated pods.
func (s *Store) anew(seats []Seat, nominated []*model.Pod) *Store {
	n := New(func(int32, model.Aspect) {})
	for _, pod := range nominated {
		n.Nominate(pod, +1)
	}
	for slot, seat := range seats {
		if seat.Name == "" {
			for len(n.bySlot) <= slot {
				n.bySlot = append(n.bySlot, nil)
			}
			continue
		}
		n.Seat(int32(slot), seat.Name)
		n.SetNode(int32(slot), seat.Exists, seat.Labels)
		for _, pod := range seat.Pods {
			n.Place(int32(slot), pod)
		}
	}
	for name, v := range s.volumes {
		if v.Volume == nil {
			continue
		}
		n.setVolume(name, v.Volume)
		for _, pod := range v.holders {
			n.Hold(model.VolumeRef(name), pod)
		}
	}
	for name, node := range s.nodes {
		if node.csi != nil {
			n.setCSINode(name, node.csi)
		}
	}
	for name, c := range s.classes {
		if c.StorageClass != nil {
			n.setClass(name, c.StorageClass)
		}
	}
	for key, c := range s.claims {
		if c.Claim != nil {
			n.setClaim(key, c.Claim)
		}
	}
	for name, a := range s.attachments {
		n.setAttachment(name, a.VolumeAttachment)
	}
	for ref, c := range s.capacities {
		n.setCapacity(ref, c.StorageCapacity)
	}
	return n
}

// describe returns a text about each object and index, independent of history.
func (s *Store) describe() map[string]string {
	texts := map[string]string{"nominated": s.nominated.describe()}
	s.describeNodes(texts)
	s.describeClaims(texts)
	s.describeVolumes(texts)
	s.describeClasses(texts)
	s.describeReaches(texts)
	return texts
}

func (s *Store) describeNodes(texts map[string]string) {
	texts["slots"] = listed(s.bySlot, func(n *Node) string {
		if n == nil {
			return "free"
		}
		return n.name
	})
	for name, n := range s.nodes {
		texts["node "+name] = n.describe()
	}
	for h, on := range s.used {
		var nodes []string
		on.each(func(n *Node) { nodes = append(nodes, n.name) })
		slices.Sort(nodes)
		texts[fmt.Sprint("use of ", h)] = fmt.Sprintf("%d on %q", on.times(), nodes)
	}
}

func (s *Store) describeClaims(texts map[string]string) {
	for key, c := range s.claims {
		uses := sorted(c.on, func(x *use) string { return fmt.Sprintf("%s:%d/%d", x.node.name, x.times, x.users) })
		texts["claim "+key.String()] = fmt.Sprintf("{exists %t, users %d, on %s, nominated %v, is %v, of volume %q, of class %q}",
			c.Claim != nil, c.users, uses, c.nominated, c.is, nameOf(c.volume), className(c.class))
	}
	for key, list := range s.preBound {
		texts["bound in advance to "+key.String()] = listed(list, func(v *volume) string { return v.name })
	}
}

func (s *Store) describeVolumes(texts map[string]string) {
	for name, v := range s.volumes {
		group := ""
		if v.group != nil {
			group = v.group.Text.String()
		}
		texts["volume "+name] = fmt.Sprintf("{exists %t, claims %s, attachments %s, in group %q}", v.Volume != nil,
			sorted(v.claims, func(c *claim) string { return c.key.String() }), sorted(v.attachments, func(a *attachment) string { return a.Name }), group)
	}
	for name, a := range s.attachments {
		node := ""
		if a.node != nil {
			node = a.node.name
		}
		texts["attachment "+name] = fmt.Sprintf("{of volume %q, on node %q, counts as %v}", nameOf(a.volume), node, a.is)
	}
}

// describeClasses describes the classes, their groups of volumes and their capacities.
func (s *Store) describeClasses(texts map[string]string) {
	for name, c := range s.classes {
		texts["class "+name] = fmt.Sprintf("{exists %t, claims %s, groups %d, capacities %d}", c.StorageClass != nil,
			sorted(c.claims, func(c *claim) string { return c.key.String() }), len(c.groups), c.capacities)
		for text, g := range c.groups {
			var volumes []string
			for _, part := range g.volumes.parts {
				for _, v := range part {
					volumes = append(volumes, v.name)
				}
			}
			texts["group "+name+" "+text.String()] = fmt.Sprintf("{text %q, of class %q, reach %q, volumes %v}", g.Text, className(g.class), reachText(g.reach), volumes)
		}
	}
	for ref, c := range s.capacities {
		texts[fmt.Sprint("capacity ", ref)] = fmt.Sprintf("{ref %v, class %q, reach %q}", c.ref, className(c.class), reachText(c.reach))
	}
}

func (s *Store) describeReaches(texts map[string]string) {
	for text, r := range s.reaches.byText {
		if len(r.of) == 0 {
			continue // kept for a while
		}
		of := ""
		for _, c := range slices.SortedFunc(maps.Keys(r.of), func(a, b *class) int { return strings.Compare(a.name, b.name) }) {
			of += fmt.Sprintf(" %s: groups %s capacities %s", c.name, sorted(r.of[c].groups, func(g *Group) string { return g.Text.String() }),
				sorted(r.of[c].capacities, func(c *capacity) string { return c.ref.Namespace + "/" + c.ref.Name }))
		}
		texts["reach "+text.String()] = fmt.Sprintf("{text %q, nodes %s, of%s}", r.text, sorted(r.nodes, func(n *Node) string { return n.name }), of)
	}
}

func (n *Node) describe() string {
	reaches := slices.DeleteFunc(slices.Clone(n.reaches), func(r *reach) bool { return len(r.of) == 0 })
	text := fmt.Sprintf("{slot %d, alive %t, CSINode %t, attachments %d", n.slot, n.alive, n.csi != nil, n.attachments)
	if len(n.uses) == 0 && len(n.refs) == 0 && len(n.volumes) == 0 && len(n.migrated) == 0 && len(n.disks) == 0 && len(n.ephemeral) == 0 &&
		len(n.untranslated) == 0 && len(reaches) == 0 {
		return text + "}" // as for most nodes of a cluster without volumes
	}
	return fmt.Sprintf("%s, uses %d, refs %v, volumes %v, migrated %v, disks %s, ephemeral %s, untranslated %s, reaches %s}",
		text, len(n.uses), n.refs, n.volumes, n.migrated,
		sorted(slices.Collect(maps.Values(n.disks)), func(d diskCount) string { return fmt.Sprint(d) }),
		sorted(n.ephemeral, func(e ephemeral) string { return fmt.Sprint(e) }),
		sorted(n.untranslated, func(u untranslated) string { return fmt.Sprint(u.pod, u.uid, u.err) }),
		sorted(reaches, func(r *reach) string { return r.text.String() }))
}

func nameOf(v *volume) string {
	if v == nil {
		return ""
	}
	return v.name
}

func className(c *class) string {
	if c == nil {
		return ""
	}
	return c.name
}

func reachText(r *reach) string {
	if r == nil {
		return ""
	}
	return r.text.String()
}

func listed[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	return fmt.Sprintf("%q", texts)
}

func sorted[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = text(one)
	}
	slices.Sort(texts)
	return fmt.Sprintf("%q", texts)
}

// auditPositions checks that listed items record their position and their list. It
// reports whether they do.
func (s *Store) auditPositions(v *audit.Violations) (ok bool) {
	ok = true
	expect := func(holds bool, format string, values ...any) {
		if !holds {
			v.Add(format, values...)
			ok = false
		}
	}
	for key, c := range s.claims {
		expect(c.key == key && (c.Claim == nil || c.Key == key), "claim %s is listed as %s", c.key, key)
		for i, x := range c.on {
			expect(x.claim == c && x.at == i && x.node.uses[c] == x, "a use of claim %s on node %s is not at position %d", key, x.node.name, i)
		}
		expect(c.volume == nil || at(c.volume.claims, c.atVolume) == c, "claim %s is not at position %d of volume %s", key, c.atVolume, nameOf(c.volume))
		expect(c.class == nil || at(c.class.claims, c.atClass) == c, "claim %s is not at position %d of class %s", key, c.atClass, className(c.class))
	}
	for name, volume := range s.volumes {
		expect(volume.name == name, "volume %s is listed as %s", volume.name, name)
	}
	for name, a := range s.attachments {
		expect(a.volume == nil || at(a.volume.attachments, a.at) == a, "attachment %s is not at position %d of volume %s", name, a.at, nameOf(a.volume))
		expect((a.volume == nil) == (a.node == nil), "attachment %s has a node: %t, a volume: %t", name, a.node != nil, a.volume != nil)
	}
	for name, n := range s.nodes {
		expect(n.name == name, "node %s is listed as %s", n.name, name)
		expect(n.slot < 0 || at(s.bySlot, int(n.slot)) == n, "node %s is not on slot %d", name, n.slot)
	}
	for slot, n := range s.bySlot {
		expect(n == nil || s.nodes[n.name] == n && n.slot == int32(slot), "the node on slot %d is not kept", slot)
	}
	return ok
}

func at[T any](list []T, i int) (one T) {
	if i < 0 || i >= len(list) {
		return one
	}
	return list[i]
}

func (s *Store) auditClasses(v *audit.Violations) {
	for name, c := range s.classes {
		var groups []*Group
		for _, g := range c.groups {
			g.volumes.audit(v, name)
			if g.IsWide() {
				groups = append(groups, g)
			}
		}
		slices.SortFunc(groups, func(a, b *Group) int { return byText(a, b.Text) })
		if !slices.Equal(groups, c.wideGroups) {
			v.Add("class %s lists %d wide groups, recounted %d, or in another order", name, len(c.wideGroups), len(groups))
		}
		var capacities []*capacity
		for _, x := range s.capacities {
			if x.class == c && x.reach != nil && !x.reach.narrow {
				capacities = append(capacities, x)
			}
		}
		slices.SortFunc(capacities, func(a, b *capacity) int { return byRef(a, b.ref) })
		if !slices.Equal(capacities, c.wideCapacities) {
			v.Add("class %s lists %d wide capacities, recounted %d, or in another order", name, len(c.wideCapacities), len(capacities))
		}
	}
}

func (l *volumeList) audit(v *audit.Violations, class string) {
	var before *volume
	for i, part := range l.parts {
		if len(part) == 0 || len(part) > maxPart || i > 0 && len(part)+len(l.parts[i-1]) < maxPart/2 {
			v.Add("part %d of a group of class %s has %d volumes", i, class, len(part))
		}
		for _, volume := range part {
			if before != nil && bySize(before, volume) >= 0 {
				v.Add("volume %s of class %s is listed after %s", volume.name, class, before.name)
			}
			before = volume
		}
	}
}
