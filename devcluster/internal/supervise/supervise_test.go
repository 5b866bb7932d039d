package supervise

import (
	"os/exec"
	"strings"
	"testing"
)

func newShell(t *testing.T) *Supervisor {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatalf("no shell to be a child: %v", err)
	}
	return New(shell, t.TempDir())
}

func script(name, text string) Command {
	return Command{Name: name, Args: []string{"-c", text}}
}

func TestDeathQuotesTheLog(t *testing.T) {
	s := newShell(t)
	defer s.Stop()
	if err := s.Start(script("brief", "echo first; echo farewell >&2; exit 3")); err != nil {
		t.Fatal(err)
	}
	death := <-s.Deaths()
	for _, want := range []string{"brief ended unexpectedly: exit status 3", "brief.log", "first", "farewell"} {
		if !strings.Contains(death.Error(), want) {
			t.Errorf("%q lacks %q", death, want)
		}
	}
}

func TestEndWithoutErrorIsADeathToo(t *testing.T) {
	s := newShell(t)
	defer s.Stop()
	if err := s.Start(script("done", "exit 0")); err != nil {
		t.Fatal(err)
	}
	if got := (<-s.Deaths()).Error(); got != "done ended unexpectedly: exit status 0" {
		t.Errorf("got %q", got)
	}
}

func TestRestartIsNoDeath(t *testing.T) {
	s := newShell(t)
	if err := s.Start(script("patient", "exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	before := s.PIDs()["patient"]
	if err := s.Restart("patient"); err != nil {
		t.Fatal(err)
	}
	if after := s.PIDs()["patient"]; after == before {
		t.Errorf("process %d goes on", before)
	}
	s.Stop()
	select {
	case death := <-s.Deaths():
		t.Errorf("reported as a death: %v", death)
	default:
	}
}

func TestRestartOfNobody(t *testing.T) {
	s := newShell(t)
	defer s.Stop()
	if err := s.Restart("nobody"); err == nil {
		t.Error("restarted a child that never ran")
	}
}

func TestStartOfNothing(t *testing.T) {
	s := New("/does/not/exist", t.TempDir())
	defer s.Stop()
	if err := s.Start(Command{Name: "ghost"}); err == nil {
		t.Error("started an executable that does not exist")
	}
}
