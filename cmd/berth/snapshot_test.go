package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/offline/anonymize"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestSnapshot writes a cluster to a file and to standard output, and reads it again.
// It has no environment, and names what may not be listed.
func TestSnapshot(t *testing.T) {
	c := newCloud(t)
	c.listed = []v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u", CreationTimestamp: metav1.Unix(1_000_000, 0)},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "c", Image: "i", Env: []v1.EnvVar{{Name: "A", Value: "hidden"}}}}},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."},
		}},
	}}
	c.forbids = "/api/v1/persistentvolumes"
	kubeconfig := c.kubeconfig()
	file := filepath.Join(t.TempDir(), "cluster.json")
	code, got := transcript(t, "snapshot", "-o", file, "--kubeconfig", kubeconfig)
	if want := "---\nNote: you may not list persistentvolumes: they are missing in the snapshot\nWrote 2 objects to " + file + ".\n"; code != 0 || got != want {
		t.Errorf("exit code %d, %s, want %s", code, got, want)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("hidden")) {
		t.Errorf("%v in\n%s", err, text)
	}
	if code, got := transcript(t, "snapshot", "--kubeconfig", kubeconfig); code != 0 || !strings.HasPrefix(got, string(text)+"---\n") {
		t.Errorf("exit code %d on standard output:\n%s", code, got)
	}
	for args, want := range map[string]string{
		"simulate -f " + file:          "web-0",
		"explain --snapshot " + file:   "Pod shop/web-0, profile default-scheduler: 0 of 1 nodes are feasible.",
		"queue -f " + file:             "0/1 nodes are available: 1 Insufficient cpu.",
		"top nodes -f " + file:         "n ",
		"drain n -f " + file:           "Drained",
		"simulate -f - --seed 1":       "web-0",
		"explain --pod shop/web-0 -f-": "shop/web-0",
	} {
		var out, errs bytes.Buffer
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetIn(bytes.NewReader(text))
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, want %q\n%s%s", args, err, want, &out, &errs)
		}
	}
	one, two, other := filepath.Join(t.TempDir(), "1"), filepath.Join(t.TempDir(), "2"), filepath.Join(t.TempDir(), "3")
	for file, key := range map[string]string{one: "a", two: "a", other: ""} {
		if code, got := transcript(t, "snapshot", "--anonymize", "--anonymize-key", key, "-o", file, "--kubeconfig", kubeconfig); code != 0 {
			t.Errorf("exit code %d, %s", code, got)
		}
	}
	a, _ := os.ReadFile(one)
	b, _ := os.ReadFile(two)
	x, _ := os.ReadFile(other)
	if len(a) == 0 || !bytes.Equal(a, b) || bytes.Equal(a, x) || bytes.Contains(a, []byte("web")) || bytes.Contains(a, []byte("shop")) {
		t.Errorf("anonymized:\n%s\n%s\n%s", a, b, x)
	}
}

// TestSnapshotMistakes expects the exit code and an error with the remedy.
func TestSnapshotMistakes(t *testing.T) {
	kubeconfig := newCloud(t).kubeconfig()
	for args, want := range map[string]string{
		"cluster.json":        `2 "berth snapshot" takes no arguments, got ["cluster.json"]: name the file with -o`,
		"--anonymize-key a":   "2 --anonymize-key: is for --anonymize, which is not given",
		"--output=":           `2 --output "": must be a file, or - for standard output`,
		"-o /none/there.json": "1 write the snapshot: ",
	} {
		code, got := transcript(t, append([]string{"snapshot", "--kubeconfig", kubeconfig}, strings.Fields(args)...)...)
		exit, message, _ := strings.Cut(want, " ")
		if exit != map[int]string{1: "1", 2: "2"}[code] || !strings.Contains(got, message) {
			t.Errorf("%s: exit code %d, want %s\n%s", args, code, want, got)
		}
	}
	if code, got := transcript(t, "snapshot", "--kubeconfig", "/dev/null"); code != 2 || !strings.Contains(got, "no cluster is configured") {
		t.Errorf("exit code %d\n%s", code, got)
	}
}

// TestAnonymizedDecidesTheSame simulates clusters with and without their names. Every pod
// is placed on the same node, evicted or left waiting.
func TestAnonymizedDecidesTheSame(t *testing.T) {
	outcome := func(file string) simulate.Result {
		code, got := transcript(t, "simulate", "-f", file, "--feature-gates", "GenericWorkload=true", "-o", "json")
		out, _, _ := strings.Cut(got, "---\n")
		var result simulate.Result
		if err := json.Unmarshal([]byte(out), &result); code != 0 || err != nil {
			t.Fatalf("%s: exit code %d, %v\n%s", file, code, err, got)
		}
		return result
	}
	names := anonymize.New("key")
	for file, placed := range map[string]map[string]string{
		"../../examples/cluster.yaml": nil, "../../examples/gangs.yaml": nil, "testdata/workloads.yaml": nil, "testdata/top.yaml": nil,
		"testdata/anonymize.yaml": {"disk-x": "a1", "disk-y": "", "restarts": "b1", "pair": "b1"},
	} {
		cluster, err := manifest.Options{}.Read([]string{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		changed := filepath.Join(t.TempDir(), "anonymous.json")
		f, err := os.Create(changed)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeObjects(f, cluster.Objects(), names.Object); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		before, after := outcome(file), outcome(changed)
		if s := after.Summary; before.Summary.Placed != s.Placed || before.Summary.Waiting != s.Waiting || before.Summary.Evicted != s.Evicted || s.Placed+s.Waiting == 0 {
			t.Errorf("%s: %+v, anonymized %+v", file, before.Summary, s)
		}
		if placed == nil {
			continue // made pods have other names
		}
		nodes := map[string]string{}
		for i := range after.Pods {
			nodes[after.Pods[i].Pod] = after.Pods[i].Node
		}
		for i := range before.Pods {
			p := &before.Pods[i]
			if want, ok := placed[p.Pod]; !ok || p.Node != want {
				t.Errorf("%s is on %q, want %q: %s", p.Pod, p.Node, want, p.Message)
			}
			if got, ok := nodes[names.Text(p.Pod)]; !ok || got != names.Text(p.Node) {
				t.Errorf("%s is on %q, anonymized on %q, want %q", p.Pod, p.Node, got, names.Text(p.Node))
			}
		}
	}
}
