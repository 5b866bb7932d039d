// Property of the default profile: hints cover all kinds that filters declare to read.
package config

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodename"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeports"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodevolumelimits"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/decide/plugins/tainttoleration"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumebinding"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumerestrictions"
	"github.com/berth-scheduler/berth/internal/decide/plugins/volumezone"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// withFilters returns the plugins that have a filter.
func withFilters(t *testing.T) []interface {
	Parts() *plugin.Parts
	EventsToRegister() []model.EventToRegister
} {
	t.Helper()
	affinity, err := nodeaffinity.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	fit, err := noderesourcesfit.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	volumes, err := volumebinding.New(&configv1.VolumeBindingArgs{})
	if err != nil {
		t.Fatal(err)
	}
	return []interface {
		Parts() *plugin.Parts
		EventsToRegister() []model.EventToRegister
	}{
		nodename.New(), nodeunschedulable.New(), tainttoleration.New(tainttoleration.EqualAndExists), affinity, nodeports.New(), fit,
		volumerestrictions.New(), nodevolumelimits.New(), volumes, volumezone.New(), spreadByDefault(t), &interpodaffinity.Plugin{},
		dynamicresources.New(dynamicresources.Config{}), nodedeclaredfeatures.New(),
	}
}

func TestHintsMentionWhatFiltersRead(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	all := withFilters(t)
	if len(all) != len(c.Profiles[0].Filters) {
		t.Errorf("%d plugins, %d filters in the default profile", len(all), len(c.Profiles[0].Filters))
	}
	for _, p := range all {
		parts := p.Parts()
		for _, r := range parts.EnqueueExtensions.Events[len(p.EventsToRegister()):] {
			t.Errorf("%s reads what no hint of it mentions: %v", parts.Name, r.Labels())
		}
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

// forgetful returns the registrations of a plugin that registers none itself.
func forgetful(p *plugin.Parts) *plugin.EnqueueExtensions {
	return plugin.New(plugin.Parts{Name: p.Name, Filter: p.Filter}).EnqueueExtensions
}

// TestEventsStandInForForgottenHints checks that a plugin without hints is woken by every
// change that its filter reads.
func TestEventsStandInForForgottenHints(t *testing.T) {
	for _, row := range []struct {
		plugin *plugin.EnqueueExtensions
		want   string
	}{
		{forgetful(spreadByDefault(t).Parts()),
			"NodeAdd NodeDelete NodeUpdateNodeLabel NodeUpdateNodeTaint AssignedPodAdd AssignedPodDelete AssignedPodUpdatePodLabel " +
				"SelectorUpdate SelectorAdd SelectorDelete"},
		{forgetful((&interpodaffinity.Plugin{}).Parts()),
			"NodeAdd NodeDelete NodeUpdateNodeLabel AssignedPodAdd AssignedPodDelete AssignedPodUpdatePodLabel NamespaceUpdate NamespaceAdd NamespaceDelete"},
		{forgetful(nodevolumelimits.New().Parts()),
			"NodeAdd PersistentVolumeUpdate PersistentVolumeAdd PersistentVolumeDelete PersistentVolumeClaimUpdate PersistentVolumeClaimAdd " +
				"PersistentVolumeClaimDelete storage.k8s.io/StorageClassUpdate storage.k8s.io/StorageClassAdd storage.k8s.io/StorageClassDelete " +
				"storage.k8s.io/CSINodeUpdate storage.k8s.io/CSINodeAdd storage.k8s.io/CSINodeDelete storage.k8s.io/CSIDriverUpdate " +
				"storage.k8s.io/CSIDriverAdd storage.k8s.io/CSIDriverDelete storage.k8s.io/VolumeAttachmentUpdate " +
				"storage.k8s.io/VolumeAttachmentAdd storage.k8s.io/VolumeAttachmentDelete"},
	} {
		var got []string
		for _, r := range row.plugin.Events {
			got = append(got, r.Labels()...)
			if r.Hint != nil || r.Cause != nil {
				t.Errorf("%s: %v has a hint", row.plugin.Name, r.Labels())
			}
		}
		if text := strings.Join(got, " "); text != row.want {
			t.Errorf("%s: got %s, want %s", row.plugin.Name, text, row.want)
		}
	}
}
