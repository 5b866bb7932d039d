package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	componentmetrics "k8s.io/component-base/metrics"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/metrics"
	"github.com/berth-scheduler/berth/internal/trace"
)

// spansDrain is how long spans that are on their way may take to be sent when the scheduler stops.
const spansDrain = 2 * time.Second

// observers are told what the scheduler does.
type observers struct {
	clock   *loop.Clock
	metrics *metrics.Metrics
	tracer  *trace.Tracer // nil where nobody asked for traces
}

// observe makes the metrics, as flags say, and the tracer if there is to be one.
func (s *scheduler) observe(ctx context.Context, o *options) error {
	s.observers.clock = &loop.Clock{}
	gates := o.gates.Gate()
	metricsfeatures.ApplyFeatureGates(gates)
	o.metrics.Apply()
	var err error
	s.observers.metrics, err = metrics.New(metrics.Config{
		Register: register,
		Enabled:  func(gate string) bool { return gates.Enabled(featuregate.Feature(gate)) },
		Now:      s.observers.clock.Now,
		Version:  Version(),
	})
	if err != nil || o.tracing == "" {
		return err
	}
	tracing, err := trace.Load(o.tracing)
	if err != nil {
		return usage(fmt.Errorf("--berth-tracing-config-file: %w", err))
	}
	s.observers.tracer, err = trace.New(ctx, trace.Config{Tracing: tracing, Version: Version(), Now: s.observers.clock.Now, Log: s.log})
	return err
}

// register registers a family in the registry that is served. A second scheduler in the process, as in somebody's tests, goes unseen.
func register(family componentmetrics.Registerable) error {
	err := legacyregistry.Register(family)
	if there := (prometheus.AlreadyRegisteredError{}); errors.As(err, &there) {
		return nil
	}
	return err
}

// ofWrites are the observers of what is written.
func (o *observers) ofWrites() []commit.Observer {
	if o.tracer == nil {
		return []commit.Observer{o.metrics.Commit}
	}
	return []commit.Observer{o.metrics.Commit, o.tracer}
}

// before has decisions seen on their way to the committer.
func (o *observers) before(next loop.Committer) loop.Committer {
	if o.tracer == nil {
		return next
	}
	return o.tracer.Before(next)
}

// wrap has requests carry the span that they belong to.
func (o *observers) wrap(access *rest.Config) {
	if o.tracer != nil {
		access.Wrap(o.tracer.Wrap)
	}
}

// closeObservers sends the spans that are left.
func (s *scheduler) closeObservers() {
	if s.observers.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), spansDrain)
	defer cancel()
	if err := s.observers.tracer.Close(ctx); err != nil {
		s.log.Error(err, "Could not send the last spans")
	}
}

// resources answers what the pods of the cluster ask for.
func (s *scheduler) resources() http.Handler {
	return metrics.Resources(func() []*v1.Pod {
		pods, _ := s.watch.Known()
		return pods
	})
}
