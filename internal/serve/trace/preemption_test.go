package trace

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// evictor is an API server, and the receiver of preemption results.
type evictor struct {
	client *http.Client
	server string
	ended  chan model.PreemptionResult

	mu       sync.Mutex
	conflict bool     // whether the condition of the pod "first" has met a conflict
	parents  []string // the span contexts of deletions
}

func (*evictor) Bind(context.Context, *v1.Binding) error { return nil }
func (*evictor) NodeOf(context.Context, *model.Pod) (string, error) {
	return "a", nil
}
func (*evictor) Write(context.Context, *plan.Write) (kinds.Object, error) { return nil, nil }
func (*evictor) Get(context.Context, *plan.Write) (kinds.Object, error)   { return nil, nil }
func (*evictor) Learned(kinds.Object)                                     {}
func (*evictor) Record(context.Context, *report.Series) error             { return nil }
func (*evictor) Repeat(context.Context, *report.Series) error             { return nil }
func (*evictor) Bound(model.BindingResult)                                {}
func (e *evictor) Preempted(result model.PreemptionResult)                { e.ended <- result }
func (*evictor) Written(model.WriteResult)                                {}

// PatchStatus rejects the condition of a pod once because of a conflict.
func (e *evictor) PatchStatus(_ context.Context, pod *model.Pod, _ *v1.PodCondition, _ plan.Nomination) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pod.Name == "first" && !e.conflict {
		e.conflict = true
		return apierrors.NewConflict(v1.Resource("pods"), pod.Name, nil)
	}
	return nil
}

// Delete sends a request, and forbids the deletion of a pod.
func (e *evictor) Delete(ctx context.Context, pod *model.Pod) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, e.server, nil)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if pod.Name == "protected" {
		return apierrors.NewForbidden(v1.Resource("pods"), pod.Name, fmt.Errorf("a webhook says no"))
	}
	return nil
}

// ServeHTTP records the span context.
func (e *evictor) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parents = append(e.parents, r.Header.Get("traceparent"))
}

// evicts is the decision to evict pods from a node for another.
func evicts(preemptor string, victims ...string) plan.Decision {
	d := decision(preemptor, "", &plan.Rejection{Counts: []reason.Count{{Nodes: 4, Reason: "Insufficient cpu"}}}, nil)
	for _, name := range victims {
		object := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid of " + name)}, Spec: v1.PodSpec{NodeName: "a"}}
		if name == "going" {
			object.DeletionTimestamp = &metav1.Time{}
		}
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: model.NewPod(object), NodeName: "a"})
	}
	return d
}

// TestSpansOfPreemptions carries out preemptions with a real commit, and checks the spans
// in a real collector: below the preemptor's attempt one span for each preemption, and
// below that one for each request.
func TestSpansOfPreemptions(t *testing.T) {
	r, endpoint := receive(t)
	everything := int32(1_000_000)
	tracer, err := New(t.Context(), Config{
		Tracing: &tracingv1.TracingConfiguration{Endpoint: &endpoint, SamplingRatePerMillion: &everything}, Version: "v1", Now: time.Now, Log: klog.Background(),
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &evictor{ended: make(chan model.PreemptionResult, 2)}
	server := httptest.NewServer(e)
	defer server.Close()
	e.client, e.server = &http.Client{Transport: tracer.Wrap(http.DefaultTransport)}, server.URL
	c, err := commit.New(commit.Config{
		Writer: e, Binder: func(string) *plugin.Bind { return nil }, Results: e, Log: klog.Background(), InFlight: 4, ReportsPerSecond: 100, MaxBindings: 10, MaxReports: 10, MaxSeries: 10,
		Timeout: time.Second, EventPause: time.Second, Drain: time.Second, Observers: []commit.Observer{tracer},
	})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { c.Run(running) })
	committer := tracer.Before(c)
	for _, d := range []plan.Decision{evicts("high", "first", "going", "last"), evicts("refused", "protected", "kept"), evicts("late", "going")} {
		committer.Start(d)
		if d.Pod.Name != "late" { // nothing to do for that pod
			<-e.ended
		}
	}
	stop()
	writing.Wait()
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(tracer.preempting) != 0 {
		t.Errorf("%d preemptions are kept although they are over", len(tracer.preempting))
	}
	r.checkPreemptions(t, e.parents)
}

func (r *receiver) checkPreemptions(t *testing.T, parents []string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	below := map[string][]*spans.Span{}
	for _, s := range r.seen {
		below[string(s.GetParentSpanId())] = append(below[string(s.GetParentSpanId())], s)
	}
	var deletions []string // the expected span contexts of deletions, without the last part
	for _, schedule := range below[""] {
		pod := attributes(schedule)["pod"]
		want := map[string]struct{ result, requests string }{
			"default/high": {"", "Ask first, Delete first, Delete last, Mark first, Mark first error, Mark last"},
			// A failed eviction leaves the last victim alone.
			"default/refused": {"error", "Delete protected error, Mark protected"},
		}[pod]
		var requests []string
		for _, preempt := range below[string(schedule.GetSpanId())] {
			if preempt.GetName() != "Preempt" {
				continue
			}
			if got := attributes(preempt); got["node"] != "a" || got["result"] != want.result || preempt.GetEndTimeUnixNano() < schedule.GetEndTimeUnixNano() {
				t.Errorf("%s: the preemption is %v, and lasts from %d to %d", pod, got, preempt.GetStartTimeUnixNano(), preempt.GetEndTimeUnixNano())
			}
			for _, request := range below[string(preempt.GetSpanId())] {
				about := attributes(request)
				victim := strings.TrimPrefix(about["victim"], "default/")
				requests = append(requests, strings.TrimSpace(request.GetName()+" "+victim+" "+about["result"]))
				sent := below[string(request.GetSpanId())] // by the HTTP client
				if is := request.GetName() == "Delete"; is != (len(sent) == 1) || about["uid"] != "uid of "+victim {
					t.Errorf("%s: %s %v has %d spans below it", pod, request.GetName(), about, len(sent))
				}
				for _, s := range sent {
					deletions = append(deletions, hex.EncodeToString(s.GetTraceId())+"-"+hex.EncodeToString(s.GetSpanId()))
				}
			}
		}
		if slices.Sort(requests); strings.Join(requests, ", ") != want.requests {
			t.Errorf("%s: requests %q, want %q", pod, requests, want.requests)
		}
	}
	if len(below[""]) != 3 || len(deletions) != 3 {
		t.Errorf("%d attempts and %d deletions, want 3 and 3", len(below[""]), len(deletions))
	}
	for i, parent := range parents {
		if !slices.ContainsFunc(deletions, func(d string) bool { return strings.Contains(parent, d) }) {
			t.Errorf("deletion %d was sent with the span context %q, want one of %q", i, parent, deletions)
		}
	}
}
