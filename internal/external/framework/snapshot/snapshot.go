// Package snapshot provides the nodes and devices, as of the beginning of a pod's turn,
// to out-of-tree plugins.
//
// It takes views of the state. It returns one permanent lister, whose content changes
// when the next turn begins, and the NodeInfo of a node in a dry run. It owns the
// NodeInfos, which are built on first use and again only when the journal lists the node.
// Chunked arrays of them share unchanged chunks across contents. It never writes to the
// state, and no NodeInfo reads the state later: a plugin that hangs, or binds, may go on
// reading while the loop continues.
package snapshot

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Snapshot follows a state. The goroutine that owns the state calls Update. Between
// updates several goroutines may call NodeInfoIn.
type Snapshot struct {
	lister  Lister
	images  images
	types   *framework.Types
	devices Devices
	// of is the state, version and objects the positions in its journals at the last
	// Update.
	of               *state.State
	version, objects uint64
	// drafted are slots that had a draft's differences.
	drafted []int32
	// stale are the slots to rebuild, each once; marks has the members. Both are reused.
	stale []int32
	marks []bool
	built int
}

// reads are the aspects of a node that a NodeInfo depends on.
const reads = model.Static | model.Usage | model.Ports | model.PodLabels | model.Starts | model.Presence

// New returns a snapshot without nodes, with values of these types.
func New(types *framework.Types) *Snapshot {
	s := &Snapshot{types: types}
	s.lister.content.Store(&content{types: types})
	s.images.lister = &s.lister
	return s
}

// Lister returns the plugins' lister: always the same object, safe for concurrent use.
func (s *Snapshot) Lister() *Lister { return &s.lister }

// Devices returns the plugins' devices and claims: always the same object, safe for
// concurrent use.
func (s *Snapshot) Devices() *Devices { return &s.devices }

// Update sets the lister's content to a view. The cost is proportional to the changes
// since the last call.
func (s *Snapshot) Update(v state.View) {
	s.devices.update(v)
	s.collect(v)
	before := s.lister.content.Load()
	if len(s.stale) == 0 && before.slots == v.State().Slots() {
		return
	}
	after := before.withSlots(v.State().Slots())
	renamed := after.slots < before.slots
	for _, slot := range s.stale {
		s.marks[slot] = false
		var now entry
		if v.State().Alive()[slot] {
			now = s.build(v, slot, before.at(slot).pods)
			s.built++
		}
		renamed = renamed || before.at(slot).name() != now.name()
		*after.own(before, slot) = now
	}
	s.stale = s.stale[:0]
	if renamed {
		after.index()
	} else {
		after.byName = before.byName
	}
	s.lister.content.Store(after)
}

// collect finds the slots whose NodeInfo differs from the view.
func (s *Snapshot) collect(v state.View) {
	of := v.State()
	slots := of.Slots()
	s.marks = append(s.marks, make([]bool, max(0, slots-len(s.marks)))...)[:slots]
	entries, ok := of.Since(s.version)
	replaced, known := of.ObjectsSince(s.objects)
	if s.of != of || !ok || !known {
		for slot := range slots {
			s.mark(int32(slot))
		}
	}
	for _, e := range entries {
		if e.Aspects&reads != 0 {
			s.mark(e.Slot)
		}
	}
	for _, e := range replaced {
		s.mark(e.Slot)
	}
	for _, slot := range s.drafted {
		s.mark(slot)
	}
	s.drafted = append(s.drafted[:0], v.Touched()...)
	for _, slot := range s.drafted {
		s.mark(slot)
	}
	s.of, s.version, s.objects = of, of.Version(), of.ObjectsVersion()
}

func (s *Snapshot) mark(slot int32) {
	// A slot that was cut off since has no node.
	if slot >= 0 && int(slot) < len(s.marks) && !s.marks[slot] {
		s.marks[slot] = true
		s.stale = append(s.stale, slot)
	}
}

// NodeInfoIn returns the NodeInfo of a node in a view of the turn: the lister's, or a new
// one if the view's draft changed its pods. Without a node it returns nil.
func (s *Snapshot) NodeInfoIn(v state.View, slot int32) fwk.NodeInfo {
	shown := s.lister.content.Load().at(slot)
	switch {
	case shown.info == nil:
		return nil
	case v.IsTouched(slot):
		return s.types.ShownNode(s.build(v, slot, shown.pods).info)
	}
	return s.types.ShownNode(shown.info)
}

// NodeInfosIn appends the NodeInfos of nodes in a view of the turn to a list.
func (s *Snapshot) NodeInfosIn(v state.View, slots []int32, list []fwk.NodeInfo) []fwk.NodeInfo {
	shown, drafted := s.lister.content.Load(), len(v.Touched()) > 0
	list = slices.Grow(list, len(slots))
	for _, slot := range slots {
		if drafted {
			list = append(list, s.NodeInfoIn(v, slot))
		} else if info := shown.at(slot).info; info != nil {
			list = append(list, s.types.ShownNode(info))
		} else {
			list = append(list, nil)
		}
	}
	return list
}

// build builds a NodeInfo, and reuses PodInfos.
func (s *Snapshot) build(v state.View, slot int32, before []fwk.PodInfo) entry {
	node := v.Node(slot)
	cpuMilli, memoryBytes := node.NonZeroUsed()
	info, pods := framework.Assemble(framework.Parts{
		Node: node.Model(), Pods: v.PodsOn(slot), PodCount: node.PodCount(), Used: node.Used(),
		NonZeroCPUMilli: cpuMilli, NonZeroMemoryBytes: memoryBytes, Images: &s.images, Before: before,
	})
	return entry{info, node.Model(), pods}
}
