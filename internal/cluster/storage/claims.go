package storage

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
)

// handle identifies a volume for a CSI driver.
type handle struct{ driver, handle string }

// identity is the volume that a claim counts as on nodes.
type identity struct {
	handle
	// migrated means that the volume is in-tree, so that it counts only on nodes with a
	// CSINode.
	migrated bool
}

// claim is a claim that exists, or that placed pods use. Its identity is kept up to date
// only while pods use it: most unbound claims are not used by a placed pod, and they may
// be very many.
type claim struct {
	*model.Claim // nil if it does not exist
	key          model.ClaimKey
	// Invariant: users is the number of pods on existing nodes that name it directly.
	users int
	// Invariant: on are the uses on the nodes with pods that use it, each at its position
	// at. Nominated pods use it on the placeholder node Store.nominated.
	on []*use
	// Invariant: nominated counts the references of nominated pods by the nodes that they
	// are nominated to, sorted by name. No count is 0.
	nominated []nominatedTo
	// Invariant: while pods use the claim, is has its identity, and the volume that it
	// names lists it at atVolume. If the identity depends on the class, the class lists
	// it at atClass. Everything that does not apply is zero.
	is       identity
	volume   *volume
	atVolume int
	class    *class
	atClass  int
}

// nominatedTo counts references of pods that are nominated to a node.
type nominatedTo struct {
	node  string
	times int
}

// nominate counts a reference of a pod that is nominated to a node.
func (c *claim) nominate(node string, sign int) {
	at, found := slices.BinarySearchFunc(c.nominated, node, func(n nominatedTo, node string) int { return strings.Compare(n.node, node) })
	if !found {
		c.nominated = slices.Insert(c.nominated, at, nominatedTo{node, sign})
		return
	}
	if c.nominated[at].times += sign; c.nominated[at].times == 0 {
		c.nominated = slices.Delete(c.nominated, at, at+1)
	}
	if len(c.nominated) == 0 {
		c.nominated = nil
	}
}

// touchNominated reports that volumes have changed on the nodes that pods with a claim
// are nominated to. Pods that leave room for these pods have a verdict that counts them.
func (s *Store) touchNominated(c *claim) {
	for _, to := range c.nominated {
		if n := s.nodes[to.node]; n != nil {
			s.touchVolumes(n)
		}
	}
}

