package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/plugins/defaultbinder"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/server"
)

// eventsDrain is how long events that are on their way may take to be written when the scheduler stops.
const eventsDrain = 2 * time.Second

// errFinished is how kube-scheduler ends that was told to stop and takes no part in an election.
var errFinished = errors.New("finished without leader elect")

// scheduler is the parts of one, put together.
type scheduler struct {
	config *config.Config
	log    klog.Logger
	watch  *kube.Watch
	writer *kube.Writer
	commit *commit.Commit
	loop   *loop.Loop
	observers
	election *kube.Election // nil where there is none
	serve    *server.Config // nil where nothing is served
	synced   chan struct{}  // closed when everything that was there in the beginning is known
	// leading is closed when this replica may decide; lost ends when it no longer may.
	leading <-chan struct{}
	lost    context.Context
	lose    context.CancelCauseFunc
	// exit ends the process at once.
	exit func()
	// standalone says that being told to stop is a failure where there is no election.
	standalone bool
}

// newScheduler puts a scheduler together. Nothing is decided, and next to nothing is sent to the API server, before run.
func newScheduler(ctx context.Context, o *options, c *config.Config) (*scheduler, error) {
	s := &scheduler{
		config: c, log: klog.Background(), synced: make(chan struct{}), standalone: o.standalone,
		exit: func() { klog.FlushAndExit(klog.ExitFlushTimeout, exitFailure) },
	}
	s.lost, s.lose = context.WithCancelCause(context.Background())
	if err := s.observe(ctx, o); err != nil {
		return nil, err
	}
	access, err := s.access(o)
	if err != nil {
		return nil, err
	}
	s.wrap(access)
	client, err := kube.Connect(access)
	if err != nil {
		return nil, err
	}
	if err := s.prepareElection(o, access, client); err != nil {
		return nil, err
	}
	if err := s.prepareServer(ctx, o); err != nil {
		return nil, err
	}
	return s, s.build(o, client)
}

// build makes the parts that carry a pod through.
func (s *scheduler) build(o *options, client *kube.Client) error {
	c := s.config
	changes := ingest.New(c.Compile())
	waiting, err := queue.New(c.Queue(o.deprecated.parkedMax))
	if err != nil {
		return fmt.Errorf("build the queue: %w", err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: o.seed, OnPhase: s.metrics.Loop.Enter})
	if err != nil {
		return fmt.Errorf("build the engine: %w", err)
	}
	name, err := cache.NewInformerName(server.Name)
	if err != nil {
		return fmt.Errorf("name the watches: %w", err)
	}
	if s.watch, err = kube.NewWatch(client, changes, kube.Reads{Owners: c.NeedsOwners(), Name: name}); err != nil {
		return err
	}
	if s.writer, err = kube.NewWriter(client, c.SchedulerNames()); err != nil {
		return err
	}
	s.commit, err = commit.New(commit.Config{
		Writer:      s.guarded(s.writer),
		Binder:      func(string) commit.Binder { return defaultbinder.Plugin{} },
		Results:     changes,
		Log:         s.log,
		InFlight:    o.inFlight,
		BindingsMax: commit.DefaultBindingsMax,
		EventsMax:   commit.DefaultEventsMax,
		Timeout:     commit.DefaultTimeout,
		EventPause:  commit.DefaultEventPause,
		Drain:       commit.DefaultDrain,
		Observers:   s.ofWrites(),
	})
	if err != nil {
		return err
	}
	s.loop = loop.New(changes, waiting, decider, s.before(logged{s.commit, s.log}), s.clock, s.metrics.Loop)
	return nil
}

// access says how to reach the API server.
func (s *scheduler) access(o *options) (*rest.Config, error) {
	named := "--kubeconfig"
	if o.config != "" {
		named = "clientConnection.kubeconfig of " + o.config
		if given := o.deprecated.kubeconfig; given != "" && given != s.config.Kubeconfig {
			s.log.Info("Flag --kubeconfig is ignored, clientConnection.kubeconfig of the configuration holds", "ignored", given, "config", o.config)
		}
	}
	access, err := kube.Access(kube.ClientConfig{
		Kubeconfig:         s.config.Kubeconfig,
		Master:             o.master,
		Version:            Version(),
		ContentType:        s.config.ContentType,
		AcceptContentTypes: s.config.AcceptContentTypes,
		QPS:                s.config.QPS,
		Burst:              s.config.Burst,
	})
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", named, s.config.Kubeconfig, err)
	}
	return access, nil
}

