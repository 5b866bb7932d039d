package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
