package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// Node has the volumes in use on a node.
type Node struct {
	name string
	slot int32 // -1 without a slot
	// alive means that the node exists; labels are its own.
	alive  bool
	labels labels.Set
	csi    *model.CSINode
	// Invariant: attachments is the number of complete attachments that name the node.
	attachments int
	// Invariant: reaches are the reaches with the node, each once, in no particular
	// order. A node that does not exist has none.
	reaches []*reach
	// Invariant: uses are the uses of claims by its pods; none has 0 times.
	uses map[*claim]*use

	inUse
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
		s.changed(n.slot, model.Volumes)
	}
}

// Seat assigns a slot to a node, which keeps it until Unseat.
func (s *Store) Seat(slot int32, name string) {
	for int(slot) >= len(s.bySlot) {
		s.bySlot = append(s.bySlot, nil)
	}
	n := s.nodeOf(name)
	n.slot = slot
	s.bySlot[slot] = n
}

// Unseat releases the slot of a node, which does not exist and has no pods.
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

// Cut removes the slots from n on, which no node has.
func (s *Store) Cut(n int) {
	clear(s.bySlot[n:])
	s.bySlot = s.bySlot[:n]
	if cap(s.bySlot) > 2*max(n, 1024) {
		s.bySlot = slices.Clone(s.bySlot)
	}
}

// At returns the node of a slot in use.
func (s *Store) At(slot int32) *Node { return s.bySlot[slot] }

// SetNode sets whether the node of a slot exists, and its labels.
func (s *Store) SetNode(slot int32, exists bool, of labels.Set) {
	n := s.bySlot[slot]
	if !exists {
		of = nil
	}
	if n.alive != exists {
		sign := +1
		if n.alive {
			sign = -1
		}
		for c, x := range n.uses {
			c.users += sign * x.users
		}
	}
	before, was := n.labels, n.alive
	n.labels, n.alive = of, exists
	s.reaches.moveNode(s, n, before, was)
}

// setCSINode stores a CSINode. In-tree volumes count on a node only while it has a
// CSINode.
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

// recount adds the in-tree volumes of a node's pods after its CSINode was added, or
// removes them after it was deleted.
func (s *Store) recount(n *Node) {
	sign := +1
	if n.csi == nil {
		sign = -1
	}
	for h, times := range n.migrated {
		n.use(h, sign*times)
	}
}

// Place adds a pod to the node of a slot.
func (s *Store) Place(slot int32, pod *model.Pod) { s.place(slot, pod, +1) }

// Displace removes a pod from the node of a slot.
func (s *Store) Displace(slot int32, pod *model.Pod) { s.place(slot, pod, -1) }

// Nominate adds a nomination of a pod (+1) or removes it (-1). The pod uses nothing yet,
// but a dry run may put it on the node.
func (s *Store) Nominate(pod *model.Pod, sign int) {
	if pod.Volumes == nil {
		return
	}
	for i := range pod.Volumes.Claims {
		s.claimOf(pod.Volumes.Claims[i].Key).nominate(pod.NominatedNode, sign)
	}
	s.use(s.nominated, pod.Volumes, sign)
}

func (s *Store) place(slot int32, pod *model.Pod, sign int) {
	volumes := pod.Volumes
	if volumes == nil {
		return
	}
	n := s.bySlot[slot]
	if sign > 0 { // claims have an identity only while they are in use
		s.use(n, volumes, +1)
	}
	n.count(s, n.csi, pod, sign)
	if sign < 0 {
		s.use(n, volumes, -1)
	}
	s.touchVolumes(n)
}
