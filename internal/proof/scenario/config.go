package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/config"
)

// settings is a configuration from short forms.
type settings struct {
	file     configv1.KubeSchedulerConfiguration
	plugins  configv1.Plugins
	fit      *configv1.NodeResourcesFitArgs
	balanced *configv1.NodeResourcesBalancedAllocationArgs
	affinity *configv1.NodeAffinityArgs
	spread   *configv1.PodTopologySpreadArgs
	pods     *configv1.InterPodAffinityArgs
	volumes  *configv1.VolumeBindingArgs
}

// settingAttributes are the grammar of short configurations.
var settingAttributes = []attribute[*settings]{
	{key: "backoff", value: "INITIAL..MAX", apply: setBackoff},
	{key: "disable", value: "PLUGIN,...", apply: setDisabled},
	{key: "weight", value: "PLUGIN:WEIGHT", apply: setWeight},
	{key: "fit", value: "LeastAllocated, MostAllocated or RequestedToCapacityRatio", apply: func(s *settings, _, value string) error {
		s.strategy().Type = configv1.ScoringStrategyType(value)
		return nil
	}},
	{key: "resources", value: "RESOURCE:WEIGHT,...", apply: func(s *settings, _, value string) (err error) {
		s.strategy().Resources, err = resourceWeights(value)
		return err
	}},
	{key: "shape", value: "UTILIZATION:SCORE,...", apply: setShape},
	{key: "ignore", value: "RESOURCE,...", apply: func(s *settings, _, value string) error {
		s.fitArgs().IgnoredResources = strings.Split(value, ",")
		return nil
	}},
	{key: "ignoregroup", value: "DOMAIN,...", apply: func(s *settings, _, value string) error {
		s.fitArgs().IgnoredResourceGroups = strings.Split(value, ",")
		return nil
	}},
	{key: "balanced", value: "RESOURCE:1,...", apply: func(s *settings, _, value string) (err error) {
		s.balanced = &configv1.NodeResourcesBalancedAllocationArgs{}
		s.balanced.Resources, err = resourceWeights(value)
		return err
	}},
	{key: "added", value: "TERM", apply: setAdded},
	{key: "addedprefer", value: "WEIGHT:TERM", apply: setAddedPreference},
	{key: "defaultspread", value: "KEY:SKEW[:soft] or none", apply: setDefaultSpread},
	{key: "hardweight", value: "NUMBER", apply: setHardWeight},
	{key: "volumeshape", value: "UTILIZATION:SCORE,...", apply: func(s *settings, _, value string) (err error) {
		s.volumeArgs().Shape, err = shapeOf(value)
		return err
	}},
	{key: "bindtimeout", value: "DURATION", apply: setBindTimeout},
	{key: "ignorewishes", bare: true, value: "true or false", apply: func(s *settings, _, value string) (err error) {
		s.podArgs().IgnorePreferredTermsOfExistingPods, err = truth(value)
		return err
	}},
}

// readConfig reads a configuration from a block of YAML or from short forms.
func readConfig(s *Scenario, args []string, body string) error {
	if s.config != nil {
		return errors.New("there is one already")
	}
	if len(args) > 0 {
		short := &settings{}
		if err := applyAll(settingAttributes, "config", short, args); err != nil {
			return err
		}
		text, err := short.yaml()
		if err != nil {
			return err
		}
		body = string(text)
	} else if !strings.Contains(body, "apiVersion:") {
		body = fmt.Sprintf("apiVersion: %s\nkind: KubeSchedulerConfiguration\n%s", configv1.SchemeGroupVersion, body)
	}
	s.config = []byte(body)
	_, err := config.Parse("config", s.config)
	return err
}

func (s *settings) fitArgs() *configv1.NodeResourcesFitArgs {
	if s.fit == nil {
		s.fit = &configv1.NodeResourcesFitArgs{}
	}
	return s.fit
}

