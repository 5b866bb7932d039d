package engine_test

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

// profileOf builds the engine's profile that an oracle's profile describes.
func profileOf(t testing.TB, o oracle.Profile) *engine.Profile {
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

	p := &engine.Profile{Name: "default-scheduler"}
	for _, f := range []engine.Filterer{nodename.New(), nodeunschedulable.New(), taints, affinity, nodeports.New(), fit, nodedeclaredfeatures.New()} {
		if !o.Disabled[f.Name()] {
			p.Filters = append(p.Filters, f)
			if n, ok := f.(engine.Narrower); ok {
				p.Narrowers = append(p.Narrowers, n)
			}
		}
	}
	weights := map[string]int64{taints.Name(): 3, affinity.Name(): 2}
	for _, s := range []engine.Scorer{taints, affinity, fit, balanced, imagelocality.New()} {
		weight, ok := o.Weights[s.Name()]
		if !ok {
			weight = max(weights[s.Name()], 1)
		}
		if !o.Disabled[s.Name()] {
			p.Scorers = append(p.Scorers, engine.Weighted{Scorer: s, Weight: weight})
		}
	}
	return p
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
