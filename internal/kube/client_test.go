package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestAccess compares the client configuration for different flags and configurations.
func TestAccess(t *testing.T) {
	const protobuf, json = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeJSON
	for _, test := range []struct {
		config       ClientConfig
		sends, takes string
		qps          float32
		burst        int
	}{
		{ClientConfig{}, protobuf, protobuf + "," + json, -1, 0},
		{ClientConfig{ContentType: protobuf}, protobuf, protobuf + "," + json, -1, 0},
		{ClientConfig{ContentType: json}, json, "", -1, 0},
		{ClientConfig{ContentType: json, AcceptContentTypes: protobuf}, json, protobuf, -1, 0},
		{ClientConfig{AcceptContentTypes: json}, protobuf, json, -1, 0},
		{ClientConfig{QPS: 50, Burst: 100}, protobuf, protobuf + "," + json, 50, 100},
		{ClientConfig{QPS: 0.5, Burst: 1}, protobuf, protobuf + "," + json, 0.5, 1},
		{ClientConfig{QPS: -3, Burst: 7}, protobuf, protobuf + "," + json, -1, 7},
	} {
		test.config.Master, test.config.Version = "http://127.0.0.1:1", "v7"
		access, err := Access(test.config)
		if err != nil {
			t.Fatal(err)
		}
		if access.ContentType != test.sends || access.AcceptContentTypes != test.takes {
			t.Errorf("%+v: it sends %q and takes %q, want %q and %q", test.config, access.ContentType, access.AcceptContentTypes, test.sends, test.takes)
		}
		if access.QPS != test.qps || access.Burst != test.burst || !access.DisableCompression || access.Host != test.config.Master {
			t.Errorf("%+v: QPS %g, burst %d, compression off: %t, host %s", test.config, access.QPS, access.Burst, access.DisableCompression, access.Host)
		}
		if want := fmt.Sprintf("berth/v7 (%s/%s) kubernetes", runtime.GOOS, runtime.GOARCH); access.UserAgent != want {
			t.Errorf("user agent %q, want %q", access.UserAgent, want)
		}
		lease := leaseAccess(access, 10*time.Second)
		if lease.UserAgent != access.UserAgent+"/leader-election" || lease.Timeout != 5*time.Second || access.Timeout != 0 {
			t.Errorf("for the lease: user agent %q, timeout %v; for the others %v", lease.UserAgent, lease.Timeout, access.Timeout)
		}
		if lease = leaseAccess(access, time.Second); lease.Timeout != time.Second {
			t.Errorf("requests about a lease that is renewed within a second take %v", lease.Timeout)
		}
	}
}

// requests is an API server that keeps requests, and answers with a code and a body.
type requests struct {
	mu   sync.Mutex
	got  []string
	code int
	body string
}

// ServeHTTP keeps a request.
func (s *requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)))
	w.Header().Set("Content-Type", "application/json")
	if s.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(s.code)
	fmt.Fprint(w, s.body)
}

// take returns the requests since the last call.
func (s *requests) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := strings.Join(s.got, "\n")
	s.got = nil
	return got
}

// patience is far longer than any expected event takes, even on a busy machine.
const patience = 2 * time.Minute

