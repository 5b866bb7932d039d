package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRowOutputs prints the rows of each command in all formats for scripts. The screens
// are those of testdata.
func TestRowOutputs(t *testing.T) {
	const cluster = "../../examples/cluster.yaml"
	commands := map[string][]string{
		"simulate": {"-f", cluster},
		"explain":  {"-f", cluster},
		"queue":    {"-f", "testdata/queue.yaml"},
		"top":      {"nodes", "-f", cluster},
		"drain":    {"web-a1", "--ignore-daemonsets", "--force", "-f", cluster},
		"compare":  {"-f", cluster, "--config", "../../examples/packing.yaml"},
		"fit":      {"-f", "../../examples/pool.yaml", "-f", "../../examples/probe.yaml"},
	}
	columns := map[string]string{"top": "NAME:.name,CPU:cpu.free", "fit": "ZONE:.name,FITS:{.fits}", "queue": "OWNER:.owner"}
	templates := map[string]string{
		"top": "{.rows[*].name}", "fit": "{.fits}", "queue": "{.groups[*].owner}", "explain": "{.pod}",
		"compare": "{.pods[*].difference}",
	}
	for command, args := range commands {
		args = append([]string{command}, args...)
		screen := ""
		for _, output := range []string{
			"name", "csv", "jsonpath=" + orText(templates[command], "{.pods[*].pod}"),
			"custom-columns=" + orText(columns[command], "POD:.pod"),
		} {
			_, got := transcript(t, append(args, "-o", output)...)
			out, _, _ := strings.Cut(got, "---\n")
			screen += "-o " + output + "\n" + out + "\n"
			if output != "csv" {
				continue
			}
			if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(rows) < 2 {
				t.Errorf("%s: %d rows, %v", command, len(rows), err)
			}
			if _, bare := transcript(t, append(args, "-o", output, "--no-headers")...); !strings.HasSuffix(out, before(bare)) ||
				strings.Count(out, "\n") != strings.Count(before(bare), "\n")+1 {
				t.Errorf("%s --no-headers:\n%s\nwith a header:\n%s", command, bare, out)
			}
		}
		checkScreen(t, "rows-"+command, screen)
	}
}

func orText(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// before returns the standard output of a transcript.
func before(transcript string) string {
	out, _, _ := strings.Cut(transcript, "---\n")
	return out
}

// TestScreensFit prints tables within 80 and 120 columns, as testdata/NAME.txt. Numbers
// are at the right, and messages wrap.
func TestScreensFit(t *testing.T) {
	for columns, most := range map[string]int{"80": 80, "120": 120} {
		t.Setenv("COLUMNS", columns)
		for name, args := range map[string]string{
			"screen-simulate":  "simulate -f ../../examples/cluster.yaml --sort-by name",
			"screen-pending":   "simulate -f ../../examples/cluster.yaml --pending --no-headers",
			"screen-workloads": "simulate -f testdata/workloads.yaml",
			"screen-fit":       "fit -f ../../examples/pool.yaml -f ../../examples/probe.yaml --sort-by fits",
			"screen-drain":     "drain a1 --ignore-daemonsets -f ../../examples/pool.yaml",
			"screen-compare":   "compare --config ../../examples/packing.yaml -f ../../examples/cluster.yaml -f ../../examples/replicas.yaml",
		} {
			_, got := transcript(t, strings.Fields(args)...)
			checkScreen(t, name+"-"+columns, got)
			for line := range strings.Lines(before(got)) {
				if len([]rune(strings.TrimRight(line, "\n"))) > most {
					t.Errorf("%s: wider than %d: %s", name, most, line)
				}
			}
		}
	}
}

// TestFieldSelector selects pods as the API server does.
func TestFieldSelector(t *testing.T) {
	for args, want := range map[string]string{
		"metadata.name=web-2":                            "pod/web-2\n",
		"metadata.name!=web-2,metadata.namespace!=other": "pod/database-1\npod/training\npod/training-untolerant\npod/migration\npod/report-next\n",
		"spec.schedulerName=other":                       "",
	} {
		if _, got := transcript(t, "simulate", "-f", "../../examples/cluster.yaml", "-o", "name", "--field-selector", args); before(got) != want {
			t.Errorf("%s: %s", args, got)
		}
	}
}

// TestPrintingMistakes expects exit code 2 and an error with the remedy, before anything
// is read.
func TestPrintingMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"simulate -o jsonpath":                        `--output "jsonpath": needs a template, such as -o jsonpath='{.pods[*].node}'`,
		"simulate -o json=x":                          `--output "json=x": must be one of table, wide, json, yaml, name, csv, jsonpath=TEMPLATE, custom-columns=`,
		"explain -o jsonpath={.a":                     `--output jsonpath="{.a": must be a template`,
		"top nodes -o custom-columns=A":               `the column "A" must be HEADER:PATH, such as POD:.pod`,
		"queue -f x -o custom-columns=A:{":            `--output custom-columns="A:{": the column`,
		"simulate --field-selector spec.node=a":       `--field-selector "spec.node=a": the field "spec.node" must be one of metadata.name,`,
		"compare --config x --sort-by age":            `--sort-by "age": must be one of difference, name, namespace, turn`,
		"fit -f x -o name":                            `--output "name": must be one of table, json, yaml, csv`,
		"explain -f x --since y --pod a/b -o csv":     `--output "csv": is for pending pods, not for a pod group or --since`,
		"simulate -f - --config -":                    "--config - and -f - are both given: standard input is read once, name a file",
		"simulate -f - -f -":                          "-f - and -f - are both given",
		"explain --snapshot - --since - --pod a/b":    "--since - and --snapshot - are both given",
		"compare --config - --config -":               "--config - and --config - are both given",
		"simulate --generate nodes=1 --scale a/b=1":   "--generate and --scale are both given: give one of the two",
		"explain --pod a/b --pod-group a/c":           "--pod and --pod-group are both given",
		"explain a/b --pod-group a/c":                 `pod "a/b" and --pod-group are both given`,
		"explain --since a --pod b/c --scheduler=x":   "--since and --scheduler are both given",
		"explain -f a --scheduler leader --pod b/c":   "--snapshot and --scheduler are both given",
		"top nodes -f x --kubeconfig a -A":            "unknown shorthand flag",
		"explain -l a=b --field-selector a=b --pod a": "--pod and --selector are both given",
	} {
		if code, got := transcript(t, strings.Fields(args)...); code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", args, code, want, got)
		}
	}
}

