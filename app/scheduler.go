package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/queue"
)

// eventsDrain is how long events that are on their way may take to be written when the scheduler stops.
const eventsDrain = 2 * time.Second

// scheduler is the parts of one, put together.
type scheduler struct {
	config *config.Config
	log    klog.Logger
	watch  *kube.Watch
	writer *kube.Writer
	commit *commit.Commit
	loop   *loop.Loop
}

// newScheduler puts a scheduler together. Nothing is sent to the API server before run.
func newScheduler(o *options, c *config.Config) (*scheduler, error) {
	s := &scheduler{config: c, log: klog.Background()}
	client, err := s.connect(o)
	if err != nil {
		return nil, err
	}
	changes := ingest.New(c.Compile())
	waiting, err := queue.New(c.Queue(o.parkedMax))
	if err != nil {
		return nil, fmt.Errorf("build the queue: %w", err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: o.seed})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	if s.watch, err = kube.NewWatch(client, changes, kube.Reads{Owners: c.NeedsOwners()}); err != nil {
		return nil, err
	}
	if s.writer, err = kube.NewWriter(client, c.SchedulerNames()); err != nil {
		return nil, err
	}
	s.commit, err = commit.New(commit.Config{
		Writer:      s.writer,
		Outcomes:    changes,
		Log:         s.log,
		InFlight:    o.inFlight,
		BindingsMax: commit.DefaultBindingsMax,
		EventsMax:   commit.DefaultEventsMax,
		Timeout:     commit.DefaultTimeout,
		EventPause:  commit.DefaultEventPause,
		Drain:       commit.DefaultDrain,
	})
	if err != nil {
		return nil, err
	}
	s.loop = loop.New(changes, waiting, decider, s.commit)
	return s, nil
}

func (s *scheduler) connect(o *options) (kubernetes.Interface, error) {
	kubeconfig := o.kubeconfig
	if o.config != "" {
		if kubeconfig != "" && kubeconfig != s.config.Kubeconfig {
			s.log.Info("Flag --kubeconfig is ignored, clientConnection.kubeconfig of the configuration holds",
				"ignored", kubeconfig, "config", o.config)
		}
		kubeconfig = s.config.Kubeconfig
	}
	return kube.NewClient(kube.ClientConfig{
		Kubeconfig:         kubeconfig,
		Master:             o.master,
		Version:            Version(),
		ContentType:        s.config.ContentType,
		AcceptContentTypes: s.config.AcceptContentTypes,
		QPS:                s.config.QPS,
		Burst:              s.config.Burst,
	})
}

// run schedules pods until the context ends.
func (s *scheduler) run(ctx context.Context) error {
	began := time.Now()
	s.log.Info("Starting Berth scheduler", "version", Version(), "profiles", s.config.SchedulerNames(),
		"pluginsWithoutEffect", s.config.Missing)
	writing, stopWriting := context.WithCancelCause(context.Background())
	var writers sync.WaitGroup
	writers.Go(func() { s.commit.Run(writing) })
	s.watch.Start(ctx)
	err := s.watch.Sync(ctx)
	if err == nil {
		counts := s.watch.Counts()
		s.log.Info("Cluster is known", "nodes", counts.Nodes, "pods", counts.Pods, "others", counts.Others, "took", time.Since(began).Round(time.Millisecond))
		s.loop.Run(ctx)
	}
	s.log.Info("Stopping Berth scheduler", "reason", context.Cause(ctx))
	stopWriting(context.Cause(ctx))
	writers.Wait()
	closing, cancel := context.WithTimeout(context.Background(), eventsDrain)
	defer cancel()
	s.writer.Close(closing)
	s.watch.Stop()
	s.summarise(began)
	return nil
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
