// Package noderesourcesfit keeps pods off nodes that lack the requested resources, and
// prefers the nodes where they fit best.
//
// It takes a pod's request vectors, and the allocatable and used amounts of nodes. It
// returns a verdict that names every insufficient resource, and a score by one of three
// strategies. It owns its checked arguments. It never adds up requests itself (model
// does), and it never looks at single pods on a node, only at their sums.
package noderesourcesfit

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/allocator"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/shape"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeResourcesFit"

// reads are all aspects that verdicts and scores depend on.
const reads = model.Usage | model.Allocatable

// Plugin compares requests with free resources. It is immutable and can be shared.
type Plugin struct {
	ignored, ignoredGroups map[string]bool
	strategy               configv1.ScoringStrategyType
	// In the order of the configuration, which only determines the order in the need.
	resources []weighed
	ratings   *shape.Ratings // for RequestedToCapacityRatio
	// standIns are the resources that DRA devices can provide; matcher selects the
	// devices.
	standIns []model.ResourceName
	matcher  *allocator.Matcher
	rules    Rules
}

// Rules are the answers that differ between releases. The zero value has the answers of
// Kubernetes 1.37.
type Rules struct {
	// PodLevelScore scores a pod by its pod-level requests.
	PodLevelScore bool
}

// weighed is a configured resource that scheduling counts.
type weighed struct {
	name   v1.ResourceName
	weight int64
}

// New returns the plugin with the answers of 1.37.
func New(args *configv1.NodeResourcesFitArgs) (*Plugin, error) { return Rules{}.New(args) }

// New checks the arguments and returns the plugin. Missing arguments get kube-scheduler's
// defaults. The error has kube-scheduler's text.
func (r Rules) New(args *configv1.NodeResourcesFitArgs) (*Plugin, error) {
	checked, err := check(args)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		ignored:       setOf(checked.IgnoredResources),
		ignoredGroups: setOf(checked.IgnoredResourceGroups),
		strategy:      checked.ScoringStrategy.Type,
		rules:         r,
	}
	for _, r := range checked.ScoringStrategy.Resources {
		if name := v1.ResourceName(r.Name); accounted(name) {
			p.resources = append(p.resources, weighed{name, r.Weight})
			if of := model.ResourceNameOf(r.Name); model.CanBeDevices(of) {
				p.standIns = append(p.standIns, of)
			}
		}
	}
	if len(p.standIns) > 0 {
		p.matcher = allocator.NewMatcher()
	}
	if p.strategy == configv1.RequestedToCapacityRatio {
		p.ratings = shape.Rate(checked.ScoringStrategy.RequestedToCapacityRatio.Shape)
	}
	return p, nil
}

// accounted reports whether scheduling counts the resource. No node has any other, so
// others never affect a score.
func accounted(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || model.IsScalarName(name)
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// Name returns "NodeResourcesFit".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter:            &plugin.Filter{Reads: plugin.Reads{Nodes: reads}, Need: p.FilterNeed, Varying: p.VaryingFilterNeed},
		Score:             &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), Need: p.ScoreNeed, Varying: p.VaryingScoreNeed},
		PlacementScore:    &plugin.PlacementScore{Run: p.ScorePlacements},
	})
}

// ignores reports whether the filter does not check a scalar. Only extended resources can
// be ignored.
func (p *Plugin) ignores(name model.ResourceName) bool {
	if len(p.ignored) == 0 && len(p.ignoredGroups) == 0 {
		return false
	}
	text := name.Value()
	group, _, _ := strings.Cut(text, "/")
	return (p.ignored[text] || p.ignoredGroups[group]) && model.IsExtendedName(v1.ResourceName(text))
}
