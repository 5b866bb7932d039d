package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/config/absent"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// lack is the enabled plugins of a profile that Berth lacks.
type lack struct {
	// plugins are all of them. barring keep those pods pending that the real plugin would
	// have filtered.
	plugins, barring []string
}

// built is a profile with the facts found while building it.
type built struct {
	profile *plugin.Profile
	lack
	// reads are the kinds that the plugins read, unsorted, with duplicates.
	reads []model.Kind
	// queueSort is the QueueSort plugin; empty if it can only be a plugin that is not
	// built yet.
	queueSort string
	// external means that out-of-tree plugins are enabled.
	external bool
}

// build builds the plugins of a checked profile and assigns them to their points. It
// tidies the profile's arguments. ignored are the resources that NodeResourcesFit must
// ignore for extenders, before are the plugins of earlier profiles. h builds the
// out-of-tree plugins; without h they are omitted.
func build(known registry, source *configv1.KubeSchedulerProfile, ignored []string, before *plugins, h *hosting) (built, error) {
	enabled := enabledAnywhere(source.Plugins)
	source.PluginConfig = tidied(source.PluginConfig, enabled)
	made, err := before.instances(known, enabled, source.PluginConfig, ignored)
	if err != nil {
		return built{}, err
	}
	external, err := h.instances(known, source, enabled)
	if err != nil {
		return built{}, err
	}
	known.extended = external.extended()
	order, err := expand(known, source.Plugins)
	if err != nil {
		return built{}, err
	}
	unmade := slices.ContainsFunc(names(source.Plugins.MultiPoint.Enabled), known.unmade)
	if err := checkCounts(*source.SchedulerName, &order, unmade); err != nil {
		return built{}, err
	}
	scoreWeights, err := weights(source.Plugins, score, order[score])
	if err != nil {
		return built{}, err
	}
	adapters, err := external.adapt(&order, scoreWeights)
	if err != nil {
		return built{}, err
	}
	profile := &plugin.Profile{Name: *source.SchedulerName}
	if err := assemble(profile, &order, made, scoreWeights, &adapters); err != nil {
		return built{}, err
	}
	if profile.Placements, err = placementsOf(known, source.Plugins, &order, made); err != nil {
		return built{}, err
	}
	profile.PreFilterOrder = external.called(order[preFilter])
	external.complete(profile)
	barDevices(profile, &order)
	own := slices.DeleteFunc(slices.Clone(enabled), func(name string) bool { return known.fromExternal(name) != nil })
	lacking, err := standIn(profile, &order, own, made)
	if err != nil {
		return built{}, err
	}
	used := slices.DeleteFunc(slices.Clone(enabled), func(name string) bool { return !order.has(name) })
	profile.EnqueueExtensions = append(profile.EnqueueExtensions, extensionsOf(used, &adapters, made)...)
	b := built{profile: profile, lack: lacking, reads: append(adapters.reads(), readBy(used, made)...), external: len(own) < len(enabled)}
	if len(order[queueSort]) > 0 {
		b.queueSort = order[queueSort][0]
	}
	return b, nil
}

// tidied returns the arguments without empty ones and those of disabled plugins, sorted.
func tidied(arguments []configv1.PluginConfig, enabled []string) []configv1.PluginConfig {
	arguments = slices.DeleteFunc(arguments, func(config configv1.PluginConfig) bool {
		return !slices.Contains(enabled, config.Name) || config.Args.Object == nil && config.Args.Raw == nil
	})
	slices.SortFunc(arguments, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })
	return arguments
}

// extensionsOf returns the plugins that name the events to wake pods for.
func extensionsOf(used []string, adapters *Adapters, made map[string]*plugin.Parts) (list []*plugin.EnqueueExtensions) {
	for _, name := range used {
		if x, ok := adapters.EnqueueExtensions[name]; ok {
			list = append(list, x)
		}
		if own := made[name]; own != nil && own.EnqueueExtensions != nil {
			list = append(list, own.EnqueueExtensions)
		}
	}
	return list
}

// readBy returns the kinds that plugins read.
func readBy(used []string, made map[string]*plugin.Parts) (kinds []model.Kind) {
	for _, name := range used {
		if own := made[name]; own != nil {
			kinds = append(kinds, own.Objects...)
		}
	}
	return kinds
}

