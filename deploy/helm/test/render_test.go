package test

import (
	"flag"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/deploy/helm/test/chart"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
)

const (
	chartFolder     = "../berth"
	kustomizeFolder = "../../kustomize"
	monitoring      = "../../monitoring"
)

var update = flag.Bool("update", false, "write what is rendered to testdata, to be read and checked in")

func TestMain(m *testing.M) {
	// Helm also logs the chart's links to deploy/monitoring and the intended failures
	slog.SetLogLoggerLevel(slog.LevelError)
	os.Exit(m.Run())
}

// values parses values in a user's format.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	all := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func render(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := chart.Render(chartFolder, values(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// get converts the object with a kind and a name. Fields that the type lacks are an
// error.
func get[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %s %s", kind, name)
	}
	text, err := yaml.Marshal(objects[i].Object)
	if err != nil {
		t.Fatal(err)
	}
	typed := new(T)
	if err := yaml.UnmarshalStrict(text, typed); err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return typed
}

// everything has values that enable each part of the chart.
const everything = "testdata/everything.yaml"

// TestLint lints the chart like `helm lint --strict`.
func TestLint(t *testing.T) {
	text, err := os.ReadFile(everything)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"default": "", "everything": string(text)} {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, chart.Namespace
		result := lint.Run([]string{chartFolder}, chart.WithImage(values(t, text)))
		for _, err := range result.Errors {
			t.Errorf("%s: %v", name, err)
		}
		if result.TotalChartsLinted != 1 {
			t.Errorf("%s: %d charts linted", name, result.TotalChartsLinted)
		}
	}
}

// TestGolden compares the rendering with everything enabled with a reviewed file.
// deploy/kustomize/base is the default rendering.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile(everything)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, o := range render(t, string(text)) {
		if o.GetKind() == "PrometheusRule" || strings.HasSuffix(o.GetName(), "-dashboard") {
			continue // see TestMonitoringIsThatOfTheFolder
		}
		rendered, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("---\n" + string(rendered))
	}
	const golden = "testdata/everything.golden.yaml"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("rendered differs from %s; after `go test . -run Golden -update`, git diff shows how:\n%s", golden, firstDifference(string(want), got.String()))
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "want " + a[i] + "\ngot  " + b[i]
		}
	}
	return "one is longer"
}

// TestValuesAreRefused expects each mistake to fail with an error that names the value.
func TestValuesAreRefused(t *testing.T) {
	for _, row := range []struct{ values, want string }{
		{"image: {repository: ''}", "at '/image/repository': minLength: got 0, want 1"},
		{"image: {digest: latest}", "at '/image/digest': 'latest' does not match pattern"},
		{"replica: 3", "additional properties 'replica' not allowed"},
		{"replicas: two", "at '/replicas': got string, want integer"},
		{"replicas: 11", "at '/replicas': maximum: got 11, want 10"},
		{"port: 443", "at '/port': minimum: got 443, want 1,024"},
		{"resources: {request: {cpu: 1}}", "at '/resources': additional properties 'request' not allowed"},
		{"featureGates: {GenericWorkload: 'true'}", "at '/featureGates/GenericWorkload': got string, want boolean"},
		{"featureGates: {CoordinatedLeaderElection: true}", "at '/featureGates/CoordinatedLeaderElection': value must be false"},
		{"extraArgs: ['--config=/other.yaml']", "at '/extraArgs/0': 'not' failed"},
		{"extraArgs: ['--leader-elect=false']", "at '/extraArgs/0': 'not' failed"},
		{"files: {config.yaml: x}", "invalid propertyName 'config.yaml'"},
		{"config: {profile: []}", "at '/config': additional properties 'profile' not allowed"},
		{"config: {profiles: []}", "at '/config/profiles': minItems: got 0, want 1"},
		{"config: {profiles: [{name: berth}]}", "at '/config/profiles/0': additional properties 'name' not allowed"},
		{"config: {profiles: [{plugins: {multipoint: {}}}]}", "at '/config/profiles/0/plugins': additional properties 'multipoint' not allowed"},
		{"config: {clientConnection: {kubeconfig: /etc/x}}", "at '/config/clientConnection': additional properties 'kubeconfig' not allowed"},
		{"config: {leaderElection: {leaseDuration: 15}}", "at '/config/leaderElection/leaseDuration': got number, want string"},
		{"config: {leaderElection: {resourceLock: endpoints}}", "at '/config/leaderElection/resourceLock': value must be 'leases'"},
		{"rbac: {rules: {volume: false}}", "at '/rbac/rules': additional properties 'volume' not allowed"},
		{"rbac: {extraRules: [{resources: [pods]}]}", "at '/rbac/extraRules/0': missing property 'verbs'"},
		{"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}]", "at '/topologySpreadConstraints/0/whenUnsatisfiable': value must be one of 'ScheduleAnyway', 'DoNotSchedule'"},
		{"monitoring: {job: 'a\"b'}", "at '/monitoring/job': 'a\"b' does not match pattern"},
		// Checks beyond a schema.
		{"config: {leaderElection: {leaderElect: false}}", "replicas: is 2, but config.leaderElection.leaderElect is false"},
		{"serviceAccount: {create: false}", "serviceAccount.name: must name a service account"},
		{"rbac: {rules: {devices: false}}", "rbac.rules.devices: is false, but config.profiles[0] (berth) enables DynamicResources"},
		{"{rbac: {rules: {volumes: false}}, config: {profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}}]}}",
			"rbac.rules.volumes: is false, but config.profiles[0] (default-scheduler) enables NodeVolumeLimits"},
		{"{rbac: {rules: {preemption: false}}, config: {profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}}]}}",
			"rbac.rules.preemption: is false, but config.profiles[0] (default-scheduler) enables DefaultPreemption"},
		{"{rbac: {rules: {devices: false}}, config: {extenders: [{urlPrefix: 'http://x'}], profiles: [{plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}}]}}",
			"rbac.rules.devices: is false, but config.extenders is set"},
	} {
		_, err := chart.Render(chartFolder, values(t, row.values))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %q", row.values, err, row.want)
		}
	}
}

