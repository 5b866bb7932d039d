// Property of the default profile: hints cover all kinds that filters declare to read.
package config

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodevolumelimits"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

func TestHintsMentionWhatFiltersRead(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, x := range append(c.Profiles[0].EnqueueExtensions, spreadByDefault(t)) {
		if _, ok := plugin.ReadsOf(x); ok {
			declared++
		}
		all := plugin.Events(x)
		for _, r := range all[len(x.EventsToRegister()):] {
			t.Errorf("%s reads what no hint of it mentions: %v", x.Name(), r.Labels())
		}
	}
	if declared < 10 {
		t.Errorf("only %d plugins declare what they read", declared)
	}
}

func spreadByDefault(t *testing.T) *podtopologyspread.Plugin {
	t.Helper()
	p, err := podtopologyspread.New(&configv1.PodTopologySpreadArgs{
		DefaultConstraints: []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule}},
		DefaultingType:     configv1.ListDefaulting,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// These wrappers remove the hints of a plugin, except the hints about the pod itself.
type (
	forgetfulSpread   struct{ *podtopologyspread.Plugin }
	forgetfulAffinity struct{ *interpodaffinity.Plugin }
	forgetfulLimits   struct{ *nodevolumelimits.Plugin }
)

func (forgetfulSpread) EventsToRegister() []model.EventToRegister   { return nil }
func (forgetfulAffinity) EventsToRegister() []model.EventToRegister { return nil }
func (forgetfulLimits) EventsToRegister() []model.EventToRegister   { return nil }

// TestEventsStandInForForgottenHints checks that a plugin without hints is woken by every
// change that its filter reads.
func TestEventsStandInForForgottenHints(t *testing.T) {
	for _, row := range []struct {
		plugin plugin.EnqueueExtensions
		want   string
	}{
		{forgetfulSpread{spreadByDefault(t)},
			"NodeAdd NodeDelete NodeUpdateNodeLabel NodeUpdateNodeTaint AssignedPodAdd AssignedPodDelete AssignedPodUpdatePodLabel " +
				"SelectorUpdate SelectorAdd SelectorDelete"},
		{forgetfulAffinity{&interpodaffinity.Plugin{}},
			"NodeAdd NodeDelete NodeUpdateNodeLabel AssignedPodAdd AssignedPodDelete AssignedPodUpdatePodLabel NamespaceUpdate NamespaceAdd NamespaceDelete"},
		{forgetfulLimits{nodevolumelimits.New()},
			"NodeAdd PersistentVolumeUpdate PersistentVolumeAdd PersistentVolumeDelete PersistentVolumeClaimUpdate PersistentVolumeClaimAdd " +
				"PersistentVolumeClaimDelete storage.k8s.io/StorageClassUpdate storage.k8s.io/StorageClassAdd storage.k8s.io/StorageClassDelete " +
				"storage.k8s.io/CSINodeUpdate storage.k8s.io/CSINodeAdd storage.k8s.io/CSINodeDelete storage.k8s.io/CSIDriverUpdate " +
				"storage.k8s.io/CSIDriverAdd storage.k8s.io/CSIDriverDelete storage.k8s.io/VolumeAttachmentUpdate " +
				"storage.k8s.io/VolumeAttachmentAdd storage.k8s.io/VolumeAttachmentDelete"},
	} {
		var got []string
		for _, r := range plugin.Events(row.plugin) {
			got = append(got, r.Labels()...)
			if r.Hint != nil || r.Cause != nil {
				t.Errorf("%s: %v has a hint", row.plugin.Name(), r.Labels())
			}
		}
		if text := strings.Join(got, " "); text != row.want {
			t.Errorf("%s: got %s, want %s", row.plugin.Name(), text, row.want)
		}
	}
}
