package trace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	oteltrace "go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// Committer carries out decisions.
type Committer interface {
	Start(decision plan.Decision)
	Allow(pod types.UID, plugin string)
	Reject(pod types.UID, plugin string, reason error)
	Cancel(pod types.UID, reason error) bool
	Room() <-chan struct{}
}

// Config is the configuration of a Tracer.
type Config struct {
	// Tracing is the endpoint and the sampling rate.
	Tracing *tracingv1.TracingConfiguration
	// Version is the version of Berth.
	Version string
	// Now returns the loop's time, as loop.Clock does.
	Now func() time.Time
	Log klog.Logger
}

// Tracer creates the spans. It passes decisions on to a commit, and observes that commit.
// Any goroutine may call its methods.
type Tracer struct {
	provider tracing.TracerProvider
	tracer   oteltrace.Tracer
	now      func() time.Time

	mu   sync.Mutex
	open map[types.UID]*attempt // those with an unsettled binding
	// preempting are the unfinished preemptions, oldest first, by the version of the
	// preemptor in the decision.
	preempting map[*model.Pod][]oteltrace.Span
}

// attempt is a recorded attempt.
type attempt struct{ whole, commit oteltrace.Span }

// New starts to connect to a collector, and does not wait for the connection.
func New(ctx context.Context, config Config) (*Tracer, error) {
	about := resource.WithAttributes(attribute.String("service.name", "berth"), attribute.String("service.version", config.Version))
	provider, err := tracing.NewProvider(ctx, config.Tracing, nil, []resource.Option{about})
	if err != nil {
		return nil, fmt.Errorf("set up tracing: %w", err)
	}
	// Spans are sent in the background; the library reports failures only to this
	// handler.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { config.Log.Error(err, "Could not send spans") }))
	return newTracer(provider, config.Now), nil
}

func newTracer(provider tracing.TracerProvider, now func() time.Time) *Tracer {
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/berth-scheduler/berth/internal/serve/trace"), now: now,
		open: map[types.UID]*attempt{}, preempting: map[*model.Pod][]oteltrace.Span{},
	}
}

// Close sends the remaining spans.
func (t *Tracer) Close(ctx context.Context) error {
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// Before returns a committer that records each decision and passes it to the next
// committer.
func (t *Tracer) Before(next Committer) Committer { return before{next, t} }

type before struct {
	Committer
	tracer *Tracer
}

// Start records the decision and passes it on.
func (b before) Start(d plan.Decision) {
	b.tracer.decided(&d)
	b.Committer.Start(d)
}

// decided records a pod's wait and the duration of the decision, both in the past. It
// also starts the span of a binding or a preemption.
func (t *Tracer) decided(d *plan.Decision) {
	now, pod := t.now(), d.Pod
	about := []attribute.KeyValue{
		attribute.String("pod", pod.String()), attribute.String("uid", string(pod.UID)),
		attribute.String("profile", pod.SchedulerName), attribute.Int("attempt", d.Attempt),
	}
	ctx, whole := t.tracer.Start(context.Background(), "Schedule", oteltrace.WithTimestamp(d.Since), oteltrace.WithAttributes(about...))
	if !whole.IsRecording() {
		return
	}
	_, queue := t.tracer.Start(ctx, "Queue", oteltrace.WithTimestamp(d.Since))
	queue.End(oteltrace.WithTimestamp(d.Popped))
	_, decide := t.tracer.Start(ctx, "Decide", oteltrace.WithTimestamp(d.Popped),
		oteltrace.WithAttributes(attribute.Int("nodes", d.Nodes), attribute.Int("feasible", d.Feasible)))
	decide.End(oteltrace.WithTimestamp(now))
	switch d.Outcome {
	case plan.Placed:
		node := attribute.String("node", d.Placement.NodeName)
		whole.SetAttributes(node)
		_, bind := t.tracer.Start(ctx, "Commit", oteltrace.WithTimestamp(now), oteltrace.WithAttributes(node))
		t.mu.Lock()
		t.open[pod.UID] = &attempt{whole, bind}
		t.mu.Unlock()
	case plan.Unschedulable, plan.NoNodes:
		whole.SetAttributes(attribute.String("result", "unschedulable"), attribute.String("message", report.Message(d)))
		t.preempts(ctx, d, now)
		whole.End(oteltrace.WithTimestamp(now))
	default:
		fail(whole, errors.New(report.Message(d)))
		whole.End(oteltrace.WithTimestamp(now))
	}
}

func fail(span oteltrace.Span, err error) {
	span.SetAttributes(attribute.String("result", "error"))
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}

// Sending adds the span of a binding to the context of its requests, steps and calls, so
// that the API server's spans join it. A request of an eviction gets its own span, which
// begins here.
func (t *Tracer) Sending(ctx context.Context, w *commit.Write) context.Context {
	if w.Kind == commit.EvictionWrite {
		return t.evicting(ctx, w)
	}
	if a := t.attemptOf(w); a != nil {
		return oteltrace.ContextWithSpan(ctx, a.commit)
	}
	return ctx
}

// Sent ends the span of an eviction's request. The attempt of a binding ends when the
// binding is settled.
func (t *Tracer) Sent(ctx context.Context, w *commit.Write, _ time.Duration, err error) {
	if w.Kind == commit.EvictionWrite {
		end(oteltrace.SpanFromContext(ctx), err, t.now())
	}
}

// Settled ends the attempt of a binding.
func (t *Tracer) Settled(s *commit.Settled) {
	uid := s.Placement.Pod.UID
	t.mu.Lock()
	a := t.open[uid]
	delete(t.open, uid)
	t.mu.Unlock()
	if a == nil {
		return
	}
	switch {
	case s.Rejected:
		a.whole.SetAttributes(attribute.String("result", "unschedulable"), attribute.String("message", s.Err.Error()))
	case s.Err != nil:
		fail(a.whole, s.Err)
		fail(a.commit, s.Err)
	default:
		a.whole.SetAttributes(attribute.String("result", "scheduled"))
	}
	now := oteltrace.WithTimestamp(t.now())
	a.commit.End(now)
	a.whole.End(now)
}

// Passed does nothing: the span of an attempt covers its extension points.
func (t *Tracer) Passed(*commit.StageEnd) {}

// Dropped does nothing: conditions and events have no spans.
func (t *Tracer) Dropped(commit.WriteKind, int) {}

// attemptOf returns the recorded attempt of a write, or nil.
func (t *Tracer) attemptOf(w *commit.Write) *attempt {
	if w.Kind != commit.BindingWrite && w.Kind != commit.StepWrite && w.Kind != commit.CallWrite {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[w.Pod.UID]
}

// Wrap makes an HTTP client send the span context with requests. Requests without a span,
// such as watches, are unchanged.
func (t *Tracer) Wrap(plain http.RoundTripper) http.RoundTripper {
	return wrapped{plain, tracing.WrapperFor(t.provider)(plain)}
}

type wrapped struct{ plain, traced http.RoundTripper }

// RoundTrip sends a request.
func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	if oteltrace.SpanContextFromContext(r.Context()).IsSampled() {
		return w.traced.RoundTrip(r)
	}
	return w.plain.RoundTrip(r)
}
