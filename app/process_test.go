package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/component-base/cli"
)

// actAs makes this test binary a scheduler: "kube-scheduler" or "berth scheduler". A
// process shows mistakes in a command line as users see them. It is also needed because
// flags, gates and logging can be set only once in a process.
const actAs = "BERTH_TEST_ACT_AS"

const standalone, subcommand = "kube-scheduler", "berth scheduler"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case standalone:
		os.Exit(cli.Run(NewSchedulerCommand(testOptions()...)))
	case subcommand:
		err := NewSubcommand(testOptions()...).Execute()
		if err != nil {
			fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		}
		os.Exit(ExitCode(err))
	case restored:
		_, stop := untilSignal(context.Background(), func(int) {})
		stop()
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		// Shorter than a test waits: a process that no signal has ended ends with status
		// 0.
		time.Sleep(deadline / 2)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// restored makes the test binary check that a signal kills it again after the signal
// handler was removed.
const restored = "restored"

// ended is how a process ended.
type ended struct {
	code           int
	stdout, stderr string
}

// runAs runs a scheduler to its end.
func runAs(t *testing.T, as string, args ...string) ended {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), actAs+"="+as, "KUBERNETES_SERVICE_HOST=")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// kubeconfig is a kubeconfig of an unreachable cluster.
func kubeconfig(t *testing.T) string {
	return file(t, "kubeconfig", `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`)
}

// underBothNames are the mistakes of TestMistakes that are made under each name: in
// flags, in arguments, in gates, in logging, in values, in the file, and in the
// scheduler's parts.
var underBothNames = []string{"unknown flag", "argument", "unknown gate", "log format", "no writes", "no file", "unknown plugin", "kubeconfig", "port in use"}

