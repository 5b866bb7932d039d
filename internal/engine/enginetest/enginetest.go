// Package enginetest puts an engine beside the oracle.
//
// It takes the oracle's clusters, profiles and answers; it gives the engine's profiles and changes that mean the same, and says where
// an engine and the oracle differ. It owns nothing and is imported by tests only.
package enginetest

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/plugins/imagelocality"
	"github.com/berth-scheduler/berth/internal/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/plugins/nodename"
	"github.com/berth-scheduler/berth/internal/plugins/nodeports"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesbalancedallocation"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/plugins/tainttoleration"
)

// Profile builds the engine's profile that an oracle's profile describes, out of the node-local plugins and those that are given. The given
// ones are plugins that look at other pods; they stand where kube-scheduler has them, after NodeResourcesFit, in the order given, and
// weigh 2 unless the oracle's profile says otherwise. A plugin that the oracle's profile disables is left out.
func Profile(t testing.TB, o oracle.Profile, given ...engine.Plugin) *engine.Profile {
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
	all := []engine.Plugin{nodename.New(), nodeunschedulable.New(), taints, affinity, nodeports.New(), fit}
	for _, plugin := range given {
		all, weights[plugin.Name()] = append(all, plugin), 2
	}
	all = append(all, nodedeclaredfeatures.New(), balanced, imagelocality.New())

	p := &engine.Profile{Name: "default-scheduler"}
	for _, plugin := range all {
		if !o.Disabled[plugin.Name()] {
			add(p, plugin, weightOf(plugin.Name(), o.Weights, weights))
		}
	}
	return p
}

func weightOf(name string, configured, defaults map[string]int64) int64 {
	if weight, ok := configured[name]; ok {
		return weight
	}
	return max(defaults[name], 1)
}

func add(p *engine.Profile, plugin engine.Plugin, weight int64) {
	if n, ok := plugin.(engine.Narrower); ok {
		p.Narrowers = append(p.Narrowers, n)
	}
	if f, ok := plugin.(engine.Filterer); ok {
		p.Filters = append(p.Filters, f)
	}
	if s, ok := plugin.(engine.Scorer); ok {
		p.Scorers = append(p.Scorers, engine.Weighted{Scorer: s, Weight: weight})
	}
	if w, ok := plugin.(engine.Waker); ok {
		p.Wakers = append(p.Wakers, w)
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
