package storage

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
)

// handle is a volume as a CSI driver knows it.
type handle struct{ driver, handle string }

// identity is the volume that a claim stands for on nodes.
type identity struct {
	handle
	// migrated means that it is in-tree, so that it counts only on nodes with a CSINode.
	migrated bool
}

// claim is a claim that exists, or that placed pods use.
type claim struct {
	*model.Claim // nil if it does not exist
	key          model.ClaimKey
	// on are the nodes with pods that use it; nominated pods count as on the node that stands for them.
	on []claimOn
	// is is what it stands for.
	is identity
}

// claimOn is the use of a claim on a node: how often pods name it, and how many name it directly.
type claimOn struct {
	node         *Node
	times, users int
}

// volume is a PersistentVolume that exists, or that others name.
type volume struct {
	*model.Volume // nil if it does not exist
	name          string
	// claims are those that name it as theirs, attachments those of it.
	claims      []*claim
	attachments []*attachment
	// heldAt is the version at which a placement holds it; it is held as long as it has that version. Empty if it is not.
	heldAt string
	// group is where it is listed while it is free.
	group *Group
}

// attachment is a VolumeAttachment that exists.
type attachment struct {
	*model.VolumeAttachment
	// is is what it counts as; without a driver it does not count.
	is handle
}

func (s *Store) claimOf(key model.ClaimKey) *claim {
	c := s.claims[key]
	if c == nil {
		c = &claim{key: key}
		s.claims[key] = c
	}
	return c
}

func (s *Store) forgetClaim(c *claim) {
	if c.Claim == nil && len(c.on) == 0 {
		delete(s.claims, c.key)
	}
}

func (s *Store) volumeOf(name string) *volume {
	v := s.volumes[name]
	if v == nil {
		v = &volume{name: name}
		s.volumes[name] = v
	}
	return v
}

func (s *Store) forgetVolume(v *volume) {
	if v.Volume == nil && len(v.claims) == 0 && len(v.attachments) == 0 {
		delete(s.volumes, v.name)
	}
}

// volumeName returns the name of the claim's volume, empty if it has none.
func (c *claim) volumeName() string {
	if c.Claim == nil {
		return ""
	}
	return c.Object.Spec.VolumeName
}

func (s *Store) setClaim(key model.ClaimKey, now *model.Claim) (before *model.Claim) {
	c := s.claims[key]
	if c == nil && now == nil {
		return nil
	}
	if c == nil {
		c = s.claimOf(key)
	}
	before = c.Claim
	named := c.volumeName()
	class := classOf(c.Claim)
	c.Claim = now
	if name := c.volumeName(); name != named {
		if named != "" {
			v := s.volumes[named]
			v.claims = without(v.claims, c)
			s.forgetVolume(v)
		}
		if name != "" {
			v := s.volumeOf(name)
			v.claims = append(v.claims, c)
		}
	}
	if after := classOf(now); after != class {
		s.enlist(c, class, after)
	}
	s.identify(c)
	s.forgetClaim(c)
	return before
}

func classOf(c *model.Claim) string {
	if c == nil {
		return ""
	}
	return c.Class
}

func without[T comparable](list []T, one T) []T {
	if i := slices.Index(list, one); i >= 0 {
		last := len(list) - 1
		list[i] = list[last]
		clear(list[last:])
		list = list[:last]
	}
	return list
}

// unboundPrefix makes the handles of claims without a volume differ from those of volumes.
const unboundPrefix = "claim without a volume: "

// identityOf returns what a claim stands for.
func (s *Store) identityOf(c *claim) identity {
	if c.Claim == nil {
		return identity{}
	}
	if name := c.volumeName(); name != "" {
		if v := s.volumes[name]; v.Volume != nil {
			return identity{handle{v.Driver, v.Handle}, v.InTree != ""}
		}
	}
	class := s.Class(c.Class)
	if class == nil {
		return identity{}
	}
	driver, inTree := model.DriverOf(class.Object.Provisioner)
	if driver == "" {
		return identity{}
	}
	return identity{handle{driver, unboundPrefix + c.key.String()}, inTree != ""}
}

// Attachable returns the volume that a claim stands for on nodes, as the CSI driver that attaches it knows it; a claim without a volume has a name of
// its own. inTree means that it counts only on nodes with a CSINode. The driver is empty if it never counts.
func (s *Store) Attachable(key model.ClaimKey) (driver, name string, inTree bool) {
	c := s.claims[key]
	if c == nil {
		return "", "", false
	}
	return c.is.driver, c.is.handle.handle, c.is.migrated
}

// InUse reports whether a pod on any node, or one that is nominated to a node, uses a volume. It is what Usage.Uses can be true of, in the state and in
// dry runs of it.
func (s *Store) InUse(driver, name string) bool { return s.used[handle{driver, name}] > 0 }