// TestMistakes makes each mistake, and the marked ones under each name. At least one
// mistake is marked for each place in which mistakes are found, because after that the
// two names behave equally. The message names the flag, or the field with its path; $ is
// the end of the line.
func TestMistakes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the tests that run in parallel
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	// Concurrent runs must not collide.
	own := fmt.Sprintf("--bind-address=127.%d.%d.%d", 100+os.Getpid()>>16, os.Getpid()>>8&255, os.Getpid()&255)
	cluster := kubeconfig(t)
	// Creating a certificate is slow.
	crt, key := file(t, "crt", string(certificate().text)), file(t, "key", string(certificate().key))
	for _, test := range []struct {
		name   string
		args   []string
		config string // text of a configuration file
		code   int    // of the subcommand; as kube-scheduler it is always 1
		want   string
	}{
		{"unknown flag", []string{"--nonsense"}, "", 2, "unknown flag: --nonsense$"},
		{"argument", []string{"x"}, "", 2, `does not take any arguments, got ["x"]$`},
		{"negative seed", []string{"--berth-seed=-1"}, "", 2, "invalid argument"},
		{"no reports", []string{"--berth-reports-per-second=-3"}, "", 2, "--berth-reports-per-second -3: must be greater than 0$"},
		{"reports without a number", []string{"--berth-reports-per-second=many"}, "", 2, "invalid argument"},
		{"no writes", []string{"--berth_writes_in_flight=0"}, "", 2, "--berth-writes-in-flight 0: must be greater than 0$"},
		{"no time for plugins", []string{"--berth-plugin-deadline=0s"}, "", 2, "--berth-plugin-deadline 0s: must be greater than 0, such as 10s$"},
		{"less than no time for plugins", []string{"--berth-plugin-deadline=-1s"}, "", 2, "--berth-plugin-deadline -1s: must be greater than 0, such as 10s$"},
		{"plugins' time without a unit", []string{"--berth-plugin-deadline=10"}, "", 2, `invalid argument "10" for "--berth-plugin-deadline"`},
		{"no size of a recording", []string{"--berth-record=/tmp/x", "--berth-record-max-mib=0"}, "", 2, "--berth-record-max-mib 0: must be at least 1, such as 1024$"},
		{"recording with an extender", []string{"--berth-record=/tmp/x"}, "extenders: [{urlPrefix: \"http://x\", filterVerb: filter}]\n", 2, "--berth-record: the configuration has extenders or out-of-tree plugins"},
		{"recording with hints", []string{"--berth-record=/tmp/x", "--berth-event-hints"}, "", 2, "--berth-record and --berth-event-hints are both given"},
		{"recording with an audit", []string{"--berth-record=/tmp/x", "--berth-audit"}, "", 2, "--berth-record and --berth-audit are both given"},
		{"recording in a file", []string{"--kubeconfig", cluster, "--berth-record", crt}, "", 1, ": not a directory$"},
		{"no patience", []string{"--pod-max-in-unschedulable-pods-duration=0s"}, "", 2, "--pod-max-in-unschedulable-pods-duration 0s: must be greater than 0, such as 5m$"},
		{"bad duration", []string{"--leader-elect-retry-period=soon"}, "", 2, `invalid argument "soon" for "--leader-elect-retry-period"`},
		{"lease too short", []string{"--leader-elect-lease-duration=5s"}, "", 2, "leaderElection.leaseDuration: Invalid value"},
		{"renewal too short", []string{"--leader-elect-renew-deadline=2s", "--kubeconfig", cluster, "--bind-address=127.0.83.5", "--secure-port=20256"}, "", 1, "Error: leaderElection: renewDeadline must be greater than retryPeriod*JitterFactor$"},
		{"kind of lock", []string{"--leader-elect-resource-lock=endpoints"}, "", 2, `leaderElection.resourceLock: Invalid value: "endpoints"`},
		{"unknown gate", []string{"--feature-gates=Nonsense=true"}, "", 2, "unrecognized feature gate: Nonsense"},
		{"locked gate", []string{"--feature-gates=NodeDeclaredFeatures=false"}, "", 2, "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true"},
		{"gate that needs another", []string{"--feature-gates=CompositePodGroup=true"}, "", 2, "CompositePodGroup is enabled, but depends on features that are disabled"},
		{"old version", []string{"--emulated-version=1.20"}, "", 2, "emulation version 1.20 is not between"},
		{"port out of range", []string{"--secure-port=99999"}, "", 2, "--secure-port 99999 must be between 1 and 65535"},
		{"port in use", []string{"--kubeconfig", cluster, "--bind-address=127.0.0.1", "--secure-port=" + port, "--tls-cert-file", crt, "--tls-private-key-file", key}, "", 1, "address already in use$"},
		{"no certificate", []string{"--kubeconfig", cluster, own, "--secure-port=20259", "--tls-cert-file=/none.crt", "--tls-private-key-file=/none.key"}, "", 1, "Error: secure serving (--bind-address, --secure-port, --tls-*): open /none.crt: no such file or directory$"},
		{"version of TLS", []string{"--kubeconfig", cluster, own, "--secure-port=20258", "--tls-cert-file", crt, "--tls-private-key-file", key, "--tls-min-version=VersionTLS9"}, "", 1, "VersionTLS9"},
		{"authentication", []string{"--kubeconfig", cluster, own, "--secure-port=20257", "--tls-cert-file", crt, "--tls-private-key-file", key, "--authentication-kubeconfig=/none"}, "", 1, "Error: authentication (--authentication-kubeconfig, --client-ca-file, --requestheader-*): failed to get delegated"},
		{"authorization", []string{"--kubeconfig", cluster, own, "--secure-port=20256", "--tls-cert-file", crt, "--tls-private-key-file", key, "--authentication-skip-lookup", "--authorization-kubeconfig=/none"}, "", 1,
			"Error: authorization (--authorization-kubeconfig): failed to get delegated authorization kubeconfig: stat /none: no such file or directory$"},
		{"kubeconfig", []string{"--kubeconfig", "/none"}, "", 1, `Error: --kubeconfig "/none": load the kubeconfig: stat /none: no such file or directory$`},
		{"no cluster", nil, "", 1, "no kubeconfig: set --kubeconfig"},
		{"log format", []string{"--logging-format=xml"}, "", 2, `Error: logging flags: format: Invalid value: "xml": Unsupported log format$`},
		{"no file for tracing", []string{"--berth-tracing-config-file=/none.yaml"}, "", 2, "Error: --berth-tracing-config-file: read the tracing configuration: open /none.yaml: no such file or directory$"},
		{"no file", []string{"--config=/none.yaml"}, "", 2, "/none.yaml: read the scheduler configuration: no such file"},
		{"unknown field", nil, "paralelism: 3\n", 2, `strict decoding error: unknown field "paralelism"`},
		{"field twice", nil, "parallelism: 3\nparallelism: 4\n", 2, `"parallelism" already set`},
		{"unknown plugin", nil, "profiles: [{plugins: {filter: {enabled: [{name: Nonsense}]}}}]\n", 2, `FilterPlugin "Nonsense" does not exist`},
		{"profile twice", nil, "profiles: [{schedulerName: a}, {schedulerName: a}]\n", 2, "profiles[1].schedulerName: Duplicate value"},
		{"two orders", nil, "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: NodeName}]}}}]\n", 2,
			"profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled"},
		{"weight", nil, "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]\n", 2,
			"profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"},
		{"duration in the file", nil, "leaderElection: {retryPeriod: soon}\n", 2, `invalid duration "soon"`},
		{"lease in the file", nil, "leaderElection: {leaseDuration: 5s}\n", 2, "leaderElection.leaseDuration: Invalid value"},
		{"extender without its files", nil, "extenders: [{urlPrefix: \"https://x\", filterVerb: filter, tlsConfig: {caFile: /none}}]\n", 2, "couldn't build extenders: extenders[0].tlsConfig: "},
		{"extender", nil, "extenders: [{urlPrefix: \"http://x\", filterVerb: filter, httpTimeout: -1s}]\n", 1, "extenders[0].httpTimeout -1s means no limit: 5s is used"},
		{"kubeconfig in the file", nil, "clientConnection: {kubeconfig: /none}\n", 1, "Error: clientConnection.kubeconfig of "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := test.args
			if test.config != "" {
				args = append(args, "--config", file(t, "scheduler.yaml", header+test.config))
			}
			for _, as := range []string{subcommand, standalone} {
				code := test.code
				if as == standalone {
					code = 1
					if !slices.Contains(underBothNames, test.name) {
						continue
					}
				}
				got := runAs(t, as, args...)
				want, said := test.want, unescaped(got.stderr)
				if as == subcommand {
					said = strings.ReplaceAll(said, "\n", "$\n")
				} else { // the message is a part of a line of the log
					want = strings.TrimPrefix(strings.TrimSuffix(want, "$"), "Error: ")
				}
				if got.code != code || !strings.Contains(said, want) {
					t.Errorf("%s %v: exit code %d, want %d and %q:\n%s", as, args, got.code, code, test.want, got.stderr)
				}
				if as == subcommand && strings.Count(got.stderr, "Error:") != 1 {
					t.Errorf("%s %v: not one message:\n%s", as, args, got.stderr)
				}
			}
		})
	}
}

