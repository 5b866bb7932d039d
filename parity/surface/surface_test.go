package surface

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// binEnv is the folder of the built programs berth, kube-scheduler and devcluster. "make
// test" sets it.
const binEnv = "BERTH_E2E_BIN"

// contenders are the two programs, Berth under kube-scheduler's name.
type contenders struct{ bin, kubeScheduler, berth string }

// programs finds the programs; ok is false if they are not built.
func programs(t *testing.T) (c contenders, ok bool) {
	t.Helper()
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Logf("nothing is compared: %s does not name a folder with berth, kube-scheduler and devcluster, as make test does", binEnv)
		return c, false
	}
	c = contenders{bin: bin, kubeScheduler: filepath.Join(bin, "kube-scheduler"), berth: filepath.Join(t.TempDir(), "kube-scheduler")}
	if err := os.Symlink(filepath.Join(bin, "berth"), c.berth); err != nil {
		t.Fatal(err)
	}
	return c, true
}

// run runs a program to its end and returns its output and exit code.
func run(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, problems bytes.Buffer
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return out.String(), problems.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatalf("%s %v: %v", program, args, err)
	}
	return out.String(), problems.String(), 0
}

// group and flagLine match lines of a help text.
var (
	group    = regexp.MustCompile(`^([A-Z].*) flags:$`)
	flagLine = regexp.MustCompile(`^ +(?:-\w, )?--([a-z0-9-]+)\b`)
)

// flagsOf returns each flag's group and its lines of the help text: type, usage, default
// and deprecation.
func flagsOf(help string) map[string]string {
	flags := map[string]string{}
	in, name := "", ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if m := group.FindStringSubmatch(line); m != nil {
			in, name = m[1], ""
			continue
		}
		if m := flagLine.FindStringSubmatch(line); m != nil && in != "" {
			name = m[1]
			flags[name] = in + ":"
		}
		if name != "" {
			// The column of a usage depends on the longest flag.
			flags[name] += " " + strings.Join(strings.Fields(line), " ")
		}
	}
	return flags
}

// TestFlags compares every flag: group, type, usage, default and deprecation. The usage
// of --feature-gates lists the gates' names and stages. Berth's own flags are in a
// separate group.
func TestFlags(t *testing.T) {
	c, ok := programs(t)
	if !ok {
		return
	}
	help, _, code := run(t, c.kubeScheduler, "--help")
	ours, _, ourCode := run(t, c.berth, "--help")
	if code != 0 || ourCode != 0 {
		t.Fatalf("--help exits with %d, Berth's with %d", code, ourCode)
	}
	want, got := flagsOf(help), flagsOf(ours)
	if len(want) < 50 {
		t.Fatalf("read only %d flags from kube-scheduler's help text:\n%s", len(want), help)
	}
	for name, line := range got {
		if strings.HasPrefix(line, "Berth:") && strings.HasPrefix(name, "berth-") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
	}
}

