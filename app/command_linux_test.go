package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	logsapi "k8s.io/component-base/logs/api/v1"
)

func TestMistakesOnTheCommandLine(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparalelism: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--nonsense"}, 2, "unknown flag: --nonsense"},
		{[]string{"x"}, 2, `does not take any arguments, got ["x"]`},
		{[]string{"--berth-seed=-1"}, 2, "invalid argument"},
		{[]string{"--berth_binds_in_flight=0"}, 2, "--berth-binds-in-flight 0: must be greater than 0"},
		{[]string{"--pod-max-in-unschedulable-pods-duration=0s"}, 2, "--pod-max-in-unschedulable-pods-duration 0s: must be greater than 0"},
		{[]string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, 2, "none.yaml"},
		{[]string{"--config", wrong}, 2, "paralelism"},
		{[]string{"--kubeconfig", "none"}, 1, "none"},
	} {
		if err := logsapi.ResetForTest(nil); err != nil { // logging is configured once in the life of a process
			t.Fatal(err)
		}
		cmd := NewSchedulerCommand()
		cmd.SetArgs(test.args)
		cmd.SetOut(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || ExitCode(err) != test.code {
			t.Errorf("%v: exit code %d and error %v, want %d and %q", test.args, ExitCode(err), err, test.code, test.want)
		}
	}
}

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("broken"), 1},
		{fmt.Errorf("while reading: %w", usage(errors.New("wrong"))), 2},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}

func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	ctx, stop := untilSignal(context.Background(), func(code int) { exited <- code })
	defer stop()
	send := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	late := time.After(20 * time.Second)
	send()
	select {
	case <-ctx.Done():
	case <-late:
		t.Fatal("the first signal did not end the context")
	}
	if !errors.Is(context.Cause(ctx), errSignal) {
		t.Errorf("the context ended with %v", context.Cause(ctx))
	}
	send()
	select {
	case code := <-exited:
		if code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
	case <-late:
		t.Fatal("the second signal did not end the process")
	}
}
