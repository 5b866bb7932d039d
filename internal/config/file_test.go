package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// files are configurations without their header, and their errors; an empty want means
// none. The texts are kube-scheduler's.
var files = []struct{ name, text, want string }{
	{"nothing", ``, ``},
	{"json", `{"parallelism": 8}`, ``},
	{"two profiles", `profiles: [{schedulerName: a}, {schedulerName: b}]`, ``},
	{"names of any form", `profiles: [{schedulerName: "../a b"}, {schedulerName: "{x=\"y\"}\n"}, {schedulerName: A}, {schedulerName: a}]`, ``},
	{"unknown name disabled", `profiles: [{plugins: {filter: {disabled: [{name: Nope}]}}}]`, ``},
	{"raw args of a stranger", `profiles: [{pluginConfig: [{name: Mine, args: {a: 1}}]}]`, ``},
	{"args with their kind", `profiles: [{pluginConfig: [{name: InterPodAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}}]}]`, ``},
	{"args left out", `profiles: [{pluginConfig: [{name: NodeAffinity}]}]`, ``},
	{"election off, nonsense in it", `leaderElection: {leaderElect: false, resourceLock: x, leaseDuration: 1s}`, ``},
	{"fit args unchecked when off", `profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: X}}}]}]`, ``},
	{"lists of defaults", `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]}]`, ``},
	{"an extender", `extenders: [{urlPrefix: "http://x", filterVerb: f, prioritizeVerb: p, weight: 1, bindVerb: b, managedResources: [{name: example.com/x}]}]`, ``},

	{"three profiles, one name", `profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]`, `profiles[2].schedulerName: Duplicate value: "a"`},
	{"unknown field", `paralelism: 8`, `strict decoding error: unknown field "paralelism"`},
	{"unknown nested field", `profiles: [{plugins: {filters: {}}}]`, `strict decoding error: unknown field "profiles[0].plugins.filters"`},
	{"field of another case", `Parallelism: 8`, `strict decoding error: unknown field "Parallelism"`},
	{"duplicate field", "parallelism: 8\nparallelism: 9", "strict decoding error: yaml: unmarshal errors:\n  line 4: key \"parallelism\" already set in map"},
	{"unknown args field", `profiles: [{pluginConfig: [{name: NodeAffinity, args: {x: 1}}]}]`, `strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: strict decoding error: unknown field "x"`},
	{"args of another kind", `profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: NodeResourcesFitArgs}}]}]`, `decoding .profiles[0].pluginConfig[0]: args for plugin NodeAffinity were not of type NodeAffinityArgs.kubescheduler.config.k8s.io, got NodeResourcesFitArgs.kubescheduler.config.k8s.io`},
	{"wrong type", `parallelism: many`, `json: cannot unmarshal string into Go struct field KubeSchedulerConfiguration.parallelism of type int32`},

	{"parallelism", `parallelism: 0`, `parallelism: Invalid value: 0: should be an integer value greater than zero`},
	{"percentage", `percentageOfNodesToScore: 101`, `percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]`},
	{"percentage of a profile", `profiles: [{percentageOfNodesToScore: -1}]`, `profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]`},
	{"initial backoff", `podInitialBackoffSeconds: 0`, `podInitialBackoffSeconds: Invalid value: 0: must be greater than 0`},
	{"backoff", `podInitialBackoffSeconds: 20`, `podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds`},
	{"several", "parallelism: -1\npercentageOfNodesToScore: -1", `[parallelism: Invalid value: -1: should be an integer value greater than zero, percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]]`},
	{"burst", `clientConnection: {burst: -1}`, `clientConnection.burst: Invalid value: -1: must be non-negative`},
	{"lock", `leaderElection: {resourceLock: endpoints}`, `leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"`},
	{"lease", `leaderElection: {leaseDuration: 5s}`, "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`"},
	{"retry", `leaderElection: {retryPeriod: -1s}`, `leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero`},

	{"empty name", `profiles: [{schedulerName: ""}]`, `profiles[0].schedulerName: Required value`},
	{"no names", `profiles: [{}, {schedulerName: b}]`, `profiles[0].schedulerName: Required value`},
	{"equal names", `profiles: [{schedulerName: a}, {schedulerName: a}]`, `profiles[1].schedulerName: Duplicate value: "a"`},
	{"two sorts", `profiles: [{plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}}]`, `profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled`},
	{"other sort", `profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]`, `profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"PrioritySort","Weight":0}],"Disabled":null}: must be the same for all profiles`},
	{"other sort args", `profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}, pluginConfig: [{name: PrioritySort, args: {a: 1}}]}]`, `profiles[1].pluginConfig.args: Invalid value: {"a":1}: queueSort must be the same for all profiles`},
	{"removed plugin", `profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]`, `profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")`},
	{"removed plugin's args", `profiles: [{pluginConfig: [{name: CinderLimits}]}]`, `profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": was invalid in version "v1" (KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")`},
	{"args twice", `profiles: [{pluginConfig: [{name: Mine}, {name: Mine}]}]`, `profiles[0].pluginConfig[1]: Duplicate value: "Mine"`},

	{"extender weight", `extenders: [{urlPrefix: x, prioritizeVerb: p}]`, `extenders[0].weight: Invalid value: 0: must have a positive weight applied to it`},
	{"two binders", `extenders: [{urlPrefix: x, bindVerb: b}, {urlPrefix: z, bindVerb: b}]`, `extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`},
	{"managed native", `extenders: [{urlPrefix: x, managedResources: [{name: kubernetes.io/x}]}]`, `extenders[0].managedResources[0].name: Invalid value: "kubernetes.io/x": is an invalid extended resource name`},
	{"managed twice", `extenders: [{urlPrefix: x, managedResources: [{name: a.b/x}]}, {urlPrefix: z, managedResources: [{name: a.b/x}]}]`, `extenders[1].managedResources[0].name: Invalid value: "a.b/x": duplicate extender managed resource name`},
	{"managed unqualified", `extenders: [{urlPrefix: x, managedResources: [{name: "a/b/c"}]}]`, `extenders[0].managedResources[0].name: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`},

	{"preemption zero", `profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}]}]`, `[profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute, profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage]`},
	{"preemption range", `profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}}]}]`, `[profiles[0].pluginConfig[0].args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100], profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)]`},
	{"hard weight", `profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]`, `profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]`},
	{"balanced weight", `profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}, {name: cpu}]}}]}]`, `[profiles[0].pluginConfig[0].args.resources[0].weight: Invalid value: 2: must be 1, profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu"]`},
	{"balanced thrice", `profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: cpu, weight: 3}]}}]}]`, `[profiles[0].pluginConfig[0].args.resources[1].name: Duplicate value: "cpu", profiles[0].pluginConfig[0].args.resources[1].weight: Invalid value: 3: must be 1]`},
	{"spread default", `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}}]}]`, `profiles[0].pluginConfig[0].args.defaultingType: Invalid value: "System": when .defaultConstraints are not empty`},
	{"spread type", `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: X}}]}]`, `profiles[0].pluginConfig[0].args.defaultingType: Unsupported value: "X": supported values: "System", "List"`},
	{"spread constraints", `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{labelSelector: {}}, {maxSkew: 1, topologyKey: "a b", whenUnsatisfiable: X}]}}]}]`, `[profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Required value: can not be empty, profiles[0].pluginConfig[0].args.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty, profiles[0].pluginConfig[0].args.defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod, profiles[0].pluginConfig[0].args.defaultConstraints[1].topologyKey: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), profiles[0].pluginConfig[0].args.defaultConstraints[1].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"]`},
	{"spread repeated", `profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}}]}]`, `profiles[0].pluginConfig[0].args.defaultConstraints[1]: Duplicate value: "{a, DoNotSchedule}"`},
	{"bind timeout", `profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]`, `profiles[0].pluginConfig[0].args.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value`},
	{"shape order", `profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 5, score: 1}, {utilization: 5, score: 1}, {utilization: 4, score: 1}]}}]}]`, `profiles[0].pluginConfig[0].args.shape[1].utilization: Invalid value: 5: values must be sorted in increasing order`},
	{"shape range", `profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: -1, score: 11}, {utilization: 101, score: -1}]}}]}]`, `[profiles[0].pluginConfig[0].args.shape[0].utilization: Invalid value: -1: not in valid range [0, 100], profiles[0].pluginConfig[0].args.shape[0].score: Invalid value: 11: not in valid range [0, 10], profiles[0].pluginConfig[0].args.shape[1].utilization: Invalid value: 101: not in valid range [0, 100], profiles[0].pluginConfig[0].args.shape[1].score: Invalid value: -1: not in valid range [0, 10]]`},
	{"timeouts", `profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: -1s, bindingTimeout: 1ms}}]}]`, `[profiles[0].pluginConfig[0].args.filterTimeout: Invalid value: "-1s": must be zero or positive, profiles[0].pluginConfig[0].args.bindingTimeout: Invalid value: "1ms": must be at least 1 second]`},
	{"added affinity", `profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: X}]}]}}}}]}]`, `profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "X": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`},
	{"added preference", `profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: a, operator: In, values: [b, c]}]}}]}}}]}]`, `profiles[0].pluginConfig[0].args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchFields[0].values: Invalid value: ["b","c"]: must have one element`},

	{"unknown plugin", `profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: FilterPlugin "Nope" does not exist`},
	{"unknown everywhere", `profiles: [{plugins: {multiPoint: {enabled: [{name: Nope}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: PreFilterPlugin "Nope" does not exist`},
	{"removed everywhere", `profiles: [{plugins: {multiPoint: {enabled: [{name: EBSLimits}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: PreFilterPlugin "EBSLimits" does not exist`},
	{"unknown, points off", `profiles: [{plugins: {preFilter: {disabled: [{name: "*"}]}, filter: {disabled: [{name: "*"}]}, multiPoint: {enabled: [{name: Nope}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: PostFilterPlugin "Nope" does not exist`},
	{"wrong point", `profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" does not extend ScorePlugin plugin`},
	{"wrong group point", `profiles: [{plugins: {placementScore: {enabled: [{name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" does not extend PlacementScorePlugin plugin`},
	{"wrong generate point", `profiles: [{plugins: {placementGenerate: {enabled: [{name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" does not extend PlacementGeneratePlugin plugin`},
	{"wrong post point", `profiles: [{plugins: {podGroupPostFilter: {enabled: [{name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" does not extend PodGroupPostFilterPlugin plugin`},
	{"twice at a point", `profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" already registered as "FilterPlugin"`},
	{"twice everywhere", `profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" already registered as "PreFilterPlugin"`},
	{"negative weight", `profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -3}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: score plugins: total score of Score plugins could overflow`},
	{"negative but not in sum", `profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: -50}]}}}]`, ``},
	{"args of the sort", `profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: {}}]}]`, `initializing profiles: different queue sort plugin args for profile "b"`},
	{"empty args of the sort", `profiles: [{schedulerName: a}, {schedulerName: b, pluginConfig: [{name: PrioritySort, args: null}]}]`, ``},
	{"plugins on request", `profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}, {name: PodGroupPodsCount}, {name: TopologyPlacementGenerator}, {name: DeferredPodScheduling}]}}}]`, ``},
	{"twice, one point has its say", `profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}, preFilter: {enabled: [{name: NodeName}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodeName" already registered as "FilterPlugin"`},
	{"no sort", `profiles: [{plugins: {queueSort: {disabled: [{name: "*"}]}}}]`, `initializing profiles: creating profile for scheduler name default-scheduler: only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`},
	{"no binder", `profiles: [{schedulerName: s, plugins: {bind: {disabled: [{name: "*"}]}}}]`, `initializing profiles: creating profile for scheduler name s: at least one bind plugin is needed for profile with scheduler name "s"`},
	{"fit args", `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: X}}}]}]`, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "X": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
	{"fit strategy untyped", `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu}]}}}]}]`, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`},
	{"fit ignored group", `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a/b]}}]}]`, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "NodeResourcesFit": ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/'`},
	{"fit weight", `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}}]}]`, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "NodeResourcesFit": scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]`},
	{"fit ratio", `profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]`, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "NodeResourcesFit": scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio`},
}

