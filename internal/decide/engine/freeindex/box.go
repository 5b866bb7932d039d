package freeindex

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Demand is the amounts that must be free for a pod, besides room for one more pod. An
// amount of 0 is not compared.
type Demand struct{ CPUMilli, MemoryBytes, EphemeralBytes int64 }

// fits reports whether a node has the demand free.
func (d *Demand) fits(n *state.NodeAmounts) bool {
	return n.Pods-n.UsedPods >= 1 &&
		(d.CPUMilli <= 0 || n.CPUMilli-n.UsedCPUMilli >= d.CPUMilli) &&
		(d.MemoryBytes <= 0 || n.MemoryBytes-n.UsedMemoryBytes >= d.MemoryBytes) &&
		(d.EphemeralBytes <= 0 || n.EphemeralBytes-n.UsedEphemeralBytes >= d.EphemeralBytes)
}

// Keep drops the slots of nodes into which the demand does not fit, in place. Its loop
// has no branch that depends on a node, because neighbours differ.
func (d *Demand) Keep(slots []int32, amounts []state.NodeAmounts) []int32 {
	n := 0
	cpu, memory, ephemeral := limitOf(d.CPUMilli), limitOf(d.MemoryBytes), limitOf(d.EphemeralBytes)
	for _, slot := range slots {
		a := &amounts[slot]
		short := (a.Pods - a.UsedPods - 1) | cpu.short(a.CPUMilli, a.UsedCPUMilli) |
			memory.short(a.MemoryBytes, a.UsedMemoryBytes) | ephemeral.short(a.EphemeralBytes, a.UsedEphemeralBytes)
		slots[n] = slot
		n += int(1 + short>>63)
	}
	return slots[:n]
}

// limit is an amount that must be free. mask is 0 if the amount is not compared.
type limit struct{ amount, mask int64 }

func limitOf(amount int64) limit {
	if amount <= 0 {
		return limit{}
	}
	return limit{amount, -1}
}

// short is negative if less is free. Neither of the amounts is negative, so free is at
// least 1-2⁶³, and only its difference from the amount may overflow.
func (l limit) short(size, used int64) int64 {
	free := size - used
	d := free - l.amount
	return (d ^ (free^l.amount)&(d^free)) & l.mask
}

// box bounds the amounts of some nodes.
type box struct {
	least, most free
	plugin.AmountBox
}

// free are the amounts that pods can still request on a node.
type free struct{ cpuMilli, memoryBytes, ephemeralBytes, pods int64 }

// meets reports whether the demand fits into the amounts.
func (f *free) meets(d *Demand) bool {
	return f.pods >= 1 && (d.CPUMilli <= 0 || f.cpuMilli >= d.CPUMilli) &&
		(d.MemoryBytes <= 0 || f.memoryBytes >= d.MemoryBytes) &&
		(d.EphemeralBytes <= 0 || f.ephemeralBytes >= d.EphemeralBytes)
}

// largest is a size from which a node is evaluated without bounds. Below it, floating
// point numbers hold every sum of two amounts exactly.
const largest = 1 << 52

// isRegular reports whether bounds apply to a node: plugins skip a resource that a node
// has nothing of.
func isRegular(n *state.NodeAmounts) bool {
	return n.CPUMilli > 0 && n.CPUMilli < largest && n.MemoryBytes > 0 && n.MemoryBytes < largest
}

// boxOf returns the box of one regular node.
func boxOf(n *state.NodeAmounts) (b box) {
	b.least = free{n.CPUMilli - n.UsedCPUMilli, n.MemoryBytes - n.UsedMemoryBytes, n.EphemeralBytes - n.UsedEphemeralBytes, n.Pods - n.UsedPods}
	b.most = b.least
	cpu, memory := float64(n.CPUMilli), float64(n.MemoryBytes)
	at := plugin.AmountPoint{
		CPUMilli: cpu, MemoryBytes: memory,
		FreeCPU: 1 - float64(n.NonZeroCPUMilli)/cpu, FreeMemory: 1 - float64(n.NonZeroMemoryBytes)/memory,
		Skew: min(float64(n.UsedCPUMilli)/cpu, 1) - min(float64(n.UsedMemoryBytes)/memory, 1),
	}
	at.Free = at.FreeCPU + at.FreeMemory
	b.Least, b.Most = at, at
	return b
}

// widen includes another box.
func (b *box) widen(o *box) {
	b.least = free{
		min(b.least.cpuMilli, o.least.cpuMilli), min(b.least.memoryBytes, o.least.memoryBytes),
		min(b.least.ephemeralBytes, o.least.ephemeralBytes), min(b.least.pods, o.least.pods),
	}
	b.most = free{
		max(b.most.cpuMilli, o.most.cpuMilli), max(b.most.memoryBytes, o.most.memoryBytes),
		max(b.most.ephemeralBytes, o.most.ephemeralBytes), max(b.most.pods, o.most.pods),
	}
	l, m := &b.Least, &b.Most
	*l = plugin.AmountPoint{
		CPUMilli: min(l.CPUMilli, o.Least.CPUMilli), MemoryBytes: min(l.MemoryBytes, o.Least.MemoryBytes),
		FreeCPU: min(l.FreeCPU, o.Least.FreeCPU), FreeMemory: min(l.FreeMemory, o.Least.FreeMemory),
		Free: min(l.Free, o.Least.Free), Skew: min(l.Skew, o.Least.Skew),
	}
	*m = plugin.AmountPoint{
		CPUMilli: max(m.CPUMilli, o.Most.CPUMilli), MemoryBytes: max(m.MemoryBytes, o.Most.MemoryBytes),
		FreeCPU: max(m.FreeCPU, o.Most.FreeCPU), FreeMemory: max(m.FreeMemory, o.Most.FreeMemory),
		Free: max(m.Free, o.Most.Free), Skew: max(m.Skew, o.Most.Skew),
	}
}

// cell is a square of the plane of free cpu and free memory.
type cell struct{ cpu, memory, half float64 }

var plane = cell{0.5, 0.5, 0.5}

// quadrant returns the quarter of the cell that has the node of a box.
func (c *cell) quadrant(b *box) int {
	q := 0
	if b.Least.FreeCPU >= c.cpu {
		q = 1
	}
	if b.Least.FreeMemory >= c.memory {
		q |= 2
	}
	return q
}

// quarter returns a quarter of the cell.
func (c *cell) quarter(q int) cell {
	half := c.half / 2
	return cell{c.cpu + math.Copysign(half, float64(q&1)-0.5), c.memory + math.Copysign(half, float64(q&2)-0.5), half}
}
