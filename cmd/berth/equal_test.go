package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// equalPodsFile writes a cluster of two nodes with pending pods: many of two shapes and
// one owner, and one without an owner.
func equalPodsFile(t *testing.T, many int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(`{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: alone, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
`)
	for i := range many {
		cpu := []string{"2", "9"}[i%2]
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Pod, metadata: {name: web-%04d, namespace: shop, labels: {app: web, part: \"%d\"}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]},"+
			" spec: {containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}}\n", i, i%3, cpu)
	}
	file := filepath.Join(t.TempDir(), "equal.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEqualPodsAreOneRow prints pods with the same owner, requests and answer once, and
// each of them in the other formats. The screens are those of testdata.
func TestEqualPodsAreOneRow(t *testing.T) {
	file := equalPodsFile(t, 300)
	for name, args := range map[string]string{"equal-simulate": "simulate -f " + file, "equal-explain": "explain -f " + file} {
		code, got := transcript(t, strings.Fields(args)...)
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", name, code, got)
		}
		checkScreen(t, name, got)
	}
	for args, want := range map[string]int{
		"simulate -o wide --no-headers":          301,
		"simulate -o name":                       301,
		"simulate -o name --pending":             296,
		"simulate -o name -l part=1":             100,
		"simulate --no-headers -l app!=web":      1,
		"simulate --no-headers --pending":        2,
		"explain -o json -l part=1,app=web":      0,
		"simulate -o name --pending -l app!=web": 0,
	} {
		code, got := transcript(t, append(strings.Fields(args), "-f", file)...)
		out, _, _ := strings.Cut(got, "---\n")
		lines := strings.Count(out, "\n")
		if strings.HasPrefix(args, "explain") {
			lines, want = strings.Count(out, `"pod":"`), 100
		}
		if code != 0 || lines != want {
			t.Errorf("%s: exit code %d, %d lines, want %d\n%.500s", args, code, lines, want, got)
		}
	}
}

// TestFewPodsHaveRowsOfTheirOwn prints up to 40 pods one by one.
func TestFewPodsHaveRowsOfTheirOwn(t *testing.T) {
	_, got := transcript(t, "simulate", "-f", equalPodsFile(t, maxListed-1))
	if strings.Contains(got, "OWNER") || strings.Count(got, "\nshop ") != maxListed {
		t.Errorf("%s", got)
	}
}

// TestScoresThatWereNotComputed prints no score if only one node was feasible.
func TestScoresThatWereNotComputed(t *testing.T) {
	file := equalPodsFile(t, 2)
	_, got := transcript(t, "simulate", "-f", file, "-o", "wide")
	for line := range strings.Lines(got) {
		if fields := strings.Fields(line); strings.Contains(line, "web-0001") && (fields[4] != "0" || fields[5] != "-") {
			t.Errorf("a pod without a feasible node: %s", line)
		} else if strings.Contains(line, "web-0000") && (fields[4] != "2" || fields[5] == "-" || fields[5] == "0") {
			t.Errorf("a pod with two feasible nodes: %s", line)
		}
	}
	if _, got := transcript(t, "simulate", "-f", file, "-o", "json", "--pending"); strings.Contains(got, `"score"`) || !strings.Contains(got, "web-0001") {
		t.Errorf("%s", got)
	}
}

// TestSelectorMistakes expects exit code 2 and the value.
func TestSelectorMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"simulate -l a=b=c":                 `--selector "a=b=c": `,
		"explain -l a=b=c":                  `--selector "a=b=c": `,
		"explain -l a=b --pod shop/alone":   "--pod and --selector are both given",
		"explain -l a=b --pod-group ml/one": "--pod-group and --selector are both given",
	} {
		if code, got := transcript(t, append(strings.Fields(args), "-f", "testdata/top.yaml")...); code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", args, code, want, got)
		}
	}
}

// TestEqualButName changes one thing of a pod. Pods that differ in anything that the
// scheduler may read are explained one by one.
func TestEqualButName(t *testing.T) {
	like := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "1", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}}},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler", Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}},
	}
	for name, row := range map[string]struct {
		change func(p *v1.Pod)
		want   bool
	}{
		"name":           {func(p *v1.Pod) { p.Name, p.UID = "web-2", "2" }, true},
		"conditions":     {func(p *v1.Pod) { p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled}} }, true},
		"namespace":      {func(p *v1.Pod) { p.Namespace = "other" }, false},
		"label":          {func(p *v1.Pod) { p.Labels["app"] = "other" }, false},
		"owner":          {func(p *v1.Pod) { p.OwnerReferences[0].Name = "other" }, false},
		"priority":       {func(p *v1.Pod) { p.Spec.Priority = new(int32) }, false},
		"claim":          {func(p *v1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "other" }, false},
		"nomination":     {func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" }, false},
		"deletion":       {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, false},
		"claim template": {func(p *v1.Pod) { p.Spec.Volumes[0].Ephemeral = &v1.EphemeralVolumeSource{} }, false},
		"device claim":   {func(p *v1.Pod) { p.Spec.ResourceClaims = make([]v1.PodResourceClaim, 1) }, false},
		"pod group":      {func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{} }, false},
	} {
		pod := like.DeepCopy()
		if row.change(pod); equalButName(pod, like) != row.want {
			t.Errorf("a pod that differs in its %s is equal: %t, want %t", name, !row.want, row.want)
		}
		// those whose answer depends on their name are compared with no other
		if like := pod.DeepCopy(); !sharesAnswers(pod) && equalButName(pod, like) {
			t.Errorf("two pods that differ in their %s from others are equal", name)
		}
	}
}