func (s *settings) strategy() *configv1.ScoringStrategy {
	if s.fitArgs().ScoringStrategy == nil {
		s.fit.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	return s.fit.ScoringStrategy
}

// yaml encodes the configuration as a file.
func (s *settings) yaml() ([]byte, error) {
	s.file.TypeMeta = metav1.TypeMeta{APIVersion: configv1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"}
	name := v1.DefaultSchedulerName
	profile := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &s.plugins}
	add := func(plugin string, args any) error {
		raw, err := json.Marshal(args)
		profile.PluginConfig = append(profile.PluginConfig, configv1.PluginConfig{Name: plugin, Args: runtime.RawExtension{Raw: raw}})
		return err
	}
	var errs []error
	if s.fit != nil {
		errs = append(errs, add("NodeResourcesFit", s.fit))
	}
	if s.balanced != nil {
		errs = append(errs, add("NodeResourcesBalancedAllocation", s.balanced))
	}
	if s.affinity != nil {
		errs = append(errs, add("NodeAffinity", s.affinity))
	}
	if s.spread != nil {
		errs = append(errs, add("PodTopologySpread", s.spread))
	}
	if s.pods != nil {
		errs = append(errs, add("InterPodAffinity", s.pods))
	}
	if s.volumes != nil {
		errs = append(errs, add("VolumeBinding", s.volumes))
	}
	s.file.Profiles = []configv1.KubeSchedulerProfile{profile}
	text, err := yaml.Marshal(s.file)
	return text, errors.Join(append(errs, err)...)
}

func setBackoff(s *settings, _, value string) error {
	first, last, ok := strings.Cut(value, "..")
	initial, err := time.ParseDuration(first)
	longest, err2 := time.ParseDuration(last)
	if !ok || err != nil || err2 != nil {
		return fmt.Errorf("%q is not a range of durations", value)
	}
	from, to := int64(initial/time.Second), int64(longest/time.Second)
	s.file.PodInitialBackoffSeconds, s.file.PodMaxBackoffSeconds = &from, &to
	return nil
}

func setDisabled(s *settings, _, value string) error {
	for _, name := range strings.Split(value, ",") {
		s.plugins.MultiPoint.Disabled = append(s.plugins.MultiPoint.Disabled, configv1.Plugin{Name: name})
	}
	return nil
}

func setWeight(s *settings, _, value string) error {
	name, number, _ := strings.Cut(value, ":")
	weight, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a weight", number)
	}
	w := int32(weight)
	s.plugins.MultiPoint.Enabled = append(s.plugins.MultiPoint.Enabled, configv1.Plugin{Name: name, Weight: &w})
	return nil
}

func resourceWeights(value string) ([]configv1.ResourceSpec, error) {
	var specs []configv1.ResourceSpec
	for _, item := range strings.Split(value, ",") {
		name, number, ok := strings.Cut(item, ":")
		weight, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("%q is not RESOURCE:WEIGHT", item)
		}
		specs = append(specs, configv1.ResourceSpec{Name: string(resourceNamed(name)), Weight: weight})
	}
	return specs, nil
}

func setShape(s *settings, _, value string) error {
	points, err := shapeOf(value)
	if err != nil {
		return err
	}
	s.strategy().RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: points}
	return nil
}

func shapeOf(value string) ([]configv1.UtilizationShapePoint, error) {
	var points []configv1.UtilizationShapePoint
	for _, item := range strings.Split(value, ",") {
		var p configv1.UtilizationShapePoint
		if n, err := fmt.Sscanf(item, "%d:%d", &p.Utilization, &p.Score); n != 2 || err != nil {
			return nil, fmt.Errorf("%q is not UTILIZATION:SCORE", item)
		}
		points = append(points, p)
	}
	return points, nil
}

func (s *settings) volumeArgs() *configv1.VolumeBindingArgs {
	if s.volumes == nil {
		s.volumes = &configv1.VolumeBindingArgs{}
	}
	return s.volumes
}

func setBindTimeout(s *settings, _, value string) error {
	timeout, err := durationOf(value)
	seconds := int64(timeout / time.Second)
	s.volumeArgs().BindTimeoutSeconds = &seconds
	return err
}

func (s *settings) addedAffinity() *v1.NodeAffinity {
	if s.affinity == nil {
		s.affinity = &configv1.NodeAffinityArgs{AddedAffinity: &v1.NodeAffinity{}}
	}
	return s.affinity.AddedAffinity
}

func setAdded(s *settings, _, value string) error {
	term, err := termOf(value)
	if err != nil {
		return err
	}
	s.addedAffinity().RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
	return nil
}

func setAddedPreference(s *settings, _, value string) error {
	preference, err := preferenceOf(value)
	if err != nil {
		return err
	}
	affinity := s.addedAffinity()
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution, preference)
	return nil
}

// setDefaultSpread adds a default constraint; "none" removes all.
func setDefaultSpread(s *settings, _, value string) error {
	if s.spread == nil {
		s.spread = &configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting}
	}
	if value == none {
		s.spread.DefaultConstraints = nil
		return nil
	}
	c, err := spreadConstraint(value, nil)
	s.spread.DefaultConstraints = append(s.spread.DefaultConstraints, c)
	return err
}

func (s *settings) podArgs() *configv1.InterPodAffinityArgs {
	if s.pods == nil {
		s.pods = &configv1.InterPodAffinityArgs{}
	}
	return s.pods
}

func setHardWeight(s *settings, _, value string) error {
	number, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a weight", value)
	}
	weight := int32(number)
	s.podArgs().HardPodAffinityWeight = &weight
	return nil
}
