package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

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

// A usage error wraps its cause.
func TestUsageErrors(t *testing.T) {
	if wrong := errors.New("wrong"); !errors.Is(usage(wrong), wrong) {
		t.Error("the error of a wrong use hides what is wrong")
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
	late := time.After(deadline)
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
