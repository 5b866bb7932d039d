package app

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/plan"
)

// startElection takes part in the election until the returned function is called, which gives the lease back. Where the lease is lost
// before, the process ends at once.
func (s *scheduler) startElection(ctx context.Context) (stop func()) {
	if s.election == nil {
		return func() {}
	}
	// The election outlives the context: the lease is kept until what was decided is written.
	taking, give := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.election.Run(taking); err != nil {
			s.lose(err)
			s.log.Error(err, "Leaderelection lost")
			s.exit()
		}
	}()
	return func() {
		give()
		<-ended
	}
}

// guarded returns a writer that binds only while this replica leads beyond doubt.
func (s *scheduler) guarded(writer commit.Writer) commit.Writer {
	if s.election == nil {
		return writer
	}
	return leaderOnly{writer, s.election.Holds, s.lost}
}

// leaderOnly binds, and makes the steps of plugins, for a leader. Two replicas must never do these for the same pod; statuses and events
// do no harm.
type leaderOnly struct {
	commit.Writer
	holds func() error
	lost  context.Context
}

// Bind stores a binding, unless the lease is or may be another's.
func (w leaderOnly) Bind(ctx context.Context, binding *v1.Binding) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not bound by a replica that no longer leads: %w", err)
	}
	return w.whileHeld(ctx, func(ctx context.Context) error { return w.Writer.Bind(ctx, binding) })
}

// Patch patches an object, unless the lease is or may be another's.
func (w leaderOnly) Patch(ctx context.Context, write *plan.Write) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not written by a replica that no longer leads: %w", err)
	}
	return w.whileHeld(ctx, func(ctx context.Context) error { return w.Writer.Patch(ctx, write) })
}

// whileHeld sends a request, which is broken off when the lease is lost.
func (w leaderOnly) whileHeld(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.lost, func() { cancel(context.Cause(w.lost)) })()
	return send(ctx)
}

// semantic writes a version as candidates for a coordinated election give it.
func semantic(v *version.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}
