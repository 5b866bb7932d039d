package app

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2/textlogger"
)

// parsed returns options with flags.
func parsed(t *testing.T, args ...string) *options {
	t.Helper()
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, group := range o.sets.Order {
		flags.AddFlagSet(o.sets.FlagSets[group])
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// written returns the lines of the configuration that the options result in.
func written(t *testing.T, o *options) []string {
	t.Helper()
	c, err := o.configuration()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := c.Write(&text); err != nil {
		t.Fatal(err)
	}
	return strings.Split(text.String(), "\n")
}

// Each flag sets its field of the configuration, and no other. With a file, only the
// leader election flags apply.
func TestFlagsSetFields(t *testing.T) {
	path := file(t, "scheduler.yaml", header)
	for _, test := range []struct {
		flag, want string
		withFile   bool
	}{
		{"--profiling=false", "enableProfiling: false", false},
		{"--contention-profiling=false", "enableContentionProfiling: false", false},
		{"--kubeconfig=/k", "  kubeconfig: /k", false},
		{"--kube-api-content-type=application/json", "  contentType: application/json", false},
		{"--kube-api-qps=7", "  qps: 7", false},
		{"--kube-api-burst=8", "  burst: 8", false},
		{"--leader-elect=false", "  leaderElect: false", true},
		{"--leader-elect-lease-duration=61s", "  leaseDuration: 1m1s", true},
		{"--leader-elect-renew-deadline=11s", "  renewDeadline: 11s", true},
		{"--leader-elect-retry-period=3s", "  retryPeriod: 3s", true},
		{"--leader-elect-resource-name=mine", "  resourceName: mine", true},
		{"--leader-elect-resource-namespace=ours", "  resourceNamespace: ours", true},
	} {
		for _, config := range []string{"", path} {
			without, with := written(t, parsed(t, "--config="+config)), written(t, parsed(t, "--config="+config, test.flag))
			var differ []string
			for _, line := range with {
				if !slices.Contains(without, line) {
					differ = append(differ, line)
				}
			}
			want := []string{test.want}
			if config != "" && !test.withFile {
				want = nil
			}
			if !slices.Equal(differ, want) || len(with) != len(without) {
				t.Errorf("%s with the file %q: %q, want %q", test.flag, config, differ, want)
			}
		}
	}
}

// Limits from flags apply to the client of the API server. Without flags it has no limit.
func TestLimitsByFlags(t *testing.T) {
	for _, test := range []struct {
		args  []string
		qps   float32
		burst int
	}{
		{nil, -1, 100}, {[]string{"--kube-api-qps=7"}, 7, 100}, {[]string{"--kube-api-burst=8"}, 50, 8},
	} {
		o := parsed(t, append([]string{"--kubeconfig", kubeconfig(t)}, test.args...)...)
		c, err := o.configuration()
		if err != nil {
			t.Fatal(err)
		}
		access, err := newAccess(o, c, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&bytes.Buffer{}))))
		if err != nil {
			t.Fatal(err)
		}
		if access.QPS != test.qps || access.QPS > 0 && access.Burst != test.burst {
			t.Errorf("%q: %v requests per second, %d at once", test.args, access.QPS, access.Burst)
		}
	}
}

