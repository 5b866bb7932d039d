package trace

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// receiver is a collector of spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	seen []*spans.Span
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.seen = append(r.seen, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// receive starts a collector and returns its address.
func receive(t *testing.T) (*receiver, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return r, listener.Addr().String()
}

// attributes returns the attributes of a span as text.
func attributes(span *spans.Span) map[string]string {
	all := map[string]string{}
	for _, a := range span.GetAttributes() {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all
}

func decision(name, node string, rejection *plan.Rejection, err error) plan.Decision {
	pod := model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid of " + name)},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler"},
	})
	now := time.Now()
	queued := plan.QueuedPod{Pod: pod, Attempt: 2, Since: now.Add(-3 * time.Second), Popped: now}
	d := plan.Decision{Member: plan.Member{QueuedPod: queued}, Outcome: plan.Failed, Rejection: rejection, Err: err, Nodes: 4}
	switch {
	case node != "":
		d.Outcome, d.Placement = plan.Placed, plan.Placement{Pod: queued.Pod, NodeName: node}
	case rejection != nil:
		d.Outcome = plan.Unschedulable
	}
	return d
}

// next receives the decisions that are passed on.
type next struct{ started []string }

func (n *next) Start(d plan.Decision)         { n.started = append(n.started, d.Pod.Name) }
func (*next) Allow(types.UID, string)         {}
func (*next) Reject(types.UID, string, error) {}
func (*next) Cancel(types.UID, error) bool    { return false }
func (n *next) Room() <-chan struct{}         { return nil }

// TestSpans passes attempts with each result through a tracer, and checks the spans in a
// real collector.
func TestSpans(t *testing.T) {
	r, endpoint := receive(t)
	everything := int32(1_000_000)
	tracer, err := New(t.Context(), Config{
		Tracing: &tracingv1.TracingConfiguration{Endpoint: &endpoint, SamplingRatePerMillion: &everything}, Version: "v1", Now: time.Now, Log: klog.Background(),
	})
	if err != nil {
		t.Fatal(err)
	}
	traceparents := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { traceparents <- r.Header.Get("traceparent") }))
	defer server.Close()
	client := &http.Client{Transport: tracer.Wrap(http.DefaultTransport)}
	var parents []string
	get := func(ctx context.Context) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		parents = append(parents, <-traceparents)
	}
	after := &next{}
	committer := tracer.Before(after)
	for _, d := range []plan.Decision{
		decision("fits", "a", nil, nil), decision("refused", "b", nil, nil),
		decision("rejected", "c", nil, nil), decision("large", "", &plan.Rejection{PreFilter: "it is too large"}, nil), decision("broken", "", nil, errors.New("a plugin failed")),
	} {
		committer.Start(d)
		if d.Outcome != plan.Placed {
			continue
		}
		if d.Pod.Name == "rejected" { // at Permit: nothing is sent
			tracer.Settled(&commit.Settled{Placement: d.Placement, Err: errors.New("too few"), Rejected: true, Rejectors: []string{"Gang"}})
			continue
		}
		w := &commit.Write{Kind: commit.BindingWrite, Pod: d.Pod}
		ctx := tracer.Sending(t.Context(), w)
		get(ctx)
		var failure error
		if d.Pod.Name == "refused" {
			failure = errors.New("an admission plugin said no")
		}
		tracer.Sent(ctx, w, time.Second, failure)
		tracer.Settled(&commit.Settled{Placement: d.Placement, Err: failure})
	}
	get(tracer.Sending(t.Context(), &commit.Write{Kind: commit.EventWrite, Pod: decision("fits", "", nil, nil).Pod}))
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"fits", "refused", "rejected", "large", "broken"}; !slices.Equal(after.started, want) {
		t.Errorf("handed on %v, want %v", after.started, want)
	}
	if len(parents) != 3 || parents[0] == "" || parents[1] == "" || parents[2] != "" {
		t.Errorf("the API server received the spans %q; want one for each binding and none for an event", parents)
	}
	if len(tracer.open) != 0 {
		t.Errorf("%d attempts are kept although they are over", len(tracer.open))
	}
	r.check(t, parents[0])
}

func (r *receiver) check(t *testing.T, parent string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	byPod := map[string]*spans.Span{}
	below := map[string][]string{}
	for _, s := range r.seen {
		if s.GetName() == "Schedule" {
			byPod[attributes(s)["pod"]] = s
		} else {
			below[string(s.GetParentSpanId())] = append(below[string(s.GetParentSpanId())], s.GetName())
		}
	}
	for pod, want := range map[string]struct{ result, node, below string }{
		"default/fits":     {"scheduled", "a", "Commit Decide Queue"},
		"default/refused":  {"error", "b", "Commit Decide Queue"},
		"default/rejected": {"unschedulable", "c", "Commit Decide Queue"},
		"default/large":    {"unschedulable", "", "Decide Queue"},
		"default/broken":   {"error", "", "Decide Queue"},
	} {
		s := byPod[pod]
		if s == nil {
			t.Errorf("no span for %s", pod)
			continue
		}
		names := below[string(s.GetSpanId())]
		slices.Sort(names)
		got := attributes(s)
		if got["result"] != want.result || got["node"] != want.node || strings.Join(names, " ") != want.below ||
			got["uid"] != "uid of "+strings.TrimPrefix(pod, "default/") || got["profile"] != "default-scheduler" {
			t.Errorf("%s: %v with %v below it; want %+v", pod, got, names, want)
		}
		if took := time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano()); took < 3*time.Second {
			t.Errorf("%s: the span lasts %v; the pod waited 3s", pod, took)
		}
	}
	if fits := byPod["default/fits"]; fits != nil && !strings.Contains(parent, hex.EncodeToString(fits.GetTraceId())) {
		t.Errorf("the API server received %s, which is not of the trace %s", parent, hex.EncodeToString(fits.GetTraceId()))
	}
}

func TestLoad(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"samplingRatePerMillion: 100", ""},
		{"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: collector:4317\nsamplingRatePerMillion: 1000000", ""},
		{"endpoint: collector:4317", "samplingRatePerMillion: must be set"},
		{"samplingRatePerMillion: -1", "samplingRatePerMillion: Invalid value: -1"},
		{"samplingRatePerMillion: 1000001", "less than or equal to one million"},
		{"endpoint: http://x\nsamplingRatePerMillion: 1", "unsupported scheme: http"},
		{"samplingRate: 1", `unknown field "samplingRate"`},
		{"apiVersion: v1\nsamplingRatePerMillion: 1", `apiVersion "v1": must be one of`},
		{"kind: Pod\nsamplingRatePerMillion: 1", `kind "Pod": must be TracingConfiguration`},
	} {
		path := filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%q: %v", test.text, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "tracing.yaml")):
			t.Errorf("%q: %v, want %q and the file's name", test.text, err, test.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}
