package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/queue"
)

func mustParse(t *testing.T, body string) *Config {
	t.Helper()
	c, err := Parse("f", []byte(header+body+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClientConnection(t *testing.T) {
	type limits struct {
		QPS   float32
		Burst int
	}
	for body, want := range map[string]limits{
		`{}`:                        {},
		`{qps: 7}`:                  {7, 100},
		`{burst: 9}`:                {50, 9},
		`{qps: 7, burst: 9}`:        {7, 9},
		`{qps: -1}`:                 {-1, 100},
		`{kubeconfig: a}`:           {},
		`{qps: 0, kubeconfig: a}`:   {},
		`{contentType: text/plain}`: {},
	} {
		c := mustParse(t, "clientConnection: "+body)
		if got := (limits{c.QPS, c.Burst}); got != want {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
		if shown := c.Source.ClientConnection; shown.QPS == 0 || shown.Burst == 0 {
			t.Errorf("%s: shows %+v", body, shown)
		}
	}
	c := mustParse(t, `clientConnection: {kubeconfig: a, contentType: b, acceptContentTypes: c}`)
	if got := []string{c.Kubeconfig, c.ContentType, c.AcceptContentTypes}; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
	if got := mustParse(t, ``).ContentType; got != "application/vnd.kubernetes.protobuf" {
		t.Errorf("content type is %q by default", got)
	}
}

// A plugin that is disabled at one point still runs at the others.
func TestDisabledAtOnePoint(t *testing.T) {
	for _, p := range []struct{ plugins, want string }{
		{`{}`, "filters, narrows, scores"},
		{`{score: {disabled: [{name: NodeAffinity}]}}`, "filters, narrows"},
		{`{preFilter: {disabled: [{name: NodeAffinity}]}}`, "filters, scores"},
		{`{filter: {disabled: [{name: NodeAffinity}]}}`, "narrows, scores"},
		{`{preFilter: {disabled: [{name: NodeAffinity}]}, filter: {disabled: [{name: NodeAffinity}]}}`, "scores"},
		{`{multiPoint: {disabled: [{name: NodeAffinity}]}}`, ""},
		{`{multiPoint: {disabled: [{name: NodeAffinity}]}, preFilter: {enabled: [{name: NodeAffinity}]}}`, "narrows"},
	} {
		profile := mustParse(t, "profiles: [{plugins: "+p.plugins+"}]").Profiles[0]
		got := ""
		add := func(what string, does bool) {
			if does && got != "" {
				got += ", "
			}
			if does {
				got += what
			}
		}
		add("filters", slices.ContainsFunc(profile.Filters, func(f *plugin.Filter) bool { return f.Name == "NodeAffinity" }))
		add("narrows", slices.ContainsFunc(profile.PreFilters, func(n *plugin.PreFilter) bool { return n.Name == "NodeAffinity" }))
		add("scores", slices.ContainsFunc(profile.Scores, func(s plugin.Weighted) bool { return s.Name == "NodeAffinity" }))
		if got != p.want {
			t.Errorf("%s: got %q, want %q", p.plugins, got, p.want)
		}
		registers := slices.ContainsFunc(profile.EnqueueExtensions, func(x *plugin.EnqueueExtensions) bool { return x.Name == "NodeAffinity" })
		if registers != (p.want != "") {
			t.Errorf("%s: registers for events: %v", p.plugins, registers)
		}
	}
}

// If a plugin may only narrow, the other filters check the nodes that it names.
func TestNarrowOnly(t *testing.T) {
	c := mustParse(t, `profiles: [{plugins: {filter: {disabled: [{name: NodeAffinity}]}}}]`)
	pod := gatedPod("")
	pod.Object.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	pod.Object.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"b"}}}}},
	}}}
	s := state.New()
	var changes []model.Change
	for _, name := range []string{"a", "b"} {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("10")}},
		})})
	}
	s.Apply(changes)
	e, err := engine.New(engine.Config{Profiles: c.Profiles})
	if err != nil {
		t.Fatal(err)
	}
	c.Compile()[pod.SchedulerName](pod)
	if d := e.Decide(s.View(), plan.Alone(pod)); d.Outcome != plan.Placed || d.Placement.NodeName != "b" {
		t.Errorf("the decision is %+v; want b, whose labels are not looked at", d)
	}
}

func TestQueue(t *testing.T) {
	c := mustParse(t, "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 3\nprofiles: [{schedulerName: a},"+
		" {schedulerName: b, plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}}]")
	config := c.Queue(time.Minute)
	if _, err := queue.New(config); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(config.BackoffInitial, config.MaxBackoff, config.MaxParked); got != "2s 3s 1m0s" {
		t.Errorf("times are %s", got)
	}
	for i, want := range []string{"a SchedulingGates: waiting for scheduling gates: [wait]", "b : "} {
		p := config.Profiles[i]
		preEnqueue, text := p.RunPreEnqueue(state.New().View(), gatedPod("wait"))
		if got := p.Name + " " + preEnqueue + ": " + text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if p.QueueSort.Name != "PrioritySort" {
			t.Errorf("%s is sorted by %s", p.Name, p.QueueSort.Name)
		}
	}
	registered := func(name string) bool {
		return slices.ContainsFunc(config.Profiles[0].EnqueueExtensions, func(x *plugin.EnqueueExtensions) bool { return x.Name == name })
	}
	if !registered("NodeName") || registered("ImageLocality") {
		t.Errorf("NodeName has registered for events: %t; ImageLocality: %t", registered("NodeName"), registered("ImageLocality"))
	}
	if diff := cmp.Diff([]string{"a", "b"}, c.SchedulerNames()); diff != "" {
		t.Error(diff)
	}
	if compile := c.Compile(); len(compile) != 2 || compile["a"] == nil || compile["b"] == nil {
		t.Errorf("compile has %d names", len(compile))
	}
}

