package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/offline/recording"
)

const recordingFile = "../../internal/offline/recording/testdata/format-1.berth.zst"

// TestReplayCommand replays a recording, up to a time, and with another configuration.
func TestReplayCommand(t *testing.T) {
	checkScreen(t, "replay", transcriptOf(t, "replay", recordingFile))
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, got := transcript(t, "replay", recordingFile, "--config", other)
	if code != 3 {
		t.Errorf("exit code %d: %s", code, got)
	}
	checkScreen(t, "replay-differs", got)

	snapshot := filepath.Join(t.TempDir(), "then.json")
	code, got = transcript(t, "replay", recordingFile, "--until", "2026-01-01T00:02:30Z", "--snapshot", snapshot, "-o", "json")
	var result recording.Result
	if err := json.Unmarshal([]byte(before(got)), &result); err != nil || code != 0 || result.Decisions == 0 || result.Difference != nil {
		t.Errorf("exit code %d, %v: %s", code, err, got)
	}
	if code, got := transcript(t, "explain", "--snapshot", snapshot, "--pod", "default/large"); code != 0 || !strings.Contains(got, "Insufficient cpu") {
		t.Errorf("explain at that time: exit code %d: %s", code, got)
	}
	if code, got := transcript(t, "replay", recordingFile, "--until", "2026-01-01T00:02:30Z", "--snapshot", "-"); code != 0 || !strings.HasPrefix(got, `{"apiVersion": "v1", "kind": "List"`) {
		t.Errorf("to standard output: exit code %d: %s", code, got)
	}
}

func transcriptOf(t *testing.T, args ...string) string {
	t.Helper()
	code, got := transcript(t, args...)
	if code != 0 {
		t.Errorf("%s: exit code %d", args, code)
	}
	return got
}

// TestReplayMistakes names what is wrong.
func TestReplayMistakes(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	if err := os.WriteFile(other, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: mine}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"replay":                `"berth replay" takes one recording, got []`,
		"replay a b":            `takes one recording, got ["a" "b"]`,
		"replay does-not-exist": "does-not-exist: no such file",
		"replay replay_test.go": "replay_test.go: not a recording of Berth",
		"replay " + recordingFile + " --until now":                          `--until "now": must be a time, such as 2026-11-29T03:12:00Z`,
		"replay " + recordingFile + " --release 1.3":                        `--release "1.3"`,
		"replay " + recordingFile + " -o csv":                               `--output "csv": must be one of table, json, yaml`,
		"replay " + recordingFile + " --config none":                        "none: ",
		"replay " + recordingFile + " --feature-gates=X=true":               "--feature-gates: ",
		"replay " + recordingFile + " --config " + other:                    `--config: no profile has the scheduler name "default-scheduler" of the recording; the profiles are ["mine"]`,
		"replay " + recordingFile + " --feature-gates=GenericWorkload=true": "read podgroups.scheduling.k8s.io, which the recording does not have",
	} {
		if code, got := transcript(t, strings.Fields(args)...); code != 2 || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", args, code, want, got)
		}
	}
}
