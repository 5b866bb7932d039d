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

// barred returns the plugins of the first profile that reject the pod before any node is checked, in order.
func barred(c *Config, spec v1.PodSpec) string {
	var names []string
	for _, p := range c.Profiles[0].PreFilters {
		if p.PreFilter(state.New().View(), model.NewPod(&v1.Pod{Spec: spec})).Rejection != "" {
			names = append(names, p.Name())
		}
	}
	return strings.Join(names, " ")
}

var (
	withClaim = v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
	withGroup = v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}
)

// Every plugin of the table exists, or has a stand-in, or keeps no pod from being bound.
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

// An enabled missing plugin bars pods, at whichever point it would decide. A disabled one is ignored, as in kube-scheduler.
func TestBars(t *testing.T) {
	for _, row := range []struct {
		name, plugins string
		spec          v1.PodSpec
		want          string
	}{
		{"defaults", `{}`, v1.PodSpec{}, ""},
		{"claim", `{}`, withClaim, ""},
		{"group, gate off", `{}`, withGroup, ""},
		{"group, plugin on", `{multiPoint: {enabled: [{name: GangScheduling}]}}`, withGroup, "GangScheduling"},
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
				t.Errorf("%s: %s registers for no events", row.name, name)
			}
		}
	}
}

func TestGateBarsGroups(t *testing.T) {
	c, err := Read(Request{Gates: gatesWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})})
	if err != nil {
		t.Fatal(err)
	}
	if got := barred(c, withGroup); got != "TopologyPlacementGenerator" {
		t.Errorf("barred by %q", got)
	}
	if got := strings.Join(c.Notes, "\n"); !strings.Contains(got, "TopologyAwareWorkloadScheduling=true has no effect: pods of a pod group stay pending") || strings.Contains(got, "GenericWorkload=true") {
		t.Errorf("notes are %s", got)
	}
}

func TestBarring(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), c.Barring); diff != "" {
		t.Errorf("barring (-want +got):\n%s", diff)
	}
	if names := c.WithoutEffect(); len(names) > 0 {
		t.Errorf("without effect: %v", names)
	}
}