// deciding are the points at which a plugin decides whether a pod is bound. At the others
// it only scores nodes, or evicts pods.
var deciding = [...]point{preEnqueue, preFilter, filter, placementGenerate, reserve, permit, preBind}

// standIn adds the stand-ins of plugins that Berth lacks after the other PreFilter
// plugins, in the order of their deciding points. One enabled point is enough, whichever
// it is: the real plugin would have checked the pod there.
func standIn(profile *plugin.Profile, order *effective, enabled []string, made map[string]*plugin.Parts) (lack, error) {
	var lacking lack
	for _, name := range enabled {
		if made[name] == nil && order.has(name) {
			lacking.plugins = append(lacking.plugins, name)
		}
	}
	for _, at := range deciding {
		for _, name := range order[at] {
			if !slices.Contains(lacking.plugins, name) || slices.Contains(lacking.barring, name) {
				continue
			}
			p, err := absent.New(name)
			if err != nil {
				return lack{}, err
			}
			if p != nil {
				lacking.barring = append(lacking.barring, name)
				profile.PreFilters = append(profile.PreFilters, p.PreFilter)
				profile.EnqueueExtensions = append(profile.EnqueueExtensions, p.EnqueueExtensions)
			}
		}
	}
	return lacking, nil
}

// plugins are the plugins of all profiles so far. Profiles share a plugin that has equal
// arguments in both, and its caches.
type plugins struct{ made map[string][]instance }

// instance is a plugin and the arguments that it was built from.
type instance struct {
	args runtime.Object
	*plugin.Parts
}

// get returns the plugin for these arguments.
func (p *plugins) get(row *row, args runtime.Object) (*plugin.Parts, error) {
	for _, have := range p.made[row.name] {
		// The arguments must be exactly equal: a plugin may distinguish semantically
		// equal ones.
		if reflect.DeepEqual(have.args, args) {
			return have.Parts, nil
		}
	}
	made, err := row.build(args)
	if err != nil {
		return nil, fmt.Errorf("initializing plugin %q: %w", row.name, err)
	}
	if p.made == nil {
		p.made = map[string][]instance{}
	}
	p.made[row.name] = append(p.made[row.name], instance{args, made})
	return made, nil
}

// instances returns the enabled plugins, by name. It omits unknown plugins, and those
// that Berth lacks.
func (p *plugins) instances(known registry, enabled []string, configs []configv1.PluginConfig, ignored []string) (map[string]*plugin.Parts, error) {
	made := make(map[string]*plugin.Parts, len(enabled))
	for _, name := range enabled {
		row := known.find(name)
		if row == nil || row.build == nil {
			continue
		}
		var config configv1.PluginConfig
		if i := slices.IndexFunc(configs, func(c configv1.PluginConfig) bool { return c.Name == name }); i >= 0 {
			config = configs[i]
		}
		instance, err := p.get(row, ignoring(config.Args.Object, ignored))
		if err != nil {
			return nil, err
		}
		made[name] = instance
	}
	return made, nil
}

// checkCounts checks the numbers of QueueSort, Bind and PlacementGenerate plugins. Fewer
// are allowed while out-of-tree plugins are not built, because these may be enabled
// there.
func checkCounts(profile string, order *effective, unmade bool) error {
	switch n := len(order[queueSort]); {
	case n > 1, n == 0 && !unmade:
		return fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", profile, n)
	case len(order[bind]) == 0 && !unmade:
		return fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", profile)
	case len(order[placementGenerate]) > 1:
		return fmt.Errorf("at most one placement generate plugin is allowed for profile with scheduler name %q", profile)
	}
	return nil
}

