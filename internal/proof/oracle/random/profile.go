package random

import (
	"maps"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Profile returns a valid profile of node-local plugins. About one in five is the default
// profile. The others vary weights, strategies and arguments, and sometimes disable a
// plugin. PodTopologySpread and InterPodAffinity are disabled; see TopologyProfile.
func Profile(r *rand.Rand) oracle.Profile {
	p := oracle.NodeLocalProfile()
	if chance(r, 20) {
		return p
	}
	p.Weights = weights(r)
	maps.Copy(p.Disabled, disabled(r))
	p.Fit.IgnoredResources = some(r, 15, gpu, fpga, hugePages)
	p.Fit.IgnoredResourceGroups = some(r, 10, "example.com")
	p.Fit.ScoringStrategy = strategy(r)
	p.Balanced.Resources = balancedResources(r)
	if chance(r, 20) {
		p.AddedAffinity = addedAffinity(r)
	}
	return p
}

// TopologyProfile returns a valid profile with PodTopologySpread and InterPodAffinity,
// with any arguments. The rest is as in Profile.
func TopologyProfile(r *rand.Rand) oracle.Profile {
	p := Profile(r)
	for _, name := range []string{"PodTopologySpread", "InterPodAffinity"} {
		delete(p.Disabled, name)
		if p.Weights != nil && chance(r, 50) {
			p.Weights[name] = pick(r, int64(1), 2, 3, 5, 100)
		}
	}
	p.Spread.DefaultingType = pick(r, "", configv1.SystemDefaulting, configv1.ListDefaulting, configv1.ListDefaulting)
	if p.Spread.DefaultingType == configv1.ListDefaulting {
		for range r.IntN(5) {
			p.Spread.DefaultConstraints = append(p.Spread.DefaultConstraints, bareConstraint(r))
		}
		p.Spread.DefaultConstraints = withoutRepetition(p.Spread.DefaultConstraints)
	}
	p.PodAffinity.HardPodAffinityWeight = pick(r, nil, ptr(int32(0)), ptr(int32(1)), ptr(int32(5)), ptr(int32(100)))
	p.PodAffinity.IgnorePreferredTermsOfExistingPods = chance(r, 30)
	return p
}

func weights(r *rand.Rand) map[string]int64 {
	w := map[string]int64{}
	for _, name := range some(r, 50, "TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality") {
		w[name] = pick(r, int64(1), 2, 3, 5, 100)
	}
	return w
}

func disabled(r *rand.Rand) map[string]bool {
	off := map[string]bool{}
	for _, name := range some(r, 5, "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
		"NodeDeclaredFeatures", "NodeResourcesBalancedAllocation", "ImageLocality") {
		off[name] = true
	}
	return off
}

func strategy(r *rand.Rand) *configv1.ScoringStrategy {
	s := &configv1.ScoringStrategy{Type: pick(r, configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio)}
	for _, name := range some(r, 40, "cpu", "memory", "ephemeral-storage", gpu, fpga, hugePages) {
		s.Resources = append(s.Resources, configv1.ResourceSpec{Name: name, Weight: pick(r, int64(1), 1, 3, 10)})
	}
	if s.Type == configv1.RequestedToCapacityRatio {
		s.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: shape(r)}
	}
	return s
}

// shape returns a utilization shape, whose score goes up and down.
func shape(r *rand.Rand) []configv1.UtilizationShapePoint {
	var points []configv1.UtilizationShapePoint
	for _, u := range some(r, 50, int32(0), 10, 33, 40, 75, 90) {
		points = append(points, configv1.UtilizationShapePoint{Utilization: u, Score: r.Int32N(11)})
	}
	return append(points, configv1.UtilizationShapePoint{Utilization: 100, Score: r.Int32N(11)})
}

func balancedResources(r *rand.Rand) []configv1.ResourceSpec {
	var specs []configv1.ResourceSpec
	if chance(r, 50) {
		return nil
	}
	for _, name := range some(r, 60, "cpu", "memory", "ephemeral-storage", gpu) {
		specs = append(specs, configv1.ResourceSpec{Name: name, Weight: 1})
	}
	return specs
}

// addedAffinity is never malformed, as the configuration requires.
func addedAffinity(r *rand.Rand) *v1.NodeAffinity {
	na := &v1.NodeAffinity{}
	if chance(r, 50) {
		na.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{labelTerm(r), labelTerm(r)}}
	}
	if chance(r, 70) {
		na.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{{Weight: pick(r, int32(1), 10, 100), Preference: labelTerm(r)}}
	}
	return na
}
