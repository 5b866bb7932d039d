package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a scheduler in its own process, without a port.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// lines is a writer into one of the texts of a process.
type lines struct {
	p  *process
	to *bytes.Buffer
}

func (l lines) Write(text []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.to.Write(text)
}

// start starts a scheduler under a name of the command. The script identifies it by the
// replica's name.
func (s *script) start(replica, as string, args ...string) *process {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(s.t.Context(), self, append([]string{
		"--kubeconfig", s.kubeconfig(replica), "--kube-api-content-type=application/json", "--secure-port=0", "--logging-format=json",
	}, args...)...)
	p.cmd.Env = append(os.Environ(), actAs+"="+as)
	p.cmd.Stdout, p.cmd.Stderr = lines{p, &p.stdout}, lines{p, &p.stderr}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		if err := p.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			s.t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note("%s: ended", replica)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

func (p *process) signal(what syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(what); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code and the output of the process.
func (p *process) wait() (code int, stdout, stderr string) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(deadline):
		p.t.Fatalf("the process does not end:\n%s", p.said())
	}
	return p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// awaitLog waits until the process has logged a text.
func (p *process) awaitLog(text string) {
	p.t.Helper()
	late := time.After(deadline)
	for !strings.Contains(p.said(), text) {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			p.t.Fatalf("it does not log %q:\n%s", text, p.said())
		}
	}
}

// entry is a line of a log.
type entry map[string]any

// String returns the line without values that differ from run to run.
func (e entry) String() string {
	var text strings.Builder
	fmt.Fprint(&text, e["msg"])
	var names []string
	for name := range e {
		switch name {
		case "ts", "caller", "msg", "v", "version", "took", "ran", "cpu", "memoryMaxMiB", "cpuPerBoundPod", "config", "nodes", "pods":
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value, _ := json.Marshal(e[name])
		fmt.Fprintf(&text, " %s=%s", name, value)
	}
	return text.String()
}

// ours returns the log lines of this package's source files. Lines that are not JSON are
// returned unchanged.
func ours(stderr string, files ...string) (all []string, entries []entry) {
	for line := range strings.Lines(stderr) {
		e := entry{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			// cli.Run logs this line in a test with the race detector.
			if !strings.HasSuffix(line, "] Data race detection enabled\n") {
				all = append(all, strings.TrimSpace(line))
			}
			continue
		}
		from, _, _ := strings.Cut(fmt.Sprint(e["caller"]), ":")
		if slices.Contains(files, from) {
			all, entries = append(all, e.String()), append(entries, e)
		}
	}
	return all, entries
}

// The life of a scheduler, from its first line to its exit code, under each name, with
// and without leader election.
func TestLife(t *testing.T) {
	const (
		starting = `Starting Berth scheduler ignoredPlugins=[] profiles=["default-scheduler"] release="1.37" unsupportedPlugins=[]`
		summary  = `Stopped Berth scheduler bindingsFailed=0 bound=1 decisions=1 events=1 eventsDropped=0 eventsFailed=0 statuses=0 statusesDropped=0 statusesFailed=0`
	)
	for _, test := range []struct {
		as   string
		args []string
		code int
		end  []string
	}{
		{standalone, []string{"--leader-elect=false"}, 1, []string{`command failed err="finished without leader elect"`}},
		{subcommand, []string{"--leader-elect=false", "--berth-audit", "-v=2"}, 0, []string{"Requested to terminate, exiting"}},
		{standalone, leading, 0, []string{"Requested to terminate, exiting"}},
		{subcommand, leading, 0, []string{"Requested to terminate, exiting"}},
	} {
		t.Run(test.as+" "+test.args[0], func(t *testing.T) {
			t.Parallel()
			s := newScript(t, small("a"), web("web-0"))
			p := s.start("one", test.as, test.args...)
			s.await("one: event Scheduled web-0", 1)
			p.signal(syscall.SIGUSR2)
			p.awaitLog("Dump of scheduling queue")
			p.signal(syscall.SIGTERM)
			code, stdout, stderr := p.wait()
			got, entries := ours(stderr, "app/scheduler.go", "app/dump.go", "app/command.go", "app/lead.go", "app/audit.go", "app/write.go", "cli/run.go")
			want := append([]string{starting, "Cluster is known others=0", "All invariants hold", "Dump of cached NodeInfo",
				`Dump of scheduling queue summary="activeQ:0; backoffQ:0; unschedulableEntities:0"`, `Stopping Berth scheduler reason="stopped by a signal"`, summary}, test.end...)
			if test.args[len(test.args)-1] == "-v=2" {
				want = append([]string{"Using component config"}, want...)
			}
			if code != test.code || stdout != "" || !slices.Equal(got, want) {
				t.Errorf("exit code %d, want %d; stdout %q; logged\n%s\nwant\n%s\n%s", code, test.code, stdout, strings.Join(got, "\n"), strings.Join(want, "\n"), stderr)
			}
			for _, e := range entries {
				switch e["msg"] {
				case "Starting Berth scheduler":
					if e["version"] == nil || e["version"] == "" {
						t.Errorf("the version is %v", e["version"])
					}
				case "Cluster is known":
					if e["nodes"] != 1.0 || e["pods"] != 1.0 {
						t.Errorf("%v nodes and %v pods", e["nodes"], e["pods"])
					}
				case "Stopped Berth scheduler":
					if memory, ok := e["memoryMaxMiB"].(float64); !ok || memory < 10 || memory > 10_000 || e["cpu"] == nil || e["cpu"] != e["cpuPerBoundPod"] && e["cpuPerBoundPod"] == nil {
						t.Errorf("it took %v MiB, CPU %v, for each pod %v", e["memoryMaxMiB"], e["cpu"], e["cpuPerBoundPod"])
					}
				}
			}
		})
	}
}

// A second signal ends the process at once, without releasing the lease.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s := newScript(t, small("a"), web("web-0"))
	s.hold("one: bind")
	p := s.start("one", subcommand, leading...)
	s.await("one: bind web-0 to a", 1)
	p.signal(syscall.SIGINT)
	s.await("one: watch pods ended", 1) // the first signal has been handled
	p.signal(syscall.SIGTERM)
	if code, _, stderr := p.wait(); code != 1 || s.holder() == "" || strings.Contains(stderr, "Stopped Berth scheduler") {
		t.Errorf("exit code %d; the lease is %q\n%s", code, s.holder(), stderr)
	}
}