// TestSchemaHasTheFieldsOfTheConfiguration compares the schema of config with the types
// of the published API.
func TestSchemaHasTheFieldsOfTheConfiguration(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartFolder, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := yaml.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	var walk func(at string, s map[string]any)
	walk = func(at string, s map[string]any) {
		if ref, ok := s["$ref"].(string); ok {
			s, _, _ = unstructured.NestedMap(schema, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if items, ok := s["items"].(map[string]any); ok {
			walk(at+"[]", items)
		}
		properties, _ := s["properties"].(map[string]any)
		for name, property := range properties {
			named[at+"."+name] = true
			walk(at+"."+name, property.(map[string]any))
		}
	}
	top, _, _ := unstructured.NestedMap(schema, "properties", "config")
	walk("", top)
	fields := configurationFields()
	// the chart writes the first two; the pods use their token
	for _, name := range []string{".apiVersion", ".kind", ".clientConnection.kubeconfig"} {
		delete(fields, name)
	}
	if want := slices.Sorted(maps.Keys(fields)); len(want) < 60 || !slices.Equal(slices.Sorted(maps.Keys(named)), want) {
		t.Errorf("the schema has %q, the API %q", sets.KeySet(named).Difference(sets.KeySet(fields)).UnsortedList(), sets.KeySet(fields).Difference(sets.KeySet(named)).UnsortedList())
	}
}

// configurationFields are the fields of a KubeSchedulerConfiguration, such as
// .profiles[].plugins.filter.enabled[].name.
func configurationFields() map[string]bool {
	fields := map[string]bool{}
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		switch {
		case of.Kind() == reflect.Pointer:
			walk(at, of.Elem())
		case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
			walk(at+"[]", of.Elem())
		case of.Kind() == reflect.Struct && strings.Contains(of.PkgPath(), "/config/v1"):
			for i := range of.NumField() {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				if name == "" {
					if of.Field(i).Type.Name() == "TypeMeta" {
						fields[at+".apiVersion"], fields[at+".kind"] = true, true
					}
					walk(at, of.Field(i).Type)
					continue
				}
				fields[at+"."+name] = true
				walk(at+"."+name, of.Field(i).Type)
			}
		}
	}
	walk("", reflect.TypeFor[configv1.KubeSchedulerConfiguration]())
	return fields
}

// TestConfigurationIsExplained expects each KubeSchedulerConfiguration field in
// docs/configure.md.
func TestConfigurationIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configure.md")
	if err != nil {
		t.Fatal(err)
	}
	for field := range configurationFields() {
		if name := field[strings.LastIndex(field, ".")+1:]; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/configure.md does not say what `%s` (%s) does", name, field)
		}
	}
}

