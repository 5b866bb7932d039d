package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
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

// leaderOnly binds for a leader. Binding is what must never be done twice over by two replicas; what else is written does no harm.
type leaderOnly struct {
	commit.Writer
	holds func() error
	lost  context.Context
}

// Bind binds the pod to the node, unless the lease is or may be another's.
func (w leaderOnly) Bind(ctx context.Context, pod *model.Pod, nodeName string) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not bound by a replica that no longer leads: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.lost, func() { cancel(context.Cause(w.lost)) })()
	return w.Writer.Bind(ctx, pod, nodeName)
}

// semantic writes a version as candidates for a coordinated election give it.
func semantic(v *version.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}
