package noderesourcesfit

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

var (
	_ plugin.AmountVerdicts = (*filter)(nil)
	_ plugin.AmountScores   = (*leastAllocated)(nil)
	_ plugin.AmountScores   = (*mostAllocated)(nil)
)

// FilterAmounts does what Filter does, for needs without scalars.
func (f *filter) FilterAmounts(nodes []state.NodeAmounts, codes []reason.Code) bool {
	if len(f.scalars) > 0 {
		return false
	}
	for i := range nodes {
		n := &nodes[i]
		codes[i] = tooManyPods&ifNegative(n.Pods-n.UsedPods-1) |
			f.cpuMilli.shortage(n.CPUMilli, n.UsedCPUMilli) |
			f.memoryBytes.shortage(n.MemoryBytes, n.UsedMemoryBytes) |
			f.ephemeralBytes.shortage(n.EphemeralBytes, n.UsedEphemeralBytes)
	}
	return true
}

// cpuAndMemory returns the amounts asked and the weights of a scorer that counts cpu and
// memory alone. A resource that is not configured has the weight 0.
func cpuAndMemory(parts []part) (cpu, memory part, ok bool) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.resource.IsCPU():
			cpu = *p
		case p.resource.IsMemory():
			memory = *p
		default:
			return cpu, memory, false
		}
	}
	return cpu, memory, true
}

// ScoreAmounts does what Score does, for cpu and memory.
func (s *leastAllocated) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) bool {
	cpu, memory, ok := cpuAndMemory(s.parts)
	if !ok {
		return false
	}
	for i := range nodes {
		n := &nodes[i]
		var m weightedMean
		if capacity := n.CPUMilli; capacity != 0 {
			m.add(amount.Percent(max(capacity-amount.Add(n.NonZeroCPUMilli, cpu.asked), 0), capacity), cpu.weight)
		}
		if capacity := n.MemoryBytes; capacity != 0 {
			m.add(amount.Percent(max(capacity-amount.Add(n.NonZeroMemoryBytes, memory.asked), 0), capacity), memory.weight)
		}
		scores[i] = m.value()
	}
	return true
}

// ScoreAmounts does what Score does, for cpu and memory.
func (s *mostAllocated) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) bool {
	cpu, memory, ok := cpuAndMemory(s.parts)
	if !ok {
		return false
	}
	for i := range nodes {
		n := &nodes[i]
		var m weightedMean
		if capacity := n.CPUMilli; capacity != 0 {
			m.add(amount.Percent(min(amount.Add(n.NonZeroCPUMilli, cpu.asked), capacity), capacity), cpu.weight)
		}
		if capacity := n.MemoryBytes; capacity != 0 {
			m.add(amount.Percent(min(amount.Add(n.NonZeroMemoryBytes, memory.asked), capacity), capacity), memory.weight)
		}
		scores[i] = m.value()
	}
	return true
}

// weightedMean is the mean of some scores.
type weightedMean struct{ sum, weights int64 }

func (m *weightedMean) add(score, weight int64) {
	m.sum, m.weights = m.sum+score*weight, m.weights+weight
}

func (m *weightedMean) value() int32 {
	if m.weights == 2 { // the default; a shift is faster than a division
		return int32(m.sum / 2)
	}
	return mean(m.sum, m.weights)
}
