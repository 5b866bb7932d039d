package config

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/model"
)

// reader is a plugin that reads other kinds of API object than pods and nodes.
type reader interface {
	Reads() []model.Kind
}

// build makes the plugins of a checked profile and puts them where they run. lacking names those that are enabled but that
// Berth does not have; reads are the kinds that they read, in any order and more than once. Of the profile's arguments, those of plugins that are not enabled are dropped, as are those that are empty;
// the others are sorted.
func build(known registry, source *configv1.KubeSchedulerProfile) (profile *engine.Profile, lacking []string, reads []model.Kind, err error) {
	enabled := enabledAnywhere(source.Plugins)
	source.PluginConfig = slices.DeleteFunc(source.PluginConfig, func(config configv1.PluginConfig) bool {
		return !slices.Contains(enabled, config.Name) || config.Args.Object == nil && config.Args.Raw == nil
	})
	slices.SortFunc(source.PluginConfig, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })

	made, err := instances(known, enabled, source.PluginConfig)
	if err != nil {
		return nil, nil, nil, err
	}
	order, err := expand(known, source.Plugins)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := checkCounts(*source.SchedulerName, &order); err != nil {
		return nil, nil, nil, err
	}
	weights, err := weights(source.Plugins, order[score])
	if err != nil {
		return nil, nil, nil, err
	}
	profile = &engine.Profile{Name: *source.SchedulerName}
	if err := assemble(profile, &order, made, weights); err != nil {
		return nil, nil, nil, err
	}
	for _, name := range enabled {
		if !order.has(name) {
			continue
		}
		if waker, ok := made[name].(engine.Waker); ok {
			profile.Wakers = append(profile.Wakers, waker)
		}
		if r, ok := made[name].(reader); ok {
			reads = append(reads, r.Reads()...)
		}
		if made[name] == nil {
			lacking = append(lacking, name)
		}
	}
	return profile, lacking, reads, nil
}

// instances makes the enabled plugins, by name. Those that are unknown or that Berth does not have are left out.
func instances(known registry, enabled []string, configs []configv1.PluginConfig) (map[string]engine.Plugin, error) {
	made := make(map[string]engine.Plugin, len(enabled))
	for _, name := range enabled {
		plugin := known.find(name)
		if plugin == nil || plugin.build == nil {
			continue
		}
		var config configv1.PluginConfig
		if i := slices.IndexFunc(configs, func(c configv1.PluginConfig) bool { return c.Name == name }); i >= 0 {
			config = configs[i]
		}
		instance, err := plugin.build(config.Args.Object)
		if err != nil {
			return nil, fmt.Errorf("initializing plugin %q: %w", name, err)
		}
		made[name] = instance
	}
	return made, nil
}

// checkCounts checks that there are as many plugins of a kind as a profile must have.
func checkCounts(profile string, order *effective) error {
	switch {
	case len(order[queueSort]) != 1:
		return fmt.Errorf("only one queue sort plugin required for profile with scheduler name %q, but got %d", profile, len(order[queueSort]))
	case len(order[bind]) == 0:
		return fmt.Errorf("at least one bind plugin is needed for profile with scheduler name %q", profile)
	}
	return nil
}

// assemble puts plugins into the profile's lists, each in the order of its point.
func assemble(profile *engine.Profile, order *effective, made map[string]engine.Plugin, weights map[string]int64) error {
	filters, err := all[engine.Filterer](order[filter], filter, made)
	if err != nil {
		return err
	}
	profile.Filters = filters
	for _, name := range order[preFilter] {
		if n, ok := made[name].(engine.Narrower); ok {
			profile.Narrowers = append(profile.Narrowers, n)
		}
	}
	scorers, err := all[engine.Scorer](order[score], score, made)
	if err != nil {
		return err
	}
	for _, s := range scorers {
		profile.Scorers = append(profile.Scorers, engine.Weighted{Scorer: s, Weight: weights[s.Name()]})
	}
	profile.Gates, err = all[engine.Gate](order[preEnqueue], preEnqueue, made)
	return err
}

// all returns the plugins of a point. That one cannot do what the table says is a mistake in the table.
func all[T engine.Plugin](names []string, p point, made map[string]engine.Plugin) ([]T, error) {
	var list []T
	for _, name := range names {
		if made[name] == nil {
			continue
		}
		plugin, ok := made[name].(T)
		if !ok {
			return nil, fmt.Errorf("plugin %q does not extend %s plugin", name, pointNames[p].plugin)
		}
		list = append(list, plugin)
	}
	return list, nil
}