func text(name, body string) string {
	if name == "json" {
		return strings.Replace(body, "{", `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", `, 1)
	}
	return header + body + "\n"
}

func TestFiles(t *testing.T) {
	for _, f := range files {
		_, err := Parse("f", []byte(text(f.name, f.text)))
		got := ""
		if err != nil {
			var own *Error
			if !errors.As(err, &own) {
				t.Fatal(err)
			}
			got = own.Err.Error()
		}
		if got != f.want {
			t.Errorf("%s:\n got %s\nwant %s", f.name, got, f.want)
		}
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(header+"parallelism: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		path:        path + ": parallelism: Invalid value: 0: should be an integer value greater than zero (line 3: parallelism)",
		path + ".x": path + ".x: read the scheduler configuration: no such file or directory",
	} {
		_, err := Load(path)
		var own *Error
		if !errors.As(err, &own) || own.File != path || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	const other = `couldn't decode as KubeSchedulerConfiguration, got apiVersion %q, kind %q; must be apiVersion: ` +
		`kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration`
	for _, f := range []struct{ text, want string }{
		{"", fmt.Sprintf(other, "", "")},
		{"parallelism: 1", fmt.Sprintf(other, "", "")},
		{"kind: Pod", fmt.Sprintf(other, "", "Pod")},
		{"apiVersion: v1\nkind: Pod", fmt.Sprintf(other, "v1", "Pod")},
		{"apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs", fmt.Sprintf(other, "kubescheduler.config.k8s.io/v1", "NodeAffinityArgs")},
		{"apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration", fmt.Sprintf(other, "kubescheduler.config.k8s.io/v1beta3", kind)},
		{"{", `couldn't get version/kind; json parse error: unexpected end of JSON input`},
		{"a: b: c", `yaml: mapping values are not allowed in this context`},
	} {
		if _, err := Parse("f", []byte(f.text)); err == nil || err.Error() != "f: "+f.want {
			t.Errorf("%q:\n got %v\nwant f: %s", f.text, err, f.want)
		}
	}
}

// TestFurtherDocuments has files with several YAML documents; the first counts.
func TestFurtherDocuments(t *testing.T) {
	const note = "only the first YAML document of the file is read, as by kube-scheduler; "
	for more, want := range map[string]string{
		"":                              "",
		"---\n":                         "",
		"---\n# a comment\n---\n":       "",
		"---\nkind: Other\n":            note + "1 more are ignored",
		"---\n---\nb: 1\n---\n- ]: {\n": note + "2 more are ignored",
	} {
		c := mustParse(t, "podMaxBackoffSeconds: 30\n"+more)
		if got := strings.Join(c.Notes, "\n"); got != want {
			t.Errorf("%q: the notes are %q, want %q", more, got, want)
		}
		if *c.Source.PodMaxBackoffSeconds != 30 {
			t.Errorf("%q: the first document is not read: %d", more, *c.Source.PodMaxBackoffSeconds)
		}
	}
}
