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

// usageError is a mistake in what a person wrote: flags, arguments or files.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ExitCode is what a process exits with that fails because of the error.
func (usageError) ExitCode() int { return exitUsage }

func usage(err error) error { return usageError{err} }

// ExitCode returns what a process exits with that ends with the error: 0 without one, what the error itself says if it has a method
// ExitCode (2 if what a person wrote is wrong), and 1 otherwise.
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

// errSignal is why a scheduler stops that was told to.
var errSignal = errors.New("told to stop by a signal")

// untilSignal returns a context that ends when the process is told to stop. Told a second time, it exits. The returned function
// gives the signals back.
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
