// Package enginetest puts an engine beside the oracle.
//
// It takes the oracle's clusters, profiles and answers; it gives the engine's profiles and changes that mean the same, and says where
// an engine and the oracle differ. It owns nothing and is imported by tests only.
package enginetest

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/imagelocality"
	"github.com/berth-scheduler/berth/internal/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/plugins/nodename"
	"github.com/berth-scheduler/berth/internal/plugins/nodeports"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesbalancedallocation"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/plugins/tainttoleration"
)

// Profile builds the engine's profile that an oracle's profile describes, out of the node-local plugins and those that are given. The given
// ones are plugins that look at other pods; they stand where kube-scheduler has them, after NodeResourcesFit, in the order given, and
// weigh 2 unless the oracle's profile says otherwise. A plugin that the oracle's profile disables is left out.
func Profile(t testing.TB, o oracle.Profile, given ...plugin.Plugin) *plugin.Profile {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	affinity, err := nodeaffinity.New(&configv1.NodeAffinityArgs{AddedAffinity: o.AddedAffinity})
	check(err)
	fitArgs, balancedArgs := o.Fit, o.Balanced
	fitArgs.ScoringStrategy = withDefaults(fitArgs.ScoringStrategy)
	fit, err := noderesourcesfit.New(&fitArgs)
	check(err)
	balanced, err := noderesourcesbalancedallocation.New(&balancedArgs)
	check(err)
	taints := tainttoleration.New(tainttoleration.EqualAndExists)

	weights := map[string]int64{taints.Name(): 3, affinity.Name(): 2}
	all := []plugin.Plugin{nodename.New(), nodeunschedulable.New(), taints, affinity, nodeports.New(), fit}
	for _, p := range given {
		all, weights[p.Name()] = append(all, p), 2
	}
	all = append(all, nodedeclaredfeatures.New(), balanced, imagelocality.New())

	profile := &plugin.Profile{Name: "default-scheduler", QueueSort: prioritysort.New()}
	for _, p := range all {
		if !o.Disabled[p.Name()] {
			add(profile, p, weightOf(p.Name(), o.Weights, weights))
		}
	}
	return profile
}

func weightOf(name string, configured, defaults map[string]int64) int64 {
	if weight, ok := configured[name]; ok {
		return weight
	}
	return max(defaults[name], 1)
}

func add(to *plugin.Profile, p plugin.Plugin, weight int64) {
	if f, ok := p.(plugin.PreFilter); ok {
		to.PreFilters = append(to.PreFilters, f)
	}
	if f, ok := plugin.AsFilter(p); ok {
		to.Filters = append(to.Filters, f)
	}
	if s, ok := plugin.AsScore(p); ok {
		to.Scores = append(to.Scores, plugin.Weighted{Score: s, Weight: weight})
	}
	if x, ok := p.(plugin.EnqueueExtensions); ok {
		to.EnqueueExtensions = append(to.EnqueueExtensions, x)
	}
}

func withDefaults(s *configv1.ScoringStrategy) *configv1.ScoringStrategy {
	basics := []configv1.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	if s == nil {
		return &configv1.ScoringStrategy{Type: configv1.LeastAllocated, Resources: basics}
	}
	full := *s
	if len(full.Resources) == 0 {
		full.Resources = basics
	}
	return &full
}