// use is the use of a claim by the pods on a node.
type use struct {
	claim *claim
	node  *Node
	at    int
	// times counts the references of pods, users the direct references.
	times, users int
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

// volumeName returns the name of the claim's volume, or "".
func (c *claim) volumeName() string {
	if c.Claim == nil {
		return ""
	}
	return c.Object.Spec.VolumeName
}

func (s *Store) setClaim(key model.ClaimKey, now *model.Claim) (before *model.Claim) {
	c := s.claims[key]
	if c == nil {
		if now == nil {
			return nil
		}
		c = s.claimOf(key)
	}
	before, c.Claim = c.Claim, now
	if len(c.on) > 0 {
		s.identify(c)
		if (before == nil) != (now == nil) || before != nil && before.Owner != now.Owner {
			s.touchNominated(c)
			for _, x := range c.on {
				if x.node.checkOwners(c) {
					s.touchVolumes(x.node)
					s.change.Any = s.change.Any || x.node.slot >= 0
				}
			}
		}
	}
	s.forgetClaim(c)
	return before
}

// unboundPrefix distinguishes the handles of claims without a volume from the handles of
// volumes.
const unboundPrefix = "claim without a volume: "

// identityOf returns the identity of a claim.
func (s *Store) identityOf(c *claim) identity {
	if c.Claim == nil {
		return identity{}
	}
	if name := c.volumeName(); name != "" {
		if v := s.volumes[name]; v != nil && v.Volume != nil {
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

// standsFor returns the identity of a claim, whether or not it is in use.
func (s *Store) standsFor(c *claim) identity {
	if len(c.on) > 0 {
		return c.is
	}
	return s.identityOf(c)
}

// Attachable returns the CSI driver and the handle under which a claim's volume counts
// towards the limits of nodes. A claim without a volume has a unique handle. inTree means
// that it counts only on nodes with a CSINode. The driver is empty if it never counts.
func (s *Store) Attachable(key model.ClaimKey) (driver, name string, inTree bool) {
	c := s.claims[key]
	if c == nil {
		return "", "", false
	}
	is := s.standsFor(c)
	return is.driver, is.handle.handle, is.migrated
}

// identify recomputes the identity of a claim in use, and counts it on the nodes where it
// is used.
func (s *Store) identify(c *claim) {
	s.follow(c)
	is := s.identityOf(c)
	if is == c.is {
		return
	}
	for _, x := range c.on {
		s.refer(x.node, c.is.handle, -x.times)
		s.refer(x.node, is.handle, +x.times)
		if x.node == s.nominated {
			s.touchNominated(c)
			if c.is.driver != "" {
				s.change.AddRoom(c.is.driver) // on whichever node
			}
			continue
		}
		s.work.Counted++
		before := x.node.counted(c.is.handle, is.handle)
		x.node.refer(c.is, x.node.csi, -x.times)
		x.node.refer(is, x.node.csi, +x.times)
		s.changedVolumes(x.node, before)
	}
	c.is = is
}

// follow lists a claim under the objects that determine its identity.
func (s *Store) follow(c *claim) {
	var v *volume
	var class *class
	if len(c.on) > 0 && c.Claim != nil {
		if name := c.volumeName(); name != "" {
			v = s.volumeOf(name)
		}
		if (v == nil || v.Volume == nil) && c.Class != "" {
			class = s.classNamed(c.Class)
		}
	}
	if former := c.volume; former != v {
		if former != nil {
			former.claims = drop(former.claims, c.atVolume, func(moved *claim, at int) { moved.atVolume = at })
			s.forgetVolume(former)
		}
		if c.volume, c.atVolume = v, 0; v != nil {
			c.atVolume = len(v.claims)
			v.claims = append(v.claims, c)
		}
	}
	if former := c.class; former != class {
		if former != nil {
			former.claims = drop(former.claims, c.atClass, func(moved *claim, at int) { moved.atClass = at })
			s.forgetClass(former)
		}
		if c.class, c.atClass = class, 0; class != nil {
			c.atClass = len(class.claims)
			class.claims = append(class.claims, c)
		}
	}
}

// use adds the volumes of a pod to a node (+1) or removes them (-1).
func (s *Store) use(n *Node, volumes *model.PodVolumes, sign int) {
	s.useClaims(n, volumes.Claims, sign)
	for i := range volumes.Inline {
		s.refer(n, handle{volumes.Inline[i].Driver, volumes.Inline[i].Handle}, sign)
	}
}

func (s *Store) useClaims(n *Node, claims []model.PodClaim, sign int) {
	for _, named := range claims {
		c := s.claimOf(named.Key)
		x := n.uses[c]
		if x == nil {
			x = s.startUse(n, c)
		}
		x.times += sign
		s.refer(n, c.is.handle, sign)
		if !named.Ephemeral && !named.Repeated {
			x.users += sign
			if n.alive {
				c.users += sign
			}
		}
		if x.times == 0 {
			s.endUse(x)
		}
	}
}

func (s *Store) startUse(n *Node, c *claim) *use {
	x := &use{claim: c, node: n, at: len(c.on)}
	if n.uses == nil {
		n.uses = map[*claim]*use{}
	}
	n.uses[c] = x
	if c.on = append(c.on, x); len(c.on) == 1 {
		s.follow(c)
		c.is = s.identityOf(c)
	}
	return x
}

func (s *Store) endUse(x *use) {
	c := x.claim
	if delete(x.node.uses, c); len(x.node.uses) == 0 {
		x.node.uses = nil // a map keeps its memory
	}
	if c.on = drop(c.on, x.at, func(moved *use, at int) { moved.at = at }); len(c.on) == 0 {
		s.follow(c)
		c.on, c.is = nil, identity{}
		s.forgetClaim(c)
	}
}
