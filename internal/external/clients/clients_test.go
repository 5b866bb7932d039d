package clients

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/kube"
)

// server is an API server with one pod and one node. Its watches deliver nothing.
type server struct {
	mu     sync.Mutex
	lists  []string // resource and field selector of each list
	events []eventsv1.Event
	hold   chan struct{} // lists wait until it is closed
	// devices are the served resources of resource.k8s.io; devicesError is the status of
	// the discovery request, if not 0.
	devices      []string
	devicesError int
}

// serveDevices answers requests for resource.k8s.io like an API server that serves some
// of it.
func (s *server) serveDevices(w http.ResponseWriter, resource string) {
	if s.devicesError != 0 {
		w.WriteHeader(s.devicesError)
		return
	}
	if resource != "v1" || len(s.devices) == 0 {
		http.NotFound(w, nil)
		return
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "resource.k8s.io/v1"}
	for _, kind := range s.devices {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&list)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	query := r.URL.Query()
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/resource.k8s.io/"):
		s.serveDevices(w, resource)
	case r.Method == http.MethodPost:
		var event eventsv1.Event
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &event); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.events = append(s.events, event)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	case query.Get("sendInitialEvents") != "":
		http.Error(w, "lists only", http.StatusBadRequest)
	case query.Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		<-s.hold
		s.mu.Lock()
		s.lists = append(s.lists, strings.TrimSuffix(resource+" "+query.Get("fieldSelector"), " "))
		s.mu.Unlock()
		meta := metav1.ObjectMeta{
			Name: "one", Namespace: "ns", ResourceVersion: "1", Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}
		var list any = v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.Node{{ObjectMeta: meta}}}
		if resource == "pods" {
			list = v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []v1.Pod{{ObjectMeta: meta}}}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (s *server) did() (lists []string, events []eventsv1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.lists)), slices.Clone(s.events)
}

// connected returns clients of a server.
func connected(t *testing.T, ctx context.Context, s *server) *Clients {
	t.Helper()
	if s.hold == nil {
		s.hold = make(chan struct{})
		close(s.hold)
	}
	api := httptest.NewServer(s)
	t.Cleanup(func() { api.CloseClientConnections(); api.Close() })
	access := &rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	client, err := kube.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(ctx, access, client.Interface, kube.Informers(client, nil))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits for a condition that other goroutines fulfil.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// unfinished selects the pods that kube-scheduler lists.
const unfinished = "status.phase!=Succeeded,status.phase!=Failed"

// Besides pods, which the scheduler's own watch needs, only the kinds that a plugin
// requests are listed. Pods are listed as in kube-scheduler, however the informer was
// requested.
func TestInformers(t *testing.T) {
	pods, nodes := v1.SchemeGroupVersion.WithResource("pods"), v1.SchemeGroupVersion.WithResource("nodes")
	for name, test := range map[string]struct {
		ask  func(c *Clients)
		want []string
	}{
		"nothing":        {func(*Clients) {}, []string{"pods " + unfinished}},
		"pods":           {func(c *Clients) { c.Informers.Core().V1().Pods().Informer() }, []string{"pods " + unfinished}},
		"pods, lister":   {func(c *Clients) { c.Informers.Core().V1().Pods().Lister() }, []string{"pods " + unfinished}},
		"pods, generic":  {func(c *Clients) { _, _ = c.Informers.ForResource(pods) }, []string{"pods " + unfinished}},
		"nodes":          {func(c *Clients) { c.Informers.Core().V1().Nodes().Informer() }, []string{"nodes", "pods " + unfinished}},
		"nodes, generic": {func(c *Clients) { _, _ = c.Informers.ForResource(nodes) }, []string{"nodes", "pods " + unfinished}},
		"pods and nodes": {func(c *Clients) {
			c.Informers.Core().V1().Pods().Informer()
			c.Informers.Core().V1().Nodes().Informer()
		}, []string{"nodes", "pods " + unfinished}},
		"nodes, by name": {func(c *Clients) {
			c.Dynamic.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).Informer()
		}, []string{"nodes", "pods " + unfinished}},
		"pods, twice": {func(c *Clients) { c.Informers.Core().V1().Pods().Informer(); c.Informers.Core().V1().Pods().Lister() }, []string{"pods " + unfinished}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &server{}
			c := connected(t, ctx, s)
			test.ask(c)
			c.Start(ctx)
			if err := c.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			if lists, _ := s.did(); !slices.Equal(lists, test.want) {
				t.Errorf("listed %q, want %q", lists, test.want)
			}
			cancel()
			c.Stop()
		})
	}
}