// TestDefaultConfiguration compares the output of --write-config-to, with and without a
// configuration file.
func TestDefaultConfiguration(t *testing.T) {
	c, ok := programs(t)
	if !ok {
		return
	}
	for name, text := range map[string]string{
		"defaults": "",
		"minimal":  "",
		"own": `{profiles: [{schedulerName: one, plugins: {score: {disabled: [{name: ImageLocality}]}, multiPoint: {enabled: [{name: TaintToleration, weight: 7}]}}},
 {schedulerName: two, percentageOfNodesToScore: 50, pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 9}}]}],
 podMaxBackoffSeconds: 20, parallelism: 3, leaderElection: {leaderElect: false}, extenders: [{urlPrefix: "http://127.0.0.1:1/x", filterVerb: filter, ignorable: true}]}`,
		"ignored resources": `{profiles: [{schedulerName: one, pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]}, {schedulerName: two}],
 extenders: [{urlPrefix: "http://127.0.0.1:1/x", managedResources: [{name: example.com/nic, ignoredByScheduler: true}, {name: example.com/gpu, ignoredByScheduler: true}]},
  {urlPrefix: "http://127.0.0.1:1/y", managedResources: [{name: example.com/disk}, {name: example.com/a, ignoredByScheduler: true}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--master=http://127.0.0.1:1", "--secure-port=" + freePort(t)}
			if name != "defaults" {
				file := filepath.Join(t.TempDir(), "config.yaml")
				text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + fields(text)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--config="+file)
			}
			if diff := cmp.Diff(written(t, c.kubeScheduler, args), written(t, c.berth, args)); diff != "" {
				t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
			}
		})
	}
}

// fields converts a flow mapping in braces to block lines that can follow others.
func fields(flow string) string {
	if flow == "" {
		return ""
	}
	var lines []string
	depth, start := 0, 1
	for i, r := range flow {
		switch r {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 1 && r == ',' || depth == 0 {
			lines = append(lines, strings.TrimSpace(flow[start:i]))
			start = i + 1
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func written(t *testing.T, program string, args []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "written.yaml")
	if _, problems, code := run(t, program, append(slices.Clone(args), "--write-config-to="+file)...); code != 0 {
		t.Fatalf("%s exits with %d:\n%s", program, code, problems)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBadInput compares exit codes and checks that both errors name the same field.
// Berth's text may be longer.
func TestBadInput(t *testing.T) {
	c, ok := programs(t)
	if !ok {
		return
	}
	config := func(body string) string {
		return "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + body
	}
	for _, row := range []struct {
		name, config string
		flags        []string
		says         string
	}{
		{"unknown flag", "", []string{"--nope"}, "unknown flag: --nope"},
		{"argument", "", []string{"more"}, `does not take any arguments, got ["more"]`},
		{"unknown gate", "", []string{"--feature-gates=Nope=true"}, "unrecognized feature gate: Nope"},
		{"locked gate", "", []string{"--feature-gates=NodeDeclaredFeatures=false"}, "feature is locked to true"},
		{"unknown field", config("nope: 1\n"), nil, `unknown field "nope"`},
		{"no kind", "profiles: []\n", nil, "kind"},
		{"unknown plugin", config("profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n"), nil, `"Nope" does not exist`},
		{"doubled profile", config("profiles: [{schedulerName: a}, {schedulerName: a}]\n"), nil, "profiles[1].schedulerName"},
		{"two queue sorts", config("profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: NodeName}]}}}]\n"), nil, "only one queue sort plugin can be enabled"},
		{"backoff", config("podInitialBackoffSeconds: 0\npodMaxBackoffSeconds: -1\n"), nil, "podMaxBackoffSeconds"},
		{"weight of affinity", config("profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]\n"), nil, "hardPodAffinityWeight"},
		{"bad duration", config("leaderElection: {leaseDuration: soon}\n"), nil, "soon"},
		{"no kubeconfig", "", []string{"--kubeconfig=/nope"}, "/nope"},
		{"no certificate", "", []string{"--master=http://127.0.0.1:1", "--tls-cert-file=/nope.crt", "--tls-private-key-file=/nope.key"}, "/nope.crt"},
		{"bad logging", "", []string{"--logging-format=xml"}, "xml"},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := append(slices.Clone(row.flags), "--secure-port="+freePort(t))
			if row.config != "" {
				file := filepath.Join(t.TempDir(), "config.yaml")
				if err := os.WriteFile(file, []byte(row.config), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--config="+file, "--master=http://127.0.0.1:1")
			}
			out, problems, code := run(t, c.kubeScheduler, args...)
			ourOut, ourProblems, ourCode := run(t, c.berth, args...)
			if code == 0 || ourCode != code {
				t.Errorf("exits with %d, Berth with %d", code, ourCode)
			}
			for whose, text := range map[string]string{"kube-scheduler": out + problems, "Berth": ourOut + ourProblems} {
				text = strings.ReplaceAll(text, `\"`, `"`) // the log quotes its text
				if !strings.Contains(strings.ToLower(text), strings.ToLower(row.says)) {
					t.Errorf("%s does not say %q:\n%s", whose, row.says, text[:min(len(text), 2000)])
				}
			}
		})
	}
}