// next returns the next value.
func next[T any](t *testing.T, from <-chan T) (what T) {
	t.Helper()
	select {
	case what = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return what
}

// TestRequests makes the writer send each of its requests for a pod. Each is sent once,
// even after Retry-After, and failures are returned.
func TestRequests(t *testing.T) {
	server := &requests{}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	w, err := NewWriter(connect(t, ClientConfig{Master: listening.URL, ContentType: "application/json"}), false)
	if err != nil {
		t.Fatal(err)
	}
	pod := numbered(1)
	node := ""
	condition := &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}
	pod.Object.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady}, *condition}
	for _, request := range []struct {
		name, want string
		send       func() error
	}{
		{"bind", `POST /api/v1/namespaces/ns/pods/p1/binding {"kind":"Binding","apiVersion":"v1","metadata":{"name":"p1","namespace":"ns","uid":"u1"},"target":{"kind":"Node","name":"a"}}`,
			func() error {
				return w.Bind(t.Context(), &v1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p1", UID: "u1"}, Target: v1.ObjectReference{Kind: "Node", Name: "a"},
				})
			}},
		{"delete", `DELETE /api/v1/namespaces/ns/pods/p1 {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u1"}}`,
			func() error { return w.Delete(t.Context(), pod) }},
		{"patch", `PATCH /api/v1/namespaces/ns/pods/p1/status {"metadata":{"uid":"u1"},"status":{"conditions":[{"type":"PodScheduled","status":"True","reason":"","message":""}]}}`,
			func() error { return w.PatchStatus(t.Context(), pod, condition, plan.Nomination{}) }},
		{"ask", "GET /api/v1/namespaces/ns/pods/p1",
			func() (err error) { node, err = w.NodeOf(t.Context(), pod); return err }},
	} {
		server.code, server.body = http.StatusOK, `{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u1"},"spec":{"nodeName":"a"}}`
		if err := request.send(); err != nil {
			t.Errorf("%s: %v", request.name, err)
		}
		if got := server.take(); got != request.want {
			t.Errorf("%s: the request is\n%s\nwant\n%s", request.name, got, request.want)
		}
		server.code, server.body = http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"message":"later"}`
		if err := request.send(); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: error %v, want TooManyRequests", request.name, err)
		}
		if got := server.take(); got != request.want {
			t.Errorf("%s, when the API server asks to come back later: the requests are\n%s\nwant one", request.name, got)
		}
	}
	if node != "" {
		t.Errorf("without an answer the pod is on node %q", node)
	}
	for _, answer := range []struct{ body, node, wrong string }{
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u1"},"spec":{"nodeName":"a"}}`, "a", ""},
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u1"}}`, "", ""},
		{`{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u2"},"spec":{"nodeName":"a"}}`, "", `read the node of ns/p1: pods "p1" not found`},
		{`{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"a"}}`, "", "read the node of ns/p1: the API server answered with something that is no pod"},
	} {
		server.code, server.body = http.StatusOK, answer.body
		node, err := w.NodeOf(t.Context(), pod)
		if said := fmt.Sprint(err); node != answer.node || (err == nil) != (answer.wrong == "") || err != nil && said != answer.wrong {
			t.Errorf("answer %s: node %q, error %v; want %q and %q", answer.body, node, err, answer.node, answer.wrong)
		}
		if gone := answer.wrong != "" && strings.HasSuffix(answer.wrong, "not found"); apierrors.IsNotFound(err) != gone {
			t.Errorf("answer %s: the error is that the pod is gone: %t", answer.body, !gone)
		}
	}
}

// TestOnlyUnfinishedPodsAreWatched checks the selector of an informer of pods, and that
// it has no index.
func TestOnlyUnfinishedPodsAreWatched(t *testing.T) {
	asked := make(chan string, 10)
	server := newWatchServer()
	_, client := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.URL.Query().Get("fieldSelector")
		server.ServeHTTP(w, r)
	}), ClientConfig{ContentType: "application/json"})
	server.lists = oneOfEach()
	w := watchInto(t, noSink{}, client, model.PodKind)
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := next(t, asked), "/api/v1/pods status.phase!=Succeeded,status.phase!=Failed"; got != want {
		t.Errorf("the watch asks for %q, want %q", got, want)
	}
	if indexers := w.informers[model.PodKind].GetIndexer().GetIndexers(); len(indexers) > 0 {
		t.Errorf("pods have %d indexes", len(indexers))
	}
}

// TestKnown lists the pods and nodes of a watch.
func TestKnown(t *testing.T) {
	server := newWatchServer()
	server.lists = oneOfEach()
	w, _ := startWatch(t, server, model.PodKind, model.NodeKind, model.ServiceKind)
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	pods, nodes := w.Known()
	if len(pods) != 1 || pods[0].Name != "p" || len(nodes) != 1 || nodes[0].Name != "n" {
		t.Errorf("known are pods %v and nodes %v", pods, nodes)
	}
}

