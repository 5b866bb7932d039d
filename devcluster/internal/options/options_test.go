package options

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/devcluster/internal/shape"
)

func TestParseGivesDefaults(t *testing.T) {
	got, err := Parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Nodes: 10, Fleet: shape.Realistic, Kwok: true, Controllers: true}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseReadsEveryFlag(t *testing.T) {
	got, err := Parse([]string{
		"--data-dir", "d", "--nodes=7", "--node-shape=uniform", "--with-kwok=false", "--without-controllers",
		"--feature-gates=A=true,B=false", "--runtime-config=api/all=true", "--audit-policy=a", "--kubeconfig-out=k", "--ready-file=r",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		DataDir: "d", Nodes: 7, Fleet: shape.Uniform,
		FeatureGates: "A=true,B=false", RuntimeConfig: "api/all=true", AuditPolicy: "a", KubeconfigOut: "k", ReadyFile: "r",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--nodes=-1":              "--nodes: -1 is not between",
		"--nodes=9999999":         "--nodes: 9999999 is not between",
		"--nodes=many":            "nodes",
		"--node-shape=round":      `--node-shape: "round"`,
		"--feature-gates=A":       `--feature-gates: "A"`,
		"--feature-gates=A=maybe": `--feature-gates: "A=maybe"`,
		"--feature-gates==true":   `--feature-gates: "=true" has no name`,
		"--runtime-config==true":  `--runtime-config: "=true" has no name`,
		"--surprise":              "surprise",
		"start":                   `unexpected argument "start"`,
	} {
		_, err := Parse([]string{args}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
}

func TestParseExplainsItself(t *testing.T) {
	var out strings.Builder
	if _, err := Parse([]string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v, want flag.ErrHelp", err)
	}
	if !strings.Contains(out.String(), "-node-shape") {
		t.Errorf("help lacks the flags:\n%s", out.String())
	}
}

func TestNodeLifecycleNeedsAgentAndControllers(t *testing.T) {
	for _, o := range []Options{{}, {Kwok: true}, {Controllers: true}} {
		if o.NodeLifecycle() {
			t.Errorf("%+v: nodes would be tainted and never cured", o)
		}
	}
	if !(Options{Kwok: true, Controllers: true}).NodeLifecycle() {
		t.Error("nobody watches the nodes")
	}
}
