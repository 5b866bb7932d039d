package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// explained runs berth explain on the cluster and returns its output.
func explained(t *testing.T, cluster string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(cluster), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"berth", "explain", "--snapshot", file}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

const twoNodes = `
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: true}, status: {allocatable: {cpu: "8", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old}, spec: {nodeName: n2, containers: [{name: m, image: x, resources: {requests: {cpu: "2", memory: 1Gi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: done}, spec: {containers: [{name: m, image: x}]}, status: {phase: Succeeded}}
---
`

// pending is a pod of twoNodes with more metadata and spec.
func pending(meta, spec, cpu string) string {
	return twoNodes + "{apiVersion: v1, kind: Pod, metadata: {" + meta + "}, spec: {" + spec + "containers: [{name: m, image: x, resources: {requests: {cpu: '" + cpu + "', memory: 1Gi}}}]}}\n"
}

// Nodes of twoNodes, in explanations.
const (
	n1Cordoned = `{"name":"n1","feasible":false,"rejections":[{"plugin":"NodeUnschedulable","code":"UnschedulableAndUnresolvable","reasons":["node(s) were unschedulable"]}]}`
	n2Full     = `{"name":"n2","feasible":false,"rejections":[{"plugin":"NodeResourcesFit","code":"Unschedulable","reasons":["Insufficient cpu"]}]}`
	n3Unscored = `{"name":"n3","feasible":true}`
	n2Scored   = `{"name":"n2","feasible":true,"scores":[{"plugin":"TaintToleration","weight":3,"score":100},{"plugin":"NodeResourcesFit","weight":1,"score":56},` +
		`{"plugin":"NodeResourcesBalancedAllocation","weight":1,"score":75},{"plugin":"ImageLocality","weight":1,"score":0}],"total":431}`
	n3Scored = `{"name":"n3","feasible":true,"scores":[{"plugin":"TaintToleration","weight":3,"score":100},{"plugin":"NodeResourcesFit","weight":1,"score":87},` +
		`{"plugin":"NodeResourcesBalancedAllocation","weight":1,"score":75},{"plugin":"ImageLocality","weight":1,"score":0}],"total":462}`
	byName = `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}]}}}, `
)

// object is an explanation of pod default/web.
func object(rest string, nodes ...string) string {
	return `{"pod":"default/web","profile":"default-scheduler","nodes":[` + "\n" + strings.Join(nodes, ",\n") + "\n]" + rest + "}\n"
}

// said are the messages of a pod without a feasible node in twoNodes that preemption does
// not help.
func said(why, preemption string) string {
	text := "preemption: 0/3 nodes are available: " + preemption
	return `,"message":"0/3 nodes are available: ` + why + " " + text + `","postFilterMessage":"` + text + `"`
}

// TestExplainJSON compares the whole output.
func TestExplainJSON(t *testing.T) {
	const notLookedAt = `,"feasible":false,"rejections":[{"plugin":"","code":"UnschedulableAndUnresolvable","reasons":["node(s) didn't satisfy plugin(s) [NodeAffinity]"]}],"leftOutBy":["NodeAffinity"]}`
	for _, test := range []struct{ name, cluster, want string }{
		{"scored", pending("name: web", "", "500m"), object("", n1Cordoned, n2Scored, n3Scored)},
		{"one feasible node", pending("name: web", "", "3"), object("", n1Cordoned, n2Full, n3Unscored)},
		{"none", pending("name: web", "", "5"), object(said("1 node(s) were unschedulable, 2 Insufficient cpu.", "3 Preemption is not helpful for scheduling."),
			n1Cordoned,
			strings.Replace(n2Full, `"Unschedulable"`, `"UnschedulableAndUnresolvable"`, 1),
			strings.NewReplacer(`"Unschedulable"`, `"UnschedulableAndUnresolvable"`, "n2", "n3").Replace(n2Full))},
		{"several plugins", pending("name: web", "nodeSelector: {a: b}, ", "100"), object(
			said("1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector.", "3 Preemption is not helpful for scheduling."),
			allOf("n1", `{"plugin":"NodeUnschedulable","code":"UnschedulableAndUnresolvable","reasons":["node(s) were unschedulable"]},`), allOf("n2", ""), allOf("n3", ""))},
		{"gated", pending("name: web", "schedulingGates: [{name: a}, {name: b}], ", "500m"), object(`,"gated":"waiting for scheduling gates: [a b]"`, n1Cordoned, n2Scored, n3Scored)},
		{"a claim of a template is not made yet", pending("name: web", "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], ", "500m"), object(
			`,"gated":"pod \"default/web\": ResourceClaim not created yet"`, n1Cordoned, n2Scored, n3Scored)},
		{"a claim does not exist", pending("name: web", "resourceClaims: [{name: gpu, resourceClaimName: gpu}], ", "500m"), object(
			`,"gated":"could not find ResourceClaim \"default/gpu\""`, n1Cordoned, n2Scored, n3Scored)},
		{"being deleted", pending("name: web, deletionTimestamp: '2026-01-01T10:00:00Z'", "", "500m"), object(`,"error":"the pod is being deleted"`, n1Cordoned, n2Scored, n3Scored)},
		{"by name", pending("name: web", byName, "3"), object(said("1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."),
			`{"name":"n1"`+notLookedAt, n2Full, `{"name":"n3"`+notLookedAt)},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, got, stderr := explained(t, test.cluster, "-o", "json", "--pod", "default/web")
			// TestExplainScreens covers the suggestions
			if before, _, ok := strings.Cut(got, `,"advice":{"version":1,"suggestions":[`); ok {
				got = before + "}\n"
			}
			if diff := cmp.Diff(test.want, got); code != 0 || diff != "" {
				t.Errorf("exit code %d, output (- want, + got)\n%s\n%s", code, diff, stderr)
			}
			_, array, _ := explained(t, test.cluster, "-o", "json")
			if want := "[\n" + test.want + "]\n"; array != want {
				t.Errorf("without --pod\n%s\nwant\n%s", array, want)
			}
			_, table, _ := explained(t, test.cluster)
			if !strings.HasPrefix(table, "Pod default/web, profile default-scheduler: ") {
				t.Errorf("table\n%s", table)
			}
		})
	}
}

