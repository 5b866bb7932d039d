package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// explainedSince runs berth explain on two snapshots of a cluster.
func explainedSince(t *testing.T, then, now string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "then.yaml")
	if err := os.WriteFile(file, []byte(then), 0o600); err != nil {
		t.Fatal(err)
	}
	return explained(t, now, append(args, "--since", file)...)
}

// on returns a pod on a node.
func on(name, node, cpu string) string {
	return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {nodeName: " + node + ", containers: [{name: m, image: x, resources: {requests: {cpu: '" + cpu + "', memory: 1Gi}}}]}}\n"
}

// TestExplainSinceScreens compares the output for a pod in two snapshots with testdata.
// The short form has ten lines at most.
func TestExplainSinceScreens(t *testing.T) {
	web := func(cpu string) string { return pending("name: web", "", cpu) }
	var many, few string
	for i := range 7 {
		many += on(fmt.Sprintf("job-%d", i), "n3", "500m")
	}
	for i := range 4 {
		few += fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: m%d}, status: {allocatable: {cpu: '3', memory: 8Gi, pods: '9'}}}\n", i)
	}
	outranked := func(priority string) string { // web may outrank the pods on nodes
		return strings.ReplaceAll(pending("name: web", "priority: 10, ", "4")+on("other", "n3", "1"), "{nodeName", "{priority: "+priority+", nodeName")
	}
	for name, row := range map[string]struct{ then, now string }{
		"since-full":      {web("3"), web("3") + on("big", "n3", "2")},
		"since-many":      {web("3"), web("3") + many},
		"since-several":   {web("3") + few, strings.ReplaceAll(web("3")+few, `"4"`, `"1"`) + on("a", "m0", "1") + on("b", "m1", "1") + on("c", "m2", "1") + on("d", "m3", "1")},
		"since-cordoned":  {web("3"), strings.Replace(web("3"), "{name: n3}", "{name: n3, labels: {a: b}}, spec: {unschedulable: true}", 1)},
		"since-new-node":  {web("3") + on("big", "n3", "2"), web("3") + on("big", "n3", "2") + "---\n{apiVersion: v1, kind: Node, metadata: {name: n4}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '9'}}}\n"},
		"since-requests":  {web("3"), web("5")},
		"since-elsewhere": {web("1"), web("1") + on("big", "n3", "2500m")},
		"since-same":      {web("3"), web("3") + on("big", "n2", "1")},
		"since-pending":   {web("9"), web("8")},
		"since-gated":     {web("1"), pending("name: web", "schedulingGates: [{name: wait}], ", "1")},
		"since-recreated": {twoNodes + on("web", "n3", "3"), web("5")},
		"since-only-now":  {twoNodes, web("3")},
		"since-only-then": {web("3"), twoNodes + on("big", "n3", "2")},
		"since-preempts":  {outranked("0"), outranked("20")},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := explainedSince(t, row.then, row.now, "--pod", "default/web")
			if lines := strings.Count(out, "\n"); code != 0 || lines > screenLines {
				t.Errorf("exit code %d, %d lines\n%s\n%s", code, lines, out, stderr)
			}
			checkScreen(t, name, out)
			_, out, _ = explainedSince(t, row.then, row.now, "--pod", "default/web", "-o", "wide")
			checkScreen(t, name+"-wide", out)
		})
	}
}

// fullDisk is an output that fails.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestExplainSinceToAFullDisk reports the error of the output in each format.
func TestExplainSinceToAFullDisk(t *testing.T) {
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		var errs bytes.Buffer
		args := []string{"berth", "explain", "-f", example, "--since", example, "--pod", "shop/web-2", "-o", format}
		if code := run(t.Context(), args, fullDisk{}, &errs); code != 1 || !strings.Contains(errs.String(), "print: no space left on device") {
			t.Errorf("-o %s: exit code %d, %s", format, code, &errs)
		}
	}
}

// TestExplainSinceAsData compares JSON with YAML, and expects the fields of
// docs/explain-json.md.
func TestExplainSinceAsData(t *testing.T) {
	then, now := pending("name: web", "", "3"), pending("name: web", "", "3")+on("big", "n3", "2")
	var fromJSON, fromYAML attribution.Result
	code, out, stderr := explainedSince(t, then, now, "--pod", "default/web", "-o", "json")
	if err := json.Unmarshal([]byte(out), &fromJSON); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
	}
	_, text, _ := explainedSince(t, then, now, "--pod", "default/web", "-o", "yaml")
	if err := yaml.Unmarshal([]byte(text), &fromYAML); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(fromJSON)
	b, _ := json.Marshal(fromYAML)
	if !bytes.Equal(a, b) {
		t.Errorf("JSON\n%s\nYAML\n%s", a, b)
	}
	const want = `{"version":1,"pod":"default/web","then":{"verdict":"placed","node":"n3","feasible":1,"nodes":3},"now":{"verdict":"pending","feasible":0,"nodes":3,` +
		`"message":"0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."},` +
		`"differences":1,"direction":"undo","lost":[{"plugin":"NodeResourcesFit","reasons":["Insufficient cpu"],"nodes":1,"examples":["n3"]}],` +
		`"causes":[{"changes":[{"kind":"podCame","object":"pod default/big","node":"n3","text":"pod default/big came to node n3 (cpu 2, memory 1Gi)"}],"node":"n3","minimal":true,"exact":true}],"decisions":4}`
	if string(a) != want {
		t.Errorf("got\n%s\nwant\n%s", a, want)
	}
}

