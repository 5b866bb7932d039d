package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/absent"
)

// reader is a plugin that reads kinds of API object other than pods and nodes.
type reader interface {
	Reads() []model.Kind
}

// lack is what a profile enables and Berth lacks.
type lack struct {
	// plugins are all of them; barring are those that keep pods pending which they would have judged.
	plugins, barring []string
}

// built is a profile with the facts found while building it.
type built struct {
	profile *plugin.Profile
	lack
	// reads are the kinds that the plugins read, in any order and more than once.
	reads []model.Kind
}

// build makes the plugins of a checked profile and assigns them to their points. From the profile's arguments it drops those of disabled plugins and
// empty ones, and sorts the rest. ignored are the resources that NodeResourcesFit must ignore for extenders, before the plugins of the profiles
// before.
func build(known registry, source *configv1.KubeSchedulerProfile, ignored []string, before *plugins) (built, error) {
	enabled := enabledAnywhere(source.Plugins)
	source.PluginConfig = slices.DeleteFunc(source.PluginConfig, func(config configv1.PluginConfig) bool {
		return !slices.Contains(enabled, config.Name) || config.Args.Object == nil && config.Args.Raw == nil
	})
	slices.SortFunc(source.PluginConfig, func(a, b configv1.PluginConfig) int { return strings.Compare(a.Name, b.Name) })

	made, err := before.instances(known, enabled, source.PluginConfig, ignored)
	if err != nil {
		return built{}, err
	}
	order, err := expand(known, source.Plugins)
	if err != nil {
		return built{}, err
	}
	if err := checkCounts(*source.SchedulerName, &order); err != nil {
		return built{}, err
	}
	weights, err := weights(source.Plugins, order[score])
	if err != nil {
		return built{}, err
	}
	profile, reads := &plugin.Profile{Name: *source.SchedulerName}, []model.Kind(nil)
	if err := assemble(profile, &order, made, weights); err != nil {
		return built{}, err
	}
	lacking, err := standIn(profile, &order, enabled, made)
	if err != nil {
		return built{}, err
	}
	for _, name := range enabled {
		if x, ok := made[name].(plugin.EnqueueExtensions); ok && order.has(name) {
			profile.EnqueueExtensions = append(profile.EnqueueExtensions, x)
		}
		if r, ok := made[name].(reader); ok && order.has(name) {
			reads = append(reads, r.Reads()...)
		}
	}
	return built{profile, lacking, reads}, nil
}

// deciding are the points at which a plugin decides whether a pod is bound. At the others it only rates nodes, or makes room.
var deciding = [...]point{preEnqueue, preFilter, filter, placementGenerate, reserve, permit, preBind}

// standIn adds the stand-ins of plugins that Berth lacks after the other PreFilter plugins, in the order of the points at which they would
// decide. It makes no difference at which of these points they are enabled: at any of them the real plugin would have judged the pod.
func standIn(profile *plugin.Profile, order *effective, enabled []string, made map[string]plugin.Plugin) (lack, error) {
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
				profile.PreFilters = append(profile.PreFilters, p)
				profile.EnqueueExtensions = append(profile.EnqueueExtensions, p)
			}
		}
	}
	return lacking, nil
}

// plugins are those of all profiles so far. Profiles share a plugin that has equal arguments in both, and what is computed for it.
type plugins struct{ made map[string][]instance }

// instance is a plugin and the arguments that it was made from.
type instance struct {
	args   runtime.Object
	plugin plugin.Plugin
}

// get returns the plugin for these arguments.
func (p *plugins) get(row *row, args runtime.Object) (plugin.Plugin, error) {
	for _, have := range p.made[row.name] {
		if reflect.DeepEqual(have.args, args) { // no less: a plugin may distinguish what is semantically equal
			return have.plugin, nil
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

// instances returns the enabled plugins, by name. It omits those that are unknown or that Berth lacks.
func (p *plugins) instances(known registry, enabled []string, configs []configv1.PluginConfig, ignored []string) (map[string]plugin.Plugin, error) {
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
		instance, err := p.get(row, ignoring(config.Args.Object, ignored))
		if err != nil {
			return nil, err
		}
		made[name] = instance
	}
	return made, nil
}

// checkCounts checks that there is the required number of QueueSort and Bind plugins.
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
	profile.PreFilterOrder = order[preFilter]
	for _, name := range order[preFilter] {
		if p, ok := made[name].(plugin.PreFilter); ok {
			profile.PreFilters = append(profile.PreFilters, p)
		}
	}
	if profile.Filters, err = all(order[filter], filter, made, plugin.AsFilter); err != nil {
		return err
	}
	postFilters := made // with what a missing DynamicResources says there; it stands at PreFilter as another plugin
	if of := absent.NewPostFilter(); made[of.Name()] == nil {
		postFilters = maps.Clone(made)
		postFilters[of.Name()] = of
	}
	if profile.PostFilters, err = all(order[postFilter], postFilter, postFilters, as[plugin.PostFilter]); err != nil {
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

// assembleBinding puts plugins into the lists of the points after a node is chosen.
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
	if profile.Bind, err = all(order[bind], bind, made, as[plugin.Bind]); err != nil {
		return err
	}
	profile.PostBind, err = all(order[postBind], postBind, made, as[plugin.PostBind])
	return err
}

// all returns the plugins of a point. One that does not implement the point is a mistake in the table.
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