// TestTemplateExamples runs the templates that the errors about -o give as examples.
func TestTemplateExamples(t *testing.T) {
	const cluster, pool = " -f ../../examples/cluster.yaml", " -f ../../examples/pool.yaml"
	for args, want := range map[string][2]string{
		"simulate" + cluster:                      {"web-b1 web-a1 gpu-b1", "web-2 web-b1"},
		"explain" + cluster:                       {"shop/web-2", "shop/database-1"},
		"queue" + cluster:                         {"Pod/web-2", "Pod/migration gated"},
		"top nodes" + cluster:                     {"batch-a1", "batch-a1"},
		"drain a1 --ignore-daemonsets" + pool:     {"b1", "web-1 b1"},
		"fit -f ../../examples/probe.yaml" + pool: {"5", "b 4"},
		"compare --config ../../examples/packing.yaml -f ../../examples/replicas.yaml" + cluster: {"database-1", "database-1"},
	} {
		for i, output := range []string{ofJSONPath, ofColumns} {
			_, got := transcript(t, append(strings.Fields(args), "-o", output)...)
			_, example, found := strings.Cut(got, "such as -o ")
			if !found {
				t.Errorf("%s -o %s: no example: %s", args, output, got)
				continue
			}
			example, _, _ = strings.Cut(strings.ReplaceAll(example, "'", ""), "\n")
			code, got := transcript(t, append(strings.Fields(args), "-o", example)...)
			// the code of drain is 3 where evicted pods stay pending
			if code != 0 && code != 3 || !strings.Contains(columns(before(got)), want[i]) {
				t.Errorf("%s -o %s: exit code %d, want %q: %s", args, example, code, want[i], got)
			}
		}
	}
}

// TestConfigFromStandardInput reads the configuration from standard input.
func TestConfigFromStandardInput(t *testing.T) {
	text, err := os.ReadFile("../../examples/packing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "packing.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCloud(t)
	c.listed = []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}}
	for _, args := range []string{
		"simulate -f ../../examples/cluster.yaml",
		"compare -f ../../examples/cluster.yaml --release 1.37 --release 1.38", // reads it for each
		"explain shop/web-0 --kubeconfig " + c.kubeconfig(),                    // reads it before the pod, and after
	} {
		args := append(strings.Fields(args), "--config")
		wantCode, want, _ := piped("", append(args, file)...)
		code, got, stderr := piped(string(text), append(args, "-")...)
		if code != 0 || wantCode != 0 || got != strings.ReplaceAll(want, file, "-") {
			t.Errorf("%s: exit code %d\n%s\nwant %d\n%s\n%s", args, code, got, wantCode, want, stderr)
		}
	}
	if code, _, stderr := simulated(t, "nonsense: 1\n", "-f", "../../examples/cluster.yaml", "--config", "-"); code != 2 || !strings.Contains(stderr, "standard input: ") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