// TestExplainAdviceJSON compares the whole advice.
func TestExplainAdviceJSON(t *testing.T) {
	const want = `{"version":1,"suggestions":[` +
		`{"changes":[{"kind":"request","object":"pod default/web","text":"lower the cpu request of container m from 5 to 4","resource":"cpu","from":"5","to":"4","size":200}],"node":"n3"},` +
		`{"changes":[{"kind":"uncordon","object":"node n1","text":"uncordon node n1","size":1}],"node":"n1"}],"decisions":7}}` + "\n"
	code, got, stderr := explained(t, pending("name: web", "", "5"), "-o", "json", "--pod", "default/web")
	_, got, _ = strings.Cut(got, `,"advice":`)
	if diff := cmp.Diff(want, got); code != 0 || diff != "" {
		t.Errorf("exit code %d, advice (- want, + got)\n%s\n%s", code, diff, stderr)
	}
}

// allOf is a node that two or more plugins reject.
func allOf(name, first string) string {
	return `{"name":"` + name + `","feasible":false,"rejections":[` + first +
		`{"plugin":"NodeAffinity","code":"UnschedulableAndUnresolvable","reasons":["node(s) didn't match Pod's node affinity/selector"]},` +
		`{"plugin":"NodeResourcesFit","code":"UnschedulableAndUnresolvable","reasons":["Insufficient cpu"]}]}`
}

// TestExplainOutputs checks that YAML equals JSON, for one pod and for several.
func TestExplainOutputs(t *testing.T) {
	for _, pod := range [][]string{nil, {"--pod", "shop/web-2"}} {
		var fromJSON, fromYAML any
		code, text, stderr := explainedExample(t, append(pod, "-o", "json")...)
		if err := json.Unmarshal([]byte(text), &fromJSON); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
		}
		_, text, _ = explainedExample(t, append(pod, "-o", "yaml")...)
		if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
			t.Errorf("JSON (-) and YAML (+) differ:\n%s", diff)
		}
		if all, ok := fromJSON.([]any); ok != (pod == nil) || ok && len(all) != 6 {
			t.Errorf("an array: %t, of %d", ok, len(all))
		}
	}
}

