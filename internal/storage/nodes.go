package storage

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Node is what is known of the volumes on a node.
type Node struct {
	name string
	slot int32 // -1 if it has none
	// alive means that the node exists; labels are its own.
	alive  bool
	labels labels.Set
	csi    *model.CSINode
	// attachments is how many attachments name the node.
	attachments int
	// reaches are those that the node is in, in no particular order.
	reaches []*reach

	inUse
}

// inUse are the volumes that pods on a node use, and those that are attached to it.
type inUse struct {
	// Invariant: refs counts, for each volume that counts, the references of pods and of attachments to it; volumes counts the volumes of refs by
	// driver. Neither has an entry of 0.
	refs    map[handle]references
	volumes map[string]int
	// Invariant: migrated counts the references of pods to in-tree volumes. They are in refs only while the node has a CSINode.
	migrated map[handle]int
	// disks are the inline disks of pods.
	disks []diskCount
	// ephemeral are the uses of claims that are made for a pod.
	ephemeral []ephemeral
	// untranslated are the inline volumes of pods that cannot be translated.
	untranslated []untranslated
}

type references struct{ pods, attachments int }

type diskCount struct {
	disk  model.Disk
	times int
}

// ephemeral is a pod's use of a claim that is made for it.
type ephemeral struct {
	claim model.ClaimKey
	pod   model.PodKey
	uid   types.UID
	// foreign means that the claim exists and belongs to another.
	foreign bool
}

// untranslated is an inline volume of a pod that cannot be translated. Which pod it is of says its UID: another version has another error.
type untranslated struct {
	uid types.UID
	err error
}

func (s *Store) nodeOf(name string) *Node {
	n := s.nodes[name]
	if n == nil {
		n = &Node{name: name, slot: -1}
		s.nodes[name] = n
	}
	return n
}

func (s *Store) forgetNode(n *Node) {
	if n.slot < 0 && n.csi == nil && n.attachments == 0 {
		delete(s.nodes, n.name)
	}
}

