// Package enginetest compares an engine with the oracle.
//
// It takes the oracle's clusters, profiles and judgments. It gives the equivalent
// profiles and changes of the engine, and the differences between both. It owns nothing
// and is imported by tests only. It never decides which of the two is right.
package enginetest

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Profile returns the engine's profile that is equivalent to an oracle's profile. It is
// built from a configuration, so only package config defines the default plugins with
// their order and weights. The oracle's own list checks them independently.
func Profile(t testing.TB, o oracle.Profile) *plugin.Profile {
	t.Helper()
	c, err := Config(o)
	if err != nil {
		t.Fatal(err)
	}
	return c.Profiles[0]
}

// Config writes an oracle's profile as a configuration file, and parses it.
func Config(o oracle.Profile) (*config.Config, error) {
	name := v1.DefaultSchedulerName
	profile := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &configv1.Plugins{}}
	for _, plugin := range slices.Sorted(maps.Keys(o.Disabled)) {
		if o.Disabled[plugin] {
			profile.Plugins.MultiPoint.Disabled = append(profile.Plugins.MultiPoint.Disabled, configv1.Plugin{Name: plugin})
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(o.Weights)) {
		if weight := int32(o.Weights[plugin]); !o.Disabled[plugin] {
			profile.Plugins.MultiPoint.Enabled = append(profile.Plugins.MultiPoint.Enabled, configv1.Plugin{Name: plugin, Weight: &weight})
		}
	}
	// the gate has the same effect on a profile without a utilization shape
	if o.StorageCapacityScoringOff && !o.Disabled["VolumeBinding"] {
		profile.Plugins.Score.Disabled = append(profile.Plugins.Score.Disabled, configv1.Plugin{Name: "VolumeBinding"})
	}
	args := map[string]any{
		"NodeResourcesFit": o.Fit, "NodeResourcesBalancedAllocation": o.Balanced, "PodTopologySpread": o.Spread, "InterPodAffinity": o.PodAffinity,
		"VolumeBinding": o.VolumeBinding, "NodeAffinity": configv1.NodeAffinityArgs{AddedAffinity: o.AddedAffinity},
	}
	for _, plugin := range slices.Sorted(maps.Keys(args)) {
		raw, err := json.Marshal(args[plugin])
		if err != nil {
			return nil, err
		}
		profile.PluginConfig = append(profile.PluginConfig, configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Raw: raw}})
	}
	text, err := json.Marshal(configv1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		Profiles: []configv1.KubeSchedulerProfile{profile},
	})
	if err != nil {
		return nil, err
	}
	return config.Parse("the oracle's profile", text)
}