// assemble puts plugins into the profile's lists, each in the order of its point.
func assemble(profile *plugin.Profile, order *effective, made map[string]*plugin.Parts, weights map[string]int64, external *Adapters) error {
	sorts, err := parts(order, queueSort, made, external.QueueSort, func(p *plugin.Parts) *plugin.QueueSort { return p.QueueSort })
	if err != nil {
		return err
	}
	profile.QueueSort = prioritysort.New().Parts().QueueSort // until the out-of-tree plugin is built
	if len(sorts) > 0 {
		profile.QueueSort = sorts[0]
	}
	if profile.PreEnqueue, err = parts(order, preEnqueue, made, external.PreEnqueue, func(p *plugin.Parts) *plugin.PreEnqueue { return p.PreEnqueue }); err != nil {
		return err
	}
	for _, name := range order[preFilter] {
		p := external.PreFilter[name]
		if own := made[name]; own != nil {
			p = own.PreFilter
		}
		if p != nil { // most of kube-scheduler's plugins only prepare Filter there
			profile.PreFilters = append(profile.PreFilters, p)
		}
	}
	if profile.Filters, err = parts(order, filter, made, external.Filter, func(p *plugin.Parts) *plugin.Filter { return p.Filter }); err != nil {
		return err
	}
	if profile.PostFilters, err = parts(order, postFilter, made, external.PostFilter, func(p *plugin.Parts) *plugin.PostFilter { return p.PostFilter }); err != nil {
		return err
	}
	for _, name := range order[preScore] { // built-in plugins do at Score what kube-scheduler's do at PreScore
		if p := external.PreScore[name]; p != nil {
			profile.PreScores = append(profile.PreScores, p)
		}
	}
	scores, err := parts(order, score, made, external.Score, func(p *plugin.Parts) *plugin.Score { return p.Score })
	if err != nil {
		return err
	}
	for _, s := range scores {
		profile.Scores = append(profile.Scores, plugin.Weighted{Score: s, Weight: weights[s.Name]})
	}
	return assembleBinding(profile, order, made, external)
}

// assembleBinding puts plugins into the lists of the points after a node is chosen.
func assembleBinding(profile *plugin.Profile, order *effective, made map[string]*plugin.Parts, external *Adapters) (err error) {
	if profile.Reserve, err = parts(order, reserve, made, external.Reserve, func(p *plugin.Parts) *plugin.Reserve { return p.Reserve }); err != nil {
		return err
	}
	if profile.Permit, err = parts(order, permit, made, external.Permit, func(p *plugin.Parts) *plugin.Permit { return p.Permit }); err != nil {
		return err
	}
	if profile.PreBind, err = parts(order, preBind, made, external.PreBind, func(p *plugin.Parts) *plugin.PreBind { return p.PreBind }); err != nil {
		return err
	}
	if profile.Bind, err = parts(order, bind, made, nil, func(p *plugin.Parts) *plugin.Bind { return p.Bind }); err != nil {
		return err
	}
	profile.PostBind, err = parts(order, postBind, made, external.PostBind, func(p *plugin.Parts) *plugin.PostBind { return p.PostBind })
	return err
}

// placementsOf returns the plugins for pod groups, or nil if their gate is off.
func placementsOf(known registry, plugins *configv1.Plugins, order *effective, made map[string]*plugin.Parts) (*plugin.Placements, error) {
	if !known.placements {
		return nil, nil
	}
	placements := &plugin.Placements{}
	generators, err := parts(order, placementGenerate, made, nil, func(p *plugin.Parts) *plugin.PlacementGenerate { return p.PlacementGenerate })
	if err != nil {
		return nil, err
	}
	if len(generators) > 0 {
		placements.Generate = generators[0] // at most one exists
	}
	scorers, err := parts(order, placementScore, made, nil, func(p *plugin.Parts) *plugin.PlacementScore { return p.PlacementScore })
	if err != nil {
		return nil, err
	}
	byName, err := weights(plugins, placementScore, order[placementScore])
	if err != nil {
		return nil, err
	}
	for _, s := range scorers {
		placements.Scores = append(placements.Scores, plugin.WeightedPlacement{PlacementScore: s, Weight: byName[s.Name]})
	}
	return placements, nil
}

// parts returns the plugins' parts at a point. A built-in plugin without the part is a
// mistake in the table.
func parts[T any](order *effective, p point, made map[string]*plugin.Parts, external map[string]*T, part func(*plugin.Parts) *T) ([]*T, error) {
	var list []*T
	for _, name := range order[p] {
		own := external[name]
		if builtIn := made[name]; builtIn != nil {
			if own = part(builtIn); own == nil {
				return nil, fmt.Errorf("plugin %q does not extend %s plugin", name, pointNames[p].plugin)
			}
		}
		if own != nil {
			list = append(list, own)
		}
	}
	return list, nil
}
