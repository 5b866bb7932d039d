package noderesourcesbalancedallocation

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// ScoreAmounts does what Score does, for cpu and memory.
func (s *scorer) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) {
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
}

// isCPUAndMemory reports whether cpu and memory count for the pod, and nothing else.
func (s *scorer) isCPUAndMemory() bool {
	return len(s.parts) == 2 && s.parts[0].resource.IsCPU() && s.parts[1].resource.IsMemory()
}

// balance is 100 for equal fractions, minus half of their difference in percent.
func balance(a, b float64) int32 { return int32(float64(1-math.Abs(a-b)/2) * 100) }

// slack is more than the rounding errors of a bound, in percent.
const slack = 1e-5

// BoundAmounts returns an upper bound of the score on the nodes of a box. The score grows
// with the difference between the balance after and the balance before, which is bounded
// in two ways; the smaller bound counts. The difference of the fractions is x before and
// x + d after, with x the skew of a node and d the shares that the pod adds.
//
// First, the balance after is highest for the x + d nearest to 0, and the balance before
// is lowest for the x farthest from 0. Second, |x| - |x+d| is monotone in x, so it is
// largest at an end of the box.
func (s *scorer) BoundAmounts(box *plugin.AmountBox) int32 {
	c, m := float64(s.parts[0].asked), float64(s.parts[1].asked)
	low := c/box.Most.CPUMilli - m/box.Least.MemoryBytes
	high := c/box.Least.CPUMilli - m/box.Most.MemoryBytes
	x, y := box.Least.Skew, box.Most.Skew
	before := math.Floor(100 - 50*max(math.Abs(x), math.Abs(y)) - slack)
	after := math.Floor(100 - 50*distance(0, x+low, y+high) + slack)
	gain := max(math.Abs(x)-distance(-x, low, high), math.Abs(y)-distance(-y, low, high))
	most := min(int32(after-before), int32(math.Floor(50*gain+slack))+1)
	return 50 + (50+most)/2
}

// distance returns the distance of a number from an interval.
func distance(of, low, high float64) float64 { return max(low-of, of-high, 0) }