// Flags and file configure the access to the API server, and an ignored flag is logged.
func TestAccess(t *testing.T) {
	cluster := kubeconfig(t)
	path := file(t, "scheduler.yaml", header+"clientConnection: {kubeconfig: "+cluster+", contentType: application/json, acceptContentTypes: application/cbor}\n")
	for _, test := range []struct {
		args                  []string
		host, content, accept string
		log                   string
	}{
		{[]string{"--kubeconfig", cluster}, "http://127.0.0.1:1", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json", ""},
		{[]string{"--kubeconfig", cluster, "--master=http://127.0.0.1:2"}, "http://127.0.0.1:2", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json", ""},
		{[]string{"--config", path, "--kubeconfig", cluster}, "http://127.0.0.1:1", "application/json", "application/cbor", ""},
		{[]string{"--config", path, "--kubeconfig", "/other"}, "http://127.0.0.1:1", "application/json", "application/cbor",
			`"Flag --kubeconfig is ignored, using clientConnection.kubeconfig of the configuration" ignored="/other" config="` + path + `"`},
	} {
		o := parsed(t, test.args...)
		c, err := o.configuration()
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		access, err := newAccess(o, c, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&said))))
		if err != nil {
			t.Fatal(err)
		}
		if access.Host != test.host || access.ContentType != test.content || access.AcceptContentTypes != test.accept || !strings.HasPrefix(access.UserAgent, "berth/unknown ") {
			t.Errorf("%q: %+v", test.args, access)
		}
		if _, text, _ := strings.Cut(strings.TrimSpace(said.String()), "] "); text != test.log {
			t.Errorf("%q: it says %q", test.args, text)
		}
	}
}

// All mistakes in flags are reported together; the smallest values are accepted.
func TestChecks(t *testing.T) {
	if err := parsed(t, "--pod-max-in-unschedulable-pods-duration=1ns", "--berth-writes-in-flight=1", "--berth-reports-per-second=1", "--berth-plugin-deadline=1ns", "--berth-group-patience=0s", "--berth-group-retries=0", "--berth-history-mib=0").check(); err != nil {
		t.Errorf("the least values are refused: %v", err)
	}
	if err := parsed(t, "--berth-history-mib=256").check(); err != nil {
		t.Errorf("the largest history is refused: %v", err)
	}
	err := parsed(t, "--pod-max-in-unschedulable-pods-duration=0s", "--berth-writes-in-flight=0", "--berth-reports-per-second=0", "--berth-plugin-deadline=0s", "--berth-group-patience=-1s", "--berth-group-retries=-1", "--berth-history-mib=257", "--secure-port=70000",
		"--show-hidden-metrics-for-version=x", "--requestheader-extra-headers-prefix= ").check()
	for _, want := range []string{
		"--secure-port 70000 must be between 1 and 65535", `empty value in "requestheader-extra-headers-prefix"`, `metrics.showHiddenMetricsForVersion: Invalid value: "x"`,
		"--pod-max-in-unschedulable-pods-duration 0s: must be greater than 0, such as 5m", "--berth-writes-in-flight 0: must be greater than 0",
		"--berth-reports-per-second 0: must be greater than 0", "--berth-plugin-deadline 0s: must be greater than 0, such as 10s",
		"--berth-group-patience -1s: must not be negative; 0 disables reservations", "--berth-group-retries -1: must not be negative; 0 means one pass",
		"--berth-history-mib 257: must be 0-256",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// Without a certificate, a scheduler creates one for this host.
func TestSelfSigned(t *testing.T) {
	o := parsed(t)
	if err := o.access.SelfSign(); err != nil {
		t.Fatal(err)
	}
	pair, _ := o.access.Serving.ServerCert.GeneratedCert.CurrentCertKeyContent()
	block, _ := pem.Decode(pair)
	made, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if err := made.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

// In a certificate folder, kube-scheduler's file names are used.
func TestCertificatesOfAFolder(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string][]byte{"kube-scheduler.crt": certificate().text, "kube-scheduler.key": certificate().key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := parsed(t, "--cert-dir", folder)
	if err := o.access.SelfSign(); err != nil {
		t.Fatal(err)
	}
	if got, want := o.access.Serving.ServerCert.CertKey.CertFile, filepath.Join(folder, "kube-scheduler.crt"); got != want || o.access.Serving.ServerCert.GeneratedCert != nil {
		t.Errorf("the certificate is %q, want %q", got, want)
	}
}

// The command's texts.
func TestCommand(t *testing.T) {
	for _, test := range []struct {
		name string
		got  string
	}{{"scheduler", NewSubcommand().Use}, {"kube-scheduler", NewSchedulerCommand().Use}, {"Run the scheduler", NewSubcommand().Short}} {
		if test.got != test.name {
			t.Errorf("got %q, want %q", test.got, test.name)
		}
	}
}
