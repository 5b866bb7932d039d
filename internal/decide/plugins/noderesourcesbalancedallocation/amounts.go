package noderesourcesbalancedallocation

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/plugin"
)

var _ plugin.AmountScores = (*scorer)(nil)

// ScoreAmounts does what Score does, for cpu and memory.
func (s *scorer) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) bool {
	if len(s.parts) != 2 || !s.parts[0].resource.IsCPU() || !s.parts[1].resource.IsMemory() {
		return false
	}
	cpu, memory := s.parts[0].asked, s.parts[1].asked
	for i := range nodes {
		n := &nodes[i]
		if n.CPUMilli == 0 || n.MemoryBytes == 0 { // fewer than two fractions do not differ
			scores[i] = 50 + 50/2
			continue
		}
		before := balance(fraction(n.UsedCPUMilli, n.CPUMilli), fraction(n.UsedMemoryBytes, n.MemoryBytes))
		after := balance(
			fraction(amount.Add(n.UsedCPUMilli, cpu), n.CPUMilli), fraction(amount.Add(n.UsedMemoryBytes, memory), n.MemoryBytes))
		scores[i] = 50 + (50+after-before)/2
	}
	return true
}

// balance is 100 for equal fractions, minus half of their difference in percent.
func balance(a, b float64) int32 { return int32(float64(1-math.Abs(a-b)/2) * 100) }