func explainedExample(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"berth", "explain", "--snapshot", example}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// checkScreen compares output with a file of testdata, except trailing spaces, or writes
// that file.
func checkScreen(t *testing.T, name, out string) {
	t.Helper()
	file := "testdata/" + name + ".txt"
	if *updateScreens {
		if err := os.WriteFile(file, []byte(trimmed(out)), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), trimmed(out)); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

// TestExplainScreens compares the output for pods. The short form has ten lines at most.
func TestExplainScreens(t *testing.T) {
	build.NotRaced(t)
	example, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	owned := func(name, owner, cpu string) string {
		return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: " + owner + ", uid: u, controller: true}]}, " +
			"spec: {containers: [{name: m, image: x, resources: {requests: {cpu: '" + cpu + "', memory: 1Gi}}}]}}\n"
	}
	// n3 is too small, and n2 has a pod that a disruption budget may protect.
	small := func(cluster string) string {
		cluster = strings.ReplaceAll(cluster, "{name: old}", "{name: old, labels: {app: old}}")
		return strings.ReplaceAll(cluster, `{name: n3}, status: {allocatable: {cpu: "4"`, `{name: n3}, status: {allocatable: {cpu: "1"`)
	}
	const budget = "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: keep}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: old}}}}\n"
	var large strings.Builder
	for i := range 15_000 {
		spec := [...]string{"", "unschedulable: true", "taints: [{key: dedicated, value: gpu, effect: NoSchedule}]"}[i%5/3+i%5/4]
		fmt.Fprintf(&large, "{apiVersion: v1, kind: Node, metadata: {name: n%05d, labels: {kubernetes.io/hostname: n%05d, pool: p%d}}, spec: {%s}, status: {allocatable: {cpu: '%d', memory: 64Gi, pods: '110'}}}\n---\n", i, i, i%7, spec, 4+4*(i%3))
	}
	waits := strings.TrimPrefix(pending("name: web", "nodeSelector: {pool: p3}, ", "30"), twoNodes)
	for name, row := range map[string]struct{ cluster, pod string }{
		"explain-15000":      {large.String() + waits, "default/web"},
		"explain-rejected":   {string(example), "shop/report-next"},
		"explain-placed":     {string(example), "shop/web-2"},
		"explain-gpu":        {string(example), "shop/training-untolerant"},
		"explain-gated":      {string(example), "shop/migration"},
		"explain-replicas":   {pending("name: web", "", "1") + owned("big-1", "big", "5") + owned("big-2", "big", "5") + owned("big-3", "big", "5"), "default/big-1"},
		"explain-typo":       {strings.ReplaceAll(pending("name: web", "nodeSelector: {disk: sdd}, ", "1"), "{name: n3}", "{name: n3, labels: {disk: ssd}}"), "default/web"},
		"explain-two":        {strings.ReplaceAll(pending("name: web", "nodeSelector: {disk: sdd}, ", "6"), "{name: n3}", "{name: n3, labels: {disk: ssd}}"), "default/web"},
		"explain-remove":     {strings.ReplaceAll(pending("name: web", "nodeSelector: {host: n2}, ", "3"), "{name: n2}", "{name: n2, labels: {host: n2}}"), "default/web"},
		"explain-budget":     {small(pending("name: web", "priority: 10, preemptionPolicy: Never, ", "4")) + budget, "default/web"},
		"explain-by-name":    {pending("name: web", byName, "3"), "default/web"},
		"explain-no-claim":   {pending("name: web", "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}], ", "1"), "default/web"},
		"explain-preemption": {small(pending("name: web", "priority: 10, ", "4")), "default/web"},
		"explain-no-nodes":   {strings.TrimPrefix(pending("name: web", "", "1"), twoNodes), "default/web"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := explained(t, row.cluster, "--pod", row.pod)
			if lines := strings.Count(out, "\n"); code != 0 || lines > 10 {
				t.Errorf("exit code %d, %d lines\n%s\n%s", code, lines, out, stderr)
			}
			checkScreen(t, name, out)
			_, out, _ = explained(t, row.cluster, "--pod", row.pod, "-o", "wide")
			checkScreen(t, name+"-wide", out)
		})
	}
	if _, out, _ := explainedExample(t); strings.Count(out, ", profile default-scheduler: ") != 6 {
		t.Errorf("all pods\n%s", out)
	}
}