// TestExplainSinceWithoutCause has many pods that all matter, so that the search stops
// early. The output reports that no cause was found, instead of a cause with all
// differences.
func TestExplainSinceWithoutCause(t *testing.T) {
	build.NotRaced(t)
	const room = "---\n{apiVersion: v1, kind: Node, metadata: {name: big}, status: {allocatable: {cpu: '9', memory: 900Gi, pods: '900'}}}\n"
	then := pending("name: web", "", "9") + room
	now := then
	for i := range 400 {
		now += on(fmt.Sprintf("job-%d", i), "big", "1m")
	}
	for _, output := range []string{"table", "wide"} {
		code, out, stderr := explainedSince(t, then, now, "--pod", "default/web", "-o", output)
		const want = "\nNo cause was found within the limits of the search (differences: 400; decisions made: 600).\n"
		if code != 0 || !strings.HasSuffix(out, want) || strings.Contains(out, "job-") || strings.Contains(out, "was tried") {
			t.Errorf("%s: exit code %d; want at the end%s\n%s\n%s", output, code, want, out, stderr)
		}
	}
	_, out, _ := explainedSince(t, then, now, "--pod", "default/web", "-o", "json")
	var r attribution.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || !r.CutShort || r.Direction != attribution.Undo || len(r.Causes) != 0 || strings.Contains(out, `"causes"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExplainSinceMistakes expects exit code 2 and an error that names the correct form.
func TestExplainSinceMistakes(t *testing.T) {
	cluster := pending("name: web", "", "1") + "---\n" + strings.TrimPrefix(pending("name: foreign", "schedulerName: other, ", "1"), twoNodes) +
		"---\n" + strings.TrimPrefix(pending("name: member", "schedulingGroup: {podGroupName: g}, ", "1"), twoNodes)
	for _, row := range []struct {
		want string
		args []string
	}{
		{"--since needs a pod or a pod group: name it with --pod NAMESPACE/NAME or --pod-group NAMESPACE/NAME", nil},
		{"--pod and --pod-group are both given", []string{"--pod", "default/web", "--pod-group", "default/g"}},
		{"add --feature-gates GenericWorkload=true", []string{"--pod-group", "default/g"}},
		{"PodGroup not found in the snapshot, and no pod names it; did you mean default/g?", []string{"--pod-group", "default/h", gateOn}},
		{"--since - and --snapshot - are both given", []string{"--pod", "default/web", "--since", "-", "--snapshot", "-"}},
		{"missing.yaml: cannot be read", []string{"--pod", "default/web", "--since", "missing.yaml"}},
		{`--pod "web": must be NAMESPACE/NAME; did you mean default/web?`, []string{"--pod", "web"}},
		{`pod not found in either snapshot; did you mean default/web?`, []string{"--pod", "default/wbe"}},
		{"the pod has ended in one of the snapshots, its phase is Succeeded", []string{"--pod", "default/done"}},
		{`no profile has the pod's scheduler name "other"`, []string{"--pod", "default/foreign"}},
		{"the pod is scheduled together with pod group default/g: use --pod-group default/g", []string{"--pod", "default/member", gateOn}},
	} {
		code, out, stderr := explainedSince(t, cluster, cluster, row.args...)
		if code != 2 || out != "" || !strings.Contains(stderr, row.want) {
			t.Errorf("%q: exit code %d, output %q, error\n%s\nwant 2 and\n%s", row.args, code, out, stderr, row.want)
		}
	}
}

// TestExplainSinceOfGroups compares the output for a gang in two snapshots with testdata.
func TestExplainSinceOfGroups(t *testing.T) {
	running := func(name string) string { return member(name, "2", "nodeName: n1, ") }
	starts := gangFile("g", "2", running("a"), running("b"))
	for name, row := range map[string]struct{ then, now string }{
		"since-group-full":     {starts, gangFile("g", "2", member("c", "2", ""), member("d", "2", ""), on("big", "n1", "3"))},
		"since-group-requests": {starts, gangFile("g", "2", member("a", "3", ""), member("b", "3", ""))},
		"since-group-member":   {gangFile("g", "2", member("a", "2", "")), starts},
		"since-group-mincount": {starts, gangFile("g", "3", running("a"), running("b"))},
		"since-group-same":     {starts, starts},
		"since-group-only-now": {gangFile("g", "2"), starts},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, stderr := explainedSince(t, row.then, row.now, "--pod-group", "default/g", gateOn)
			if lines := strings.Count(out, "\n"); code != 0 || lines > screenLines {
				t.Errorf("exit code %d, %d lines\n%s\n%s", code, lines, out, stderr)
			}
			checkScreen(t, name, out)
			_, out, _ = explainedSince(t, row.then, row.now, "--pod-group", "default/g", gateOn, "-o", "wide")
			checkScreen(t, name+"-wide", out)
		})
	}
}