// refer counts references of pods to a volume, on whatever node.
func (s *Store) refer(h handle, times int) {
	if h.driver == "" {
		return
	}
	if s.used[h] += times; s.used[h] == 0 {
		delete(s.used, h)
	}
}

// identify finds out anew what a claim stands for, and counts it on the nodes where it is used.
func (s *Store) identify(c *claim) {
	is := s.identityOf(c)
	same := is == c.is
	for _, on := range c.on {
		if !same {
			s.refer(c.is.handle, -on.times)
			s.refer(is.handle, +on.times)
		}
		if on.node == s.nominated {
			continue
		}
		if on.node.checkOwners(c) || !same {
			s.touchVolumes(on.node)
		}
		if !same {
			s.work.Counted++
			on.node.refer(c.is, on.node.csi, -on.times)
			on.node.refer(is, on.node.csi, +on.times)
		}
	}
	c.is = is
}

func (s *Store) setVolume(name string, now *model.Volume) (before *model.Volume) {
	v := s.volumes[name]
	if v == nil && now == nil {
		return nil
	}
	if v == nil {
		v = s.volumeOf(name)
	}
	before = v.Volume
	s.leaveGroup(v)
	if before != nil {
		s.unlistPreBound(v)
	}
	v.Volume = now
	if now == nil || v.heldAt != now.Version() {
		v.heldAt = "" // a newer version is what others have made of it
	}
	if now != nil {
		s.listPreBound(v)
	}
	s.enterGroup(v)
	for _, c := range v.claims {
		s.identify(c)
	}
	for _, a := range v.attachments {
		s.identifyAttachment(a, v)
	}
	s.forgetVolume(v)
	return before
}

func (s *Store) listPreBound(v *volume) {
	if key, ok := v.ClaimKey(); ok {
		list := s.preBound[key]
		at, _ := slices.BinarySearchFunc(list, v.name, func(o *volume, name string) int { return strings.Compare(o.name, name) })
		s.preBound[key] = slices.Insert(list, at, v)
	}
}

func (s *Store) unlistPreBound(v *volume) {
	if key, ok := v.ClaimKey(); ok {
		list := s.preBound[key]
		i := slices.Index(list, v)
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			delete(s.preBound, key)
		} else {
			s.preBound[key] = list
		}
	}
}

// Hold notes that a placement holds a volume in its present version: it is no longer free. Objects of other kinds are not noted.
func (s *Store) Hold(ref model.Ref) {
	if ref.Kind != model.PersistentVolumeKind {
		return
	}
	if v := s.volumes[ref.Name]; v != nil && v.Volume != nil {
		s.leaveGroup(v)
		v.heldAt = v.Version()
	}
}

// Release undoes Hold.
func (s *Store) Release(ref model.Ref) {
	if ref.Kind != model.PersistentVolumeKind {
		return
	}
	if v := s.volumes[ref.Name]; v != nil && v.heldAt != "" {
		v.heldAt = ""
		s.enterGroup(v)
	}
}

func (s *Store) setAttachment(name string, now *model.VolumeAttachment) (before *model.VolumeAttachment) {
	a := s.attachments[name]
	if a != nil {
		before = a.VolumeAttachment
		s.detach(a)
	}
	if now == nil {
		delete(s.attachments, name)
		return before
	}
	a = &attachment{VolumeAttachment: now}
	s.attachments[name] = a
	if now.Node == "" || now.Attacher == "" || now.Volume == "" {
		return before // it does not count
	}
	node := s.nodeOf(now.Node)
	node.attachments++
	v := s.volumeOf(now.Volume)
	v.attachments = append(v.attachments, a)
	s.identifyAttachment(a, v)
	return before
}

// detach takes an attachment off its node and its volume.
func (s *Store) detach(a *attachment) {
	v := s.volumes[a.Volume]
	if v == nil || !slices.Contains(v.attachments, a) {
		return
	}
	node := s.nodes[a.Node]
	if a.is.driver != "" {
		node.attach(a.is, -1)
		s.touchVolumes(node)
	}
	v.attachments = without(v.attachments, a)
	s.forgetVolume(v)
	node.attachments--
	s.forgetNode(node)
}

// identifyAttachment finds out anew what an attachment counts as.
func (s *Store) identifyAttachment(a *attachment, v *volume) {
	var is handle
	if v.Volume != nil && v.Object.Spec.CSI != nil {
		is = handle{a.Attacher, v.Handle}
	}
	if is == a.is {
		return
	}
	node := s.nodes[a.Node]
	if a.is.driver != "" {
		node.attach(a.is, -1)
	}
	if is.driver != "" {
		node.attach(is, +1)
	}
	a.is = is
	s.touchVolumes(node)
}