func (s *Store) touchVolumes(n *Node) {
	if n.slot >= 0 {
		s.touch(n.slot, model.Volumes)
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

// At returns the node of a slot in use.
func (s *Store) At(slot int32) *Node { return s.bySlot[slot] }

// SetNode notes that the node of a slot exists, or no longer does, and its labels.
func (s *Store) SetNode(slot int32, exists bool, of labels.Set) {
	n := s.bySlot[slot]
	n.alive = exists
	if !exists {
		of = nil
	}
	before := n.labels
	n.labels = of
	s.reaches.moveNode(s, n, before)
}

// setCSINode stores a CSINode. In-tree volumes count on a node only while it has one.
func (s *Store) setCSINode(name string, now *model.CSINode) (before *model.CSINode) {
	n := s.nodes[name]
	if n == nil && now == nil {
		return nil
	}
	if n == nil {
		n = s.nodeOf(name)
	}
	before = n.csi
	n.csi = now
	if (before == nil) != (now == nil) {
		s.recount(n)
	}
	if before == nil || now == nil || !before.Equal(now) {
		s.touchVolumes(n)
	}
	s.forgetNode(n)
	return before
}

// recount counts the in-tree volumes of a node's pods, after its CSINode has come, or no longer, after it has gone.
func (s *Store) recount(n *Node) {
	sign := +1
	if n.csi == nil {
		sign = -1
	}
	for h, times := range n.migrated {
		n.use(h, sign*times)
	}
}

// Place notes that a pod is on the node of a slot.
func (s *Store) Place(slot int32, pod *model.Pod) { s.place(slot, pod, +1) }

// Displace notes that a pod has left the node of a slot.
func (s *Store) Displace(slot int32, pod *model.Pod) { s.place(slot, pod, -1) }

// Nominate notes that a pod is nominated to a node (+1), or no longer (-1). It uses nothing there yet, but a dry run may put it on the node.
func (s *Store) Nominate(pod *model.Pod, sign int) {
	if pod.Volumes != nil {
		s.use(s.nominated, pod.Volumes, sign)
	}
}

func (s *Store) place(slot int32, pod *model.Pod, sign int) {
	if pod.Volumes == nil {
		return
	}
	n := s.bySlot[slot]
	n.count(s, n.csi, pod, sign)
	s.use(n, pod.Volumes, sign)
	s.touch(slot, model.Volumes)
}

// use notes that a pod on the node uses the volumes, or no longer.
func (s *Store) use(n *Node, volumes *model.PodVolumes, sign int) {
	for i, use := range volumes.Claims {
		c := s.claimOf(use.Key)
		s.refer(c.is.handle, sign)
		users := sign
		if use.Ephemeral || slices.Contains(volumes.Claims[:i], use) {
			users = 0
		}
		c.usedOn(n, sign, users)
		s.forgetClaim(c)
	}
	for i := range volumes.Inline {
		s.refer(handle{volumes.Inline[i].Driver, volumes.Inline[i].Handle}, sign)
	}
}

// usedOn notes that pods on a node name the claim so much more often, and so many more of them directly.
func (c *claim) usedOn(n *Node, times, users int) {
	i := slices.IndexFunc(c.on, func(on claimOn) bool { return on.node == n })
	if i < 0 {
		c.on = append(c.on, claimOn{n, times, users})
		return
	}
	c.on[i].users += users
	if c.on[i].times += times; c.on[i].times == 0 {
		c.on[i] = c.on[len(c.on)-1]
		c.on = c.on[:len(c.on)-1]
	}
}

// Usage is the volumes in use on a node, in a view of it.
type Usage struct {
	node *Node
	// own, unless nil, is what is in use in a view with other pods than the store knows.
	own *inUse
}

// Usage returns what is in use on the node.
func (n *Node) Usage() Usage { return Usage{node: n} }

// With returns the usage with a pod more (+1) or less (-1). It leaves the one that it is called on as it is.
func (u Usage) With(s *Store, pod *model.Pod, sign int) Usage {
	if pod.Volumes == nil {
		return u
	}
	own := u.in().clone()
	own.count(s, u.node.csi, pod, sign)
	return Usage{u.node, own}
}

func (u Usage) in() *inUse {
	if u.own != nil {
		return u.own
	}
	return &u.node.inUse
}

// CSINode returns the node's CSINode, nil if it has none.
func (u Usage) CSINode() *model.CSINode { return u.node.csi }

// Count returns how many volumes of a driver pods on the node use or are attached to it.
func (u Usage) Count(driver string) int { return u.in().volumes[driver] }

// Uses reports whether a pod on the node uses a volume.
func (u Usage) Uses(driver, name string) bool { return u.in().refs[handle{driver, name}].pods > 0 }

// DiskConflicts reports whether a pod on the node uses a disk that conflicts with one of these.
func (u Usage) DiskConflicts(disks []model.Disk) bool {
	in := u.in()
	for i := range in.disks {
		for j := range disks {
			if in.disks[i].disk.Conflicts(&disks[j]) {
				return true
			}
		}
	}
	return false
}

// Countable reports whether the volumes on the node can be counted.
func (u Usage) Countable() bool {
	in := u.in()
	return (len(in.untranslated) == 0 || u.node.csi == nil) && in.foreign() == nil
}

// Err returns why the volumes on the node cannot be counted, nil if they can.
func (u Usage) Err() error {
	in := u.in()
	if e := in.foreign(); e != nil {
		return NotOwner(e.claim, e.pod)
	}
	if len(in.untranslated) > 0 && u.node.csi != nil {
		return in.untranslated[0].err
	}
	return nil
}

// foreign returns a use of a claim that belongs to another, nil if there is none.
func (in *inUse) foreign() *ephemeral {
	for i := range in.ephemeral {
		if e := &in.ephemeral[i]; e.foreign {
			return e
		}
	}
	return nil
}

// NotOwner is the error of a pod whose ephemeral claim belongs to another.
func NotOwner(claim model.ClaimKey, pod model.PodKey) error {
	return fmt.Errorf("PVC %s was not created for pod %s (pod is not owner)", claim, pod)
}

func (in *inUse) clone() *inUse {
	c := *in
	c.refs, c.volumes, c.migrated = maps.Clone(in.refs), maps.Clone(in.volumes), maps.Clone(in.migrated)
	c.disks, c.ephemeral, c.untranslated = slices.Clone(in.disks), slices.Clone(in.ephemeral), slices.Clone(in.untranslated)
	return &c
}

// count counts the volumes of a pod.
func (in *inUse) count(s *Store, csi *model.CSINode, pod *model.Pod, sign int) {
	for _, use := range pod.Volumes.Claims {
		c := s.claims[use.Key]
		if c != nil {
			in.refer(c.is, csi, sign)
		}
		if use.Ephemeral {
			e := ephemeral{use.Key, pod.Key(), pod.UID, isForeign(c, pod.UID)}
			in.ephemeral = addOrDrop(in.ephemeral, e, sign)
		}
	}
	for _, inline := range pod.Volumes.Inline {
		if inline.Err != nil {
			in.countUntranslated(untranslated{pod.UID, inline.Err}, sign)
		} else {
			in.refer(identity{handle{inline.Driver, inline.Handle}, true}, csi, sign)
		}
	}
	for i := range pod.Volumes.Disks {
		in.countDisk(&pod.Volumes.Disks[i], sign)
	}
}

func addOrDrop[T comparable](list []T, one T, sign int) []T {
	if sign > 0 {
		return append(list, one)
	}
	return without(list, one)
}

func (in *inUse) countUntranslated(u untranslated, sign int) {
	if sign > 0 {
		in.untranslated = append(in.untranslated, u)
	} else if i := slices.IndexFunc(in.untranslated, func(o untranslated) bool { return o.uid == u.uid }); i >= 0 {
		in.untranslated = slices.Delete(in.untranslated, i, i+1)
	}
}

func isForeign(c *claim, pod types.UID) bool { return c != nil && c.Claim != nil && c.Owner != pod }

// checkOwners finds out anew which of the pods that a claim was made for own it. It reports whether that has changed.
func (in *inUse) checkOwners(c *claim) (changed bool) {
	for i := range in.ephemeral {
		if e := &in.ephemeral[i]; e.claim == c.key && e.foreign != isForeign(c, e.uid) {
			e.foreign, changed = !e.foreign, true
		}
	}
	return changed
}

func (in *inUse) countDisk(disk *model.Disk, sign int) {
	i := slices.IndexFunc(in.disks, func(d diskCount) bool {
		return d.disk.Kind == disk.Kind && d.disk.Name == disk.Name && d.disk.Pool == disk.Pool && d.disk.ReadOnly == disk.ReadOnly &&
			slices.Equal(d.disk.Monitors, disk.Monitors)
	})
	if i < 0 {
		in.disks = append(in.disks, diskCount{*disk, sign})
		return
	}
	if in.disks[i].times += sign; in.disks[i].times == 0 {
		in.disks = slices.Delete(in.disks, i, i+1)
	}
}

// refer counts references of pods to a volume.
func (in *inUse) refer(is identity, csi *model.CSINode, times int) {
	if is.driver == "" {
		return
	}
	if is.migrated {
		if in.migrated == nil {
			in.migrated = map[handle]int{}
		}
		if in.migrated[is.handle] += times; in.migrated[is.handle] == 0 {
			delete(in.migrated, is.handle)
		}
		if csi == nil {
			return
		}
	}
	in.use(is.handle, times)
}

func (in *inUse) use(h handle, times int)    { in.change(h, references{pods: times}) }
func (in *inUse) attach(h handle, times int) { in.change(h, references{attachments: times}) }

func (in *inUse) change(h handle, by references) {
	if in.refs == nil {
		in.refs, in.volumes = map[handle]references{}, map[string]int{}
	}
	before := in.refs[h]
	now := references{before.pods + by.pods, before.attachments + by.attachments}
	switch {
	case now == references{}:
		delete(in.refs, h)
	default:
		in.refs[h] = now
	}
	if (before == references{}) == (now == references{}) {
		return
	}
	if now != (references{}) {
		in.volumes[h.driver]++
	} else if in.volumes[h.driver]--; in.volumes[h.driver] == 0 {
		delete(in.volumes, h.driver)
	}
}
