package main

import (
	"slices"
	"strings"
	"testing"
)

// TestPodsAreNamedAsInKubectl explains one pod in each form that kubectl's users type,
// and names the right form for other resources.
func TestPodsAreNamedAsInKubectl(t *testing.T) {
	flags := []string{"--kubeconfig", narrowUser(t).kubeconfig(), "-n", "shop"}
	for _, args := range []string{"web-0", "pod/web-0", "pods/web-0", "po/web-0", "pod web-0", "pods web-0", "Pod web-0", "pod pod/web-0", "shop/web-0", "pod/shop/web-0", "pod shop/web-0"} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), flags...)...)
		if code != 0 || !strings.HasPrefix(before(got), "Pod shop/web-0, ") {
			t.Errorf("%s: exit code %d\n%s", args, code, got)
		}
	}
	for args, want := range map[string]string{
		"web-0 web-1":     "takes at most one pod",
		"pod web-0 web-1": "takes at most one pod",
		"pod node/a":      "takes at most one pod",
		"job/train":       `"job/train": is a Job: name a pod, or select the Job's pods with -l batch.kubernetes.io/job-name=train`,
		"job train":       `"job/train": is a Job: `,
		"sts/db":          `"statefulset/db": is a StatefulSet: name a pod, such as db-0`,
		"deploy/web":      `"deployment/web": is a deployment: name a pod, or select its pods with -l`,
		"node/a":          `"node/a": is a node: name a pod; kubectl berth drain a shows`,
	} {
		code, got := transcript(t, append(append([]string{"explain"}, strings.Fields(args)...), flags...)...)
		if code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
	var e explainFlags
	e.input = &input{connection: newConnection(newExplainCommand().Flags())}
	if err := e.name([]string{"podgroup/ml/g"}); err != nil || e.group != "ml/g" || e.pod != "" {
		t.Errorf("a pod group: %q, %v", e.group, err)
	}
}

// TestNodesAreNamedAsInKubectl: drain and top take the forms of kubectl.
func TestNodesAreNamedAsInKubectl(t *testing.T) {
	for args, want := range map[string][]string{
		"a b": {"a", "b"}, "node/a nodes/b": {"a", "b"}, "node a b": {"a", "b"}, "node": {"node"}, "rack/a": {"rack/a"},
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