// A leader that cannot renew its lease exits with status 1, even with a binding in
// flight. The standby takes over when the lease has expired.
//
// Renewals are refused only after the first replica leads. On a busy machine the response
// to the creation of the lease may come too late, and then leading needs a renewal. The
// replica may also lose the lease earlier, which ends the process too. The standby has a
// long lease.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	s := newScript(t, small("a"), web("web-0"))
	s.hold("one: bind")
	one := s.start("one", standalone, "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1s", "--leader-elect-retry-period=100ms")
	s.awaitUntil("a binding by one, or its end", func() bool { return count(s.notes, "one: bind")+count(s.notes, "one: ended") > 0 })
	s.refuse("one: renew lease")
	two := s.start("two", subcommand, leading...)
	code, _, stderr := one.wait()
	if got, _ := ours(stderr, "app/lead.go"); code != 1 || len(got) != 1 || got[0] != `Leaderelection lost err="the lease was given back, or not renewed in time: leaderelection lost"` {
		t.Errorf("exit code %d, logged %q:\n%s", code, got, stderr)
	}
	s.await("two: bind web-0 to a", 1)
	s.await("two: event Scheduled web-0", 1)
	if n := count(s.noted(), "one: bind"); n > 0 { // the binding was in flight
		s.await("one: bind web-0 to a broken off", 1)
	}
	two.signal(syscall.SIGTERM)
	if code, _, stderr := two.wait(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
	if notes := s.noted(); index(notes, "two: bind") < index(notes, "two: take lease") || s.holder() != "" {
		t.Errorf("the order is wrong:\n%s", strings.Join(notes, "\n"))
	}
}