// Errors of a client, a watch or an election name the failed operation.
func TestWhatIsImpossibleIsSaid(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	access, client := reach(t, ClientConfig{Master: "http://127.0.0.1:1"})
	ended := Informers(client, nil)
	ended.Core().V1().Nodes().Informer()
	ended.Resource().V1().DeviceClasses().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	ended.StartWithContext(ctx)
	cancel()
	ended.Shutdown()
	for want, try := range map[string]func() error{
		"no kubeconfig: set --kubeconfig, or run in a pod with a service account: ": func() error {
			_, err := Access(ClientConfig{})
			return err
		},
		"load the kubeconfig: ": func() error {
			_, err := Access(ClientConfig{Kubeconfig: "does-not-exist"})
			return err
		},
		"build a client for http://a b: ": func() error {
			_, err := Connect(&rest.Config{Host: "http://a b"})
			return err
		},
		"build a client for 127.0.0.1: ": func() error {
			_, err := Connect(&rest.Config{Host: "127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAFile: "does-not-exist"}})
			return err
		},
		"build a client for the lease: ": func() error {
			_, err := NewElection(ElectionConfig{Access: &rest.Config{Host: "http://a b"}, Client: client, Rules: rules(longDeadline)})
			return err
		},
		"prepare the lease kube-system/berth: ": func() error {
			impossible := rules(longDeadline)
			impossible.ResourceLock = "stones"
			_, err := NewElection(ElectionConfig{Access: access, Client: client, Rules: impossible})
			return err
		},
		"leaderElection: ": func() error {
			impossible := rules(longDeadline)
			impossible.LeaseDuration = impossible.RenewDeadline
			_, err := NewElection(ElectionConfig{Access: access, Client: client, Rules: impossible})
			return err
		},
		"set up the watch of nodes: ": func() error {
			_, err := NewWatch(client, noSink{}, []model.Kind{model.NodeKind}, nil, Through(ended))
			return err
		},
		"set up the watch of resource.k8s.io/DeviceClass: ": func() error {
			_, err := NewWatch(client, noSink{}, nil, nil, Through(ended), Others([]string{"resource.k8s.io/DeviceClass"}, make(raisedTo)))
			return err
		},
		"wait for the first list of the cluster's objects: ": func() error {
			w, err := NewWatch(client, noSink{}, []model.Kind{model.NodeKind}, nil)
			if err != nil {
				return err
			}
			return w.Sync(ctx)
		},
	} {
		err := try()
		if cause := errors.Unwrap(err); cause == nil || err.Error() != want+cause.Error() {
			t.Errorf("error %v, want %sand why", err, want)
		}
	}
}

// TestStopWaits stops a watch. Its informers have then ended, and its suppressed log
// messages are written. Shared informers continue.
func TestStopWaits(t *testing.T) {
	for _, shared := range []bool{false, true} {
		server := &otherServer{ghosts: make(chan struct{})}
		listening := httptest.NewServer(server)
		t.Cleanup(listening.Close)
		client := connect(t, ClientConfig{Master: listening.URL, ContentType: "application/json"})
		options := []WatchOption{Others([]string{"quotas.v1.example.com"}, make(raisedTo, 1))}
		theirs, end := context.WithCancel(context.Background())
		if shared {
			factory := Informers(client, nil)
			factory.Core().V1().Nodes().Informer()
			factory.StartWithContext(theirs)
			t.Cleanup(func() { end(); factory.Shutdown() })
			options = append(options, Through(factory))
		}
		w, err := NewWatch(client, noSink{}, []model.Kind{model.NodeKind}, nil, options...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.Start(ctx)
		flushed, flush := 0, w.flush
		w.flush = func() { flushed++; flush() }
		cancel()
		w.Stop()
		if flushed != 1 || !w.others[0].IsStopped() || w.informers[model.NodeKind].IsStopped() == shared {
			t.Errorf("shared: %t; after Stop the log was flushed %d times, the informer of quotas has stopped: %t, that of nodes: %t",
				shared, flushed, w.others[0].IsStopped(), w.informers[model.NodeKind].IsStopped())
		}
		end()
	}
}
