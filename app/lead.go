package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
)

// leadership says whether this replica may decide.
type leadership struct {
	election *kube.Election // nil without leader election: the replica then leads from the start
	// leading is closed when this replica may decide; lost ends when it no longer may.
	leading <-chan struct{}
	lost    context.Context
	lose    context.CancelCauseFunc
	// exit ends the process at once.
	exit func()
}

// newLeadership makes the election, or a leadership without one.
func newLeadership(o *options, c *config.Config, access *rest.Config, client kubernetes.Interface) (leadership, error) {
	l := leadership{exit: func() { klog.FlushAndExit(klog.ExitFlushTimeout, exitFailure) }}
	l.lost, l.lose = context.WithCancelCause(context.Background())
	rules := c.Source.LeaderElection
	if !*rules.LeaderElect {
		leading := make(chan struct{})
		close(leading)
		l.leading = leading
		return l, nil
	}
	versions := o.gates.Versions()
	election, err := kube.NewElection(kube.ElectionConfig{
		Access:      access,
		Client:      client,
		Rules:       rules,
		Scheduler:   c.SchedulerNames()[0],
		Coordinated: c.Coordinated,
		Binary:      semantic(versions.BinaryVersion()),
		Emulation:   semantic(versions.EmulationVersion()),
	})
	if err != nil {
		return leadership{}, err
	}
	l.election, l.leading = election, election.Leading()
	return l, nil
}

// take takes part in the election until the returned function is called, which gives the lease back. If the lease is lost before, the process
// ends at once.
func (l leadership) take(ctx context.Context, log klog.Logger) (stop func()) {
	if l.election == nil {
		return func() {}
	}
	// The election outlives the context: the lease is kept until every decision is written.
	taking, give := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.election.Run(taking); err != nil {
			l.lose(err)
			log.Error(err, "Leaderelection lost")
			l.exit()
		}
	}()
	return func() {
		give()
		<-ended
	}
}

// guarded returns a writer that binds only while this replica is certain to lead.
func (l leadership) guarded(writer commit.Writer) commit.Writer {
	if l.election == nil {
		return writer
	}
	return leaderOnly{writer, l.election.Holds, l.lost}
}

// leaderOnly binds only for a leader. Two replicas must never bind at the same time; if both write conditions or events, no harm is done.
type leaderOnly struct {
	commit.Writer
	holds func() error
	lost  context.Context
}

// Bind binds the pod to the node, unless another replica holds or may hold the lease.
func (w leaderOnly) Bind(ctx context.Context, pod *model.Pod, nodeName string) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not bound by a replica that no longer leads: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.lost, func() { cancel(context.Cause(w.lost)) })()
	return w.Writer.Bind(ctx, pod, nodeName)
}

// semantic formats a version as candidates in a coordinated election do.
func semantic(v *version.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}
