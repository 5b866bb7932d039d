package storage

import (
	"github.com/berth-scheduler/berth/internal/kit/shrink"
	"github.com/berth-scheduler/berth/internal/model"
)

// Store has all storage objects. The zero value is not usable; call New.
type Store struct {
	// touch is called with each slot that has changed, and the changed aspects.
	touch func(slot int32, aspects model.Aspect)

	// Invariant: claims has exactly the claims that exist or that placed or nominated
	// pods use.
	claims map[model.ClaimKey]*claim
	// Invariant: volumes has exactly the volumes that exist or that claims in use or
	// attachments name.
	volumes map[string]*volume
	// Invariant: classes has exactly the classes that exist or that have groups,
	// capacities or claims in use.
	classes map[string]*class
	drivers map[string]*model.CSIDriver
	// Invariant: nodes has exactly the nodes that exist, or have pods, a CSINode or
	// attachments.
	nodes map[string]*Node
	// Invariant: bySlot has the node of each slot in use, nil for the others.
	bySlot      []*Node
	attachments map[string]*attachment
	capacities  map[model.Ref]*capacity
	// nominated is a placeholder for the nodes of nominated pods: claims have uses on it,
	// and it counts nothing.
	nominated *Node
	// Invariant: used counts, for each volume that can count on a node, the references of
	// attachments and of placed and nominated pods, by node. No entry is empty.
	used map[handle]*nodesOf
	// Invariant: preBound lists, by claim, the existing volumes that name it, by name.
	preBound map[model.ClaimKey][]*volume

	reaches reaches
	work    Work
	// change collects the changes of volumes on nodes since TakeChange.
	change model.VolumesChange
	peaks  peaks
}

// peaks are the largest sizes of maps since they were last shrunk.
type peaks struct{ claims, volumes, nodes, attachments, capacities, used, preBound, reaches int }

// Work counts work. It only grows.
type Work struct {
	// Matched is how often the selector of a reach was matched against a node.
	Matched int64
	// Counted is how often a changed object changed the counts of a claim on a node.
	Counted int64
	// Touched is the number of reported changes of slots.
	Touched int64
}

// New returns an empty store. touch is called with each slot that has changed.
func New(touch func(slot int32, aspects model.Aspect)) *Store {
	return &Store{
		touch: touch, claims: map[model.ClaimKey]*claim{}, volumes: map[string]*volume{}, classes: map[string]*class{},
		drivers: map[string]*model.CSIDriver{}, nodes: map[string]*Node{}, attachments: map[string]*attachment{},
		capacities: map[model.Ref]*capacity{}, nominated: &Node{slot: -1}, used: map[handle]*nodesOf{},
		preBound: map[model.ClaimKey][]*volume{}, reaches: newReaches(),
	}
}

// changed reports that a slot has changed.
func (s *Store) changed(slot int32, aspects model.Aspect) {
	s.work.Touched++
	s.touch(slot, aspects)
}

// TakeChange returns the changes of volumes on nodes that objects have made since the
// last call, nil if none can help a pod. Pods that come and go are not included.
func (s *Store) TakeChange() *model.VolumesChange {
	if s.change.IsEmpty() {
		return nil
	}
	taken := s.change
	s.change = model.VolumesChange{}
	return &taken
}

// Work returns the work done so far.
func (s *Store) Work() Work { return s.work }

// Shrink releases the memory of maps that were once much larger.
func (s *Store) Shrink() {
	p := &s.peaks
	s.claims = shrink.Map(s.claims, &p.claims)
	s.volumes = shrink.Map(s.volumes, &p.volumes)
	s.nodes = shrink.Map(s.nodes, &p.nodes)
	s.attachments = shrink.Map(s.attachments, &p.attachments)
	s.capacities = shrink.Map(s.capacities, &p.capacities)
	s.used = shrink.Map(s.used, &p.used)
	s.preBound = shrink.Map(s.preBound, &p.preBound)
	s.reaches.byText = shrink.Map(s.reaches.byText, &p.reaches)
}

// Sizes has the numbers of objects and indexes in the store. Nodes include nodes without
// a slot that have a CSINode or attachments. Reaches include a bounded number of unused
// ones. Used are the volumes in use by placed or nominated pods, or attached.
type Sizes struct{ Claims, Volumes, Classes, Drivers, Nodes, Attachments, Capacities, Reaches, Groups, Used int }

// Sizes returns the numbers of objects and indexes in the store.
func (s *Store) Sizes() Sizes {
	k := Sizes{
		Claims: len(s.claims), Volumes: len(s.volumes), Classes: len(s.classes), Drivers: len(s.drivers), Nodes: len(s.nodes),
		Attachments: len(s.attachments), Capacities: len(s.capacities), Reaches: len(s.reaches.byText), Used: len(s.used),
	}
	for _, c := range s.classes {
		k.Groups += len(c.groups)
	}
	return k
}

