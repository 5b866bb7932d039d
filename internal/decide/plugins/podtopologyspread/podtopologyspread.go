// Package podtopologyspread spreads the pods of a selector evenly over zones, hosts and
// other domains.
//
// It takes a pod's spread constraints, or the profile's default constraints for a pod
// without any, and the state's tallies of pods by domain. It returns rules about counts
// that reject nodes, and scores for all feasible nodes together. It owns the default
// constraints and the scratch memory of scoring. It never iterates over pods: the state
// keeps the counts up to date.
package podtopologyspread

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/tainttoleration"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "PodTopologySpread"

// Plugin spreads pods evenly.
type Plugin struct {
	// hardDefaults and softDefaults are the constraints of pods without constraints of
	// their own.
	hardDefaults, softDefaults []v1.TopologySpreadConstraint
	// keysForDefaults means that soft default constraints exclude nodes that lack a
	// topology key, as a pod's own constraints do.
	keysForDefaults bool
	// affinity and taints decide which nodes a pod's affinity and tolerations allow, for
	// constraints that honor these.
	affinity *nodeaffinity.Plugin
	taints   *tainttoleration.Plugin
	rules    Rules
}

// Rules are the answers that differ between releases. The zero value has the answers of
// Kubernetes 1.37.
type Rules struct {
	// EmptySelector means that the selector {} of a constraint counts all pods of the
	// namespace, instead of none.
	EmptySelector bool
}

// New returns the plugin with the answers of 1.37. Args must be valid; nil means
// kube-scheduler's defaults.
func New(args *configv1.PodTopologySpreadArgs) (*Plugin, error) { return Rules{}.New(args) }

// New returns the plugin. Args must be valid; nil means kube-scheduler's defaults.
func (r Rules) New(args *configv1.PodTopologySpreadArgs) (*Plugin, error) {
	// The profile's added affinity does not count here.
	affinity, err := nodeaffinity.New(nil)
	if err != nil {
		return nil, err
	}
	p := &Plugin{affinity: affinity, taints: tainttoleration.New(tainttoleration.EqualAndExists), rules: r}
	if args == nil || args.DefaultingType != configv1.ListDefaulting {
		p.softDefaults = systemConstraints()
		return p, nil
	}
	p.hardDefaults = withAction(args.DefaultConstraints, v1.DoNotSchedule)
	p.softDefaults = withAction(args.DefaultConstraints, v1.ScheduleAnyway)
	p.keysForDefaults = true
	return p, nil
}

// systemConstraints are kube-scheduler's defaults of type System.
func systemConstraints() []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{
		{TopologyKey: v1.LabelHostname, MaxSkew: 3, WhenUnsatisfiable: v1.ScheduleAnyway},
		{TopologyKey: v1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: v1.ScheduleAnyway},
	}
}

// withAction returns the constraints of one action, in their order. If all have the
// action, it returns the list itself.
func withAction(all []v1.TopologySpreadConstraint, action v1.UnsatisfiableConstraintAction) []v1.TopologySpreadConstraint {
	other := func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable != action }
	if !slices.ContainsFunc(all, other) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), other)
}

// Name returns "PodTopologySpread".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		Objects:           kinds(len(p.softDefaults)), // and those of Filter
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter:            &plugin.Filter{Reads: p.reads(), Count: p.CountNeed},
		Score:             &plugin.Score{Set: p.SetNeed},
	})
}

// kinds returns the kinds that the selectors of default constraints are built from. It is
// empty without default constraints, because a pod's own constraints have a selector.
func kinds(defaults int) []model.Kind {
	if defaults == 0 {
		return nil
	}
	return []model.Kind{model.ServiceKind, model.ReplicationControllerKind, model.ReplicaSetKind, model.StatefulSetKind}
}

// reads returns domains, the labels and taints that decide which nodes count, and the
// inputs of hard default constraints' selectors.
func (p *Plugin) reads() plugin.Reads {
	return plugin.Reads{Nodes: model.Labels | model.Taints, Domains: true, Objects: kinds(len(p.hardDefaults))}
}

// CountNeed returns the hard constraints, or nil if none can apply to the pod.
func (p *Plugin) CountNeed(pod *model.Pod) plugin.CountNeed {
	if n := p.need(pod, v1.DoNotSchedule); n != nil {
		return hard{n}
	}
	return nil
}

// SetNeed returns the soft constraints, or nil if none can apply to the pod. With the
// System defaults nil is rare, because they apply to any pod that a service selects or a
// controller owns.
func (p *Plugin) SetNeed(pod *model.Pod) plugin.SetNeed {
	if n := p.need(pod, v1.ScheduleAnyway); n != nil {
		return soft{n}
	}
	return nil
}
