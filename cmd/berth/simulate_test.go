package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// simulated runs berth simulate with the arguments.
func simulated(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return piped(stdin, append([]string{"simulate"}, args...)...)
}

// piped runs berth with a standard input.
func piped(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.Execute()
	if err != nil {
		errs.WriteString(err.Error())
	}
	return app.ExitCode(err), out.String(), errs.String()
}

const example = "../../examples/cluster.yaml"

// trimmed is text without the spaces at the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestSimulateOutputs checks that YAML equals JSON, and that a second run gives the same
// output.
func TestSimulateOutputs(t *testing.T) {
	args := []string{"-f", example, "-f", "../../examples/replicas.yaml", "--config", "../../examples/packing.yaml", "--seed", "7"}
	_, text, stderr := simulated(t, "", append(args, "-o", "json")...)
	var fromJSON, fromYAML simulate.Result
	if err := json.Unmarshal([]byte(text), &fromJSON); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	_, again, _ := simulated(t, "", append(args, "-o", "json")...)
	if text != again {
		t.Error("two runs differ")
	}
	_, text, _ = simulated(t, "", append(args, "-o", "yaml")...)
	if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(fromJSON)
	b, _ := json.Marshal(fromYAML)
	if !bytes.Equal(a, b) {
		t.Error("JSON and YAML differ")
	}
	if s := fromJSON.Summary; s.Placed != 7 || s.Waiting != 3 || len(fromJSON.Pods) != 10 {
		t.Errorf("summary: %+v", s)
	}
	for _, p := range fromJSON.Pods[6:] {
		if p.Node != fromJSON.Pods[0].Node || p.FeasibleNodes != 2 {
			t.Errorf("packing puts replicas beside web-2 on %s; %+v", fromJSON.Pods[0].Node, p)
		}
	}
	_, text, _ = simulated(t, "", append(args, "-o", "wide")...)
	if !strings.Contains(text, "FEASIBLE") {
		t.Error("wide output has no column FEASIBLE")
	}
}

// TestSimulateGenerated generates a cluster. The table has the summary and JSON all pods.
// Impossible sizes are errors.
func TestSimulateGenerated(t *testing.T) {
	code, text, stderr := simulated(t, "", "--generate", "nodes=20,pods=300,running=50")
	if code != 0 || !strings.HasPrefix(text, "Pods: 300 of 300 pending were placed, beside 50 that had a node. Nodes: 20.") || strings.Contains(text, "NAMESPACE") {
		t.Errorf("exit code %d\n%s%s", code, text, stderr)
	}
	if note := regexp.MustCompile(`(?m)^Note: 300 pods in [0-9.ms]+, [0-9]+ pods/s\n\z`); !note.MatchString(stderr) || strings.Contains(text, "pods/s") {
		t.Errorf("how long it took belongs to the end of stderr, and to it alone\n%s\n%s", stderr, text)
	}
	if _, again, _ := simulated(t, "", "--generate", "nodes=20,pods=300,running=50"); again != text {
		t.Errorf("the second run prints\n%s\nand the first\n%s", again, text)
	}
	if _, _, stderr := simulated(t, "", "-f", example); strings.Contains(stderr, "pods/s") {
		t.Errorf("a cluster that is read has a note about time\n%s", stderr)
	}
	_, text, _ = simulated(t, "", "--generate", "nodes=20,pods=300", "-o", "json")
	var result simulate.Result
	if err := json.Unmarshal([]byte(text), &result); err != nil || len(result.Pods) != 300 {
		t.Errorf("%d pods, %v", len(result.Pods), err)
	}
	for _, row := range []struct{ args, want string }{
		{"--generate nodes=20,pods=300 -f " + example, "--generate and -f are both given: give one of the two"},
		{"--generate pod=3", `--generate: key "pod": must be one of nodes, pods, running, zones, apps, groups, volumes, devices, different; did you mean pods?`},
		{"--generate nodes=many", "--generate: nodes=many: must be a whole number"},
		{"--generate nodes=5,pods=2,volumes=3", "--generate: volumes=3: must be at most pods=2"},
	} {
		if code, _, stderr := simulated(t, "", strings.Fields(row.args)...); code != 2 || !strings.Contains(stderr, row.want) {
			t.Errorf("%s: exit code %d, %s; want %s", row.args, code, stderr, row.want)
		}
	}
}

