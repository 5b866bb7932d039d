package app

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/berth-scheduler/berth/internal/config"
)

// TestServes checks which pages are served, and to which users. The API server accepts
// the token of an operator, and allows that user everything.
func TestServes(t *testing.T) {
	s := newScript(t, small("a"))
	r := s.prepare("one", "--leader-elect=false", "--contention-profiling=false")
	s.await("one: watch pods", 1)
	for _, test := range []struct {
		path, token string
		status      int
		want        string
	}{
		{"/healthz", "", 200, "ok"},
		{"/livez", "", 200, "ok"},
		{"/readyz", "", 200, "ok"},
		{"/metrics", "", 403, "forbidden"},
		{"/metrics", "stranger", 401, "Unauthorized"},
		{"/metrics", "operator", 200, "go_goroutines"},
		{"/metrics/resources", "operator", 200, ""},
		{"/configz", "", 403, "forbidden"},
		{"/configz", "operator", 200, `"enableProfiling":true,"enableContentionProfiling":false`},
		{"/debug/pprof/", "operator", 200, "goroutine"},
		{"/flagz", "operator", 200, "kube-scheduler flagz"},
		{"/flagz", "operator", 200, "berth-seed"},
		{"/statusz", "operator", 200, "kube-scheduler statusz"},
		{"/statusz", "operator", 200, "1.37"},
	} {
		if test.path == "/readyz" {
			s.awaitReady(r)
		}
		if status, body := r.get(test.path, test.token); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s as %q: %d, want %d and %q in\n%.2000s", test.path, test.token, status, test.status, test.want, body)
		}
	}
}

// awaitReady waits until a replica is ready.
func (s *script) awaitReady(r *replica) {
	s.t.Helper()
	select {
	case <-r.s.synced:
	case <-s.t.Context().Done():
		s.t.Error("it is not ready")
	}
}

// Pages can be turned off, and so can serving.
func TestServesLess(t *testing.T) {
	s := newScript(t, small("a"))
	s.edit = func(c *config.Config) { c.Flagz, c.Statusz = false, false }
	r := s.prepare("one", "--leader-elect=false", "--profiling=false")
	for _, path := range []string{"/flagz", "/statusz", "/debug/pprof/"} {
		r.expect(path, 404, "404 page not found")
	}
	r.stop()
	_ = r.wait()
	o, err := newOptions()
	if err != nil {
		t.Fatal(err)
	}
	o.access.Serving.BindPort = 0
	if serve, err := newServer(t.Context(), o, &scheduler{}); serve != nil || err != nil {
		t.Errorf("got %v, %v", serve, err)
	}
}

// In a coordinated election the API server chooses among candidates, which publish their
// versions.
func TestCoordinated(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	s.edit = func(c *config.Config) { c.Coordinated = true }
	r := s.prepare("one", leading...)
	s.await("one: post leasecandidates", 1)
	s.await("one: watch leasecandidates", 1)
	s.mu.Lock()
	candidate := s.candidate
	s.mu.Unlock()
	if spec := candidate.Spec; spec.BinaryVersion != "1.37.0" || spec.EmulationVersion != "1.37.0" || spec.Strategy != "OldestEmulationVersion" {
		t.Errorf("the candidate is %+v", spec)
	}
	r.expect("/readyz/informer-sync", 200, "ok")
	if n := count(s.noted(), "one: take lease"); n != 0 {
		t.Errorf("it takes the lease by itself")
	}
	s.handOver(candidate.Name)
	s.await("one: bind web-0 to a", 1)
}

// receiver is a collector of spans.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names []string
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.names = append(r.names, span.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// With a tracing configuration each pod has spans, which have arrived when the scheduler
// has ended. Its binding has their trace context.
func TestTraces(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	spans, server := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, spans)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	s := newScript(t, small("a"), web("web-0"))
	r := s.prepare("one", "--leader-elect=false", "--berth-tracing-config-file", file(t, "tracing.yaml", "endpoint: "+listener.Addr().String()+"\nsamplingRatePerMillion: 1000000\n"))
	s.await("one: event Scheduled web-0", 1)
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	for _, want := range []string{"Schedule", "Queue", "Decide", "Commit", "HTTP POST"} {
		if !slices.Contains(spans.names, want) {
			t.Errorf("there is no span %s among %q", want, spans.names)
		}
	}
	if !slices.Contains(s.traced, "one: bind web-0 to a") {
		t.Errorf("these requests bear a context: %q", s.traced)
	}
}
