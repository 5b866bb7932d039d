package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withMine is the built-in plugins and an out-of-tree one.
func withMine(t *testing.T) registry {
	t.Helper()
	known, err := builtIn(defaultGates(t), rules{}).with(nil)
	if err != nil {
		t.Fatal(err)
	}
	known.onRequest = append(known.onRequest, row{name: "Mine", points: at(preEnqueue, filter, score)})
	return known
}

// expanded returns the plugins that a profile runs.
func expanded(t *testing.T, profile string) (*Config, effective) {
	t.Helper()
	source, err := decode([]byte(header+"profiles: ["+profile+"]\n"), withMine(t).scheme)
	if err != nil {
		t.Fatalf("%s: %v", profile, err)
	}
	fill(withMine(t), source)
	order, err := expand(withMine(t), source.Profiles[0].Plugins)
	if err != nil {
		t.Fatalf("%s: %v", profile, err)
	}
	return &Config{Source: source}, order
}

func (c *Config) multiPoint() string {
	var list []string
	for _, plugin := range c.Source.Profiles[0].Plugins.MultiPoint.Enabled {
		list = append(list, plugin.Name)
	}
	return strings.Join(list, " ")
}

const (
	beforeTaints = "SchedulingGates PrioritySort NodeName NodeUnschedulable "
	afterTaints  = " NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone" +
		" PodTopologySpread InterPodAffinity DynamicResources DefaultPreemption NodeResourcesBalancedAllocation ImageLocality" +
		" DefaultBinder NodeDeclaredFeatures"
	defaultFilters = "NodeName NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions" +
		" NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
	defaultScores = "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2" +
		" DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1"
)

// pluginSets are plugin sets of a profile and the plugins that run; empty strings are as
// in the default profile.
var pluginSets = []struct{ plugins, multiPoint, filters, scores, other string }{
	{plugins: `{}`},
	{plugins: `{multiPoint: {enabled: [{name: TaintToleration, weight: 7}]}}`, scores: strings.Replace(defaultScores, "=3", "=7", 1)},
	{
		plugins:    `{multiPoint: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 7}]}}`,
		multiPoint: strings.TrimSpace(beforeTaints) + afterTaints + " TaintToleration",
		filters:    strings.Replace(defaultFilters, " TaintToleration", "", 1) + " TaintToleration",
		scores:     strings.Replace(defaultScores, "TaintToleration=3 ", "", 1) + " TaintToleration=7",
	},
	{
		plugins:    `{multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: DefaultBinder}]}}`,
		multiPoint: "PrioritySort NodeResourcesFit DefaultBinder",
		filters:    "NodeResourcesFit",
		scores:     "NodeResourcesFit=1",
		other:      "queueSort: PrioritySort; bind: DefaultBinder; preScore: NodeResourcesFit; postFilter: ",
	},
	{plugins: `{filter: {disabled: [{name: "*"}], enabled: [{name: NodeName}]}}`, filters: "NodeName", other: "preFilter: " + defaultFilters},
	{
		plugins: `{score: {enabled: [{name: NodeResourcesFit, weight: 5}, {name: Mine, weight: 10}], disabled: [{name: ImageLocality}]}}`,
		scores: "NodeResourcesFit=5 TaintToleration=3 NodeAffinity=2 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2" +
			" DynamicResources=2 NodeResourcesBalancedAllocation=1 Mine=10",
	},
	{
		plugins:    `{multiPoint: {enabled: [{name: Mine}]}}`,
		multiPoint: beforeTaints + "TaintToleration" + afterTaints + " Mine",
		filters:    defaultFilters + " Mine",
		scores:     defaultScores + " Mine=1",
		other:      "preEnqueue: SchedulingGates DynamicResources DefaultPreemption Mine",
	},
	{
		plugins:    `{multiPoint: {disabled: [{name: DefaultPreemption}]}}`,
		multiPoint: strings.Replace(beforeTaints+"TaintToleration"+afterTaints, " DefaultPreemption", "", 1),
		other:      "preEnqueue: SchedulingGates DynamicResources; postFilter: VolumeBinding DynamicResources; podGroupPostFilter: DynamicResources",
	},
	{plugins: `{filter: {enabled: [{name: NodePorts}]}}`, filters: "NodePorts " + strings.Replace(defaultFilters, " NodePorts", "", 1)},
	{plugins: `{filter: {disabled: [{name: NodeName}]}}`, filters: strings.TrimPrefix(defaultFilters, "NodeName "), other: "preFilter: " + defaultFilters},
	{plugins: `{score: {disabled: [{name: "*"}]}, preScore: {disabled: [{name: NodeAffinity}]}}`, scores: "-", other: "preScore: TaintToleration NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity NodeResourcesBalancedAllocation"},
	{plugins: `{score: {enabled: [{name: NodeAffinity}]}, multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}`, scores: "NodeAffinity=1 " + strings.Replace(defaultScores, " NodeAffinity=2", "", 1)},
	{plugins: `{filter: {disabled: [{name: NodeName}], enabled: [{name: NodeName}]}}`, filters: strings.TrimPrefix(defaultFilters, "NodeName ") + " NodeName"},
}

