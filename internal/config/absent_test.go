package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/absent"
	"github.com/berth-scheduler/berth/internal/state"
)

// barred returns the plugins of the first profile that reject the pod before any node is checked, in order.
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
	withClaim   = v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}
	withDevice  = v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu"}}}
	withGroup   = v1.PodSpec{SchedulingGroup: &v1.PodSchedulingGroup{}}
	withManaged = v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}}
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
		{"device", `{}`, withDevice, "DynamicResources"},
		{"group, gate off", `{}`, withGroup, ""},
		{"group, plugin on", `{multiPoint: {enabled: [{name: GangScheduling}]}}`, withGroup, "GangScheduling"},
		{"no device plugin", `{multiPoint: {disabled: [{name: DynamicResources}]}}`, withDevice, ""},
		{"off at preFilter", `{preFilter: {disabled: [{name: DynamicResources}]}}`, withDevice, "DynamicResources"},
		{"off at filter", `{filter: {disabled: [{name: DynamicResources}]}}`, withDevice, "DynamicResources"},
		{"only reserves", `{multiPoint: {disabled: [{name: DynamicResources}]}, reserve: {enabled: [{name: DynamicResources}]}}`, withDevice, "DynamicResources"},
		{"only scores", `{multiPoint: {disabled: [{name: DynamicResources}]}, score: {enabled: [{name: DynamicResources}]}}`, withDevice, ""},
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
	if diff := cmp.Diff([]string{"DynamicResources"}, c.Barring); diff != "" {
		t.Errorf("barring (-want +got):\n%s", diff)
	}
	if names := c.WithoutEffect(); len(names) > 0 {
		t.Errorf("without effect: %v", names)
	}
}

func TestExtendersThatDecide(t *testing.T) {
	for _, row := range []struct {
		name, extenders string
		bars, ignored   string // which of the pods withManaged and empty are barred, without and with the flag
		refused         string
		note            string // with the flag
	}{
		{"none", ``, "", "", "", ""},
		{"scores", `{urlPrefix: x, prioritizeVerb: p, weight: 1}`, "", "", "", "extenders[0] is not asked: Berth does not support extenders yet; no pod waits for it"},
		{"preempts", `{urlPrefix: x, preemptVerb: p}`, "", "", "", "no pod waits for it"},
		{
			"filters", `{urlPrefix: x, filterVerb: f}`, "managed all", "",
			`extenders[0].filterVerb: Invalid value: "f": this version of Berth does not ask extenders: pods would go to nodes that it rejects`, "pods are bound without it",
		},
		{"binds", `{urlPrefix: x, bindVerb: b, ignorable: true}`, "managed all", "", `extenders[0].bindVerb: Invalid value: "b": `, "pods are bound without it"},
		{
			"manages and filters", `{urlPrefix: x, filterVerb: f, managedResources: [{name: example.com/gpu}]}`, "managed", "managed", "",
			"pods that request a resource that it manages stay pending",
		},
		{"manages and binds", `{urlPrefix: x, bindVerb: b, managedResources: [{name: example.com/gpu}]}`, "managed", "managed", "", "stay pending"},
		{"manages and scores", `{urlPrefix: x, prioritizeVerb: p, weight: 1, managedResources: [{name: example.com/gpu}]}`, "", "", "", "no pod waits for it"},
		{"manages another", `{urlPrefix: x, filterVerb: f, managedResources: [{name: example.com/nic}]}`, "", "", "", "stay pending"},
		{
			"second of two", `{urlPrefix: x, prioritizeVerb: p, weight: 1}, {urlPrefix: z, filterVerb: f}`, "managed all", "", `extenders[1].filterVerb: `,
			"extenders[1] is not asked: Berth does not support extenders yet; pods are bound without it",
		},
	} {
		text := []byte(header + "extenders: [" + row.extenders + "]\n")
		for _, ignore := range []bool{false, true} {
			c, err := parse("f", text, Request{IgnoreExtenders: ignore})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, pod := range []struct {
				name string
				spec v1.PodSpec
			}{{"managed", withManaged}, {"all", v1.PodSpec{}}} {
				switch by := barred(c, pod.spec); by {
				case "":
				case "Extender":
					got = append(got, pod.name)
				default:
					t.Errorf("%s: barred by %s", row.name, by)
				}
			}
			want := row.bars
			if ignore {
				want = row.ignored
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, ignore %v: bars %v, want %v", row.name, ignore, got, want)
			}
			if ignore && !strings.Contains(strings.Join(c.Notes, "\n"), row.note) {
				t.Errorf("%s: notes are %q, want %q", row.name, c.Notes, row.note)
			}
			err = c.CheckExtenders()
			if (err != nil) != (row.refused != "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("%s: refused with %v, want %q", row.name, err, row.refused)
			}
		}
	}
}

// Resources that extenders manage with ignoredByScheduler replace NodeResourcesFit's ignoredResources in every profile, but not in the written
// configuration.
func TestIgnoredByExtenders(t *testing.T) {
	const profiles = `
profiles: [{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]}, {schedulerName: b}]
`
	for _, row := range []struct {
		name, extenders string
		want            string // the resources that are not checked
		note            string
	}{
		{"no extender", ``, "example.com/own", "NodeResourcesFit ignores example.com/own: "},
		{"not ignored", `{urlPrefix: x, managedResources: [{name: example.com/gpu}]}`, "example.com/own", "NodeResourcesFit ignores example.com/own: "},
		{
			"ignored", `{urlPrefix: x, managedResources: [{name: example.com/gpu, ignoredByScheduler: true}, {name: example.com/nic}]}`,
			"example.com/gpu", "NodeResourcesFit ignores example.com/gpu: ",
		},
	} {
		c := mustParse(t, profiles+"extenders: ["+row.extenders+"]")
		for i, profile := range c.Profiles {
			at := slices.IndexFunc(profile.Filters, func(f plugin.Filter) bool { return f.Name() == "NodeResourcesFit" })
			fit := profile.Filters[at].(plugin.NodeFilter)
			want := row.want
			if i == 1 && row.name != "ignored" { // the second profile ignores nothing itself
				want = ""
			}
			var ignored []string
			asks := func(pod *v1.Pod) string { return string(fit.FilterNeed(model.NewPod(pod)).AppendText(nil)) }
			nothing := asks(&v1.Pod{})
			for _, name := range []v1.ResourceName{"example.com/gpu", "example.com/nic", "example.com/own"} {
				var pod v1.Pod
				pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{name: resource.MustParse("1")}}}}
				if asks(&pod) == nothing {
					ignored = append(ignored, string(name))
				}
			}
			if got := strings.Join(ignored, " "); got != want {
				t.Errorf("%s: profile %s ignores %q, want %q", row.name, profile.Name, got, want)
			}
		}
		if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, row.note) {
			t.Errorf("%s: notes are %s, want %s", row.name, notes, row.note)
		}
		var written strings.Builder
		if err := c.Write(&written); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(written.String(), "ignoredResources:\n      - example.com/own") {
			t.Errorf("%s: writes other arguments than it was given:\n%s", row.name, written.String())
		}
	}
}
