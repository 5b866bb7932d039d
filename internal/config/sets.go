package config

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// every means all plugins in a disabled list.
const every = "*"

// merge combines the default plugins with the file's, point by point.
func merge(defaults, own *configv1.Plugins) *configv1.Plugins {
	if own == nil {
		own = &configv1.Plugins{}
	}
	merged := &configv1.Plugins{MultiPoint: mergeSet(defaults.MultiPoint, own.MultiPoint)}
	for p := range points {
		*p.in(merged) = mergeSet(*p.in(defaults), *p.in(own))
	}
	return merged
}

// mergeSet combines one point's sets. Disabled defaults are dropped, and defaults that
// the file enables again are replaced in place. The file's other plugins follow. A plugin
// without weight gets weight 0, as kube-scheduler writes it.
func mergeSet(defaults, own configv1.PluginSet) configv1.PluginSet {
	var merged configv1.PluginSet
	disabled := sets.New[string]()
	for _, plugin := range slices.Concat(own.Disabled, defaults.Disabled) {
		merged.Disabled = append(merged.Disabled, configv1.Plugin{Name: plugin.Name, Weight: ptr.To[int32](0)})
		disabled.Insert(plugin.Name)
	}
	again := map[string]int{} // index of the plugin in the file; the last one counts
	for i, plugin := range own.Enabled {
		again[plugin.Name] = i
	}
	used := sets.New[int]()
	add := func(plugin configv1.Plugin) {
		merged.Enabled = append(merged.Enabled, configv1.Plugin{Name: plugin.Name, Weight: ptr.To(ptr.Deref(plugin.Weight, 0))})
	}
	for _, plugin := range defaults.Enabled {
		if disabled.HasAny(every, plugin.Name) {
			continue
		}
		if i, ok := again[plugin.Name]; ok {
			used.Insert(i)
			plugin = own.Enabled[i]
		}
		add(plugin)
	}
	for i, plugin := range own.Enabled {
		if !used.Has(i) {
			add(plugin)
		}
	}
	return merged
}

// effective is the names of the plugins of each point, in the order of their calls.
type effective [points][]string

// has reports whether the plugin runs at any point.
func (e *effective) has(name string) bool {
	return slices.ContainsFunc(e[:], func(order []string) bool { return slices.Contains(order, name) })
}

// expand returns which plugins run at which point, from merged plugin sets.
func expand(known registry, plugins *configv1.Plugins) (effective, error) {
	var all effective
	for p := range points {
		own, err := enabledAt(known, p, p.in(plugins).Enabled)
		if err != nil {
			return all, err
		}
		all[p] = own
	}
	if len(plugins.MultiPoint.Enabled) == 0 {
		return all, nil
	}
	for p := range points {
		disabled := names(p.in(plugins).Disabled)
		if slices.Contains(disabled, every) {
			continue
		}
		everywhere, err := enabledEverywhere(known, p, plugins.MultiPoint.Enabled, disabled, all[p])
		if err != nil {
			return all, err
		}
		all[p] = combine(all[p], everywhere)
	}
	return all, nil
}

// enabledAt checks and returns the plugins that the point's own set enables.
func enabledAt(known registry, p point, enabled []configv1.Plugin) ([]string, error) {
	var own []string
	for _, name := range names(enabled) {
		plugin := known.find(name)
		switch {
		case plugin == nil:
			return nil, errUnknown(p, name)
		case !plugin.points.has(p):
			return nil, fmt.Errorf("plugin %q does not extend %s plugin", name, pointNames[p].plugin)
		case slices.Contains(own, name):
			return nil, errTwice(p, name)
		}
		own = append(own, name)
	}
	return own, nil
}

// enabledEverywhere returns the plugins of multiPoint that implement the point and are
// not disabled there. A plugin that is listed twice is a mistake, unless the point's own
// set lists it.
func enabledEverywhere(known registry, p point, enabled []configv1.Plugin, disabled, own []string) ([]string, error) {
	var some []string
	for _, name := range names(enabled) {
		plugin := known.find(name)
		switch {
		case plugin == nil:
			return nil, errUnknown(p, name)
		case known.unmade(name), !plugin.points.has(p), slices.Contains(disabled, name):
			continue
		case slices.Contains(some, name) && !slices.Contains(own, name):
			return nil, errTwice(p, name)
		}
		some = append(some, name)
	}
	return some, nil
}

// combine orders a point's plugins: first the plugins enabled in both ways, in the
// point's order; then those from multiPoint; then the rest.
func combine(own, everywhere []string) []string {
	var both, rest []string
	for _, name := range own {
		if slices.Contains(everywhere, name) {
			both = append(both, name)
		} else {
			rest = append(rest, name)
		}
	}
	others := slices.DeleteFunc(everywhere, func(name string) bool { return slices.Contains(both, name) })
	return slices.Concat(both, others, rest)
}

// weights returns the weight of each scorer of a point. The point's own set takes
// precedence over multiPoint, and 0 means 1. A weight has 32 bits, so no sum of scores
// overflows. But kube-scheduler reports an overflow if the sum is negative before its
// last term.
func weights(plugins *configv1.Plugins, p point, scorers []string) (map[string]int64, error) {
	all := make(map[string]int64, len(scorers))
	var total int64
	for _, plugin := range slices.Concat(p.in(plugins).Enabled, plugins.MultiPoint.Enabled) {
		if _, ok := all[plugin.Name]; ok || !slices.Contains(scorers, plugin.Name) {
			continue
		}
		if total < 0 {
			return nil, errors.New("score plugins: total score of Score plugins could overflow")
		}
		weight := int64(ptr.Deref(plugin.Weight, 0))
		if weight == 0 {
			weight = 1
		}
		all[plugin.Name] = weight
		total += weight
	}
	return all, nil
}

// enabledAnywhere returns the plugins that multiPoint or any point enables, each once,
// multiPoint's first.
func enabledAnywhere(plugins *configv1.Plugins) []string {
	all := names(plugins.MultiPoint.Enabled)
	for p := range points {
		all = append(all, names(p.in(plugins).Enabled)...)
	}
	seen := sets.New[string]()
	return slices.DeleteFunc(all, func(name string) bool {
		again := seen.Has(name)
		seen.Insert(name)
		return again
	})
}

func names(plugins []configv1.Plugin) []string {
	list := make([]string, len(plugins))
	for i := range plugins {
		list[i] = plugins[i].Name
	}
	return list
}

func errUnknown(p point, name string) error {
	return fmt.Errorf("%s %q does not exist", pointNames[p].plugin, name)
}

func errTwice(p point, name string) error {
	return fmt.Errorf("plugin %q already registered as %q", name, pointNames[p].plugin)
}
