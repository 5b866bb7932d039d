package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReport: each section has its sum and its largest costs, and packages under the race
// detector are marked.
func TestReport(t *testing.T) {
	const module = "github.com/berth-scheduler/berth/"
	at := time.Unix(0, 0)
	commands := []command{
		{name: "berth: go test -race ./engine", real: 90 * time.Second, cpu: 150 * time.Second, actions: []action{
			{Mode: "build", Package: "k8s.io/api/core/v1", CmdReal: 12 * time.Second},
			{Mode: "build", Package: module + "internal/engine", CmdReal: 3 * time.Second},
			{Mode: "build", Package: "fmt"}, // from the cache
			{Mode: "link", Package: module + "internal/engine.test", CmdReal: 1500 * time.Millisecond},
			{Mode: "test run", Package: module + "internal/engine", TimeStart: at, TimeDone: at.Add(70 * time.Second)},
			{Mode: "test print", Package: module + "internal/engine", TimeStart: at, TimeDone: at.Add(time.Hour)},
		}},
		{name: "berth: go test ./e2e", real: 100 * time.Second, cpu: 40 * time.Second, actions: []action{
			{Mode: "test run", Package: module + "internal/e2e", TimeStart: at, TimeDone: at.Add(95 * time.Second)},
		}},
	}
	const want = `
Where the time went: 120 s of real time, 190 s of processor time
Tests by package: 165 s in 2
    95 s  internal/e2e
    70 s  internal/engine (race)
Compilations: 15 s in 2
    12 s  k8s.io/api/core/v1 (race)
     3 s  internal/engine (race)
Links: 2 s in 1
     2 s  internal/engine.test (race)
Waits: real time of commands without processor time: 60 s in 1
    60 s  of 100 s: berth: go test ./e2e
Commands: 190 s in 2
   100 s  berth: go test ./e2e
    90 s  berth: go test -race ./engine
`
	var out strings.Builder
	report(&out, commands, 120*time.Second)
	if out.String() != want {
		t.Errorf("prints%s\nwant%s", out.String(), want)
	}
}

// TestTimed: timed keeps the output, the exit code and the standard input of a command.
// It records the command and, for go, the graph.
func TestTimed(t *testing.T) {
	timed, err := filepath.Abs("timed")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"go", "command"} { // inputs of this test's cached result
		if _, err := os.ReadFile(filepath.Join(timed, script)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		command, input, out string
		code, recorded      int
		actions             bool
	}{
		{command: "$TIMED/command cat", input: "in", out: "in", recorded: 1},
		{command: "$TIMED/command sh -c 'echo out; echo err >&2; exit 3'", out: "out\nerr\n", code: 3, recorded: 1},
		{command: "go run -C testdata .", out: "hello\n", recorded: 1, actions: true},
		{command: "nice -n 1 env A=b go build -o /dev/null ./testdata", recorded: 1, actions: true},
		{command: "go run ./testdata go", out: "hello\n", recorded: 1, actions: true},
		{command: "go env GOROOT_FINAL", out: "\n"}, // builds nothing
		{command: "cd /; $TIMED/command no-such-command-of-berth 2>/dev/null", code: 127, recorded: 1},
	} {
		t.Run(test.command, func(t *testing.T) {
			folder := t.TempDir()
			cmd := exec.Command("sh", "-c", test.command)
			cmd.Env = append(os.Environ(), "TIMES="+folder, "TIMED="+timed, "PATH="+timed+":"+os.Getenv("PATH"))
			cmd.Stdin = strings.NewReader(test.input)
			out, err := cmd.CombinedOutput()
			if string(out) != test.out || cmd.ProcessState.ExitCode() != test.code {
				t.Fatalf("%v, output %q, want exit code %d and %q", err, out, test.code, test.out)
			}
			commands, err := read(folder)
			if err != nil || len(commands) != test.recorded {
				t.Fatalf("recorded %v, %v; want %d", commands, err, test.recorded)
			}
			if test.recorded > 0 && (len(commands[0].actions) > 0) != test.actions {
				t.Errorf("recorded %d actions", len(commands[0].actions))
			}
		})
	}
}
