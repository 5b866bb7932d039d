package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

const twoProfiles = "profiles: [{schedulerName: a}, {schedulerName: b}]\n"

// If extenders are to be called, every profile has them, the ignorable ones last.
// Otherwise no profile has them.
func TestExtenders(t *testing.T) {
	for _, row := range []struct {
		name, extenders string
		order           string
		binds           bool
		unasked         []string // parts of the notes
	}{
		{"none", ``, "", false, nil},
		{"password", `{urlPrefix: "http://u:secret@a", filterVerb: f}`, "http://u:xxxxx@a", false, []string{"extenders[0] (http://u:xxxxx@a) is not called here; the scheduler calls it for every pod: it filters nodes"}},
		{"filters", `{urlPrefix: "http://a", filterVerb: f}`, "http://a", false, []string{"extenders[0] (http://a) is not called here; the scheduler calls it for every pod: it filters nodes"}},
		{"binds", `{urlPrefix: a, bindVerb: b, preemptVerb: p}`, "a", true, []string{"every pod: it chooses victims, binds pods"}},
		{
			"ignorable go last", `{urlPrefix: a, filterVerb: f, ignorable: true}, {urlPrefix: b, filterVerb: f}, {urlPrefix: c, filterVerb: f, ignorable: true}, {urlPrefix: d, filterVerb: f}`,
			"b d a c", false, []string{"extenders[0]", "extenders[1]", "extenders[2]", "extenders[3]"},
		},
		{"manages", `{urlPrefix: a, prioritizeVerb: p, weight: 1, managedResources: [{name: example.com/gpu}]}`, "a", false, []string{"pods that request example.com/gpu: it rates nodes"}},
		{"no verb", `{urlPrefix: a}`, "a", false, nil},
	} {
		for _, ask := range []bool{false, true} {
			c, err := ParseWith("f", []byte(header+twoProfiles+"extenders: ["+row.extenders+"]\n"), Request{AskExtenders: ask})
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			asked := ask && row.order != ""
			if (c.Extenders != nil) != asked {
				t.Errorf("%s, asked %t: has extenders: %t", row.name, ask, c.Extenders != nil)
			}
			if ask && len(c.Unasked) > 0 || !ask && len(c.Unasked) != len(row.unasked) {
				t.Errorf("%s, asked %t: not asked are %q", row.name, ask, c.Unasked)
			}
			for i := range c.Unasked {
				if !strings.Contains(c.Unasked[i], row.unasked[i]) {
					t.Errorf("%s: note %q, want %q", row.name, c.Unasked[i], row.unasked[i])
				}
			}
			for _, p := range c.Profiles {
				var names []string
				for _, e := range p.Extenders {
					names = append(names, e.Traits().Name)
				}
				want := ""
				if ask {
					want = row.order
				}
				if got := strings.Join(names, " "); got != want {
					t.Errorf("%s, asked %t: profile %s has extenders %q, want %q", row.name, ask, p.Name, got, want)
				}
				if (len(p.BindSteps) > 0) != (ask && row.binds) {
					t.Errorf("%s, asked %t: profile %s has %d plugins before its Bind plugins", row.name, ask, p.Name, len(p.BindSteps))
				}
			}
		}
	}
}

// Pods that an extender rejected wait for events of all kinds, which are then watched
// whatever plugins read.
func TestExtendersReadWhatTheirPodsWaitFor(t *testing.T) {
	const bare = `profiles: [{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}]` + "\n"
	for _, ask := range []bool{false, true} {
		c, err := ParseWith("f", []byte(header+bare+`extenders: [{urlPrefix: x, filterVerb: f}]`), Request{AskExtenders: ask})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, kind := range c.Reads() {
			got = append(got, kinds.Get(kind).Resource.Resource)
		}
		want := []string{"pods", "nodes"}
		if ask {
			want = append(want, "persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "resourceclaims", "deviceclasses")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("asked %t, kinds (-want +got):\n%s", ask, diff)
		}
	}
}

// If extenders are to be called, a mistake in an extender's files is an error that names
// the extender.
func TestExtenderTLS(t *testing.T) {
	for _, row := range []struct{ name, tls, want string }{
		{"no such file", `{caFile: /none/ca.crt}`, "f: couldn't build extenders: extenders[1].tlsConfig: open /none/ca.crt: no such file or directory"},
		{"insecure with authority", `{insecure: true, caData: YQ==}`, "extenders[1].tlsConfig: specifying a root certificates file with the insecure flag is not allowed"},
		{"certificate without key", `{certData: YQ==, caData: YQ==}`, "extenders[1].tlsConfig: "},
	} {
		text := []byte(header + `extenders: [{urlPrefix: x}, {urlPrefix: z, enableHTTPS: true, tlsConfig: ` + row.tls + `}]`)
		if _, err := ParseWith("f", text, Request{AskExtenders: true}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: error %v, want %q", row.name, err, row.want)
		}
		if _, err := ParseWith("f", text, Request{}); err != nil {
			t.Errorf("%s: not asked, and error %v", row.name, err)
		}
	}
}

func TestExtenderTimeouts(t *testing.T) {
	c := mustParse(t, "extenders: [{urlPrefix: x}, {urlPrefix: z, httpTimeout: -1s}]")
	if got := c.Source.Extenders[0].HTTPTimeout.Duration; got != 5*time.Second {
		t.Errorf("the timeout is %v by default", got)
	}
	if diff := cmp.Diff([]string{"extenders[1].httpTimeout -1s means no limit: 5s is used"}, c.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// Resources that extenders manage with ignoredByScheduler replace NodeResourcesFit's
// ignoredResources in every profile, and in the written configuration.
func TestIgnoredByExtenders(t *testing.T) {
	const profiles = `
profiles: [{schedulerName: a, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]}, {schedulerName: b}]
`
	for _, row := range []struct {
		name, extenders string
		want            string // the ignored resources
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
			at := slices.IndexFunc(profile.Filters, func(f *plugin.Filter) bool { return f.Name == "NodeResourcesFit" })
			fit := profile.Filters[at]
			want := row.want
			if i == 1 && row.name != "ignored" { // the second profile ignores none of its own
				want = ""
			}
			var ignored []string
			asks := func(pod *v1.Pod) string { return string(fit.Need(model.NewPod(pod)).AppendText(nil)) }
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
		if want := "ignoredResources:\n      - " + row.want + "\n"; !strings.Contains(written.String(), want) {
			t.Errorf("%s: writes other arguments than %q:\n%s", row.name, want, written.String())
		}
	}
}