// prepareElection makes the election, or says that this replica leads where there is none.
func (s *scheduler) prepareElection(o *options, access *rest.Config, client kubernetes.Interface) error {
	rules := s.config.Source.LeaderElection
	if !*rules.LeaderElect {
		leading := make(chan struct{})
		close(leading)
		s.leading = leading
		return nil
	}
	versions := o.gates.Versions()
	election, err := kube.NewElection(kube.ElectionConfig{
		Access:      access,
		Client:      client,
		Rules:       rules,
		Scheduler:   s.config.SchedulerNames()[0],
		Coordinated: s.config.Coordinated,
		Binary:      semantic(versions.BinaryVersion()),
		Emulation:   semantic(versions.EmulationVersion()),
	})
	if err != nil {
		return err
	}
	s.election, s.leading = election, election.Leading()
	return nil
}

// run schedules pods until the context ends, and returns when everything that was begun has ended.
func (s *scheduler) run(ctx context.Context) error {
	began := time.Now()
	s.log.Info("Starting Berth scheduler", "version", Version(), "profiles", s.config.SchedulerNames(),
		"pluginsWithoutEffect", s.config.Missing)
	stopServing, err := s.startServer()
	if err != nil {
		return err
	}
	defer stopServing()
	defer s.dumpWhenAsked(ctx)()
	writing, stopWriting := context.WithCancelCause(context.Background())
	var writers sync.WaitGroup
	writers.Go(func() { s.commit.Run(writing) })
	stopElection := s.schedule(ctx, began)

	s.log.Info("Stopping Berth scheduler", "reason", context.Cause(ctx))
	stopWriting(context.Cause(ctx))
	writers.Wait()
	closing, cancel := context.WithTimeout(context.Background(), eventsDrain)
	defer cancel()
	s.writer.Close(closing)
	stopElection() // not before what was decided as the leader is written
	s.closeObservers()
	s.watch.Stop()
	s.summarise(began)
	if s.election == nil && s.standalone {
		return errFinished
	}
	s.log.Info("Requested to terminate, exiting")
	return nil
}

// schedule gets to know the cluster, waits to be the leader, and decides about pods until the context ends. The returned function ends the
// election. A replica takes part in it only when it knows the cluster, for one that cannot get to know it must not lead; while it does not
// lead, it follows what happens there. Unless it is configured the other way round: to begin with that when it leads.
func (s *scheduler) schedule(ctx context.Context, began time.Time) (stopElection func()) {
	if s.config.Source.DelayCacheUntilActive {
		stopElection = s.startElection(ctx)
		select {
		case <-s.leading:
		case <-ctx.Done():
			return stopElection
		}
	}
	s.watch.Start(ctx)
	// What is listed is taken in while the rest is still coming.
	known := make(chan struct{})
	var joining sync.WaitGroup
	joining.Go(func() {
		if s.watch.Sync(ctx) != nil { // told to stop
			return
		}
		close(s.synced)
		counts := s.watch.Counts()
		s.log.Info("Cluster is known", "nodes", counts.Nodes, "pods", counts.Pods, "others", counts.Others, "took", time.Since(began).Round(time.Millisecond))
		if stopElection == nil {
			stopElection = s.startElection(ctx)
		}
		select {
		case <-s.leading:
			close(known)
		case <-ctx.Done():
		}
	})
	s.loop.Stand(ctx, known)
	joining.Wait()
	if stopElection == nil {
		stopElection = func() {}
	}
	s.loop.Run(ctx)
	return stopElection
}

// summarise logs what was done and what it took.
func (s *scheduler) summarise(began time.Time) {
	did, took := s.commit.Stats(), usageSoFar()
	values := []any{
		"ran", time.Since(began).Round(time.Millisecond),
		"decisions", s.loop.Engine().Counters().Decisions,
		"bound", did.Bound, "bindingsFailed", did.BindingsFailed,
		"statuses", did.Statuses, "statusesFailed", did.StatusesFailed,
		"events", did.Events, "eventsFailed", did.EventsFailed, "eventsDropped", did.EventsDropped,
	}
	if took.known {
		values = append(values, "cpu", took.cpu.Round(time.Millisecond), "memoryMaxMiB", took.memoryMax>>20)
		if did.Bound > 0 {
			values = append(values, "cpuPerBoundPod", (took.cpu / time.Duration(did.Bound)).Round(time.Microsecond))
		}
	}
	s.log.Info("Stopped Berth scheduler", values...)
}
