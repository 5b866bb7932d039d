package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPodsAreNamedAsInKubectl explains one pod in each form that kubectl's users type,
// and names the right form for other resources.
func TestPodsAreNamedAsInKubectl(t *testing.T) {
	flags := []string{"--kubeconfig", narrowUser(t).kubeconfig(), "-n", "shop"}
	for _, args := range []string{"web-0", "pod/web-0", "pods/web-0", "po/web-0", "pod web-0", "pods web-0", "Pod web-0", "POD/web-0", "shop/web-0", "pod/shop/web-0", "pod shop/web-0"} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), flags...)...)
		if code != 0 || !strings.HasPrefix(before(got), "Pod shop/web-0, ") {
			t.Errorf("%s: exit code %d\n%s", args, code, got)
		}
	}
	for args, want := range map[string]string{
		"web-0 web-1":     "takes at most one pod",
		"pod web-0 web-1": "takes at most one pod",
		"x y":             "takes at most one pod",
		"Job/train":       `"job/train": is a Job: name a pod, or select the Job's pods with -l batch.kubernetes.io/job-name=train`,
		"job train":       `"job/train": is a Job: `,
		"sts db":          `"statefulset/db": is a StatefulSet: name a pod, such as db-0`,
		"deploy/shop/web": `"deployment/shop/web": is a Deployment: name a pod, or select its pods with -l`,
		"node a":          `"node/a": is a node: name a pod; kubectl berth drain node/a shows`,
	} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), flags...)...)
		if code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
	for args, want := range map[string]string{
		"job/train":     "; berth explain takes pods: for a Job, name a pod, or select the Job's pods with -l batch.kubernetes.io/job-name=train",
		"deploy/web":    "; berth explain takes pods: for a Deployment, name a pod, or select its pods with -l and the labels of its selector",
		"pod node/a":    "; berth explain takes pods: for a node, name a pod; kubectl berth drain node/a shows where the pods of a node would go",
		"pod pod/web-0": "you may not list pods in all namespaces",
	} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), flags...)...)
		if code != 1 || !strings.Contains(got, want) || strings.Contains(got, "explain takes pods") != strings.Contains(want, "explain takes pods") {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
	var e explainFlags
	e.input = &input{connection: newConnection(newExplainCommand().Flags())}
	if err := e.name([]string{"podgroup/ml/g"}); err != nil || e.group != "ml/g" || e.pod != "" {
		t.Errorf("a pod group: %q, %v", e.group, err)
	}
}

// TestNamespacesNamedAsResources: a namespace may have kubectl's name of a resource.
func TestNamespacesNamedAsResources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	text := "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {namespace: jobs, name: web-0}\nspec: {containers: [{name: c, image: i}]}\n---\n" +
		"apiVersion: v1\nkind: Pod\nmetadata: {namespace: pod, name: web-1}\nspec: {containers: [{name: c, image: i}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"jobs/web-0": "Pod jobs/web-0, ", "pod jobs/web-0": "Pod jobs/web-0, ", "pod/jobs/web-0": "Pod jobs/web-0, ", "pod pod/web-1": "Pod pod/web-1, ",
	} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), "-f", file)...)
		if code != 0 || !strings.HasPrefix(got, want) {
			t.Errorf("%s: exit code %d\n%s", args, code, got)
		}
	}
	want := `--pod "job/train": pod not found in the snapshot (2 pods are pending, no similar name); berth explain takes pods: for a Job, name a pod, `
	if code, got := transcript(t, "explain", "job/train", "-f", file); code != 2 || !strings.Contains(got, want) {
		t.Errorf("exit code %d\n%s", code, got)
	}
}

// TestNodesAreNamedAsInKubectl: drain and top take the forms of kubectl.
func TestNodesAreNamedAsInKubectl(t *testing.T) {
	for args, want := range map[string][]string{
		"a b": {"a", "b"}, "node/a nodes/b": {"a", "b"}, "node a b": {"a", "b"}, "node": {"node"}, "rack/a": {"rack/a"},
		"Node/a NODES/b": {"a", "b"}, "Node a b": {"a", "b"}, "node/": {"node/"},
	} {
		if got := nodeNames(strings.Fields(args)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for arg, want := range map[string]string{"nodes": "nodes", "node": "nodes", "no": "nodes", "pool": "pools", "zone": "zones", "pod": "", "pods": "", "x": ""} {
		if got := topKind(arg); got != want {
			t.Errorf("%s: %q, want %q", arg, got, want)
		}
	}
}