// TestExplainTableCuts checks the table for long lists, for amounts that round to the
// same text, and for nodes without scores.
func TestExplainTableCuts(t *testing.T) {
	cluster := pending("name: web", "", "3")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		cluster += "---\n{apiVersion: v1, kind: Node, metadata: {name: " + name + "}, status: {allocatable: {cpu: 2999999u, memory: 1073741823, pods: '9'}}}\n"
	}
	_, out, _ := explained(t, cluster, "-o", "wide")
	for _, want := range []string{
		"1 of 10 nodes are feasible; it would go to n3.\n", "a, b, c, and 4 more\n", "Rejected by NodeResourcesFit alone: 8\n",
		"  a: memory: needs 1073741824, free 1073741823 of 1Gi\n", "  and 3 more\n", "\nNot scored: n3\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = explained(t, strings.ReplaceAll(cluster, "1073741823", "8Gi")+strings.Replace(cluster[strings.LastIndex(cluster, "---"):], "name: g", "name: h", 1), "-o", "wide")
	if !strings.Contains(out, "and 3 more\n") {
		t.Errorf("seven feasible nodes of which five are shown:\n%s", out)
	}
	_, out, _ = explained(t, pending("name: web, deletionTimestamp: '2026-01-01T10:00:00Z'", "schedulingGates: [{name: g}], ", "1"), "-o", "wide")
	want := "2 of 3 nodes are feasible.\nIt is gated: waiting for scheduling gates: [g]. The rest is computed without the gate.\n" +
		"Scheduling error: the pod is being deleted\n"
	if !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// TestExplainEmptyCluster has nodes without pods, and pods without nodes.
func TestExplainEmptyCluster(t *testing.T) {
	for output, want := range map[string]string{"json": "[]\n", "yaml": "[]\n", "table": "No pod is pending.\n"} {
		if code, out, stderr := explained(t, twoNodes, "-o", output); code != 0 || out != want {
			t.Errorf("%s: exit code %d, output %q, %s", output, code, out, stderr)
		}
	}
	pod := strings.TrimPrefix(pending("name: web", "", "1"), twoNodes)
	want := `{"pod":"default/web","profile":"default-scheduler","nodes":[],"message":"no nodes available to schedule pods"}` + "\n"
	if code, out, stderr := explained(t, pod, "-o", "json", "--pod", "default/web"); code != 0 || out != want {
		t.Errorf("exit code %d, output %s, %s", code, out, stderr)
	}
	want = "Pod default/web, profile default-scheduler: 0 of 0 nodes are feasible.\nno nodes available to schedule pods\n"
	if _, out, _ := explained(t, pod); out != want {
		t.Errorf("table\n%s", out)
	}
}

// TestNoPodIsSelected distinguishes pods that are not selected from a cluster without
// pending pods.
func TestNoPodIsSelected(t *testing.T) {
	for args, want := range map[string]string{
		"explain -l app=nope":       "No pending pod is selected.\n",
		"simulate -l app=nope":      "No pending pod is selected.\n",
		"queue -l app=nope":         "No pod with the labels app=nope is waiting.\n",
		"queue -n shop -l app=nope": "No pod with the labels app=nope is waiting in namespace shop.\n",
	} {
		code, got := transcript(t, append(strings.Fields(args), "-f", example)...)
		if code != 0 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
}

// TestExplainForeign expects that pods of other schedulers are left out, with a note.
func TestExplainForeign(t *testing.T) {
	code, out, stderr := explained(t, pending("name: web", "schedulerName: other, ", "1"), "-o", "json")
	want := `Note: pending pods left out because no profile has their scheduler name "other": 1; the profiles are "default-scheduler"`
	if code != 0 || out != "[]\n" || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, output %s, notes\n%s", code, out, stderr)
	}
}

// TestExplainMistakes expects exit code 2 and an error that names the correct form.
func TestExplainMistakes(t *testing.T) {
	cluster := pending("name: web, namespace: shop", "", "1") + "---\n" +
		strings.TrimPrefix(pending("name: foreign", "schedulerName: other, ", "1"), twoNodes)
	tests := []struct {
		name, want string
		args       []string
	}{
		{"arguments", "name every file with --snapshot", []string{"shop/web", "default/web"}},
		{"argument", `--pod "default/web": pod not found in the snapshot; did you mean shop/web?`, []string{"default/web"}},
		{"pod twice", `pod "shop/web" and --pod are both given`, []string{"shop/web", "--pod", "shop/web"}},
		{"output", `--output "broad": must be one of table, wide, json, yaml`, []string{"-o", "broad"}},
		{"missing file", "missing.yaml: cannot be read", []string{"--snapshot", "missing.yaml"}},
		{"missing config", "missing.yaml: read the scheduler configuration", []string{"--config", "missing.yaml"}},
		{"no namespace", `--pod "web": must be NAMESPACE/NAME; did you mean shop/web?`, []string{"--pod", "web"}},
		{"no name", `--pod "shop/": must be NAMESPACE/NAME`, []string{"--pod", "shop/"}},
		{"misspelt", `pod not found in the snapshot; did you mean shop/web?`, []string{"--pod", "shop/wbe"}},
		{"other namespace", `pod not found in the snapshot; did you mean shop/web?`, []string{"--pod", "default/web"}},
		{"nothing like it", `pod not found in the snapshot (2 pods are pending, no similar name)`, []string{"--pod", "batch/training"}},
		{"bound", `--pod "default/old": the pod is not pending, it is bound to node "n2"`, []string{"--pod", "default/old"}},
		{"finished", `--pod "default/done": the pod is not pending, its phase is Succeeded`, []string{"--pod", "default/done"}},
		{"foreign", `no profile has the pod's scheduler name "other"; the profiles are "default-scheduler"`, []string{"--pod", "default/foreign"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, out, stderr := explained(t, cluster, test.args...)
			if code != 2 || out != "" || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, output %q, error\n%s\nwant 2 and\n%s", code, out, stderr, test.want)
			}
		})
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"berth", "explain"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "name the cluster's files with --snapshot") {
		t.Errorf("without a file: exit code %d, %s", code, &errs)
	}
	code, _, stderr := explained(t, twoNodes, "--pod", "a/b")
	if code != 2 || !strings.Contains(stderr, "no pod of the snapshot is pending") {
		t.Errorf("nothing pending: exit code %d, %s", code, stderr)
	}
}
