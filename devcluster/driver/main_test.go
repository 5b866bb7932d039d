package main

import (
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                          "--kubeconfig is missing",
		"--kubeconfig f more":                       `unexpected argument "more"`,
		"--kubeconfig f --driver A_B":               `--driver "A_B"`,
		"--kubeconfig f --driver " + long(64):       "must have at most 63 characters",
		"--kubeconfig f --node-selector a=b=c":      `--node-selector "a=b=c"`,
		"--kubeconfig f --devices -1":               "--devices -1: must be between 0 and 512",
		"--kubeconfig f --devices 513":              "--devices 513: must be between 0 and 512",
		"--kubeconfig f --model " + long(64):        "must have 1 to 63 characters",
		"--kubeconfig f --memory 0":                 "must be a quantity greater than 0",
		"--kubeconfig f --memory much":              "must be a quantity greater than 0",
		"--kubeconfig f --shared-pool a//b":         `--shared-pool "a//b"`,
		"--kubeconfig f --binding-delay 1s":         "--binding-delay needs --binding-conditions",
		"--kubeconfig f --binding-delay -1s":        "--binding-delay -1s: must be at least 0",
		"--kubeconfig f --devices many":             "invalid argument",
		"--kubeconfig f --driver " + long(63):       "",
		"--kubeconfig f --shared-pool rack/a":       "",
		"--kubeconfig f --node-selector a=b,!c":     "",
		"--kubeconfig f --binding-conditions":       "",
		"--kubeconfig f --devices 0 --memory 512Mi": "",
	} {
		_, err := parse(strings.Fields(args))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", args, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func testOptions(t *testing.T, args string) *options {
	t.Helper()
	o, err := parse(strings.Fields("--kubeconfig f --driver d.example " + args))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestExitCodes runs the program up to its first connection.
func TestExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"--help":                       0,
		"--devices 3":                  exitUsage,
		"--no-such-flag":               exitUsage,
		"--kubeconfig /does/not/exist": exitFailed,
	} {
		if got := run(strings.Fields(args)); got != want {
			t.Errorf("%s: exit code %d, want %d", args, got, want)
		}
	}
}