// unescaped reverts structured logging's escaping of quotes.
func unescaped(text string) string { return strings.ReplaceAll(text, `\"`, `"`) }

// For a mistake in a flag, kube-scheduler prints the usage first, so that the message is
// the last line.
func TestFlagMistakeOfKubeScheduler(t *testing.T) {
	got := runAs(t, standalone, "--nonsense")
	if !strings.HasPrefix(got.stderr, "Usage:") || !strings.HasSuffix(got.stderr, "\nError: unknown flag: --nonsense\n") || got.stdout != "" {
		t.Errorf("stdout %q, stderr:\n%s", got.stdout, got.stderr)
	}
	if got := runAs(t, subcommand, "--nonsense"); got.stderr != "Error: unknown flag: --nonsense\n" {
		t.Errorf("stderr:\n%s", got.stderr)
	}
}

// The help of both names is equal except for the name, the examples, and flags that
// cli.Run adds.
func TestHelpAndVersion(t *testing.T) {
	want, err := os.ReadFile("testdata/help.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := runAs(t, subcommand, "--help"); got.stdout != string(want) || got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d: `berth scheduler --help` does not print testdata/help.txt, but\n%s%s", got.code, got.stderr, got.stdout)
	}
	text := strings.Replace(string(want), examples, "", 1)
	text = strings.NewReplacer("  scheduler [flags]", "  kube-scheduler [flags]", "help for scheduler", "help for kube-scheduler").Replace(text)
	if got := runAs(t, standalone, "--help"); got.stdout != text || got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d: as kube-scheduler it prints\n%s%s\nwant\n%s", got.code, got.stderr, got.stdout, text)
	}
	for _, as := range []string{standalone, subcommand} {
		if version := runAs(t, as, "--version"); version.code != 0 || !strings.HasPrefix(version.stdout, "Kubernetes v") {
			t.Errorf("%s: exit code %d: %s", as, version.code, version.stdout)
		}
	}
}

