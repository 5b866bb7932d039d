package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config/absent"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// barred returns the plugins of the first profile that reject the pod before any node is
// checked, in order.
func barred(c *Config, spec v1.PodSpec) string {
	var names []string
	for _, p := range c.Profiles[0].PreFilters {
		if p.Run(state.New().View(), model.NewPod(&v1.Pod{Spec: spec})).Rejection != "" {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

var (
	withClaim = v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
	withGroup = v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}
)

// Each plugin of the table exists, has a stand-in, or cannot keep a pod from being bound.
func TestNothingIsPassedOver(t *testing.T) {
	known := builtIn(defaultGates(t), rules{})
	for _, row := range slices.Concat(known.byDefault, known.onRequest) {
		if row.build == nil {
			if _, err := absent.New(row.name); err != nil {
				t.Error(err)
			}
		}
	}
}

// An enabled missing plugin bars pods, at any of its deciding points. A disabled one is
// ignored, as in kube-scheduler.
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
			if !slices.ContainsFunc(c.Profiles[0].EnqueueExtensions, func(x *plugin.EnqueueExtensions) bool { return x.Name == name }) {
				t.Errorf("%s: %s registers for no events", row.name, name)
			}
		}
	}
}

func TestGatesBarGroups(t *testing.T) {
	for _, row := range []struct {
		gates         string
		barred, notes string
	}{
		{"GenericWorkload", "", ""},
		{"GenericWorkload TopologyAwareWorkloadScheduling", "", ""},
		{"GenericWorkload DRAWorkloadResourceClaims", "", ""},
		{"GenericWorkload TopologyAwareWorkloadScheduling CompositePodGroup", "", ""},
	} {
		on := map[string]bool{}
		for gate := range strings.FieldsSeq(row.gates) {
			on[gate] = true
		}
		c, err := Read(Request{Gates: gatesWith(t, on)})
		if err != nil {
			t.Fatal(err)
		}
		if got := barred(c, withGroup); got != row.barred {
			t.Errorf("%s: barred by %q, want %q", row.gates, got, row.barred)
		}
		if got := strings.Join(c.Notes, "\n"); got != row.notes {
			t.Errorf("%s: notes are %q, want %q", row.gates, got, row.notes)
		}
	}
}

// placements returns the plugins for pod groups, with their weights.
func placements(t *testing.T, gates, plugins string) string {
	t.Helper()
	on := map[string]bool{}
	for gate := range strings.FieldsSeq(gates) {
		on[gate] = true
	}
	c, err := ParseWith("config", []byte(header+"profiles: [{plugins: "+plugins+"}]\n"), Request{Gates: gatesWith(t, on)})
	var own *Error
	switch {
	case errors.As(err, &own):
		return own.Err.Error()
	case err != nil:
		return err.Error()
	}
	p := c.Profiles[0].Placements
	if p == nil {
		return "none"
	}
	text := "all nodes"
	if p.Generate != nil {
		text = p.Generate.Name
	}
	for _, s := range p.Scores {
		text += fmt.Sprintf(" %s=%d", s.Name, s.Weight)
	}
	return text
}

func TestPlacements(t *testing.T) {
	const on = "GenericWorkload TopologyAwareWorkloadScheduling"
	for _, row := range []struct{ gates, plugins, want string }{
		{"", `{}`, "none"},
		{"GenericWorkload", `{}`, "none"},
		{"", `{multiPoint: {enabled: [{name: TopologyPlacementGenerator}]}}`, "none"},
		{on, `{}`, "TopologyPlacementGenerator NodeResourcesFit=1 PodGroupPodsCount=1"},
		{on, `{multiPoint: {enabled: [{name: NodeResourcesFit, weight: 5}, {name: PodGroupPodsCount, weight: 7}]}}`, "TopologyPlacementGenerator NodeResourcesFit=5 PodGroupPodsCount=7"},
		{on, `{placementScore: {enabled: [{name: PodGroupPodsCount, weight: 3}]}}`, "TopologyPlacementGenerator PodGroupPodsCount=3 NodeResourcesFit=1"},
		{on, `{score: {enabled: [{name: NodeResourcesFit, weight: 9}]}}`, "TopologyPlacementGenerator NodeResourcesFit=1 PodGroupPodsCount=1"},
		{on, `{placementScore: {disabled: [{name: "*"}]}}`, "TopologyPlacementGenerator"},
		{on, `{placementGenerate: {disabled: [{name: "*"}]}, placementScore: {disabled: [{name: NodeResourcesFit}]}}`, "all nodes PodGroupPodsCount=1"},
		{on, `{multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: GangScheduling}]}}`, "all nodes"},
		{on, `{placementScore: {enabled: [{name: TopologyPlacementGenerator}]}}`,
			`initializing profiles: creating profile for scheduler name default-scheduler: plugin "TopologyPlacementGenerator" does not extend PlacementScorePlugin plugin`},
		{on + " CompositePodGroup", `{}`, "TopologyPlacementGenerator NodeResourcesFit=1 PodGroupPodsCount=1"},
		{on + " CompositePodGroup", `{placementGenerate: {disabled: [{name: "*"}]}}`, "all nodes NodeResourcesFit=1 PodGroupPodsCount=1"},
	} {
		if got := strings.TrimPrefix(placements(t, row.gates, row.plugins), "config: "); got != row.want {
			t.Errorf("%q, %s:\n got %s\nwant %s", row.gates, row.plugins, got, row.want)
		}
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
