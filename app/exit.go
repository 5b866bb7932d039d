package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes of the command.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a mistake in flags, arguments or files.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ExitCode returns exitUsage.
func (usageError) ExitCode() int { return exitUsage }

func usage(err error) error { return usageError{err} }

// ExitCode returns the exit code for an error: 0 for nil, the result of the error's
// ExitCode method if it has one (2 for wrong flags, arguments or files), and 1 otherwise.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailure
}

// errSignal is the context's cause after a signal.
var errSignal = errors.New("stopped by a signal")

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The second
// signal exits the process. The returned function restores the default signal handling.
func untilSignal(parent context.Context, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel(errSignal)
		case <-done:
			return
		}
		select {
		case <-signals:
			exit(exitFailure)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