// TestPrecedence reads the effective values: flags without a file, a file, and flags over
// a file.
func TestPrecedence(t *testing.T) {
	config := file(t, "scheduler.yaml", header+`
leaderElection: {leaseDuration: 30s, resourceName: mine}
clientConnection: {qps: 7, burst: 8}
enableProfiling: true
`)
	flags := []string{
		"--profiling=false", "--kube-api-qps=20", "--kube-api-burst=30", "--kube-api-content-type=application/json",
		"--leader-elect-lease-duration=20s", "--leader-elect=false",
	}
	for _, test := range []struct {
		name string
		args []string
		want []string
	}{
		{"defaults", nil, []string{"leaderElect: true", "leaseDuration: 15s", "qps: 50", "burst: 100", "enableProfiling: true", "resourceName: kube-scheduler"}},
		{"flags", flags, []string{
			"leaderElect: false", "leaseDuration: 20s", "qps: 20", "burst: 30", "contentType: application/json", "enableProfiling: false",
			"enableContentionProfiling: true",
		}},
		{"file", []string{"--config", config}, []string{"leaderElect: true", "leaseDuration: 30s", "resourceName: mine", "qps: 7", "burst: 8"}},
		{"both", append([]string{"--config", config}, flags...), []string{
			"leaderElect: false", "leaseDuration: 20s", "resourceName: mine", "qps: 7", "burst: 8", "contentType: application/vnd.kubernetes.protobuf",
			"enableProfiling: true",
		}},
		{"underscores", []string{"--leader_elect_resource_name=other"}, []string{"resourceName: other"}},
		{"gates", []string{"--feature-gates=kube:StorageCapacityScoring=false"}, []string{"kind: VolumeBindingArgs\n    name: VolumeBinding"}},
	} {
		written := filepath.Join(t.TempDir(), "written.yaml")
		got := runAs(t, standalone, append(test.args, "--write-config-to", written)...)
		if got.code != 0 || !strings.Contains(got.stderr, "Wrote configuration") {
			t.Errorf("%s: exit code %d: %s", test.name, got.code, got.stderr)
			continue
		}
		text, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is not in\n%s", test.name, want, text)
			}
		}
	}
	if got := runAs(t, subcommand, "--write-config-to", filepath.Join(t.TempDir(), "none", "x")); got.code != 2 || !strings.Contains(got.stderr, "--write-config-to: open ") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// Accepted values without effect are logged once.
func TestNotesAreLogged(t *testing.T) {
	config := file(t, "scheduler.yaml", header+"percentageOfNodesToScore: 30\nclientConnection: {kubeconfig: /none}\n")
	got := runAs(t, subcommand, "--config", config, "--feature-gates=SchedulerPopFromBackoffQ=false", "--logging-format=json")
	for _, want := range []string{
		`"msg":"Configuration: percentageOfNodesToScore has no effect`, `"msg":"Configuration: feature gate SchedulerPopFromBackoffQ=false has no effect`,
	} {
		if strings.Count(got.stderr, want) != 1 {
			t.Errorf("%s is not logged once:\n%s", want, got.stderr)
		}
	}
}
