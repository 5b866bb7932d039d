package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// transcript runs berth and returns its standard output, followed by its standard error.
func transcript(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"berth"}, args...), &out, &errs)
	return code, trimmed(out.String() + "---\n" + errs.String())
}

// TestWorkloadScreens compares whole screens with testdata/NAME.txt.
func TestWorkloadScreens(t *testing.T) {
	const cluster = "testdata/workloads.yaml"
	for name, args := range map[string][]string{
		"workloads":         {"simulate", "-f", cluster},
		"workloads-flags":   {"simulate", "-f", cluster, "--scale", "shop/web=1", "--run-cronjob", "shop/report", "--pod-template", "Rollout.argoproj.io=spec.template"},
		"workloads-compare": {"compare", "-f", cluster, "--config", "../../examples/packing.yaml"},
		"workloads-explain": {"explain", "-f", cluster, "--pod", "shop/db-1"},
	} {
		code, got := transcript(t, args...)
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, got)
		}
		checkScreen(t, name, got)
	}
}

// deployment is a file with one Deployment.
const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: big, namespace: shop}
spec:
  replicas: 1000000
  selector: {matchLabels: {app: big}}
  template:
    metadata: {labels: {app: big}}
    spec: {containers: [{name: big, image: big, resources: {requests: {cpu: "3"}}}]}
`

// TestFitWorkload counts pods like a workload's template, whatever its replicas.
func TestFitWorkload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "big.yaml")
	if err := os.WriteFile(file, []byte(deployment), 0o600); err != nil {
		t.Fatal(err)
	}
	code, got := transcript(t, "fit", "-f", "testdata/workloads.yaml", "-f", file)
	if code != 0 || !strings.HasPrefix(got, "Pods like shop/big-") || !strings.Contains(got, " that fit: 4\n") {
		t.Errorf("exit code %d\n%s", code, got)
	}
	if code, got = transcript(t, "fit", "-f", "testdata/workloads.yaml"); code != 2 || !strings.Contains(got, "must have exactly one such Pod") {
		t.Errorf("exit code %d\n%s", code, got)
	}
}

// TestWorkloadMistakes expects the place, the field, the value and a remedy, and exit
// code 2.
func TestWorkloadMistakes(t *testing.T) {
	for _, test := range []struct {
		old, new string // in the Deployment
		args     string
		want     string
	}{
		{"", "", "simulate -f FILE", "FILE:1: Deployment shop/big: spec.replicas: 1000000 pods are too many: a run makes at most 200000; give fewer, as in --scale shop/big=1000"},
		{"", "", "explain -f FILE", "1000000 pods are too many"},
		{"", "", "compare -f FILE --config ../../examples/packing.yaml", "1000000 pods are too many"},
		{"matchLabels: {app: big}", "matchLabels: {app: small}", "simulate -f FILE", "FILE:6: Deployment shop/big: spec.selector: app=small does not match the labels of spec.template, which are {app=big}; make them equal"},
		{"containers: [{name: big, image: big, resources: {requests: {cpu: \"3\"}}}]", "nodeSelector: {a: b}", "fit -f FILE", "FILE:9: Deployment shop/big: spec.template.spec.containers: is empty; a pod has at least one container"},
		{"replicas: 1000000", "replicas: -2", "simulate -f FILE", "FILE:5: Deployment shop/big: spec.replicas: -2 is negative; give zero or more"},
		{"", "", "simulate -f FILE --scale big=3", `--scale "big=3": must be NAMESPACE/NAME=N or KIND/NAMESPACE/NAME=N, such as shop/web=50`},
		{"", "", "simulate -f FILE --pod-template Rollout=spec", `--pod-template "Rollout=spec": must be KIND.GROUP=PATH`},
		{"", "", "simulate --scale shop/big=3", "--scale, --run-cronjob and --pod-template apply to workloads in files: name the files with -f"},
		{"", "", "compare --scale shop/big=3 --config ../../examples/packing.yaml", "apply to workloads in files: name the files with -f"},
	} {
		file := filepath.Join(t.TempDir(), "big.yaml")
		text := "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n"
		if err := os.WriteFile(file, []byte(strings.Replace(deployment, test.old, test.new, 1)+"---\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, got := transcript(t, strings.Fields(strings.ReplaceAll(test.args, "FILE", file))...)
		if want := strings.ReplaceAll(test.want, "FILE", file); code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s", test.args, code, got, want)
		}
	}
}

// TestDumpIsSimulated reads a directory in the layout of kubectl cluster-info dump: nodes
// at its top, and the pods of each namespace in a folder.
func TestDumpIsSimulated(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nodes.json":         `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","pods":"9"}}}]}`,
		"shop/pods.json":     `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		"shop/web/logs.txt":  "no object",
		"shop/services.json": `{"kind":"ServiceList","apiVersion":"v1","items":[]}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, got := transcript(t, "simulate", "-f", dir)
	if code != 0 || !strings.Contains(got, "Pods: 1 of 1 pending were placed") {
		t.Errorf("exit code %d\n%s", code, got)
	}
	if code, got = transcript(t, "fit", "-f", dir); code != 0 || !strings.Contains(got, "Pods like shop/web that fit: 9\n") {
		t.Errorf("exit code %d\n%s", code, got)
	}
}