// TestSimulateExtras generates gangs, volumes and devices. The same seed gives the same
// output, and another seed gives another. Without the gate a note names the remedy.
func TestSimulateExtras(t *testing.T) {
	args := []string{"--generate", "nodes=20,pods=100,groups=3,volumes=20,devices=20,different=true", "-o", "json", "--seed"}
	code, first, stderr := simulated(t, "", append(args, "1", gateOn)...)
	var result simulate.Result
	if err := json.Unmarshal([]byte(first), &result); err != nil || code != 0 || result.Summary.Placed != 124 || len(result.Groups) != 3 {
		t.Errorf("exit code %d, %v, %d groups, %+v\n%s", code, err, len(result.Groups), result.Summary, stderr)
	}
	if _, again, _ := simulated(t, "", append(args, "1", gateOn)...); again != first {
		t.Error("two runs differ")
	}
	if _, other, _ := simulated(t, "", append(args, "2", gateOn)...); other == first {
		t.Error("the seed has no effect")
	}
	const note = "pending pods of pod groups are scheduled one by one: 24;"
	if _, _, without := simulated(t, "", append(args, "1")...); !strings.Contains(without, note) || strings.Contains(stderr, note) {
		t.Errorf("without the gate\n%s\nwith it\n%s", without, stderr)
	}
}

// TestCompleteSize completes the last key of --generate, without repeating one.
func TestCompleteSize(t *testing.T) {
	got, _ := completeSize(nil, nil, "nodes=5,pods=2,running=1,zones=1,apps=1,vo")
	const before = "nodes=5,pods=2,running=1,zones=1,apps=1,"
	want := []string{before + "groups=", before + "volumes=", before + "devices=", before + "different="}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPace expects the pods per second, also for a duration of 0.
func TestPace(t *testing.T) {
	for _, row := range []struct {
		pods int
		took time.Duration
		want string
	}{
		{1_000_000, 58 * time.Second, "1000000 pods in 58s, 17241 pods/s"},
		{300, 12_400 * time.Microsecond, "300 pods in 12ms, 25000 pods/s"},
		{9, 0, "9 pods in 1ms, 9000 pods/s"},
		{0, 0, "0 pods in 1ms, 0 pods/s"},
	} {
		if got := pace(row.pods, row.took); got != row.want {
			t.Errorf("%d pods in %s: %q, want %q", row.pods, row.took, got, row.want)
		}
	}
}

// TestSimulateStdin reads a cluster from standard input, and expects a note on stderr
// about skipped objects.
func TestSimulateStdin(t *testing.T) {
	const cluster = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "1", pods: "9"}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web}
  spec: {schedulerName: other, containers: [{name: main, image: x}]}
