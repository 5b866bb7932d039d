package noderesourcesfit

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// FilterAmounts does what Filter does, for needs without scalars.
func (f *filter) FilterAmounts(nodes []state.NodeAmounts, codes []reason.Code) {
	for i := range nodes {
		n := &nodes[i]
		codes[i] = tooManyPods&ifNegative(n.Pods-n.UsedPods-1) |
			f.cpuMilli.shortage(n.CPUMilli, n.UsedCPUMilli) |
			f.memoryBytes.shortage(n.MemoryBytes, n.UsedMemoryBytes) |
			f.ephemeralBytes.shortage(n.EphemeralBytes, n.UsedEphemeralBytes)
	}
}

// two is a scorer's parts if it counts cpu and memory alone. A resource that is not
// configured has the weight 0.
type two struct {
	cpuMilli, memoryBytes   int64
	cpuWeight, memoryWeight int64
	more                    bool // it counts other resources
}

func cpuAndMemory(parts []part) (t two) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.resource.IsCPU():
			t.cpuMilli, t.cpuWeight = p.asked, p.weight
		case p.resource.IsMemory():
			t.memoryBytes, t.memoryWeight = p.asked, p.weight
		default:
			t.more = true
		}
	}
	return t
}

// scores returns the scores of a scorer with these parts.
func (t *two) scores(by interface {
	plugin.RawScores
	plugin.AmountScores
}) plugin.NodeScores {
	if t.more {
		return plugin.NodeScores{RawScores: by}
	}
	return plugin.NodeScores{RawScores: by, Amounts: by}
}

// ScoreAmounts does what Score does, for cpu and memory.
func (s *leastAllocated) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) {
	for i := range nodes {
		n := &nodes[i]
		var m weightedMean
		if capacity := n.CPUMilli; capacity != 0 {
			m.add(amount.Percent(max(capacity-amount.Add(n.NonZeroCPUMilli, s.two.cpuMilli), 0), capacity), s.two.cpuWeight)
		}
		if capacity := n.MemoryBytes; capacity != 0 {
			m.add(amount.Percent(max(capacity-amount.Add(n.NonZeroMemoryBytes, s.two.memoryBytes), 0), capacity), s.two.memoryWeight)
		}
		scores[i] = m.value()
	}
}

// ScoreAmounts does what Score does, for cpu and memory.
func (s *mostAllocated) ScoreAmounts(nodes []state.NodeAmounts, scores []int32) {
	for i := range nodes {
		n := &nodes[i]
		var m weightedMean
		if capacity := n.CPUMilli; capacity != 0 {
			m.add(amount.Percent(min(amount.Add(n.NonZeroCPUMilli, s.two.cpuMilli), capacity), capacity), s.two.cpuWeight)
		}
		if capacity := n.MemoryBytes; capacity != 0 {
			m.add(amount.Percent(min(amount.Add(n.NonZeroMemoryBytes, s.two.memoryBytes), capacity), capacity), s.two.memoryWeight)
		}
		scores[i] = m.value()
	}
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

// slack is more than the rounding errors of a bound, in percent.
const slack = 1e-5

// BoundAmounts returns an upper bound of the score on the nodes of a box: the mean of the
// largest free shares of cpu and memory. Nodes that are used alike have more free cpu the
// less memory they have free, so half of the largest sum of both shares is a better
// bound. The sum does not apply where a free share may be below the request: the share
// counts as 0 there.
func (s *leastAllocated) BoundAmounts(box *plugin.AmountBox) int32 {
	c, m := float64(s.two.cpuMilli), float64(s.two.memoryBytes)
	share := func(free float64) int64 { return int64(max(100*free+slack, 0)) }
	var mean weightedMean
	mean.add(share(box.Most.FreeCPU-c/box.Most.CPUMilli), s.two.cpuWeight)
	mean.add(share(box.Most.FreeMemory-m/box.Most.MemoryBytes), s.two.memoryWeight)
	bound := mean.value()
	if s.two.cpuWeight == s.two.memoryWeight && box.Least.FreeCPU >= c/box.Least.CPUMilli && box.Least.FreeMemory >= m/box.Least.MemoryBytes {
		sum := box.Most.Free - c/box.Most.CPUMilli - m/box.Most.MemoryBytes
		bound = min(bound, int32(min(50*sum+slack, 100)))
	}
	return bound
}

// BoundAmounts returns the mean of the largest used shares, or half of the largest sum.
func (s *mostAllocated) BoundAmounts(box *plugin.AmountBox) int32 {
	c, m := float64(s.two.cpuMilli), float64(s.two.memoryBytes)
	share := func(free float64) int64 { return int64(max(min(100*(1-free)+slack, 100), 0)) }
	var mean weightedMean
	mean.add(share(box.Least.FreeCPU-c/box.Least.CPUMilli), s.two.cpuWeight)
	mean.add(share(box.Least.FreeMemory-m/box.Least.MemoryBytes), s.two.memoryWeight)
	bound := mean.value()
	if s.two.cpuWeight == s.two.memoryWeight {
		sum := 2 - box.Least.Free + c/box.Least.CPUMilli + m/box.Least.MemoryBytes
		bound = min(bound, int32(min(50*sum+slack, 100)))
	}
	return bound
}
