package config

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	componentbase "k8s.io/component-base/config/v1alpha1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// Defaults of kube-scheduler.
const (
	// DefaultSchedulerName is the name of a single profile that has no name.
	DefaultSchedulerName = "default-scheduler"

	defaultParallelism           = 16
	defaultBackoffInitialSeconds = 1
	defaultBackoffMaxSeconds     = 10
	defaultExtenderTimeout       = 5 * time.Second
	leases                       = "leases"
)

// fill sets the defaults of all missing fields.
func fill(known registry, c *configv1.KubeSchedulerConfiguration) {
	c.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(kind))
	if len(c.Profiles) == 0 {
		c.Profiles = []configv1.KubeSchedulerProfile{{}}
	}
	if only := &c.Profiles[0]; len(c.Profiles) == 1 {
		missing(&only.SchedulerName, DefaultSchedulerName)
	}
	for i := range c.Profiles {
		fillProfile(known, &c.Profiles[i])
	}
	missing(&c.Parallelism, defaultParallelism)
	missing(&c.PercentageOfNodesToScore, 0)
	missing(&c.PodInitialBackoffSeconds, defaultBackoffInitialSeconds)
	missing(&c.PodMaxBackoffSeconds, defaultBackoffMaxSeconds)
	componentbase.RecommendedDefaultClientConnectionConfiguration(&c.ClientConnection)
	fillLeaderElection(&c.LeaderElection)
	for i := range c.Extenders {
		if timeout := &c.Extenders[i].HTTPTimeout; timeout.Duration == 0 {
			timeout.Duration = defaultExtenderTimeout
		}
	}
	missing(&c.EnableProfiling, true)
	missing(&c.EnableContentionProfiling, *c.EnableProfiling)
}

// fillLeaderElection sets the kind of lock first, because component-base's default no
// longer exists.
func fillLeaderElection(l *componentbase.LeaderElectionConfiguration) {
	empty := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	empty(&l.ResourceLock, leases)
	empty(&l.ResourceName, configv1.SchedulerDefaultLockObjectName)
	empty(&l.ResourceNamespace, configv1.SchedulerDefaultLockObjectNamespace)
	componentbase.RecommendedDefaultLeaderElectionConfiguration(l)
}

// fillProfile merges the plugin sets and completes the arguments. Plugins without
// arguments get their defaults, sorted by name.
func fillProfile(known registry, profile *configv1.KubeSchedulerProfile) {
	profile.Plugins = merge(known.defaults(), profile.Plugins)
	given := map[string]bool{}
	for i := range profile.PluginConfig {
		config := &profile.PluginConfig[i]
		given[config.Name] = true
		if plugin := known.find(config.Name); plugin != nil && plugin.args != nil && config.Args.Object != nil {
			complete(plugin, config)
		}
	}
	enabled := enabledAnywhere(profile.Plugins)
	slices.Sort(enabled)
	for _, name := range enabled {
		plugin := known.find(name)
		if plugin == nil || plugin.args == nil || given[name] {
			continue
		}
		config := configv1.PluginConfig{Name: name, Args: runtime.RawExtension{Object: plugin.args.empty()}}
		complete(plugin, &config)
		profile.PluginConfig = append(profile.PluginConfig, config)
	}
}

// complete fills in the missing fields of typed arguments, and drops their encoded form
// from the file, which is then out of date.
func complete(plugin *row, config *configv1.PluginConfig) {
	plugin.args.fill(config.Args.Object)
	config.Args.Object.GetObjectKind().SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind(plugin.name + "Args"))
	config.Args.Raw = nil
}

// missing sets a field that is nil.
func missing[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
