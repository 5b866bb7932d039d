package oracle

import (
	"math"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

var defaultResources = []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}

// weighed is a resource that counts in a node's score.
type weighed struct {
	weight, capacity int64
	used             int64 // before the pod is placed
	asked            int64 // by the pod
}

func (w weighed) after() int64 { return plus(w.used, w.asked) }

// weigh returns the configured resources that count on a node. It leaves out scalars that
// the pod does not request, and resources that the node lacks.
func weigh(specs []configv1.ResourceSpec, asked, size amounts, used func(v1.ResourceName) int64) []weighed {
	var all []weighed
	for _, spec := range specs {
		name := v1.ResourceName(spec.Name)
		if isScalar(name) && asked[name] == 0 || size[name] == 0 {
			continue
		}
		all = append(all, weighed{weight: max(spec.Weight, 1), capacity: size[name], used: used(name), asked: asked[name]})
	}
	return all
}

// fitScore scores by the configured strategy. The pending pod counts as the sum of its
// containers with defaults; its pod-level requests are ignored. Pods on the node count
// with defaults for cpu and memory, and with their real requests for everything else.
func fitScore(cy *cycle) (scores, error) {
	strategy := configv1.ScoringStrategy{}
	if s := cy.profile.Fit.ScoringStrategy; s != nil {
		strategy = *s
	}
	specs := strategy.Resources
	if len(specs) == 0 {
		specs = defaultResources
	}
	asked := rounded(requests(cy.pod, requestRules{defaults: scoringDefaults}))
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		raw[i] = rate(strategy, weigh(specs, asked, allocatable(n), scoringUsage(n)))
	}
	return asTheyAre(raw), nil
}

func scoringUsage(n node) func(v1.ResourceName) int64 {
	plain, nonZero := requested(n), nonZeroRequested(n)
	return func(name v1.ResourceName) int64 {
		if name == v1.ResourceCPU || name == v1.ResourceMemory {
			return nonZero[name]
		}
		return plain[name]
	}
}

// rate is the weighted mean of the parts. An unset strategy type means LeastAllocated.
func rate(strategy configv1.ScoringStrategy, all []weighed) int64 {
	var sum, weights int64
	for _, w := range all {
		part := leastAllocated(w.after(), w.capacity)
		switch strategy.Type {
		case configv1.MostAllocated:
			part = mostAllocated(w.after(), w.capacity)
		case configv1.RequestedToCapacityRatio:
			part = shaped(strategy.RequestedToCapacityRatio.Shape, utilization(w.after(), w.capacity))
			if part <= 0 {
				continue // upstream drops such a resource, so it does not lower the mean
			}
		}
		sum += part * w.weight
		weights += w.weight
	}
	if weights == 0 {
		return 0
	}
	if strategy.Type == configv1.RequestedToCapacityRatio {
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

func leastAllocated(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return percent(capacity-requested, capacity)
}

func mostAllocated(requested, capacity int64) int64 {
	return percent(min(requested, capacity), capacity)
}

func utilization(requested, capacity int64) int64 {
	if requested > capacity {
		return maxScore
	}
	return percent(requested, capacity)
}

// shaped follows the broken line through the points of a utilization shape (utilization 0
// to 100, score 0 to 10, scaled to 100). Division truncates toward zero, so a falling
// segment rounds up.
func shaped(shape []configv1.UtilizationShapePoint, u int64) int64 {
	for k, point := range shape {
		if u > int64(point.Utilization) {
			continue
		}
		right, top := int64(point.Utilization), int64(point.Score)*10
		if k == 0 {
			return top
		}
		left, bottom := int64(shape[k-1].Utilization), int64(shape[k-1].Score)*10
		return bottom + (top-bottom)*(u-left)/(right-left)
	}
	return int64(shape[len(shape)-1].Score) * 10
}

// balancedScore measures how far the pod would balance the node's use of its resources;
// 75 is no change. It counts real requests, of the pod and on the node. A pod that
// requests none of the configured resources is not scored.
func balancedScore(cy *cycle) (scores, error) {
	specs := cy.profile.Balanced.Resources
	if len(specs) == 0 {
		specs = defaultResources
	}
	asked := rounded(requests(cy.pod, requestRules{status: true, podLevel: true}))
	if asksNone(specs, asked) {
		return scores{}, nil
	}
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		used := requested(n)
		all := weigh(specs, asked, allocatable(n), func(name v1.ResourceName) int64 { return used[name] })
		raw[i] = balanceGain(all)
	}
	return asTheyAre(raw), nil
}

func asksNone(specs []configv1.ResourceSpec, asked amounts) bool {
	for _, s := range specs {
		if asked[v1.ResourceName(s.Name)] != 0 {
			return false
		}
	}
	return true
}

func balanceGain(all []weighed) int64 {
	var before, after []float64
	for _, w := range all {
		before = append(before, fraction(w.used, w.capacity))
		after = append(after, fraction(w.after(), w.capacity))
	}
	return 50 + (50+balance(after)-balance(before))/2
}

func fraction(amount, capacity int64) float64 {
	return min(1, float64(amount)/float64(capacity))
}

// balance is 100 for equal fractions and falls with their standard deviation. The
// explicit conversions prevent fused multiply-add: the result is truncated, so the last
// bit matters.
func balance(fractions []float64) int64 {
	deviation := 0.0
	count := float64(len(fractions))
	switch {
	case len(fractions) == 2:
		deviation = math.Abs(fractions[0]-fractions[1]) / 2
	case len(fractions) > 2:
		total, squares := 0.0, 0.0
		for _, f := range fractions {
			total += f
		}
		mean := total / count
		for _, f := range fractions {
			squares += float64((f - mean) * (f - mean))
		}
		deviation = math.Sqrt(squares / count)
	}
	return int64(float64(1-deviation) * maxScore)
}
