package config

import (
	"fmt"
	"slices"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// reader is a plugin that reads other kinds of API object than pods and nodes.
type reader interface {
	Reads() []model.Kind
}

// build makes the plugins of a checked profile and puts them where they run. lacking names those that are enabled but that
// Berth does not have; reads are the kinds that they read, in any order and more than once. Of the profile's arguments, those of plugins that are not enabled are dropped, as are those that are empty;
// the others are sorted.
func build(known registry, source *configv1.KubeSchedulerProfile) (profile *plugin.Profile, lacking []string, reads []model.Kind, err error) {
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
	profile = &plugin.Profile{Name: *source.SchedulerName}
	if err := assemble(profile, &order, made, weights); err != nil {
		return nil, nil, nil, err
	}
	for _, name := range enabled {
		if !order.has(name) {
			continue
		}
		if x, ok := made[name].(plugin.EnqueueExtensions); ok {
			profile.EnqueueExtensions = append(profile.EnqueueExtensions, x)
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
func instances(known registry, enabled []string, configs []configv1.PluginConfig) (map[string]plugin.Plugin, error) {
	made := make(map[string]plugin.Plugin, len(enabled))
	for _, name := range enabled {
		row := known.find(name)
		if row == nil || row.build == nil {
			continue
		}
		var config configv1.PluginConfig
		if i := slices.IndexFunc(configs, func(c configv1.PluginConfig) bool { return c.Name == name }); i >= 0 {
			config = configs[i]
		}
		instance, err := row.build(config.Args.Object)
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
func assemble(profile *plugin.Profile, order *effective, made map[string]plugin.Plugin, weights map[string]int64) error {
	sorts, err := all(order[queueSort], queueSort, made, as[plugin.QueueSort])
	if err != nil {
		return err
	}
	profile.QueueSort = sorts[0]
	if profile.PreEnqueue, err = all(order[preEnqueue], preEnqueue, made, as[plugin.PreEnqueue]); err != nil {
		return err
	}
	for _, name := range order[preFilter] {
		if p, ok := made[name].(plugin.PreFilter); ok {
			profile.PreFilters = append(profile.PreFilters, p)
		}
	}
	if profile.Filters, err = all(order[filter], filter, made, plugin.AsFilter); err != nil {
		return err
	}
	if profile.PostFilters, err = all(order[postFilter], postFilter, made, as[plugin.PostFilter]); err != nil {
		return err
	}
	scores, err := all(order[score], score, made, plugin.AsScore)
	if err != nil {
		return err
	}
	for _, s := range scores {
		profile.Scores = append(profile.Scores, plugin.Weighted{Score: s, Weight: weights[s.Name()]})
	}
	return assembleBinding(profile, order, made)
}

// assembleBinding puts plugins into the lists of what comes after a node was chosen.
func assembleBinding(profile *plugin.Profile, order *effective, made map[string]plugin.Plugin) (err error) {
	if profile.Reserve, err = all(order[reserve], reserve, made, as[plugin.Reserve]); err != nil {
		return err
	}
	if profile.Permit, err = all(order[permit], permit, made, as[plugin.Permit]); err != nil {
		return err
	}
	if profile.PreBind, err = all(order[preBind], preBind, made, as[plugin.PreBind]); err != nil {
		return err
	}
	profile.PostBind, err = all(order[postBind], postBind, made, as[plugin.PostBind])
	return err
}

// all returns the plugins of a point. That one cannot do what the table says is a mistake in the table.
func all[T plugin.Plugin](names []string, p point, made map[string]plugin.Plugin, as func(plugin.Plugin) (T, bool)) ([]T, error) {
	var list []T
	for _, name := range names {
		if made[name] == nil {
			continue
		}
		own, ok := as(made[name])
		if !ok {
			return nil, fmt.Errorf("plugin %q does not extend %s plugin", name, pointNames[p].plugin)
		}
		list = append(list, own)
	}
	return list, nil
}

func as[T plugin.Plugin](p plugin.Plugin) (own T, ok bool) {
	own, ok = p.(T)
	return own, ok
}
