package noderesourcesbalancedallocation

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

// part is one resource that counts for a pod.
type part struct {
	resource model.ResourceKey
	asked    int64
	// devices counts those that stand for the resource on nodes that have none of it; nil if none do.
	devices *allocator.Counter
}

// fractions returns the fraction of the node's resource in use, without the pod and with it. ok is false for nodes without the resource.
func (p *part) fractions(node state.Node) (before, after float64, ok bool) {
	capacity, taken := p.resource.In(node.Allocatable()), p.resource.In(node.Used())
	if p.devices != nil && capacity == 0 {
		if capacity, taken, ok = p.devices.Count(node.Devices(), node.Slot(), node.Object()); !ok {
			return 0, 0, false
		}
	}
	if capacity == 0 {
		return 0, 0, false
	}
	return fraction(taken, capacity), fraction(amount.Add(taken, p.asked), capacity), true
}

// fraction is at most 1, also on a node with more in use than it has.
func fraction(used, capacity int64) float64 {
	if used > capacity {
		return 1
	}
	return float64(used) / float64(capacity)
}

// scorer is a compiled need.
//
// Its floating point must equal kube-scheduler's to the last bit, because the last bit decides how a score is truncated. So the order of
// operations is part of the result, and a product is rounded by an explicit conversion before it is added to something: the Go specification
// lets a compiler fuse x*y + z into one operation with another result, except across a conversion.
type scorer struct{ parts []part }

// Score rates one node: 75 plus or minus half of what the pod adds to the node's balance.
func (s *scorer) Score(node state.Node) int32 {
	var before, after spread
	for i := range s.parts {
		if b, a, ok := s.parts[i].fractions(node); ok {
			before.add(b)
			after.add(a)
		}
	}
	if before.count > 2 {
		// The fractions are computed again rather than stored, because storing any number of them would allocate.
		for i := range s.parts {
			if b, a, ok := s.parts[i].fractions(node); ok {
				before.deviate(b)
				after.deviate(a)
			}
		}
	}
	return 50 + (50+after.balance()-before.balance())/2
}

// spread computes the standard deviation of fractions. First all are added, then, if there are more than two, the deviation of each.
type spread struct {
	count       int
	first, last float64
	sum         float64
	squares     float64
}

func (s *spread) add(f float64) {
	if s.count == 0 {
		s.first = f
	}
	s.last = f
	s.sum += f
	s.count++
}

func (s *spread) deviate(f float64) {
	d := f - s.sum/float64(s.count)
	s.squares += float64(d * d)
}

// balance is 100 for equal fractions, less the standard deviation in percent, truncated.
func (s *spread) balance() int32 {
	var deviation float64
	switch {
	case s.count == 2:
		deviation = math.Abs(s.first-s.last) / 2
	case s.count > 2:
		deviation = math.Sqrt(s.squares / float64(s.count))
	}
	return int32(float64(1-deviation) * 100)
}
