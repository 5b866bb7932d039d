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
	// devices counts the devices that provide the resource on nodes without it; nil if
	// none.
	devices *allocator.Counter
}

// fractions returns the used fraction of the node's resource, without and with the pod.
// ok is false for nodes without the resource.
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

// fraction is at most 1, even on an overcommitted node.
func fraction(used, capacity int64) float64 {
	if used > capacity {
		return 1
	}
	return float64(used) / float64(capacity)
}

// scorer is a compiled need.
//
// Its floating point must equal kube-scheduler's to the last bit, because that bit
// decides how a score is truncated. The order of operations is therefore part of the
// result. A product is converted explicitly before an addition: Go compilers may fuse x*y
// + z into one operation with another result, but not across a conversion.
type scorer struct{ parts []part }

// Score returns 75 plus or minus half of the pod's effect on the node's balance.
func (s *scorer) Score(node state.Node) int32 {
	var before, after spread
	for i := range s.parts {
		if b, a, ok := s.parts[i].fractions(node); ok {
			before.add(b)
			after.add(a)
		}
	}
	if before.count > 2 {
		// Storing the fractions would allocate, so they are computed again.
		for i := range s.parts {
			if b, a, ok := s.parts[i].fractions(node); ok {
				before.deviate(b)
				after.deviate(a)
			}
		}
	}
	return 50 + (50+after.balance()-before.balance())/2
}

// spread computes the standard deviation of fractions. All are added first. If more than
// two were added, the deviation of each follows.
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

// balance is 100 for equal fractions, minus the standard deviation in percent, truncated.
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
