package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// errFinished is the error of kube-scheduler when it stops without leader election.
var errFinished = errors.New("finished without leader elect")

// scheduler is an assembled scheduler.
type scheduler struct {
	config *config.Config
	log    klog.Logger
	pipeline
	leadership leadership
	observers  observers
	external   *external // nil if no out-of-tree plugin is enabled
	name       *cache.InformerName
	serve      *server.Config // nil if nothing is served
	synced     chan struct{}  // closed when the first lists have been applied
	release    *release
	// stopElection releases the lease, or leaves it to expire if keep is true. It is nil
	// before this replica joins the election.
	stopElection atomic.Pointer[func(keep bool)]
	// standalone makes a stop without leader election an error, as in kube-scheduler.
	standalone bool
}

// newScheduler builds a scheduler, whose decisions and watches begin with run. It reads
// the API server's version, and calls the factories of out-of-tree plugins, which may
// open watches.
func newScheduler(ctx context.Context, o *options, c *config.Config) (*scheduler, error) {
	log := klog.Background()
	seen, err := newObservers(ctx, o, log)
	if err != nil {
		return nil, err
	}
	access, err := newAccess(o, c, log)
	if err != nil {
		return nil, err
	}
	return assemble(ctx, o, c, seen.traced(access), seen, log)
}

// assemble builds a scheduler that uses this client configuration.
func assemble(ctx context.Context, o *options, c *config.Config, access *rest.Config, seen observers, log klog.Logger) (s *scheduler, err error) {
	client, err := kube.Connect(access)
	if err != nil {
		return nil, err
	}
	release := newRelease(ctx, o, c.Release(), client, log)
	if c, err = c.For(release.own); err != nil {
		return nil, err
	}
	leads, err := newLeadership(o, c, access, client)
	if err != nil {
		return nil, err
	}
	name, err := cache.NewInformerName(server.Name) // of one scheduler at a time
	if err != nil {
		return nil, fmt.Errorf("name the watches: %w", err)
	}
	defer func() {
		if err != nil {
			name.Release()
		}
	}()
	added, c, err := newExternal(ctx, c, access, client, seen, o.pluginDeadline, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			added.stop(log)
		}
	}()
	parts, err := newPipeline(&setup{options: o, config: c, client: client, leads: leads, seen: seen, external: added, name: name, log: log})
	if err != nil {
		return nil, err
	}
	s = &scheduler{
		config: c, log: log, pipeline: parts, leadership: leads, observers: seen, external: added, name: name, synced: make(chan struct{}),
		release: release, standalone: o.standalone,
	}
	if s.serve, err = newServer(ctx, o, s); err != nil {
		s.closeRecording()
		return nil, err
	}
	return s, nil
}

// newAccess returns the client configuration for the API server.
func newAccess(o *options, c *config.Config, log klog.Logger) (*rest.Config, error) {
	named := "--kubeconfig"
	if o.config != "" {
		named = "clientConnection.kubeconfig of " + o.config
		if given := o.deprecated.kubeconfig; given != "" && given != c.Kubeconfig {
			log.Info("Flag --kubeconfig is ignored, using clientConnection.kubeconfig of the configuration", "ignored", given, "config", o.config)
		}
	}
	access, err := kube.Access(kube.ClientConfig{
		Kubeconfig:         c.Kubeconfig,
		Master:             o.master,
		Version:            Version(),
		ContentType:        c.ContentType,
		AcceptContentTypes: c.AcceptContentTypes,
		QPS:                c.QPS,
		Burst:              c.Burst,
	})
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", named, c.Kubeconfig, err)
	}
	return access, nil
}

// run schedules pods until the context ends, and returns when all its goroutines have
// ended.
func (s *scheduler) run(ctx context.Context) error {
	began := time.Now()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.log.Info("Starting Berth scheduler", "version", Version(), "release", s.config.Release().String(), "profiles", s.config.SchedulerNames(),
		"unsupportedPlugins", orEmpty(s.config.Barring), "ignoredPlugins", orEmpty(s.config.WithoutEffect()))
	stopServing, err := s.startServer()
	if err != nil {
		s.external.stop(s.log)
		s.closeRecording()
		s.name.Release() // otherwise released when the watches end
		return err
	}
	defer stopServing()
	defer s.dumpWhenAsked(ctx)()
	writing, stopWriting := context.WithCancelCause(context.Background())
	var writers sync.WaitGroup
	writers.Go(func() { s.commit.Run(writing) })
	s.watchdog.giveUp = func() { s.giveUp(stopWriting, &writers) }
	stopElection := s.schedule(ctx, began, end)

	s.log.Info("Stopping Berth scheduler", "reason", context.Cause(ctx))
	stopWriting(context.Cause(ctx))
	writers.Wait()
	stopElection(s.commit.Unknown()) // after the leader's decisions are written
	s.observers.close(s.log)
	s.closeRecording()
	s.watch.Stop()
	s.flush()
	s.external.stop(s.log)
	s.summarise(began)
	if cause := context.Cause(ctx); errors.Is(cause, errRelease) {
		return cause
	}
	if s.leadership.election == nil && s.standalone {
		return errFinished
	}
	s.log.Info("Requested to terminate, exiting")
	return nil
}