func TestMissing(t *testing.T) {
	for _, p := range []struct {
		plugins string
		want    []string
	}{
		{`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}`, nil},
		{`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: PodGroupPodsCount}, {name: DefaultBinder}, {name: GangScheduling}]}}`, []string{"GangScheduling", "PodGroupPodsCount"}},
		{`{multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: PodGroupPodsCount}, {name: DefaultBinder}]}, placementScore: {disabled: [{name: "*"}]}}`, nil},
	} {
		c := mustParse(t, "profiles: [{schedulerName: a, plugins: "+p.plugins+"}, {schedulerName: b, plugins: "+p.plugins+"}]")
		if diff := cmp.Diff(p.want, c.Missing); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", p.plugins, diff)
		}
	}
}

// Besides pods and nodes, only the kinds that an enabled plugin reads are watched.
func TestReads(t *testing.T) {
	const list = `{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List%s}}]}`
	const zone = `, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: %s}]`
	const off = `{schedulerName: a, plugins: {multiPoint: {disabled: [{name: PodTopologySpread}%s]}}}`
	const neither = `, {name: InterPodAffinity}`
	const none, namespaces = "pods nodes", "pods nodes namespaces"
	const owners = " services replicationcontrollers replicasets statefulsets"
	const devices = " resourceclaims resourceslices deviceclasses devicetaintrules"
	const budgets = " poddisruptionbudgets" + devices
	const storage = " persistentvolumes persistentvolumeclaims storageclasses csinodes csidrivers csistoragecapacities volumeattachments" + budgets
	const volumes = `{name: VolumeRestrictions}, {name: NodeVolumeLimits}, {name: VolumeBinding}, {name: VolumeZone}`
	for _, test := range []struct{ profiles, want string }{
		{`{}`, namespaces + owners + storage},
		{fmt.Sprintf(list, ""), namespaces + storage},
		{fmt.Sprintf(list, fmt.Sprintf(zone, "ScheduleAnyway")), namespaces + owners + storage},
		{fmt.Sprintf(list, fmt.Sprintf(zone, "DoNotSchedule")), namespaces + owners + storage},
		{fmt.Sprintf(off, ""), namespaces + storage},
		{fmt.Sprintf(off, neither), none + storage},
		{fmt.Sprintf(off, neither) + `, {schedulerName: b}`, namespaces + owners + storage},
		{`{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}`, none + owners + storage},
		{`{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}, score: {enabled: [{name: InterPodAffinity}]}}}`, namespaces + owners + storage},
		{`{pluginConfig: [{name: PodTopologySpread, args: {}}]}`, namespaces + owners + storage},
		{`{plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}, score: {enabled: [{name: PodTopologySpread}]}}}`, namespaces + owners + storage},
		{`{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}}`, none},
		{`{plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}, pluginConfig: [{name: PodTopologySpread, args: {}}]}`, namespaces + storage},
		{`{plugins: {multiPoint: {disabled: [` + volumes + `]}}}`, namespaces + owners + budgets},
		{`{plugins: {multiPoint: {disabled: [` + volumes + `], enabled: [{name: VolumeRestrictions}]}}}`, namespaces + owners + " persistentvolumeclaims" + budgets},
		{
			`{plugins: {multiPoint: {disabled: [` + volumes + `], enabled: [{name: VolumeZone}]}}}`,
			namespaces + owners + " persistentvolumes persistentvolumeclaims storageclasses" + budgets,
		},
	} {
		var got []string
		for _, kind := range mustParse(t, "profiles: ["+test.profiles+"]").Reads() {
			got = append(got, kinds.Get(kind).Resource.Resource)
		}
		if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.profiles, diff)
		}
	}
}

// A plugin that registers for events of a kind must read that kind: otherwise the kind
// may not be watched.
func TestPluginsReadWhatTheyWaitFor(t *testing.T) {
	c, known := mustParse(t, ""), builtIn(defaultGates(t), rules{})
	made, err := new(plugins).instances(known, names(known.defaults().MultiPoint.Enabled), c.Source.Profiles[0].PluginConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range made {
		if p.EnqueueExtensions == nil {
			continue
		}
		reads := append([]model.Kind{model.PodKind, model.NodeKind}, p.Objects...)
		if name == "NodeResourcesFit" {
			// The plugin needs classes whenever DynamicResources reads them.
			reads = append(reads, model.DeviceClassKind)
		}
		for _, registration := range p.EnqueueExtensions.Events {
			if !slices.ContainsFunc(reads, func(kind model.Kind) bool {
				return slices.ContainsFunc(kinds.Get(kind).Events, registration.Resource.Covers)
			}) {
				t.Errorf("%s registers for events about %s and reads no kind that causes them", name, registration.Resource)
			}
		}
	}
}

func gatedPod(gate string) *model.Pod {
	object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{SchedulerName: DefaultSchedulerName}}
	if gate != "" {
		object.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: gate}}
	}
	return model.NewPod(object)
}
