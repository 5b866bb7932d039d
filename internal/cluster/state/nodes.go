package state

import (
	"hash/fnv"

	"github.com/berth-scheduler/berth/internal/model"
)

func (s *State) setNode(node *model.Node, delta *Delta) {
	if slot, exists := s.Slot(node.Name); exists {
		if s.node[slot].Object.UID == node.Object.UID {
			s.updateNode(slot, node, delta)
			return
		}
		// The node was deleted and created again under the same name before the deletion
		// was seen. kube-scheduler emits an addition if its watch showed both, and an
		// update if it listed the nodes again. A plugin that registers any update of a
		// node registers additions too. So the events of a deletion and an addition wake
		// every pod that either would wake.
		s.removeNode(node.Name, delta)
	}
	slot, known := s.slotOf[node.Name]
	if !known {
		slot = s.newSlot(node.Name)
	}
	s.rejoin(slot, func() { s.alive[slot], s.node[slot] = true, node })
	s.storage.SetNode(slot, true, node.Object.Labels)
	s.devices.SetNode(slot, true, node.Object.Labels)
	s.nodes++
	s.countImages(nil, node.Images)
	s.journal.add(slot, model.AllAspects)
	s.nominations.unsorted = true
	delta.Events = append(delta.Events, model.Event{Resource: model.NodeEvent, Action: model.Add, Node: node, Classes: s.devices})
}

func (s *State) updateNode(slot int32, node *model.Node, delta *Delta) {
	before := s.node[slot]
	changed := model.Changed(before, node)
	if changed&rejoins != 0 {
		s.rejoin(slot, func() { s.node[slot] = node })
	} else {
		s.node[slot] = node
	}
	if changed&model.Labels != 0 {
		s.storage.SetNode(slot, true, node.Object.Labels)
		s.devices.SetNode(slot, true, node.Object.Labels)
	}
	if changed&model.Images != 0 {
		s.countImages(before.Images, node.Images)
	}
	switch {
	case changed != 0:
		s.journal.add(slot, changed)
	case before.Object != node.Object:
		s.objectReplaced(slot)
	}
	for _, action := range model.NodeUpdates(before, node) {
		delta.Events = append(delta.Events, model.Event{Resource: model.NodeEvent, Action: action, OldNode: before, Node: node, Classes: s.devices})
	}
}

func (s *State) removeNode(name string, delta *Delta) {
	slot, ok := s.Slot(name)
	if !ok {
		return
	}
	node := s.node[slot]
	delta.Events = append(delta.Events, model.Event{Resource: model.NodeEvent, Action: model.Delete, OldNode: node, Classes: s.devices})
	s.rejoin(slot, func() { s.alive[slot], s.node[slot] = false, nil })
	s.storage.SetNode(slot, false, nil)
	s.devices.SetNode(slot, false, nil)
	s.nodes--
	s.countImages(node.Images, nil)
	s.journal.add(slot, model.AllAspects)
	s.nominations.unsorted = true
	s.releaseIfEmpty(slot)
}

// newSlot assigns a slot to a name. It keeps the slot while a node or pods need it.
func (s *State) newSlot(name string) int32 {
	var slot int32
	if len(s.free) > 0 {
		slot = s.free.take()
	} else {
		slot = int32(len(s.alive))
		s.alive = append(s.alive, false)
		s.node = append(s.node, nil)
		s.name = append(s.name, "")
		s.nameHash = append(s.nameHash, 0)
		s.used = append(s.used, model.Sum{})
		s.nonZero = append(s.nonZero, model.Sum{})
		s.pods = append(s.pods, nil)
		s.ports = append(s.ports, portCounts{})
		s.bands, s.banded = append(s.bands, nil), append(s.banded, 0)
		s.growCounts()
		if int(slot) < s.cutFrom {
			// A reader may have a value of the slot that was cut off.
			s.journal.add(slot, model.AllAspects)
		}
	}
	s.slotOf[name] = slot
	s.name[slot] = name
	s.nameHash[slot] = HashName(name)
	s.storage.Seat(slot, name)
	s.devices.Seat(slot, name)
	return slot
}

// growCounts adds a new slot to every slice of counts by slot.
func (s *State) growCounts() {
	s.absent.of = append(s.absent.of, noDomain)
	for _, t := range s.topologies {
		t.of = append(t.of, noDomain)
	}
	for _, c := range s.tallies.chosen {
		s.tallies.bytes -= c.bytes()
		c.has = append(c.has, false)
		s.tallies.bytes += c.bytes()
	}
	for _, m := range s.tallies.memberships {
		s.tallies.bytes -= m.bytes()
		m.in = append(m.in, noDomain)
		s.tallies.bytes += m.bytes()
	}
}

// cutCounts removes the slots from n on from every slice of counts by slot. They hold
// nothing.
func (s *State) cutCounts(n int) {
	s.absent.of = cutTo(s.absent.of, n)
	for _, t := range s.topologies {
		t.of = cutTo(t.of, n)
	}
	for _, c := range s.tallies.chosen {
		s.tallies.bytes -= c.bytes()
		c.has = cutTo(c.has, n)
		s.tallies.bytes += c.bytes()
	}
	for _, m := range s.tallies.memberships {
		s.tallies.bytes -= m.bytes()
		m.in = cutTo(m.in, n)
		s.tallies.bytes += m.bytes()
	}
}

func (s *State) releaseIfEmpty(slot int32) {
	if s.alive[slot] || len(s.pods[slot]) > 0 {
		return
	}
	delete(s.slotOf, s.name[slot])
	s.storage.Unseat(slot)
	s.devices.Unseat(slot)
	s.used[slot], s.nonZero[slot], s.ports[slot], s.pods[slot] = model.Sum{}, model.Sum{}, portCounts{}, nil
	s.bands[slot] = nil
	s.free.put(slot)
}

// countImages counts a node's new images and uncounts its lost ones. An image that stays
// keeps the size that was reported first, unless no other node has it: then it gets its
// new size, as in kube-scheduler.
func (s *State) countImages(before, after map[string]int64) {
	s.spread++
	for name, size := range after {
		i := s.images[name]
		if _, had := before[name]; had {
			if i.nodes == 1 {
				i.sizeBytes = size
			}
			continue
		}
		if i == nil {
			i = &image{sizeBytes: size}
			s.images[name] = i
		}
		i.nodes++
	}
	for name := range before {
		if _, has := after[name]; has {
			continue
		}
		if i := s.images[name]; i.nodes > 1 {
			i.nodes--
		} else {
			delete(s.images, name)
		}
	}
}

// HashName returns a hash that is the same in every process, for choices that must be
// repeatable.
func HashName(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
