package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/config/feature"
)

func defaultGates(t *testing.T) Gates { return gatesWith(t, nil) }

func gatesWith(t *testing.T, set map[string]bool) Gates {
	t.Helper()
	gates, err := feature.With(set)
	if err != nil {
		t.Fatal(err)
	}
	return gates
}

func TestEveryGateIsKnown(t *testing.T) {
	gates := defaultGates(t)
	for _, name := range []featuregate.Feature{
		componentFlagz, componentStatusz, coordinatedLeaderElection, deferredPodScheduling, draDeviceBindingConditions,
		draSchedulerFilterTimeout, genericWorkload, storageCapacityScoring, taintTolerationComparison, topologyAwareScheduling,
	} {
		gates.Enabled(name) // panics if it is unknown
	}
	for _, row := range without() {
		if gates.Enabled(row.gate) == row.on {
			t.Errorf("what Berth does is not the default of %s", row.gate)
		}
	}
}

func TestGatesChoosePlugins(t *testing.T) {
	enabled := func(set map[string]bool) []string {
		c, err := Read(Request{Gates: gatesWith(t, set)})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, plugin := range c.Source.Profiles[0].Plugins.MultiPoint.Enabled {
			list = append(list, fmt.Sprint(plugin.Name, "=", *plugin.Weight))
		}
		return list
	}
	usual := enabled(nil)
	all := enabled(map[string]bool{
		"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "InPlacePodVerticalScalingSchedulerPreemption": true,
	})
	fit := slices.Index(usual, "NodeResourcesFit=1")
	want := slices.Insert(slices.Clone(usual), fit, "DeferredPodScheduling=0")
	want = append(want, "GangScheduling=0", "TopologyPlacementGenerator=0", "PodGroupPodsCount=1")
	if !slices.Equal(all, want) {
		t.Errorf("enabled by default are %v, want %v", all, want)
	}
}

func TestGatesShapeArguments(t *testing.T) {
	off := gatesWith(t, map[string]bool{"StorageCapacityScoring": false, "DRASchedulerFilterTimeout": false, "DRADeviceBindingConditions": false})
	c, err := Read(Request{Gates: off})
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range c.Source.Profiles[0].PluginConfig {
		switch args := config.Args.Object.(type) {
		case *configv1.VolumeBindingArgs:
			if args.Shape != nil {
				t.Errorf("there is a shape: %v", args.Shape)
			}
		case *configv1.DynamicResourcesArgs:
			if args.FilterTimeout != nil || args.BindingTimeout != nil {
				t.Errorf("there are times: %v, %v", args.FilterTimeout, args.BindingTimeout)
			}
		}
	}
	const text = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: VolumeBinding
    args:
      shape: [{utilization: 0, score: 10}]
  - name: DynamicResources
    args:
      filterTimeout: 1s
      bindingTimeout: 1s
`
	_, err = ParseWith("config", []byte(text), Request{Gates: off})
	for _, want := range []string{
		"profiles[0].pluginConfig[0].args.shape: Invalid value",
		"remove it or turn on the feature gate StorageCapacityScoring",
		"profiles[0].pluginConfig[1].args.filterTimeout: Forbidden",
		"profiles[0].pluginConfig[1].args.bindingTimeout: Forbidden",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Parse("config", []byte(text)); err != nil {
		t.Errorf("with the gates on: %v", err)
	}
}

func TestNotes(t *testing.T) {
	usual, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if len(usual.Notes) != 0 {
		t.Errorf("the defaults have notes: %v", usual.Notes)
	}
	const text = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 4
percentageOfNodesToScore: 30
extenders: [{urlPrefix: "http://localhost", httpTimeout: -1s}]
profiles:
- schedulerName: a
  percentageOfNodesToScore: 20
`
	c, err := ParseWith("config", []byte(text), Request{Gates: gatesWith(t, map[string]bool{"SchedulerPopFromBackoffQ": false})})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.Notes, "\n")
	for _, want := range []string{
		"percentageOfNodesToScore has no effect", "percentageOfNodesToScore of profile a has no effect", "parallelism affects only the Parallelizer",
		"extenders[0].httpTimeout", "feature gate SchedulerPopFromBackoffQ=false has no effect",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("notes lack %q:\n%s", want, got)
		}
	}
}

// Values from flags are validated with the rest, and are not replaced by defaults.
func TestEdit(t *testing.T) {
	election := func(lease, renew time.Duration) func(*configv1.KubeSchedulerConfiguration) {
		return func(c *configv1.KubeSchedulerConfiguration) {
			c.LeaderElection.LeaseDuration = metav1.Duration{Duration: lease}
			c.LeaderElection.RenewDeadline = metav1.Duration{Duration: renew}
		}
	}
	for _, test := range []struct {
		lease, renew time.Duration
		want         string
	}{
		{20 * time.Second, 10 * time.Second, ""},
		{0, 10 * time.Second, "leaderElection.leaseDuration: Invalid value"},
		{10 * time.Second, 10 * time.Second, "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`"},
	} {
		c, err := Read(Request{Edit: election(test.lease, test.renew)})
		switch {
		case test.want == "" && err != nil:
			t.Error(err)
		case test.want == "" && c.Source.LeaderElection.LeaseDuration.Duration != test.lease:
			t.Errorf("lease duration %v, want %v", c.Source.LeaderElection.LeaseDuration, test.lease)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
	limits := func(c *configv1.KubeSchedulerConfiguration) { c.ClientConnection.QPS = 50 }
	for _, limited := range []bool{false, true} {
		c, err := Read(Request{Edit: limits, Limited: limited})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.QPS == 50 && c.Burst == 100; got != limited {
			t.Errorf("QPS %v and burst %d, want limits: %v", c.QPS, c.Burst, limited)
		}
	}
}