`
	code, out, stderr := simulated(t, cluster, "-f", "-")
	if code != 0 || !strings.Contains(stderr, "1 ConfigMap (v1)") {
		t.Errorf("exit code %d, stderr %s", code, stderr)
	}
	if !strings.Contains(out, `no profile has the scheduler name "other"; the profiles are "default-scheduler"`) {
		t.Errorf("output\n%s", out)
	}
	if _, out, _ = simulated(t, strings.Split(cluster, "- apiVersion: v1\n")[0], "-f", "-"); !strings.HasPrefix(out, "No pod is pending.") {
		t.Errorf("output without pods\n%s", out)
	}
}

// TestSimulateWhatIsMissing expects that pods stay pending that need a missing plugin, as
// in the scheduler, with a note on stderr.
func TestSimulateWhatIsMissing(t *testing.T) {
	const cluster = `
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: "1", pods: "9"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: member}, spec: {containers: [{name: m, image: x}], schedulingGroup: {podGroupName: g}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: m, image: x}]}}
`
	const group = `0/1 nodes are available: GangScheduling is not part of this version of Berth: the pod belongs to pod group "g".`
	config := func(name, more string) string {
		path := filepath.Join(t.TempDir(), name)
		text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]\n"
		if err := os.WriteFile(path, []byte(text+more), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, row := range []struct {
		name          string
		args          []string
		member, plain string
		notes         []string
	}{
		{"missing", []string{"--config", config("a.yaml", "")}, group, "Scheduled", []string{"pods that need them stay pending: GangScheduling\n"}},
		{"extender", []string{"--config", config("b.yaml", "extenders: [{urlPrefix: \"http://x\", filterVerb: f}]\n")}, group, "Scheduled", []string{
			"Note: extenders[0] (http://x) is not called here; the scheduler calls it for every pod: it filters nodes\n", "pods that need them stay pending: GangScheduling\n",
		}},
	} {
		code, out, stderr := simulated(t, cluster, append(row.args, "-f", "-")...)
		if code != 0 {
			t.Fatal(stderr)
		}
		for name, want := range map[string]string{"member": row.member, "plain": row.plain} {
			if _, line, _ := strings.Cut(out, " "+name+" "); !strings.Contains(strings.Split(line, "\n")[0], want) {
				t.Errorf("%s: want %s %s in\n%s", row.name, name, want, out)
			}
		}
		for _, want := range row.notes {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: want %q in\n%s", row.name, want, stderr)
			}
		}
		_, out, stderr = explained(t, cluster, append(row.args, "-o", "wide")...)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.TrimPrefix(row.member, "0/1 nodes are available: ")) || !strings.Contains(stderr, row.notes[0]) {
			t.Errorf("%s: explain says\n%s%s", row.name, out, stderr)
		}
	}
}

// TestSimulateMistakes expects exit code 2 and an error that names the correct form.
func TestSimulateMistakes(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := []struct {
		name, want string
		args       []string
	}{
		{"no file", "name the cluster's files with -f", nil},
		{"argument", "name every file with -f", []string{"-f", example, "more.yaml"}},
		{"output", `--output "xml": must be one of table, wide, json, yaml`, []string{"-f", example, "-o", "xml"}},
		{"seed", `invalid argument "-1"`, []string{"-f", example, "--seed", "-1"}},
		{"missing file", "missing.yaml: cannot be read: no such file or directory", []string{"-f", "missing.yaml"}},
		{"missing config", "missing.yaml: read the scheduler configuration", []string{"-f", example, "--config", "missing.yaml"}},
		{"config is a cluster", example, []string{"-f", example, "--config", example}},
		{"not an object", "holds no object", []string{"-f", "-"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, out, stderr := simulated(t, "# nothing\n", test.args...)
			if code != 2 || out != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, output %q, error\n%s\nwant 2 and\n%s", code, out, stderr, test.want)
			}
		})
	}
}

// TestAmount formats amounts for people.
func TestAmount(t *testing.T) {
	_, out, _ := simulated(t, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1500m","memory":"1536","pods":"12345"}}}`, "-f", "-")
	for _, want := range []string{"cpu                1.5 ", "memory           1.5Ki ", "pods             12345 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestMissingControllers expects one warning for pending pods whose controllers the input
// lacks, and none where these have no effect.
func TestMissingControllers(t *testing.T) {
	pod := func(name, kind, spec string) string {
		apiVersion := "apps/v1"
		if kind == "ReplicationController" {
			apiVersion = "v1"
		}
		return "\n---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", labels: {app: web}, ownerReferences: [{apiVersion: " + apiVersion + ", kind: " + kind +
			", name: web, uid: u, controller: true}]}, spec: {" + spec + "containers: [{name: c, image: i}]}}"
	}
	const (
		node       = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: '1', pods: '9'}}}"
		replicaSet = "\n---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, " +
			"template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}"
		own = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}], "
	)
	listDefaults := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(listDefaults, []byte(`{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration,
profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, cluster, want string
		args                []string
	}{
		{"no ReplicaSet", node + pod("a", "ReplicaSet", "") + pod("b", "ReplicaSet", ""), "no ReplicaSet (pending pods of one: 2);", nil},
		{"several kinds", node + pod("a", "StatefulSet", "") + pod("b", "ReplicationController", "") + replicaSet + pod("c", "ReplicaSet", ""),
			"no ReplicationController (pending pods of one: 1), no StatefulSet (pending pods of one: 1);", nil},
		{"all there", node + replicaSet + pod("a", "ReplicaSet", ""), "", nil},
		{"no pod is pending", node + pod("a", "ReplicaSet", "nodeName: a, "), "", nil},
		{"the pod's own constraints", node + pod("a", "ReplicaSet", own), "", nil},
		{"a kind that is not looked at", node + pod("a", "DaemonSet", ""), "", nil},
		{"nothing is spread by default", node + pod("a", "ReplicaSet", ""), "", []string{"--config", listDefaults}},
	}
	for _, test := range tests {
		_, _, simulateStderr := simulated(t, test.cluster, append(test.args, "-f", "-")...)
		_, _, explainStderr := explained(t, test.cluster, test.args...)
		for command, stderr := range map[string]string{"simulate": simulateStderr, "explain": explainStderr} {
			warnings := strings.Count(stderr, "without its controller")
			if test.want == "" && warnings > 0 || test.want != "" && (warnings != 1 || !strings.Contains(stderr, test.want)) {
				t.Errorf("%s, %s: want %q, got\n%s", test.name, command, test.want, stderr)
			}
		}
	}
}
