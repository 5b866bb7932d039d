package state

import (
	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// NodeAmounts are the amounts of one node that most pods are compared with, side by side
// in memory. The same amounts of a Node lie in four arrays and behind a pointer. A slot
// without a node has zeros.
type NodeAmounts struct {
	// CPUMilli, MemoryBytes, EphemeralBytes and Pods are allocatable.
	CPUMilli, MemoryBytes, EphemeralBytes, Pods int64
	// These are used by the pods on the node, as Node.Used and Node.PodCount return them.
	UsedCPUMilli, UsedMemoryBytes, UsedEphemeralBytes, UsedPods int64
	// These are Node.NonZeroUsed.
	NonZeroCPUMilli, NonZeroMemoryBytes int64
}

// amountsReads are the aspects that NodeAmounts depend on.
const amountsReads = model.Usage | model.Allocatable | model.Presence

// amounts holds the NodeAmounts of all nodes. It follows the journal, so only decisions
// that read it pay for it.
type amounts struct {
	bySlot []NodeAmounts
	// version is the version of the journal at which bySlot is up to date.
	version uint64
}

// NodeAmounts returns the amounts by slot. The slice is the state's own and valid until
// the next change. The goroutine that owns the state must call it.
func (s *State) NodeAmounts() []NodeAmounts {
	a := &s.amounts
	entries, ok := s.Since(a.version)
	if n := len(s.alive); n > len(a.bySlot) {
		a.bySlot = append(a.bySlot, make([]NodeAmounts, n-len(a.bySlot))...)
	} else {
		a.bySlot = a.bySlot[:n]
	}
	a.version = s.Version()
	if !ok || len(entries) > len(a.bySlot) {
		for slot := range a.bySlot {
			a.bySlot[slot] = s.amountsOf(int32(slot))
		}
		return a.bySlot
	}
	for _, e := range entries {
		if e.Aspects&amountsReads != 0 {
			a.bySlot[e.Slot] = s.amountsOf(e.Slot)
		}
	}
	return a.bySlot
}

func (s *State) amountsOf(slot int32) NodeAmounts {
	if !s.alive[slot] {
		return NodeAmounts{}
	}
	size, used, nonZero := &s.node[slot].Allocatable, &s.used[slot], &s.nonZero[slot]
	return NodeAmounts{
		CPUMilli: size.CPUMilli, MemoryBytes: size.MemoryBytes, EphemeralBytes: size.EphemeralBytes,
		Pods:         s.node[slot].AllowedPods,
		UsedCPUMilli: used.CPUMilli, UsedMemoryBytes: used.MemoryBytes, UsedEphemeralBytes: used.EphemeralBytes,
		UsedPods:        int64(len(s.pods[slot])),
		NonZeroCPUMilli: nonZero.CPUMilli, NonZeroMemoryBytes: nonZero.MemoryBytes,
	}
}

// auditAmounts checks the amounts of the nodes without a change since they were read.
func (s *State) auditAmounts(v *audit.Violations) {
	a := &s.amounts
	entries, ok := s.Since(a.version)
	if !ok || len(a.bySlot) == 0 {
		return // the next reader reads all nodes
	}
	changed := map[int32]bool{}
	for _, e := range entries {
		changed[e.Slot] = changed[e.Slot] || e.Aspects&amountsReads != 0
	}
	for slot := range min(len(a.bySlot), len(s.alive)) {
		if want := s.amountsOf(int32(slot)); !changed[int32(slot)] && a.bySlot[slot] != want {
			v.Add("the amounts of slot %d are %+v, want %+v", slot, a.bySlot[slot], want)
		}
	}
}
