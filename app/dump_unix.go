//go:build unix

package app

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// dumpWhenAsked logs state and queue at each SIGUSR2, until the returned function is
// called.
func (s *scheduler) dumpWhenAsked(ctx context.Context) (stop func()) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR2)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-asked:
				// Do fails only while the scheduler stops; then the dump is not needed.
				_ = s.loop.Do(ctx, s.dump)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(asked)
		cancel()
		<-ended
	}
}

// dump runs between two rounds of the loop.
func (s *scheduler) dump() {
	names := s.config.SchedulerNames()
	held := holdings{s.loop.State(), s.loop.Queue(), func(name string) bool { return slices.Contains(names, name) }, s.audit}
	pods, nodes := s.watch.Known()
	held.dump(s.log, pods, nodes)
}
