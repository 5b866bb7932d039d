package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	componentmetrics "k8s.io/component-base/metrics"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
	"github.com/berth-scheduler/berth/internal/serve/trace"
)

// spansDrain bounds the time for sending the last spans when the scheduler stops.
const spansDrain = 2 * time.Second

// observers are the metrics, and the traces where they are configured.
type observers struct {
	clock   *loop.Clock
	metrics *metrics.Metrics
	tracer  *trace.Tracer // nil without a tracing configuration
}

// newObservers returns the metrics that the flags select, and the tracer if tracing is
// configured.
func newObservers(ctx context.Context, o *options, log klog.Logger) (observers, error) {
	clock := &loop.Clock{}
	gates := o.gates.Gate()
	metricsfeatures.ApplyFeatureGates(gates)
	applyMetrics(o.metrics)
	counted, err := metrics.New(metrics.Config{
		Register: register,
		Enabled:  func(gate string) bool { return gates.Enabled(featuregate.Feature(gate)) },
		Now:      clock.Now,
		Version:  Version(),
	})
	if err != nil {
		return observers{}, err
	}
	tracer, err := newTracer(ctx, o, clock, log)
	if err != nil {
		return observers{}, err
	}
	return observers{clock: clock, metrics: counted, tracer: tracer}, nil
}

// applyMetrics applies the flags about metrics. Options.Apply would log an error about
// the missing file of an allow-list of labels that no flag names.
func applyMetrics(o *componentmetrics.Options) {
	if o.AllowListMapping != nil || o.AllowListMappingManifest != "" {
		o.Apply()
		return
	}
	if o.ShowHiddenMetricsForVersion != "" {
		componentmetrics.SetShowHidden()
	}
	componentmetrics.SetDisabledMetrics(o.DisabledMetrics)
}

// newTracer returns the tracer, or nil without a tracing configuration.
func newTracer(ctx context.Context, o *options, clock *loop.Clock, log klog.Logger) (*trace.Tracer, error) {
	if o.tracing == "" {
		return nil, nil
	}
	tracing, err := trace.Load(o.tracing)
	if err != nil {
		return nil, usage(fmt.Errorf("--berth-tracing-config-file: %w", err))
	}
	return trace.New(ctx, trace.Config{Tracing: tracing, Version: Version(), Now: clock.Now, Log: log})
}

// register registers a family in the served registry. If one process runs two schedulers,
// as tests do, only the first has metrics.
func register(family componentmetrics.Registerable) error {
	err := legacyregistry.Register(family)
	if there := (prometheus.AlreadyRegisteredError{}); errors.As(err, &there) {
		return nil
	}
	return err
}

// ofWrites are the observers of writes.
func (o observers) ofWrites() []commit.Observer {
	if o.tracer == nil {
		return []commit.Observer{o.metrics.Commit}
	}
	return []commit.Observer{o.metrics.Commit, o.tracer}
}

// before returns a committer that traces decisions and passes them to the next committer.
func (o observers) before(next loop.Committer) loop.Committer {
	if o.tracer == nil {
		return next
	}
	return o.tracer.Before(next)
}

// traced returns a client configuration whose requests carry their span.
func (o observers) traced(access *rest.Config) *rest.Config {
	if o.tracer == nil {
		return access
	}
	wrapped := rest.CopyConfig(access)
	wrapped.Wrap(o.tracer.Wrap)
	return wrapped
}

// close sends the remaining spans.
func (o observers) close(log klog.Logger) {
	if o.tracer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), spansDrain)
	defer cancel()
	if err := o.tracer.Close(ctx); err != nil {
		log.Error(err, "Could not send the last spans")
	}
}