// Set stores a version of an object. It returns the previous version, or nil.
func (s *Store) Set(object model.Compiled) (before model.Compiled) {
	switch o := object.(type) {
	case *model.Claim:
		return model.OrNil(s.setClaim(o.Key, o))
	case *model.Volume:
		return model.OrNil(s.setVolume(o.Name, o))
	case *model.StorageClass:
		return model.OrNil(s.setClass(o.Name, o))
	case *model.CSIDriver:
		return model.OrNil(s.setDriver(o.Name, o))
	case *model.CSINode:
		return model.OrNil(s.setCSINode(o.Name, o))
	case *model.StorageCapacity:
		return model.OrNil(s.setCapacity(o.Ref(), o))
	case *model.VolumeAttachment:
		return model.OrNil(s.setAttachment(o.Name, o))
	}
	return nil
}

// Remove removes an object. It returns the last version, or nil.
func (s *Store) Remove(ref model.Ref) (before model.Compiled) {
	switch ref.Kind {
	case model.PersistentVolumeClaimKind:
		return model.OrNil(s.setClaim(ref.ClaimKey(), nil))
	case model.PersistentVolumeKind:
		return model.OrNil(s.setVolume(ref.Name, nil))
	case model.StorageClassKind:
		return model.OrNil(s.setClass(ref.Name, nil))
	case model.CSIDriverKind:
		return model.OrNil(s.setDriver(ref.Name, nil))
	case model.CSINodeKind:
		return model.OrNil(s.setCSINode(ref.Name, nil))
	case model.CSIStorageCapacityKind:
		return model.OrNil(s.setCapacity(ref, nil))
	case model.VolumeAttachmentKind:
		return model.OrNil(s.setAttachment(ref.Name, nil))
	}
	return nil
}

// Get returns a storage object, or nil if it does not exist.
func (s *Store) Get(ref model.Ref) model.Compiled {
	switch ref.Kind {
	case model.PersistentVolumeClaimKind:
		return model.OrNil(s.Claim(ref.ClaimKey()))
	case model.PersistentVolumeKind:
		return model.OrNil(s.Volume(ref.Name))
	case model.StorageClassKind:
		return model.OrNil(s.Class(ref.Name))
	case model.CSIDriverKind:
		return model.OrNil(s.Driver(ref.Name))
	case model.CSINodeKind:
		return model.OrNil(s.CSINode(ref.Name))
	case model.CSIStorageCapacityKind:
		if c := s.capacities[ref]; c != nil {
			return c.StorageCapacity
		}
	case model.VolumeAttachmentKind:
		if a := s.attachments[ref.Name]; a != nil {
			return a.VolumeAttachment
		}
	}
	return nil
}

// Claim returns a claim, or nil if it does not exist.
func (s *Store) Claim(key model.ClaimKey) *model.Claim {
	if c := s.claims[key]; c != nil {
		return c.Claim
	}
	return nil
}

// Volume returns a volume, or nil if it does not exist.
func (s *Store) Volume(name string) *model.Volume {
	if v := s.volumes[name]; v != nil {
		return v.Volume
	}
	return nil
}

// Class returns a StorageClass, or nil if it does not exist.
func (s *Store) Class(name string) *model.StorageClass {
	if c := s.classes[name]; c != nil {
		return c.StorageClass
	}
	return nil
}

// Driver returns a CSIDriver, or nil if it does not exist.
func (s *Store) Driver(name string) *model.CSIDriver { return s.drivers[name] }

// CSINode returns the CSINode of a node, or nil if it does not exist.
func (s *Store) CSINode(name string) *model.CSINode {
	if n := s.nodes[name]; n != nil {
		return n.csi
	}
	return nil
}

// UsersOf returns the number of pods on existing nodes that name a claim directly.
// Ephemeral claims do not count.
func (s *Store) UsersOf(key model.ClaimKey) int {
	if c := s.claims[key]; c != nil {
		return c.users
	}
	return 0
}

// PreBound returns the volumes that name a claim, by name. Those that are not bound yet
// are meant for the claim.
func (s *Store) PreBound(key model.ClaimKey) []*model.Volume {
	list := s.preBound[key]
	if len(list) == 0 {
		return nil
	}
	volumes := make([]*model.Volume, len(list))
	for i, v := range list {
		volumes[i] = v.Volume
	}
	return volumes
}

func (s *Store) setDriver(name string, d *model.CSIDriver) (before *model.CSIDriver) {
	before = s.drivers[name]
	if d == nil {
		delete(s.drivers, name)
	} else {
		s.drivers[name] = d
	}
	return before
}
