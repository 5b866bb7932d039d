package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string // parts of them
	}{
		{[]string{"berth"}, 0, "Inspect a cluster:", ""},
		{[]string{"berth", "version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"berth", "version", "-o", "yaml"}, 0, "kubernetes: \"1.37\"", ""},
		{[]string{"berth", "version", "-o", "xml"}, 2, "", `--output "xml": must be table, json or yaml`},
		{[]string{"berth", "--version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"kubectl-berth", "--version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"berth", "simulate", "--version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"berth", "explain", "--version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"berth", "version", "--version"}, 0, "compatible with kube-scheduler 1.37", ""},
		{[]string{"berth", "version", "now"}, 2, "", `"now"`},
		{[]string{"berth", "schedule"}, 2, "", `did you mean "scheduler"?`},
		{[]string{"berth", "help", "schedule"}, 2, "", `did you mean "scheduler"?`},
		{[]string{"berth", "help", "nothing"}, 2, "", `unknown command "nothing" for "berth": see 'berth --help'`},
		{[]string{"berth", "help", "top", "nodes"}, 2, "", `unknown command "nodes" for "berth top"`},
		{[]string{"berth", "help", "fit"}, 0, "berth fit ", ""},
		{[]string{"berth", "explain", "--filename", "../../examples/cluster.yaml", "-o", "name"}, 0, "pod/web-2", ""},
		{[]string{"berth", "--nonsense"}, 2, "", "unknown flag: --nonsense"},
		{[]string{"berth", "completion", "bash"}, 0, "berth", ""},
		{[]string{"/usr/local/bin/kube-scheduler", "--help"}, 0, "kube-scheduler [flags]", ""},
		{[]string{"berth", "scheduler", "--nonsense"}, 2, "", "unknown flag: --nonsense"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), test.args, &stdout, &stderr)
		if code != test.code || !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) ||
			test.code == 0 && stderr.Len() > 0 {
			t.Errorf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", test.args, code, test.code, &stdout, &stderr)
		}
	}
}

func TestVersionAsJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"berth", "version", "-o", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var got version
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got.Kubernetes != "1.37" || got.Version == "" {
		t.Errorf("%+v, %v from %s", got, err, &stdout)
	}
}
