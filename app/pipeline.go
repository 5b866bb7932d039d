package app

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/answers/hints"
	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/quietlog"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/recording"
	"github.com/berth-scheduler/berth/internal/queue"
)

// pipeline is the parts that a pod passes through.
type pipeline struct {
	watch    *kube.Watch
	changes  *ingest.Ingest
	loop     *loop.Loop
	commit   *commit.Commit
	watchdog *watchdog
	flush    func() // logs how many messages about malformed objects were suppressed
	// recorder is nil without --berth-record.
	recorder *recording.Writer
	// history holds recent decisions; nil if it is turned off.
	history *history.History
}

// setup has everything that a pipeline is built from.
type setup struct {
	options  *options
	config   *config.Config // with the out-of-tree plugins
	client   *kube.Client
	leads    leadership
	seen     observers
	external *external // nil if no out-of-tree plugin is enabled
	name     *cache.InformerName
	log      klog.Logger
}

// newPipeline builds the parts in the order of a pod's way: watch, ingest, loop with
// queue and engine, commit, writer.
func newPipeline(s *setup) (pipeline, error) {
	changes, flush := s.newIngest()
	watch, err := kube.NewWatch(s.client, changes, s.config.Reads(), s.name, s.external.watches(s.config, changes, s.log)...)
	if err != nil {
		return pipeline{}, err
	}
	waiting, err := s.newQueue()
	if err != nil {
		return pipeline{}, err
	}
	pulse := &loop.Pulse{}
	decider, err := s.newEngine(pulse)
	if err != nil {
		return pipeline{}, err
	}
	committer, err := s.newCommit(changes)
	if err != nil {
		return pipeline{}, err
	}
	kept, err := newHistory(s.options.historyMiB, s.options.record != "", s.seen.clock.Now)
	if err != nil {
		return pipeline{}, err
	}
	dog := &watchdog{log: s.log, limit: s.options.loopDeadline, note: s.leads.note(), beat: pulse.Beat}
	parts := loop.Config{
		Source: changes, Queue: waiting, Engine: decider, Commit: s.seen.before(logged{committer, s.log}), Pulse: pulse,
		Observers: s.observers(dog, committer, kept),
	}
	if s.options.eventHints {
		finder := hints.New(hints.Config{Compile: s.config.Compile(), Now: time.Now})
		parts.Hints, parts.Observers = finder, append(parts.Observers, hinted{finder, s.seen.metrics.Explain})
	}
	recorder, err := s.newRecorder()
	if err != nil {
		return pipeline{}, err
	}
	if recorder != nil { // a nil *Writer is no nil Recorder
		parts.Recorder = recorder
	}
	// Plugins act on parts that are built with the plugins.
	s.external.join(changes, committer)
	return pipeline{watch: watch, changes: changes, loop: loop.New(parts), commit: committer, watchdog: dog, flush: flush, history: kept, recorder: recorder}, nil
}

// newIngest returns the buffer of changes. flush logs how many messages about malformed
// objects were suppressed.
func (s *setup) newIngest() (changes *ingest.Ingest, flush func()) {
	quiet, flush := quietlog.Logger(s.log)
	return ingest.New(s.config.Compile(), ingest.OnMalformed(func(ref model.Ref, problem any) {
		quiet.Error(fmt.Errorf("%v", problem), "Ignoring a malformed object", "resource", kinds.Get(ref.Kind).Resource.Resource, "object", klog.KRef(ref.Namespace, ref.Name))
	})), flush
}

func (s *setup) newQueue() (*queue.Queue, error) {
	rules := s.config.Queue(s.options.deprecated.maxParked)
	rules.GroupPatience = s.options.groupPatience
	waiting, err := queue.New(rules)
	if err != nil {
		return nil, fmt.Errorf("build the queue: %w", err)
	}
	return waiting, nil
}

func (s *setup) newEngine(pulse *loop.Pulse) (*engine.Engine, error) {
	decider, err := engine.New(engine.Config{
		Profiles: s.config.Profiles, Seed: s.options.seed, Audit: s.options.audit, GroupRetries: s.options.groupRetries,
		OnPhase: func(phase engine.Phase) {
			s.seen.metrics.Loop.Enter(phase)
			pulse.Enter(phase)
		},
		Timing: s.seen.metrics.Loop.Timing(),
	})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	return decider, nil
}

// newCommit returns the commit with its writer. Results go to changes.
func (s *setup) newCommit(changes *ingest.Ingest) (*commit.Commit, error) {
	writer, err := kube.NewWriter(s.client, s.config.WholeObjects())
	if err != nil {
		return nil, err
	}
	return commit.New(commit.Config{
		Writer:           s.leads.guarded(writer),
		Binder:           s.config.Binder,
		Results:          changes,
		Log:              s.log,
		InFlight:         s.options.inFlight,
		ReportsPerSecond: s.options.reportsPerSecond,
		MaxBindings:      commit.DefaultMaxBindings,
		MaxReports:       commit.DefaultMaxReports,
		MaxSeries:        commit.DefaultMaxSeries,
		Timeout:          commit.DefaultTimeout,
		EventPause:       commit.DefaultEventPause,
		Drain:            s.options.drain,
		Announce:         s.config.Announce,
		Observers:        s.seen.ofWrites(),
	})
}

// observers returns the observers of the loop. kept is nil without a history.
func (s *setup) observers(dog *watchdog, committer *commit.Commit, kept *history.History) []loop.Observer {
	// verbose reads the phases of a decision, which the metrics reset.
	loud := newVerbose(s.log, s.seen.metrics.Loop.Phases)
	loud.plain = s.options.record != ""
	list := []loop.Observer{s.seen.clock, loud, s.seen.metrics.Loop, dog}
	if s.options.audit {
		audit := func(r *loop.Round) error { return errors.Join(r.Audit(), committer.Audit()) }
		list = append(list, auditor{audit, s.log, s.leads.exit})
	}
	if kept != nil {
		list = append(list, recorder{kept, s.seen.metrics.Explain})
	}
	return list
}