func TestObjectsAreWholeButForManagedFields(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := connected(t, ctx, &server{})
	pods, nodes := c.Informers.Core().V1().Pods().Lister(), c.Informers.Core().V1().Nodes().Lister()
	c.Start(ctx)
	if err := c.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	inNamespace, err := pods.Pods("ns").List(labels.Everything())
	if err != nil || len(inNamespace) != 1 {
		t.Fatalf("%d pods, %v", len(inNamespace), err)
	}
	node, err := nodes.Get("one")
	if err != nil {
		node, err = nodes.Get("ns/one")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, meta := range []metav1.ObjectMeta{inNamespace[0].ObjectMeta, node.ObjectMeta} {
		if meta.Annotations["a"] != "b" || meta.ManagedFields != nil {
			t.Errorf("metadata is %+v", meta)
		}
	}
	cancel()
	c.Stop()
}

// Sync waits for a slow list, and ends with the context.
func TestSyncEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &server{hold: make(chan struct{})}
	c := connected(t, ctx, s)
	c.Informers.Core().V1().Nodes().Informer()
	c.Start(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Sync(ctx) }()
	select {
	case err := <-done:
		t.Fatalf("Sync returned %v before the list", err)
	case <-time.After(200 * time.Millisecond):
	}
	cancel(context.DeadlineExceeded)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "first list") || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("the error is %v", err)
	}
	close(s.hold)
	c.Stop()
}

// Sync does not wait for devices that the API server does not serve. It waits for all
// others, although their lists fail here.
func TestSyncWithoutDevices(t *testing.T) {
	claims := schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}
	typed := func(c *Clients) { c.Informers.Resource().V1().ResourceClaims().Informer() }
	for name, row := range map[string]struct {
		server *server
		ask    func(c *Clients)
		waits  bool
	}{
		"none is served":          {&server{}, typed, false},
		"another kind is served":  {&server{devices: []string{"ResourceSlice"}}, typed, false},
		"it is served":            {&server{devices: []string{"ResourceSlice", "ResourceClaim"}}, typed, true},
		"nobody says":             {&server{devicesError: http.StatusInternalServerError}, typed, true},
		"none, by name":           {&server{}, func(c *Clients) { c.Dynamic.ForResource(claims).Informer() }, false},
		"it is served, by name":   {&server{devices: []string{"ResourceClaim"}}, func(c *Clients) { c.Dynamic.ForResource(claims).Informer() }, true},
		"another kind of objects": {&server{hold: make(chan struct{})}, func(c *Clients) { c.Informers.Core().V1().Nodes().Informer() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hold := row.server.hold
			c := connected(t, ctx, row.server)
			row.ask(c)
			c.Start(ctx)
			short, end := context.WithTimeout(ctx, time.Minute)
			defer end()
			if row.waits {
				short, end = context.WithTimeout(ctx, 300*time.Millisecond)
				defer end()
			}
			if err := c.Sync(short); (err != nil) != row.waits {
				t.Errorf("Sync: %v", err)
			}
			if hold != nil {
				close(hold)
			}
			cancel()
			c.Stop()
		})
	}
}

func TestRecorder(t *testing.T) {
	s := &server{}
	c := connected(t, t.Context(), s)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	c.Recorder("mine").Eventf(pod, nil, v1.EventTypeNormal, "Because", "Doing", "with %d", 3)
	c.Recorder("other").Eventf(pod, nil, v1.EventTypeWarning, "Because", "Doing", "with %d", 3)
	var events []eventsv1.Event
	eventually(t, "two events", func() bool { _, events = s.did(); return len(events) == 2 })
	var got []string
	for _, e := range events {
		got = append(got, strings.Join([]string{e.ReportingController, e.Type, e.Reason, e.Action, e.Note, e.Regarding.Name, string(e.Regarding.UID)}, " "))
	}
	slices.Sort(got)
	if want := []string{"mine Normal Because Doing with 3 p u", "other Warning Because Doing with 3 p u"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Stop()
}

// After Stop all goroutines have ended, and later calls of a plugin do no harm.
func TestStop(t *testing.T) {
	api := &server{}
	warm := connected(t, t.Context(), api) // client-go's goroutines of the process
	warm.Stop()
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		c := connected(t, ctx, &server{})
		c.Informers.Core().V1().Pods().Informer()
		c.Start(ctx)
		if err := c.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		recorder := c.Recorder("mine")
		cancel()
		c.Stop()
		c.Stop()
		recorder.Eventf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late"}}, nil, v1.EventTypeNormal, "Because", "Doing", "late")
		c.Informers.Core().V1().Services().Informer()
		c.Start(t.Context())
		api, ok := c.ClientSet.CoreV1().RESTClient().(*rest.RESTClient)
		if !ok {
			t.Fatal("not a REST client")
		}
		api.Client.CloseIdleConnections()
	}
	// The servers of the test keep one goroutine each.
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before+2*20+5 })
}
