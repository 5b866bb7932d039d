package app

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// leadership is this replica's permission to decide.
type leadership struct {
	election *kube.Election // nil without leader election: the replica then leads from the start
	// leading is closed when this replica may decide; lost ends when the lease is lost.
	leading <-chan struct{}
	lost    context.Context
	lose    context.CancelCauseFunc
	// exit ends the process at once.
	exit func()
}

// newLeadership returns the election, or a permanent leadership without leader election.
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

// take joins the election. The returned function ends that: it releases the lease, or
// with keep leaves it to expire. If the lease is lost earlier, the process ends at once.
func (l leadership) take(ctx context.Context, log klog.Logger) (stop func(keep bool)) {
	if l.election == nil {
		return func(bool) {}
	}
	// The election outlives the context: the lease is kept until every decision is
	// written.
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
	return func(keep bool) {
		if keep {
			log.Info("Keeping the lease until it expires, the outcome of a write is unknown")
			l.election.Keep()
		}
		give()
		<-ended
	}
}

// note returns the function that records undecided pods for the next leader; nil without
// leader election.
func (l leadership) note() func(context.Context, []types.UID) error {
	if l.election == nil {
		return nil
	}
	return l.election.NoteUndecided
}

// guarded returns a writer that binds and evicts only while this replica certainly leads.
func (l leadership) guarded(writer commit.Writer) commit.Writer {
	if l.election == nil {
		return writer
	}
	return leaderOnly{writer, l.election.Holds, l.lost}
}

// leaderOnly restricts bindings, evictions and the writes of plugins to the leader. Two
// replicas must never send these for the same pod. Duplicate statuses and events do no
// harm.
type leaderOnly struct {
	commit.Writer
	holds func() error
	lost  context.Context
}

// Bind stores a binding, unless another replica holds or may hold the lease.
func (w leaderOnly) Bind(ctx context.Context, binding *v1.Binding) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not bound by this replica, which lost the lease: %w", err)
	}
	return w.whileHeld(ctx, func(ctx context.Context) error { return w.Writer.Bind(ctx, binding) })
}

// Write patches or deletes an object, unless another replica holds or may hold the lease.
func (w leaderOnly) Write(ctx context.Context, write *plan.Write) (stored kinds.Object, err error) {
	if err := w.holds(); err != nil {
		return nil, fmt.Errorf("not written by this replica, which lost the lease: %w", err)
	}
	err = w.whileHeld(ctx, func(ctx context.Context) (err error) {
		stored, err = w.Writer.Write(ctx, write)
		return err
	})
	return stored, err
}

// Delete deletes a pod, unless another replica holds or may hold the lease.
func (w leaderOnly) Delete(ctx context.Context, pod *model.Pod) error {
	if err := w.holds(); err != nil {
		return fmt.Errorf("not deleted by this replica, which lost the lease: %w", err)
	}
	return w.whileHeld(ctx, func(ctx context.Context) error { return w.Writer.Delete(ctx, pod) })
}

// PatchStatus writes the nomination, and a condition unless it is nil. DisruptionTarget
// announces an eviction, so it is written only while no other replica can hold the lease.
func (w leaderOnly) PatchStatus(ctx context.Context, pod *model.Pod, condition *v1.PodCondition, nomination plan.Nomination) error {
	write := func(ctx context.Context) error { return w.Writer.PatchStatus(ctx, pod, condition, nomination) }
	if condition == nil || condition.Type != v1.DisruptionTarget {
		return write(ctx)
	}
	if err := w.holds(); err != nil {
		return fmt.Errorf("not evicted by this replica, which lost the lease: %w", err)
	}
	return w.whileHeld(ctx, write)
}

// whileHeld sends a request and cancels it when the lease is lost.
func (w leaderOnly) whileHeld(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.lost, func() { cancel(context.Cause(w.lost)) })()
	return send(ctx)
}

// semantic formats a version in the form that candidates of a coordinated election use.
func semantic(v *version.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}