func TestPluginSets(t *testing.T) {
	for _, s := range pluginSets {
		c, order := expanded(t, "{plugins: "+s.plugins+"}")
		expect := func(what, got, want, otherwise string) {
			if want == "" {
				want = otherwise
			}
			if got != strings.TrimPrefix(want, "-") {
				t.Errorf("%s: %s:\n got %s\nwant %s", s.plugins, what, got, want)
			}
		}
		expect("multiPoint", c.multiPoint(), s.multiPoint, beforeTaints+"TaintToleration"+afterTaints)
		expect("filters", strings.Join(order[filter], " "), s.filters, defaultFilters)
		weight, err := weights(c.Source.Profiles[0].Plugins, score, order[score])
		if err != nil {
			t.Errorf("%s: %v", s.plugins, err)
		}
		var scores []string
		for _, name := range order[score] {
			scores = append(scores, fmt.Sprintf("%s=%d", name, weight[name]))
		}
		expect("scores", strings.Join(scores, " "), s.scores, defaultScores)
		for other := range strings.SplitSeq(s.other, "; ") {
			field, want, ok := strings.Cut(other, ": ")
			for p := range points {
				if ok && pointNames[p].field == field && strings.Join(order[p], " ") != want {
					t.Errorf("%s: %s:\n got %s\nwant %s", s.plugins, field, strings.Join(order[p], " "), want)
				}
			}
		}
	}
}

// Every plugin that Berth has implements the points of its row.
func TestTable(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range builtIn(defaultGates(t), rules{}).byDefault {
		if row.build == nil {
			continue
		}
		config := c.Source.Profiles[0].PluginConfig
		made, err := new(plugins).instances(builtIn(defaultGates(t), rules{}), []string{row.name}, config, nil)
		if err != nil {
			t.Fatal(err)
		}
		own := made[row.name]
		if own.Name != row.name {
			t.Errorf("%s calls itself %s", row.name, own.Name)
		}
		for p, does := range map[point]bool{
			filter: own.Filter != nil, score: own.Score != nil, preEnqueue: own.PreEnqueue != nil, queueSort: own.QueueSort != nil, postFilter: own.PostFilter != nil,
			placementScore: own.PlacementScore != nil, reserve: own.Reserve != nil, preBind: own.PreBind != nil, bind: own.Bind != nil,
		} {
			if row.points.has(p) != does {
				t.Errorf("%s: %s is %v in the table, %v in the plugin", row.name, pointNames[p].field, !does, does)
			}
		}
	}
}

func TestDefaultProfile(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.SchedulerNames(); !slices.Equal(got, []string{"default-scheduler"}) {
		t.Errorf("scheduler names %v", got)
	}
	has := func(name string) bool { return !slices.Contains(c.Missing, name) }
	profile := c.Profiles[0]
	var filters, scores []string
	for _, f := range profile.Filters {
		filters = append(filters, f.Name)
	}
	for _, s := range profile.Scores {
		scores = append(scores, fmt.Sprintf("%s=%d", s.Name, s.Weight))
	}
	want := slices.DeleteFunc(strings.Fields(defaultFilters), func(name string) bool { return !has(name) })
	if diff := cmp.Diff(want, filters); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	want = slices.DeleteFunc(strings.Fields(defaultScores), func(s string) bool { return !has(s[:strings.Index(s, "=")]) })
	if diff := cmp.Diff(want, scores); diff != "" {
		t.Errorf("scorers (-want +got):\n%s", diff)
	}
	if profile.PreEnqueue[0].Name != "SchedulingGates" {
		t.Errorf("the first PreEnqueue plugin is %s", profile.PreEnqueue[0].Name)
	}
	for _, plugin := range builtIn(defaultGates(t), rules{}).byDefault {
		if (plugin.build == nil) == has(plugin.name) {
			t.Errorf("missing are %v; %s has a constructor: %v", c.Missing, plugin.name, plugin.build != nil)
		}
	}
}

// The golden file is the output of kube-scheduler 1.37.1.
func TestDefaultsGolden(t *testing.T) {
	want, err := os.ReadFile("testdata/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fromNothing, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	fromGolden, err := Parse("defaults.yaml", want)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{fromNothing, fromGolden} {
		var got strings.Builder
		if err := c.Write(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
