package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/absent"
	"github.com/berth-scheduler/berth/internal/state"
)

// barred returns the plugins of the first profile that reject the pod whatever the nodes, in order.
func barred(c *Config, spec v1.PodSpec) string {
	var names []string
	for _, p := range c.Profiles[0].PreFilters {
		if p.PreFilter(state.View{}, model.NewPod(&v1.Pod{Spec: spec})).Rejection != "" {
			names = append(names, p.Name())
		}
	}
	return strings.Join(names, " ")
}

var (
	withClaim  = v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
	withDevice = v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}
	withGroup  = v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}
)

// Every plugin of the table is there, or has a stand-in, or keeps no pod from being bound.
func TestNothingIsPassedOver(t *testing.T) {
	known := builtIn(defaultGates(t))
	for _, row := range slices.Concat(known.byDefault, known.onRequest) {
		if row.build == nil {
			if _, err := absent.New(row.name); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is enabled bars, at whichever point it would have decided. What is disabled is ignored, as kube-scheduler ignores it.
func TestBars(t *testing.T) {
	const volumes = "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone"
	const off = `{name: VolumeRestrictions}, {name: NodeVolumeLimits}, {name: VolumeZone}`
	for _, row := range []struct {
		name, plugins string
		spec          v1.PodSpec
		want          string
	}{
		{"defaults", `{}`, v1.PodSpec{}, ""},
		{"claim", `{}`, withClaim, volumes},
		{"device", `{}`, withDevice, "DynamicResources"},
		{"group, gate off", `{}`, withGroup, ""},
		{"group, plugin on", `{multiPoint: {enabled: [{name: GangScheduling}]}}`, withGroup, "GangScheduling"},
		{"one disabled", `{multiPoint: {disabled: [{name: VolumeZone}]}}`, withClaim, "VolumeRestrictions NodeVolumeLimits VolumeBinding"},
		{"all disabled", `{multiPoint: {disabled: [` + off + `, {name: VolumeBinding}]}}`, withClaim, ""},
		{"no device plugin", `{multiPoint: {disabled: [{name: DynamicResources}]}}`, withDevice, ""},
		{"off at preFilter", `{multiPoint: {disabled: [` + off + `]}, preFilter: {disabled: [{name: VolumeBinding}]}}`, withClaim, "VolumeBinding"},
		{"off at filter", `{multiPoint: {disabled: [` + off + `]}, filter: {disabled: [{name: VolumeBinding}]}}`, withClaim, "VolumeBinding"},
		{"only reserves", `{multiPoint: {disabled: [` + off + `, {name: VolumeBinding}]}, reserve: {enabled: [{name: VolumeBinding}]}}`, withClaim, "VolumeBinding"},
		{"only scores", `{multiPoint: {disabled: [` + off + `, {name: VolumeBinding}]}, score: {enabled: [{name: VolumeBinding}]}}`, withClaim, ""},
		{"only gates", `{multiPoint: {disabled: [{name: DynamicResources}]}, preEnqueue: {enabled: [{name: DynamicResources}]}}`, withDevice, "DynamicResources"},
	} {
		c := mustParse(t, "profiles: [{plugins: "+row.plugins+"}]")
		if got := barred(c, row.spec); got != row.want {
			t.Errorf("%s: barred by %q, want %q", row.name, got, row.want)
		}
		for _, name := range strings.Fields(row.want) {
			if !slices.Contains(c.Barring, name) || !slices.Contains(c.Missing, name) || slices.Contains(c.WithoutEffect(), name) {
				t.Errorf("%s: %s bars; missing are %v, of which bar %v", row.name, name, c.Missing, c.Barring)
			}
			if !slices.ContainsFunc(c.Profiles[0].EnqueueExtensions, func(x plugin.EnqueueExtensions) bool { return x.Name() == name }) {
				t.Errorf("%s: %s wakes nobody", row.name, name)
			}
		}
	}
}

func TestGateBarsGroups(t *testing.T) {
	c, err := Read(Request{Gates: gatesWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})})
	if err != nil {
		t.Fatal(err)
	}
	if got := barred(c, withGroup); got != "GangScheduling TopologyPlacementGenerator" {
		t.Errorf("barred by %q", got)
	}
	if got := strings.Join(c.Notes, "\n"); !strings.Contains(got, "GenericWorkload=true has no effect: pods of a pod group stay pending") {
		t.Errorf("notes are %s", got)
	}
}

func TestBarring(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"DynamicResources", "NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"}, c.Barring); diff != "" {
		t.Errorf("barring (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"DefaultPreemption"}, c.WithoutEffect()); diff != "" {
		t.Errorf("without effect (-want +got):\n%s", diff)
	}
}