// TestRolesHaveWhatIsRead compares the list and watch rights with the kinds that a
// scheduler watches under the rendered configuration and feature gates.
func TestRolesHaveWhatIsRead(t *testing.T) {

	for name, text := range map[string]string{
		"default":          "",
		"no preemption":    "{rbac: {rules: {preemption: false}}, config: {profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]}}",
		"no devices":       "{rbac: {rules: {devices: false}}, config: {profiles: [{plugins: {multiPoint: {disabled: [{name: DynamicResources}]}}}]}}",
		"no volumes":       "{rbac: {rules: {volumes: false}}, config: {profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeBinding}, {name: NodeVolumeLimits}, {name: VolumeZone}, {name: VolumeRestrictions}]}}}]}}",
		"pod groups":       "{featureGates: {GenericWorkload: true}}",
		"composite groups": "{featureGates: {GenericWorkload: true, TopologyAwareWorkloadScheduling: true, CompositePodGroup: true}}",
		"extenders":        "{config: {extenders: [{urlPrefix: 'http://x.example', filterVerb: filter}]}}",
	} {
		objects := render(t, text)
		allowed := map[string]bool{}
		for _, rule := range get[rbacv1.ClusterRole](t, objects, "ClusterRole", chart.Release).Rules {
			if slices.Contains(rule.Verbs, "list") != slices.Contains(rule.Verbs, "watch") {
				t.Errorf("%s: what is listed is watched, and %v is not", name, rule.Resources)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					if slices.Contains(rule.Verbs, "list") {
						allowed[resource+"."+group] = true
					}
				}
			}
		}
		read := map[string]bool{"pods.": true, "nodes.": true}
		for _, kind := range configuration(t, objects).Reads() {
			read[resourceOf(kind)] = true
		}
		if !maps.Equal(allowed, read) {
			t.Errorf("%s: the role allows to list %q in vain, and not %q", name, sets.KeySet(allowed).Difference(sets.KeySet(read)).UnsortedList(),
				sets.KeySet(read).Difference(sets.KeySet(allowed)).UnsortedList())
		}
	}
}