// orEmpty returns names for the log, where an empty list is [] and not null.
func orEmpty(names []string) []string { return append([]string{}, names...) }

// schedule lists the cluster, waits until this replica leads, and decides about pods
// until the context ends. The returned function leaves the election. If the API server
// turns out to have another release than the profiles, it calls end.
//
// A replica that cannot list the cluster must not lead, so it joins the election after
// the first lists. Until it leads, it applies the cluster's changes. With
// delayCacheUntilActive it lists the cluster only once it leads.
func (s *scheduler) schedule(ctx context.Context, began time.Time, end func(error)) (stopElection func(keep bool)) {
	if s.config.Source.DelayCacheUntilActive {
		stopElection = s.takePart(ctx)
		select {
		case <-s.leadership.leading:
		case <-ctx.Done():
			return stopElection
		}
	}
	s.watch.Start(ctx)
	s.external.start()
	// The loop applies the first lists while others are still arriving.
	known := make(chan struct{})
	var joining, watching sync.WaitGroup
	watched, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	joining.Go(func() {
		if s.watch.Sync(ctx) != nil || s.external.sync() != nil { // the context has ended
			return
		}
		if err := s.release.confirm(ctx); err != nil {
			end(err)
			return
		}
		watching.Go(func() { s.release.run(watched, end) })
		close(s.synced)
		counts := s.watch.Counts()
		s.log.Info("Cluster is known", "nodes", counts.Nodes, "pods", counts.Pods, "others", counts.Others, "took", time.Since(began).Round(time.Millisecond))
		if stopElection == nil {
			stopElection = s.takePart(ctx)
		}
		select {
		case <-s.leadership.leading:
			s.inherit()
			watching.Go(func() { s.watchdog.run(watched) })
			close(known)
		case <-ctx.Done():
		}
	})
	s.loop.Stand(ctx, known)
	joining.Wait()
	if stopElection == nil {
		stopElection = func(bool) {}
	}
	s.loop.TakeOver(string(uuid.NewUUID()))
	s.watchdog.around(func() { s.loop.Run(ctx) })
	stopWatching()
	watching.Wait()
	return stopElection
}

// takePart joins the election. The returned function releases the lease, or leaves it to
// expire.
func (s *scheduler) takePart(ctx context.Context) (stop func(keep bool)) {
	stop = s.leadership.take(ctx, s.log)
	s.stopElection.Store(&stop)
	return stop
}

// inherit takes over the pods during whose attempts earlier leaders stopped.
func (s *scheduler) inherit() {
	if s.leadership.election == nil {
		return
	}
	uids := s.leadership.election.Undecided()
	if s.leadership.election.TookOver() {
		s.watchdog.careful = carefulFor
	}
	if len(uids) > 0 {
		s.log.Info("An earlier leader stopped during the attempts of these pods, they are scheduled last", "podUIDs", uids)
	}
	for _, uid := range uids {
		s.changes.Undecided(uid)
	}
	s.watchdog.inherit(uids)
}

// giveUp ends a process whose loop is stuck. The lease is released only if all writes
// have been answered. Otherwise it expires, as after a crash.
func (s *scheduler) giveUp(stopWriting context.CancelCauseFunc, writers *sync.WaitGroup) {
	stopWriting(errStuck)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		writers.Wait()
		if stop := s.stopElection.Load(); stop != nil {
			(*stop)(s.commit.Unknown())
		}
	}()
	select {
	case <-ended:
	case <-time.After(giveUpAfter):
	}
	s.leadership.exit()
}

// summarise logs the numbers of decisions and writes, and the CPU and memory used.
func (s *scheduler) summarise(began time.Time) {
	did, took := s.commit.Stats(), usageSoFar()
	values := []any{
		"ran", time.Since(began).Round(time.Millisecond),
		"decisions", s.loop.Engine().Counters().Decisions,
		"bound", did.Bound, "bindingsFailed", did.BindingsFailed,
		"statuses", did.Statuses, "statusesFailed", did.StatusesFailed, "statusesDropped", did.StatusesDropped,
		"events", did.Events, "eventsFailed", did.EventsFailed, "eventsDropped", did.EventsDropped,
	}
	if took.known {
		values = append(values, "cpu", took.cpu.Round(time.Millisecond), "memoryMaxMiB", took.maxMemory>>20)
		if did.Bound > 0 {
			values = append(values, "cpuPerBoundPod", (took.cpu / time.Duration(did.Bound)).Round(time.Microsecond))
		}
	}
	s.log.Info("Stopped Berth scheduler", values...)
}
