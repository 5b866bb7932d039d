package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// TestTopScreens compares whole screens with testdata/NAME.txt, for terminals of 80 and
// 120 columns.
func TestTopScreens(t *testing.T) {
	for columns, most := range map[string]int{"80": 80, "120": 120} {
		t.Setenv("COLUMNS", columns)
		for name, args := range map[string]string{
			"top-nodes": "nodes -f testdata/top.yaml --sort-by cpu",
			"top-pools": "pools -f testdata/top.yaml",
			"top-label": "pools -f testdata/top.yaml --pool-label team --sort-by nodes",
			"top-zones": "zones -f testdata/top.yaml -l pool=gpu --no-headers",
			"top-names": "nodes -f testdata/top.yaml --sort-by memory -o name",
			"top-none":  "nodes -f testdata/top.yaml -l pool=none",
		} {
			code, got := transcript(t, append([]string{"top"}, strings.Fields(args)...)...)
			if code != 0 {
				t.Errorf("%s: exit code %d\n%s", name, code, got)
			}
			checkScreen(t, name+"-"+columns, got)
			for line := range strings.Lines(got) {
				if len([]rune(strings.TrimRight(line, "\n"))) > most {
					t.Errorf("%s: wider than %d: %s", name, most, line)
				}
			}
		}
	}
}

// TestTopJSON has the shape of the largest pod. The number of pods of this shape that fit
// is one, as berth fit counts it.
func TestTopJSON(t *testing.T) {
	code, got := transcript(t, "top", "zones", "-f", "testdata/top.yaml", "-o", "json")
	out, _, _ := strings.Cut(got, "---")
	var answer topAnswer
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 || len(answer.Rows) != 2 {
		t.Fatalf("exit code %d, %v\n%s", code, err, got)
	}
	shape := answer.Rows[0].LargestCPU
	fits := func(cpu resource.Quantity) string {
		file := filepath.Join(t.TempDir(), "pod.yaml")
		pod := "{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {tolerations: [{operator: Exists}], nodeSelector: {topology.kubernetes.io/zone: " + answer.Rows[0].Name +
			"}, containers: [{name: c, image: i, resources: {requests: {cpu: \"" + cpu.String() + "\", memory: \"" + shape.Memory.String() + "\"}}}]}}\n"
		if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
			t.Fatal(err)
		}
		_, text := transcript(t, "fit", "-f", "testdata/top.yaml", "-f", file)
		first, _, _ := strings.Cut(text, "\n")
		return first
	}
	more := shape.CPU.DeepCopy()
	more.Add(resource.MustParse("1m"))
	if one, none := fits(shape.CPU), fits(more); !strings.HasSuffix(one, " that fit: 1") || !strings.HasSuffix(none, " that fit: 0") {
		t.Errorf("largest pod %+v: %q, with more cpu: %q", shape, one, none)
	}
}

// TestTopMistakes expects exit code 2 and an error with the remedy.
func TestTopMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"":                             `"berth top" takes one of nodes, pools or zones, got []`,
		"racks":                        `got ["racks"]`,
		"nodes pools":                  `got ["nodes" "pools"]`,
		"nodes --sort-by free":         `--sort-by "free": must be one of cpu, memory, name, nodes, pods`,
		"nodes --pool-label a":         `--pool-label "a": is for pools, not for nodes`,
		"pools --pool-label a,b":       `--pool-label "a,b": must be the key of a label, such as topology.kubernetes.io/zone: `,
		"nodes -l a=b=c":               `--selector "a=b=c": `,
		"nodes -n shop":                `--namespace "shop": not supported`,
		"nodes -o wide":                `--output "wide": must be one of table, json, yaml, name`,
		"nodes -f testdata/none":       `testdata/none`,
		"nodes --kubeconfig /dev/null": `or name the cluster's files with -f`,
	} {
		if code, got := transcript(t, append([]string{"top"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", args, code, want, got)
		}
	}
}
