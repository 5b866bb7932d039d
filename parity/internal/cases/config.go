package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// scorers are the Score plugins that a configuration may list.
func scorers() []string {
	return []string{"TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"}
}

// filters are the Filter plugins that a configuration may list.
func filters() []string {
	return []string{"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures"}
}

// EmptyConfig is a configuration without settings.
func EmptyConfig() []byte { return configText() }

// Config draws a configuration of one profile, under the default scheduler name.
func Config(r *rand.Rand) []byte {
	return configText(profileOf(r, v1.DefaultSchedulerName, random.TopologyProfile(r)))
}

// configText is a configuration with these profiles.
func configText(profiles ...configv1.KubeSchedulerProfile) []byte {
	config := map[string]any{"apiVersion": configv1.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration"}
	if len(profiles) > 0 {
		config["profiles"] = profiles
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("a configuration made of plain values cannot be written: %v", err))
	}
	return text
}

// profileOf converts a profile of the oracle to a profile of a configuration. r chooses
// among the equivalent forms.
func profileOf(r *rand.Rand, name string, from oracle.Profile) configv1.KubeSchedulerProfile {
	p := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &configv1.Plugins{}}
	for _, off := range slices.Sorted(maps.Keys(from.Disabled)) {
		if from.Disabled[off] {
			p.Plugins.MultiPoint.Disabled = append(p.Plugins.MultiPoint.Disabled, configv1.Plugin{Name: off})
		}
	}
	for _, of := range slices.Sorted(maps.Keys(from.Weights)) {
		if from.Disabled[of] {
			continue
		}
		weighted := configv1.Plugin{Name: of, Weight: ptr(int32(from.Weights[of]))}
		if chance(r, 50) {
			p.Plugins.Score.Enabled = append(p.Plugins.Score.Enabled, weighted)
		} else {
			p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, weighted)
		}
	}
	if chance(r, 20) { // Berth filters every node, whatever the value
		p.PercentageOfNodesToScore = ptr(int32(1 + r.IntN(100)))
	}
	p.PluginConfig = argumentsOf(from)
	return p
}

func argumentsOf(from oracle.Profile) []configv1.PluginConfig {
	return []configv1.PluginConfig{
		arguments("NodeResourcesFit", &from.Fit, &from.Fit.TypeMeta),
		arguments("NodeResourcesBalancedAllocation", &from.Balanced, &from.Balanced.TypeMeta),
		arguments("PodTopologySpread", &from.Spread, &from.Spread.TypeMeta),
		arguments("InterPodAffinity", &from.PodAffinity, &from.PodAffinity.TypeMeta),
		nodeAffinityArguments(from.AddedAffinity),
	}
}

func nodeAffinityArguments(added *v1.NodeAffinity) configv1.PluginConfig {
	args := configv1.NodeAffinityArgs{AddedAffinity: added}
	return arguments("NodeAffinity", &args, &args.TypeMeta)
}

func arguments(plugin string, args any, meta *metav1.TypeMeta) configv1.PluginConfig {
	meta.APIVersion, meta.Kind = configv1.SchemeGroupVersion.String(), plugin+"Args"
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("arguments made of plain values cannot be written: %v", err))
	}
	return configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Raw: raw}}
}

// rearrange disables plugins at single extension points and changes their order.
func rearrange(r *rand.Rand, p *configv1.KubeSchedulerProfile) {
	if chance(r, 30) {
		fromNothing(r, p)
		return
	}
	offEverywhere := map[string]bool{}
	for _, off := range p.Plugins.MultiPoint.Disabled {
		offEverywhere[off.Name] = true
	}
	listed := func(set configv1.PluginSet, name string) bool {
		return slices.ContainsFunc(set.Enabled, func(e configv1.Plugin) bool { return e.Name == name })
	}
	for _, name := range scorers() {
		if chance(r, 15) && !offEverywhere[name] && !listed(p.Plugins.Score, name) {
			p.Plugins.Score.Disabled = append(p.Plugins.Score.Disabled, configv1.Plugin{Name: name})
		}
	}
	order := filters()
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, name := range order {
		switch {
		case offEverywhere[name]:
		case chance(r, 20):
			p.Plugins.Filter.Enabled = append(p.Plugins.Filter.Enabled, configv1.Plugin{Name: name})
		case chance(r, 10):
			p.Plugins.Filter.Disabled = append(p.Plugins.Filter.Disabled, configv1.Plugin{Name: name})
		}
	}
}

// fromNothing disables all plugins and lists the enabled ones in any order.
func fromNothing(r *rand.Rand, p *configv1.KubeSchedulerProfile) {
	p.Plugins = &configv1.Plugins{MultiPoint: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "*"}}}}
	all := append(filters(), "NodeResourcesBalancedAllocation", "ImageLocality", "PrioritySort", "DefaultBinder")
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, name := range all {
		if name != "PrioritySort" && name != "DefaultBinder" && chance(r, 15) {
			continue
		}
		on := configv1.Plugin{Name: name}
		if chance(r, 50) {
			on.Weight = ptr(int32(r.IntN(10)))
		}
		p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, on)
	}
}

func ptr[T any](v T) *T { return &v }