// TestShadowOnlyReads gives the shadow the rights to list and watch what its
// configuration reads, with every gate, and nothing else but the reviews of who may read
// its metrics.
func TestShadowOnlyReads(t *testing.T) {
	objects := render(t, "{shadow: {create: true, featureGates: {GenericWorkload: true}, config: {profiles: [{schedulerName: other}]}}}")
	name := chart.Release + "-shadow"
	allowed := map[string]bool{}
	for _, rule := range get[rbacv1.ClusterRole](t, objects, "ClusterRole", name).Rules {
		for _, resource := range rule.Resources {
			review := resource == "tokenreviews" || resource == "subjectaccessreviews"
			if want := []string{"list", "watch"}; !review && !slices.Equal(rule.Verbs, want) || review && !slices.Equal(rule.Verbs, []string{"create"}) {
				t.Errorf("%s: verbs %q", resource, rule.Verbs)
			}
			if !review {
				allowed[resource+"."+rule.APIGroups[0]] = true
			}
		}
	}
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true})
	if err != nil {
		t.Fatal(err)
	}
	file := get[v1.ConfigMap](t, objects, "ConfigMap", name).Data["scheduler.yaml"]
	read, err := config.ParseWith("shadow", []byte(file), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	if names := read.SchedulerNames(); !slices.Equal(names, []string{"other"}) {
		t.Errorf("profiles %q", names)
	}
	reads := map[string]bool{"pods.": true, "nodes.": true}
	for _, kind := range read.Reads() {
		reads[resourceOf(kind)] = true
	}
	if !maps.Equal(allowed, reads) {
		t.Errorf("the role allows to list %q in vain, and not %q", sets.KeySet(allowed).Difference(sets.KeySet(reads)).UnsortedList(),
			sets.KeySet(reads).Difference(sets.KeySet(allowed)).UnsortedList())
	}
	args := get[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec.Containers[0].Args
	if args[0] != "shadow" || !slices.Contains(args, "--config=/etc/berth/scheduler.yaml") || !slices.Contains(args, "--feature-gates=GenericWorkload=true") {
		t.Errorf("arguments %q", args)
	}
}

func resourceOf(kind model.Kind) string {
	return kinds.Get(kind).Resource.GroupResource().Resource + "." + kinds.Get(kind).Resource.Group
}

// configuration parses the rendered configuration like the scheduler, with its command
// line's gates.
func configuration(t *testing.T, objects []*unstructured.Unstructured) *config.Config {
	t.Helper()
	return configurationOf(t, objects, chart.Release)
}

// configurationOf is configuration for a release with other object names.
func configurationOf(t *testing.T, objects []*unstructured.Unstructured, name string) *config.Config {
	t.Helper()
	set := map[string]bool{}
	for _, arg := range get[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec.Containers[0].Args {
		if list, found := strings.CutPrefix(arg, "--feature-gates="); found {
			for pair := range strings.SplitSeq(list, ",") {
				gate, value, _ := strings.Cut(pair, "=")
				set[gate] = value == "true"
			}
		}
	}
	gates, err := feature.With(set)
	if err != nil {
		t.Fatal(err)
	}
	text := get[v1.ConfigMap](t, objects, "ConfigMap", name+"-config").Data["config.yaml"]
	c, err := config.ParseWith("config.yaml", []byte(text), config.Request{Gates: gates, AskExtenders: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestChecksumFollowsTheConfiguration changes values and expects a new checksum in the
// pods exactly if the mounted file has changed.
func TestChecksumFollowsTheConfiguration(t *testing.T) {
	checksum := func(text string) string {
		sum := get[appsv1.Deployment](t, render(t, text), "Deployment", chart.Release).Spec.Template.Annotations["checksum/config"]
		if len(sum) != 64 {
			t.Errorf("%s: the checksum is %q", text, sum)
		}
		return sum
	}
	before := checksum("")
	for text, rolls := range map[string]bool{
		"{config: {podMaxBackoffSeconds: 5}}": true, "{files: {tracing.yaml: x}}": true, "{config: {leaderElection: {resourceName: other}}}": true,
		"{replicas: 3}": false, "{podLabels: {a: b}}": false,
	} {
		if got := checksum(text) != before; got != rolls {
			t.Errorf("%s: the checksum changed: %t, want %t", text, got, rolls)
		}
	}
}

// TestMonitoringIsThatOfTheFolder compares rules and dashboards with deploy/monitoring,
// and decodes the Prometheus operator's objects like the operator.
func TestMonitoringIsThatOfTheFolder(t *testing.T) {
	objects := render(t, "{monitoring: {job: other, serviceMonitor: {create: true}, prometheusRule: {create: true}, dashboards: {create: true}}}")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(monitoring, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var want monitoringv1.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(read("rules.yaml"), `job="kube-scheduler"`, `job="other"`)), &want); err != nil {
		t.Fatal(err)
	}
	if got := get[monitoringv1.PrometheusRule](t, objects, "PrometheusRule", chart.Release).Spec; !reflect.DeepEqual(got, want) || len(got.Groups) < 3 {
		t.Errorf("the rules are %+v", got)
	}
	if strings.Contains(strings.ReplaceAll(read("rules.yaml"), `job="kube-scheduler"`, ""), "job=") {
		t.Error("rules.yaml names a job in a way that the chart does not replace")
	}
	for _, name := range []string{"berth-dashboard", "berth-series-dashboard", "kube-scheduler-dashboard"} {
		if got := get[v1.ConfigMap](t, objects, "ConfigMap", chart.Release+"-"+name).Data[name+".json"]; got != read(name+".json") {
			t.Errorf("%s is not that of deploy/monitoring", name)
		}
	}
	monitor := get[monitoringv1.ServiceMonitor](t, objects, "ServiceMonitor", chart.Release)
	service := get[v1.Service](t, objects, "Service", chart.Release)
	if endpoint := monitor.Spec.Endpoints[0]; endpoint.Port != service.Spec.Ports[0].Name || *endpoint.RelabelConfigs[0].Replacement != "other" {
		t.Errorf("the endpoint is %+v", endpoint)
	}
	pod := get[appsv1.Deployment](t, objects, "Deployment", chart.Release).Spec.Template
	for name, value := range service.Spec.Selector {
		if pod.Labels[name] != value {
			t.Errorf("the service selects %s=%s, which the pods lack", name, value)
		}
	}
}

// TestKustomizeIsMadeFromTheChart compares the files of deploy/kustomize with newly
// generated ones.
func TestKustomizeIsMadeFromTheChart(t *testing.T) {
	want, err := chart.Kustomize(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, folder := range []string{"base", "components", "overlays"} {
		err := filepath.WalkDir(filepath.Join(kustomizeFolder, folder), func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name)
			got[filepath.ToSlash(strings.TrimPrefix(name, kustomizeFolder+"/"))] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range sets.KeySet(got).Union(sets.KeySet(want)) {
		if got[name] != want[name] {
			t.Errorf("%s differs: run `make charts`\n%s", name, firstDifference(want[name], got[name]))
		}
	}
}

// build builds a kustomization like `kubectl kustomize`.
func build(t *testing.T, files filesys.FileSystem, folder string) map[string]*unstructured.Unstructured {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := chart.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return byID(objects)
}

func byID(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		all[chart.ID(o)] = o
	}
	return all
}

// TestOverlaysBuildWhatTheChartRenders builds the base and each overlay and compares the
// objects with the chart's. All fields must match except Helm's labels and checksum, and
// the ConfigMap's name, which has a hash.
func TestOverlaysBuildWhatTheChartRenders(t *testing.T) {
	variants := map[string]map[string]any{"base": nil}
	for name, values := range chart.Variants {
		variants["overlays/"+name] = values
	}
	for folder, values := range variants {
		built := build(t, filesys.MakeFsOnDisk(), filepath.Join(kustomizeFolder, folder))
		rendered, err := chart.Render(chartFolder, values)
		if err != nil {
			t.Fatal(err)
		}
		delete(built, "Namespace "+chart.Namespace) // Helm creates it with --create-namespace
		hashed := ""
		for id, o := range built {
			if o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), chart.Config+"-") {
				hashed = o.GetName()
				delete(built, id)
				o.SetName(chart.Config)
				text, _, _ := unstructured.NestedString(o.Object, "data", "config.yaml")
				_, text, _ = strings.Cut(text, "\n") // the first line names the source
				_ = unstructured.SetNestedField(o.Object, text, "data", "config.yaml")
				built[chart.ID(o)] = o
			}
		}
		if hashed == "" {
			t.Errorf("%s has no ConfigMap with a hash in its name", folder)
		}
		want := byID(rendered)
		for id := range sets.KeySet(built).Union(sets.KeySet(want)) {
			if built[id] == nil || want[id] == nil {
				t.Errorf("%s: %s is in one of both only", folder, id)
				continue
			}
			if want[id].GetKind() == "Deployment" && want[id].GetName() == chart.Release {
				volumes := get[appsv1.Deployment](t, []*unstructured.Unstructured{built[id]}, "Deployment", chart.Release).Spec.Template.Spec.Volumes
				if volumes[0].ConfigMap.Name != hashed {
					t.Errorf("%s: the Deployment mounts %s, want %s", folder, volumes[0].ConfigMap.Name, hashed)
				}
				_ = unstructured.SetNestedSlice(built[id].Object, []any{map[string]any{"name": "config", "configMap": map[string]any{"name": chart.Config}}}, "spec", "template", "spec", "volumes")
			}
			chart.Plain(want[id])
			if !reflect.DeepEqual(built[id].Object, want[id].Object) {
				a, _ := yaml.Marshal(want[id].Object)
				b, _ := yaml.Marshal(built[id].Object)
				t.Errorf("%s: %s differs: %s", folder, id, firstDifference(string(a), string(b)))
			}
		}
	}
}

// TestShadowOverlayStartsOnlyTheShadow builds the shadow's overlay, in which Berth itself
// has no replica.
func TestShadowOverlayStartsOnlyTheShadow(t *testing.T) {
	built := slices.Collect(maps.Values(build(t, filesys.MakeFsOnDisk(), filepath.Join(kustomizeFolder, "overlays/shadow"))))
	for name, want := range map[string]int32{chart.Release: 0, chart.Release + "-shadow": 1} {
		if got := get[appsv1.Deployment](t, built, "Deployment", name).Spec.Replicas; got == nil || *got != want {
			t.Errorf("%s: %v replicas, want %d", name, got, want)
		}
	}
}

// block returns the YAML block of docs/install.md that begins with a comment.
func block(t *testing.T, comment string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n# "+comment+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("docs/install.md has no block that begins with %q", comment)
	}
	return text
}

// TestRoleFitsTheLease compares name and namespace of the election's lease with the lease
// in the role. It also uses the values of docs/install.md for replacing kube-scheduler.
func TestRoleFitsTheLease(t *testing.T) {
	for text, want := range map[string]string{
		"": "berth-system/berth",
		"{config: {leaderElection: {resourceName: one}}}":            "berth-system/one",
		"{config: {leaderElection: {resourceNamespace: elsewhere}}}": "elsewhere/berth",
		block(t, "values.yaml"):                                      "kube-system/kube-scheduler",
	} {
		objects := render(t, text)
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
		name := objects[i].GetName()
		role := get[rbacv1.Role](t, objects, "Role", name+"-leader-election")
		binding := get[rbacv1.RoleBinding](t, objects, "RoleBinding", name+"-leader-election")
		election := configurationOf(t, objects, name).Source.LeaderElection
		if got := election.ResourceNamespace + "/" + election.ResourceName; got != want {
			t.Errorf("%s: the lease is %s, want %s", text, got, want)
		}
		if got := role.Namespace + "/" + role.Rules[1].ResourceNames[0]; got != want || binding.Namespace != role.Namespace || binding.RoleRef.Name != role.Name {
			t.Errorf("%s: the role is for %s, want %s; the binding is %+v", text, got, want, binding)
		}
	}
}

// TestWithoutElection renders a single replica without leader election: no role for a
// lease, and never two processes at the same time.
func TestWithoutElection(t *testing.T) {
	objects := render(t, "{replicas: 1, config: {leaderElection: {leaderElect: false}}}")
	for _, o := range objects {
		if strings.HasSuffix(o.GetName(), "-leader-election") {
			t.Errorf("there is %s", chart.ID(o))
		}
	}
	if d := get[appsv1.Deployment](t, objects, "Deployment", chart.Release); d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the strategy is %+v", d.Spec.Strategy)
	}
	if *configuration(t, objects).Source.LeaderElection.LeaderElect {
		t.Error("the configuration elects")
	}
}

// TestKustomizeOfAUser builds the example of docs/install.md: all components, an image
// and a configuration. A new configuration changes the ConfigMap's name, also in the
// Deployment's mount.
func TestKustomizeOfAUser(t *testing.T) {
	text := block(t, "kustomization.yaml")
	mounted := func(configuration string) (name, image string) {
		// A folder beside deploy/kustomize, as in a clone.
		files := filesys.MakeFsInMemory()
		err := filepath.WalkDir(kustomizeFolder, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return files.WriteFile("/berth/deploy/kustomize/"+filepath.ToSlash(strings.TrimPrefix(path, kustomizeFolder+"/")), content)
		})
		for name, content := range map[string]string{"kustomization.yaml": text, "config.yaml": configuration} {
			if err == nil {
				err = files.WriteFile("/mine/"+name, []byte(content))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		built := build(t, files, "/mine")
		if built["ServiceMonitor berth-system/berth"] == nil {
			t.Error("there is no ServiceMonitor")
		}
		for id, o := range built {
			if o.GetKind() == "Deployment" {
				pod := get[appsv1.Deployment](t, []*unstructured.Unstructured{o}, "Deployment", chart.Release).Spec.Template.Spec
				name, image = pod.Volumes[0].ConfigMap.Name, pod.Containers[0].Image
				if !slices.Contains(pod.Containers[0].Args, "--feature-gates=GenericWorkload=true") {
					t.Errorf("%s has the arguments %q", id, pod.Containers[0].Args)
				}
				config := built["ConfigMap berth-system/"+name]
				if config == nil {
					t.Fatalf("%s mounts ConfigMap %s, which is not there", id, name)
				}
				if data, _, _ := unstructured.NestedString(config.Object, "data", "config.yaml"); data != configuration {
					t.Errorf("the configuration is %q", data)
				}
			}
		}
		return name, image
	}
	one, image := mounted("a: 1\n")
	two, _ := mounted("a: 2\n")
	if one == two || image != "registry.corp.example/berth:v0.1.0" {
		t.Errorf("the configurations are in %s and %s, the image is %s", one, two, image)
	}
}

// TestPodsAreRestricted checks the rules of the Pod Security Standard "restricted" and
// the promises about replicas.
func TestPodsAreRestricted(t *testing.T) {
	d := get[appsv1.Deployment](t, render(t, ""), "Deployment", chart.Release)
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if *d.Spec.Replicas != 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("replicas %d, strategy %+v", *d.Spec.Replicas, d.Spec.Strategy)
	}
	if !*pod.SecurityContext.RunAsNonRoot || *pod.SecurityContext.RunAsUser == 0 || pod.SecurityContext.SeccompProfile.Type != v1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %+v", pod.SecurityContext)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []v1.Capability{"ALL"}) {
		t.Errorf("the container's security context is %+v", s)
	}
	if pod.HostNetwork || pod.HostPID || len(pod.TopologySpreadConstraints) != 2 {
		t.Errorf("the pod is %+v", pod)
	}
}
