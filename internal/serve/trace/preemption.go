package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A preemption's span is below that of the preemptor's attempt, and lasts longer: the
// attempt ends with the decision. Below it are the spans of the requests, one for each
// request, repeated ones included. A victim of several preemptions is evicted for the
// first of them.

// requestNames are the names of the spans of requests.
var requestNames = map[commit.RequestKind]string{commit.Ask: "Ask", commit.Mark: "Mark", commit.Delete: "Delete"}

// preempts starts the span of a decision's evictions. Pods that are already being deleted
// need none.
func (t *Tracer) preempts(ctx context.Context, d *plan.Decision, now time.Time) {
	victims, node := 0, ""
	for i := range d.Evictions {
		if !d.Evictions[i].Pod.Terminating {
			victims, node = victims+1, d.Evictions[i].NodeName
		}
	}
	if victims == 0 {
		return
	}
	_, span := t.tracer.Start(ctx, "Preempt", oteltrace.WithTimestamp(now),
		oteltrace.WithAttributes(attribute.String("node", node), attribute.Int("victims", victims)))
	preemptor := d.Pod
	t.mu.Lock()
	t.preempting[preemptor] = append(t.preempting[preemptor], span)
	t.mu.Unlock()
}

// evicting starts the span of a request.
func (t *Tracer) evicting(ctx context.Context, w *commit.Write) context.Context {
	t.mu.Lock()
	under := t.preempting[w.Preemptor]
	t.mu.Unlock()
	if len(under) == 0 {
		return ctx
	}
	ctx, _ = t.tracer.Start(oteltrace.ContextWithSpan(ctx, under[0]), requestNames[w.Request], oteltrace.WithTimestamp(t.now()),
		oteltrace.WithAttributes(attribute.String("victim", w.Pod.String()), attribute.String("uid", string(w.Pod.UID))))
	return ctx
}

// Preempted ends the span of a preemption.
func (t *Tracer) Preempted(p *commit.Preempted) {
	t.mu.Lock()
	under := t.preempting[p.Preemptor]
	if len(under) > 1 {
		t.preempting[p.Preemptor] = under[1:]
	} else {
		delete(t.preempting, p.Preemptor)
	}
	t.mu.Unlock()
	if len(under) > 0 {
		end(under[0], p.Err, t.now())
	}
}

func end(span oteltrace.Span, err error, now time.Time) {
	if err != nil {
		fail(span, err)
	}
	span.End(oteltrace.WithTimestamp(now))
}
