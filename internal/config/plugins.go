package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultpreemption"
	"github.com/berth-scheduler/berth/internal/decide/plugins/gangscheduling"
	"github.com/berth-scheduler/berth/internal/decide/plugins/imagelocality"
	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodename"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeports"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesbalancedallocation"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodevolumelimits"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podgrouppodscount"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/decide/plugins/schedulinggates"
	"github.com/berth-scheduler/berth/internal/decide/plugins/tainttoleration"
	"github.com/berth-scheduler/berth/internal/decide/plugins/topologyplacementgenerator"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumebinding"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumerestrictions"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumezone"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// row describes a plugin.
type row struct {
	name string
	// points are the extension points of kube-scheduler's plugin.
	points pointSet
	// build builds the plugin from its arguments. It is nil if Berth lacks the plugin;
	// package absent then determines which pods need it.
	build func(args runtime.Object) (*plugin.Parts, error)
	// weight is the weight of its scores in the default profile. 0 means none, which
	// counts as 1 if the plugin scores.
	weight int32
	// args describes its typed arguments; nil means that it takes none.
	args *argsType
}

// registry holds the plugins that a configuration may name.
type registry struct {
	// byDefault are enabled unless a configuration disables them, in the order of the
	// default profile's multiPoint.
	byDefault []row
	// onRequest must be enabled by name.
	onRequest []row

	// external are the out-of-tree plugins, which must be enabled by name, too. extended
	// are their extension points; nil until the plugins are built.
	external []Registered
	extended map[string]pointSet
	// scheme has the types of all plugins' arguments.
	scheme *runtime.Scheme

	// placements means that nodes are divided into domains for pod groups.
	placements bool
}

// with returns the registry with out-of-tree plugins, not built yet.
func (r registry) with(external *External) (registry, error) {
	if external != nil {
		r.external, r.scheme = external.plugins, external.scheme
		return r, nil
	}
	scheme, err := newScheme()
	r.scheme = scheme
	return r, err
}

// fromExternal returns the named out-of-tree plugin, or nil.
func (r registry) fromExternal(name string) *Registered {
	if i := slices.IndexFunc(r.external, func(p Registered) bool { return p.Name == name }); i >= 0 {
		return &r.external[i]
	}
	return nil
}

// unmade reports whether the plugin's points are still unknown.
func (r registry) unmade(name string) bool { return r.extended == nil && r.fromExternal(name) != nil }

// builtIn returns kube-scheduler's plugins, in the variants that the gates and the rules
// of a release choose.
func builtIn(gates Gates, on rules) registry {
	operators := tainttoleration.EqualAndExists
	if gates.Enabled(taintTolerationComparison) {
		operators = tainttoleration.WithComparisons
	}
	newTaintToleration := func() *tainttoleration.Plugin { return tainttoleration.New(operators) }
	var gangs, generator, podsCount func(runtime.Object) (*plugin.Parts, error)
	if gates.Enabled(genericWorkload) {
		gangs = plain(gangscheduling.New)
	}
	if gates.Enabled(topologyAwareScheduling) {
		generator, podsCount = plain(topologyplacementgenerator.New), plain(podgrouppodscount.New)
	}
	return byGates(gates, registry{byDefault: []row{
		{"SchedulingGates", at(preEnqueue), plain(schedulinggates.New), 0, nil},
		{"PrioritySort", at(queueSort), plain(prioritysort.New), 0, nil},
		{"NodeName", at(preFilter, filter), plain(nodename.New), 0, nil},
		{"NodeUnschedulable", at(preFilter, filter), plain(nodeunschedulable.New), 0, nil},
		{"TaintToleration", at(preFilter, filter, preScore, score), plain(newTaintToleration), 3, nil},
		{"NodeAffinity", at(preFilter, filter, preScore, score), typed(nodeaffinity.New), 2, nodeAffinityArgs()},
		{"NodePorts", at(preFilter, filter), plain(nodeports.New), 0, nil},
		{"NodeResourcesFit", at(preFilter, filter, preScore, score, placementScore), typed(noderesourcesfit.Rules{PodLevelScore: on.scorePodLevelRequests}.New), 1, fitArgs()},
		{"VolumeRestrictions", at(preFilter, filter), plain(volumerestrictions.New), 0, nil},
		{"NodeVolumeLimits", at(preFilter, filter), plain(nodevolumelimits.New), 0, nil},
		{"VolumeBinding", at(preFilter, filter, postFilter, preScore, score, reserve, preBind), typed(volumebinding.New), 0, volumeBindingArgs(gates.Enabled(storageCapacityScoring))},
		{"VolumeZone", at(preFilter, filter), plain(volumezone.New), 0, nil},
		{"PodTopologySpread", at(preFilter, filter, preScore, score), typed(podtopologyspread.Rules{EmptySelector: on.spreadEmptySelector}.New), 2, spreadArgs()},
		{"InterPodAffinity", at(preFilter, filter, preScore, score), typed(interpodaffinity.New), 2, interPodAffinityArgs()},
		{"DynamicResources", at(preEnqueue, preFilter, filter, postFilter, score, reserve, preBind, podGroupPostFilter), typed(newDynamicResources(gates)), 2, dynamicResourcesArgs(gates.Enabled(draSchedulerFilterTimeout), gates.Enabled(draDeviceBindingConditions))},
		{"DefaultPreemption", at(preEnqueue, postFilter, podGroupPostFilter), typed(preemptionOfGroups(gates).With(on.preemption())), 0, preemptionArgs()},
		{"NodeResourcesBalancedAllocation", at(preScore, score), typed(noderesourcesbalancedallocation.New), 1, balancedAllocationArgs()},
		{"ImageLocality", at(score), plain(imagelocality.New), 1, nil},
		{"DefaultBinder", at(bind), plain(defaultbinder.New), 0, nil},
		{"NodeDeclaredFeatures", at(preFilter, filter), plain(declaredFeatures(on)), 0, nil},
	}, onRequest: []row{
		{"DeferredPodScheduling", at(preFilter, filter, permit), nil, 0, nil},
		{"GangScheduling", at(preEnqueue, permit), gangs, 0, nil},
		{"TopologyPlacementGenerator", at(placementGenerate), generator, 0, nil},
		{"PodGroupPodsCount", at(placementScore), podsCount, 1, nil},
	}, placements: gates.Enabled(topologyAwareScheduling)})
}

