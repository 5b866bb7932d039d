package config

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentconfig "k8s.io/component-base/config"
	componentbase "k8s.io/component-base/config/v1alpha1"
	"k8s.io/component-base/config/validation"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
)

// check returns all errors of a configuration whose defaults are filled in, or nil.
func check(known registry, c *configv1.KubeSchedulerConfiguration) error {
	errs := checkConnections(c)
	add := func(err *field.Error) { errs = append(errs, err) }
	if *c.Parallelism <= 0 {
		add(field.Invalid(field.NewPath("parallelism"), *c.Parallelism, "should be an integer value greater than zero"))
	}
	errs = append(errs, checkProfiles(known, c.Profiles, field.NewPath("profiles"))...)
	errs = append(errs, checkPercentage(c.PercentageOfNodesToScore, field.NewPath("percentageOfNodesToScore"))...)
	if *c.PodInitialBackoffSeconds <= 0 {
		add(field.Invalid(field.NewPath("podInitialBackoffSeconds"), *c.PodInitialBackoffSeconds, "must be greater than 0"))
	}
	if *c.PodMaxBackoffSeconds < *c.PodInitialBackoffSeconds {
		add(field.Invalid(field.NewPath("podMaxBackoffSeconds"), *c.PodMaxBackoffSeconds, "must be greater than or equal to PodInitialBackoffSeconds"))
	}
	errs = append(errs, checkExtenders(c.Extenders, field.NewPath("extenders"))...)
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// checkConnections checks the fields of component-base with its own validation, which
// needs conversions to its internal types.
func checkConnections(c *configv1.KubeSchedulerConfiguration) []error {
	var connection componentconfig.ClientConnectionConfiguration
	var election componentconfig.LeaderElectionConfiguration
	if err := componentbase.Convert_v1alpha1_ClientConnectionConfiguration_To_config_ClientConnectionConfiguration(&c.ClientConnection, &connection, nil); err != nil {
		return []error{fmt.Errorf("clientConnection: %w", err)}
	}
	if err := componentbase.Convert_v1alpha1_LeaderElectionConfiguration_To_config_LeaderElectionConfiguration(&c.LeaderElection, &election, nil); err != nil {
		return []error{fmt.Errorf("leaderElection: %w", err)}
	}
	path := field.NewPath("leaderElection")
	var errs []error
	for _, list := range []field.ErrorList{
		validation.ValidateClientConnectionConfiguration(&connection, field.NewPath("clientConnection")),
		validation.ValidateLeaderElectionConfiguration(&election, path),
	} {
		errs = appendErrs(errs, list)
	}
	if election.LeaderElect && election.ResourceLock != leases {
		errs = append(errs, field.Invalid(path.Child("resourceLock"), election.ResourceLock, `resourceLock value must be "leases"`))
	}
	return errs
}

func appendErrs(errs []error, list field.ErrorList) []error {
	for _, err := range list {
		errs = append(errs, err)
	}
	return errs
}

func checkPercentage(percentage *int32, path *field.Path) []error {
	if p := ptr.Deref(percentage, 0); p < 0 || p > 100 {
		return []error{field.Invalid(path, p, "not in valid range [0-100]")}
	}
	return nil
}

func checkProfiles(known registry, profiles []configv1.KubeSchedulerProfile, path *field.Path) []error {
	var errs []error
	seen := sets.New[string]()
	for i := range profiles {
		profile, path := &profiles[i], path.Index(i)
		name := ptr.Deref(profile.SchedulerName, "")
		if name == "" {
			errs = append(errs, field.Required(path.Child("schedulerName"), ""))
		}
		errs = append(errs, checkPercentage(profile.PercentageOfNodesToScore, path.Child("percentageOfNodesToScore"))...)
		errs = append(errs, checkRemoved(profile.Plugins, path.Child("plugins"))...)
		errs = append(errs, checkPluginConfig(known, profile.PluginConfig, path.Child("pluginConfig"))...)
		if seen.Has(name) && name != "" {
			// Upstream prints "{}" instead of the name.
			errs = append(errs, field.Duplicate(path.Child("schedulerName"), name))
		}
		seen.Insert(name)
	}
	return append(errs, checkQueueSort(profiles, path)...)
}

// removed are plugins of older versions of the configuration.
var removed = [...]string{"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"}

// checkRemovedName returns an error for a removed plugin. The first version in the text
// is kube-scheduler's.
func checkRemovedName(name string, path *field.Path) []error {
	for _, gone := range removed {
		if name == gone {
			return []error{field.Invalid(path, name, fmt.Sprintf("was invalid in version %q (KubeSchedulerConfiguration is version %q)",
				configv1.SchemeGroupVersion.Version, configv1.SchemeGroupVersion))}
		}
	}
	return nil
}

// checkRemoved looks for removed plugins in each point except multiPoint.
func checkRemoved(plugins *configv1.Plugins, path *field.Path) []error {
	var errs []error
	for p := range points {
		for i, plugin := range p.in(plugins).Enabled {
			errs = append(errs, checkRemovedName(plugin.Name, path.Child(pointNames[p].field).Child("enabled").Index(i))...)
		}
	}
	return errs
}

func checkPluginConfig(known registry, configs []configv1.PluginConfig, path *field.Path) []error {
	var errs []error
	seen := sets.New[string]()
	for i := range configs {
		config, path := &configs[i], path.Index(i)
		if seen.Has(config.Name) {
			errs = append(errs, field.Duplicate(path, config.Name))
		}
		seen.Insert(config.Name)
		errs = append(errs, checkRemovedName(config.Name, path)...)
		if plugin := known.find(config.Name); plugin != nil && plugin.args != nil && config.Args.Object != nil {
			if err := plugin.args.check(config.Args.Object, path.Child("args")); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// checkConversions checks that the arguments of out-of-tree plugins convert to the
// internal version, for plugins that take that version.
func checkConversions(known registry, profiles []configv1.KubeSchedulerProfile) error {
	for i := range profiles {
		for j, config := range profiles[i].PluginConfig {
			if known.fromExternal(config.Name) == nil {
				continue
			}
			if _, err := argsForFactory(known.scheme, config.Name, profiles[i].PluginConfig[j:]); err != nil {
				return fmt.Errorf("converting .Profiles[%d].PluginConfig[%d].Args into internal type: %w", i, j, err)
			}
		}
	}
	return nil
}

// checkQueueSort checks that all profiles have the same QueueSort plugin, because they
// share one queue.
func checkQueueSort(profiles []configv1.KubeSchedulerProfile, path *field.Path) []error {
	var errs []error
	want := profiles[0].Plugins.QueueSort
	if n := len(want.Enabled); n > 1 {
		errs = append(errs, field.Invalid(path.Index(0).Child("plugins", "queueSort", "Enabled"), n, "only one queue sort plugin can be enabled"))
	}
	for i := range profiles[1:] {
		profile, path := &profiles[i+1], path.Index(i+1)
		if got := profile.Plugins.QueueSort; !equality.Semantic.DeepEqual(want, got) {
			errs = append(errs, field.Invalid(path.Child("plugins", "queueSort"), shownSet(got), "must be the same for all profiles"))
		}
		if len(want.Enabled) == 0 {
			continue
		}
		wantArgs := argsFor(want.Enabled[0].Name, profiles[0].PluginConfig)
		gotArgs := argsFor(want.Enabled[0].Name, profile.PluginConfig)
		if gotArgs != nil && !equality.Semantic.DeepEqual(wantArgs, gotArgs) {
			errs = append(errs, field.Invalid(path.Child("pluginConfig", "args"), gotArgs, "queueSort must be the same for all profiles"))
		}
	}
	return errs
}

// shownPlugin is a plugin in the form that kube-scheduler's errors print.
type shownPlugin struct {
	Name   string
	Weight int32
}

// shownSet converts a plugin set to the form that kube-scheduler's errors print.
func shownSet(set configv1.PluginSet) any {
	shown := func(plugins []configv1.Plugin) (list []shownPlugin) {
		for _, plugin := range plugins {
			list = append(list, shownPlugin{plugin.Name, ptr.Deref(plugin.Weight, 0)})
		}
		return list
	}
	return struct{ Enabled, Disabled []shownPlugin }{shown(set.Enabled), shown(set.Disabled)}
}

func argsFor(name string, configs []configv1.PluginConfig) *runtime.RawExtension {
	for i := range configs {
		if configs[i].Name == name {
			return &configs[i].Args
		}
	}
	return nil
}

func checkExtenders(extenders []configv1.Extender, path *field.Path) []error {
	var errs []error
	binders := 0
	managed := sets.New[string]()
	for i := range extenders {
		extender, path := &extenders[i], path.Index(i)
		if extender.PrioritizeVerb != "" && extender.Weight <= 0 {
			errs = append(errs, field.Invalid(path.Child("weight"), extender.Weight, "must have a positive weight applied to it"))
		}
		errs = append(errs, checkRedacted(extender, path)...)
		if extender.BindVerb != "" {
			binders++
		}
		for j := range extender.ManagedResources {
			name, path := extender.ManagedResources[j].Name, path.Child("managedResources").Index(j).Child("name")
			errs = append(errs, checkExtendedName(name, path)...)
			if managed.Has(name) {
				errs = append(errs, field.Invalid(path, name, "duplicate extender managed resource name"))
			}
			managed.Insert(name)
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders), "only one extender can implement bind"))
	}
	return errs
}

func checkExtendedName(name string, path *field.Path) []error {
	var errs []error
	for _, problem := range utilvalidation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, problem))
	}
	if len(errs) == 0 && !model.IsExtendedName(v1.ResourceName(name)) {
		errs = append(errs, field.Invalid(path, name, "is an invalid extended resource name"))
	}
	return errs
}
