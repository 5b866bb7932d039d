// Package interpodaffinity places pods near or away from other pods: near pods that their
// affinity terms select, away from pods that their anti-affinity terms select, and away
// from pods whose anti-affinity terms select them.
//
// It takes a pod's namespace, labels and terms, and the state's tallies and term counts.
// It returns rules about counts, and scores of all feasible nodes together. It owns its
// checked arguments and a bounded cache of parsed terms. It never looks at single pods or
// nodes: the state keeps the counts up to date.
package interpodaffinity

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "InterPodAffinity"

// Plugin places pods by their affinity to other pods. It can be shared.
type Plugin struct {
	// hardWeight is added to the scores of a domain for each required affinity term of a
	// placed pod. With 0, such terms are ignored.
	hardWeight int64
	// ignorePreferred means that only pods with preferred terms of their own are scored.
	ignorePreferred bool
	terms           parsedTerms
}

// New checks the arguments and returns the plugin. Missing arguments get kube-scheduler's
// defaults. The error has kube-scheduler's text.
func New(args *configv1.InterPodAffinityArgs) (*Plugin, error) {
	p := &Plugin{hardWeight: 1}
	if args == nil {
		return p, nil
	}
	p.ignorePreferred = args.IgnorePreferredTermsOfExistingPods
	if weight := args.HardPodAffinityWeight; weight != nil {
		if *weight < 0 || *weight > 100 {
			return nil, field.Invalid(field.NewPath("hardPodAffinityWeight"), *weight, "not in valid range [0, 100]")
		}
		p.hardWeight = int64(*weight)
	}
	return p, nil
}

// Name returns "InterPodAffinity".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister(), Asked: p.AskedIn},
		Filter: &plugin.Filter{
			// terms select namespaces by label
			Reads: plugin.Reads{Nodes: model.Labels, Domains: true, Objects: []model.Kind{model.NamespaceKind}},
			Count: p.CountNeed,
		},
		Score: &plugin.Score{Set: p.SetNeed},
	})
}