// declaredFeatures returns the constructor of NodeDeclaredFeatures for the release.
func declaredFeatures(on rules) func() *nodedeclaredfeatures.Plugin {
	if on.declaredFeatures38 {
		return nodedeclaredfeatures.New38
	}
	return nodedeclaredfeatures.New
}

// preemptionOfGroups returns DefaultPreemption's settings for pod groups.
func preemptionOfGroups(gates Gates) defaultpreemption.Groups {
	on := gates.Enabled(genericWorkload)
	return defaultpreemption.Groups{Units: on, OwnPolicy: on && gates.Enabled(podGroupPreemption)}
}

// byGates enables by default the plugins whose gates are on.
func byGates(gates Gates, known registry) registry {
	enable := func(gate featuregate.Feature, name string, at int) {
		if !gates.Enabled(gate) {
			return
		}
		i := slices.IndexFunc(known.onRequest, func(r row) bool { return r.name == name })
		known.byDefault = slices.Insert(known.byDefault, at, known.onRequest[i])
		known.onRequest = slices.Delete(known.onRequest, i, i+1)
	}
	fit := slices.IndexFunc(known.byDefault, func(r row) bool { return r.name == "NodeResourcesFit" })
	enable(deferredPodScheduling, "DeferredPodScheduling", fit)
	enable(genericWorkload, "GangScheduling", len(known.byDefault))
	enable(topologyAwareScheduling, "TopologyPlacementGenerator", len(known.byDefault))
	enable(topologyAwareScheduling, "PodGroupPodsCount", len(known.byDefault))
	return known
}

// find returns the plugin's row, or nil.
func (r registry) find(name string) *row {
	for _, rows := range [][]row{r.byDefault, r.onRequest} {
		for i := range rows {
			if rows[i].name == name {
				return &rows[i]
			}
		}
	}
	if r.fromExternal(name) == nil {
		return nil
	}
	extended := r.extended[name]
	if r.extended == nil {
		extended = 1<<points - 1 // it may extend any
	}
	return &row{name: name, points: extended, args: typesOf(r.scheme, name)}
}

// defaults returns the plugins of a profile that configures none.
func (r registry) defaults() *configv1.Plugins {
	var plugins configv1.Plugins
	for i := range r.byDefault {
		enabled := configv1.Plugin{Name: r.byDefault[i].name, Weight: ptr.To(r.byDefault[i].weight)}
		plugins.MultiPoint.Enabled = append(plugins.MultiPoint.Enabled, enabled)
	}
	return &plugins
}

// withParts is a built-in plugin.
type withParts interface{ Parts() *plugin.Parts }

// plain adapts the constructor of a plugin without arguments. It ignores arguments.
func plain[P withParts](build func() P) func(runtime.Object) (*plugin.Parts, error) {
	return func(runtime.Object) (*plugin.Parts, error) { return build().Parts(), nil }
}

// typed adapts the constructor of a plugin with arguments.
func typed[A runtime.Object, P withParts](build func(A) (P, error)) func(runtime.Object) (*plugin.Parts, error) {
	return func(args runtime.Object) (*plugin.Parts, error) {
		own, ok := args.(A)
		if !ok {
			return nil, fmt.Errorf("want args to be of type %T, got %T", own, args)
		}
		made, err := build(own)
		if err != nil {
			return nil, err
		}
		return made.Parts(), nil
	}
}
