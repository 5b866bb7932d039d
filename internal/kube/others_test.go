package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// raisedTo receives changes.
type raisedTo chan string

func (r raisedTo) Raise(object types.NamespacedName, change model.OtherChange) {
	in := func(object any) string {
		switch o := object.(type) {
		case nil:
			return "-"
		case *unstructured.Unstructured:
			amount, _, _ := unstructured.NestedString(o.Object, "spec", "amount")
			return fmt.Sprint(amount, len(o.GetManagedFields()))
		case *resourcev1.ResourceClaim:
			return fmt.Sprint("claim", o.ResourceVersion, len(o.ManagedFields))
		}
		return fmt.Sprintf("%T", object)
	}
	r <- fmt.Sprintf("%s %s %s>%s", change.Resource, object, in(change.Old), in(change.New))
}

// otherServer serves only quotas and claims. Tests write the events of its watches.
type otherServer struct {
	events map[string]chan string // by resource: watch events as JSON
	ghosts chan struct{}          // closed at the first request for a missing resource
	once   sync.Once
}

func (s *otherServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	list := map[string]string{
		"/apis/example.com/v1/quotas":             `{"apiVersion":"example.com/v1","kind":"QuotaList","metadata":{"resourceVersion":"5"},"items":[` + quota("a", "1") + `]}`,
		"/apis/resource.k8s.io/v1/resourceclaims": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimList","metadata":{"resourceVersion":"5"}}`,
	}[r.URL.Path]
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	switch {
	case list == "":
		s.once.Do(func() { close(s.ghosts) })
		http.NotFound(w, r)
	case r.URL.Query().Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity)
		status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
		_ = json.NewEncoder(w).Encode(status)
	case r.URL.Query().Get("watch") == "":
		fmt.Fprintln(w, list)
	default:
		w.(http.Flusher).Flush()
		for {
			select {
			case event := <-s.events[resource]:
				fmt.Fprintln(w, event)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func quota(name, amount string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Quota","metadata":{"namespace":"ns","name":%q,"resourceVersion":"1%s","managedFields":[{"manager":"m"}]},"spec":{"amount":%q}}`,
		name, amount, amount)
}

// noSink is for watches of no kind that scheduling reads.
type noSink struct{}

func (noSink) Set(kinds.Object) {}
func (noSink) Remove(model.Ref) {}

// TestOthers watches custom resources and claims next to a resource that the server
// lacks. Additions, updates and deletions are passed on with both versions, and the watch
// is not blocked.
//
// In the hour after the last change, nothing is passed on.
func TestOthers(t *testing.T) { synctest.Test(t, othersArePassedOn) }

func othersArePassedOn(t *testing.T) {
	server := &otherServer{events: map[string]chan string{"quotas": make(chan string), "resourceclaims": make(chan string)}, ghosts: make(chan struct{})}
	_, client := inMemory(t, server, ClientConfig{ContentType: runtime.ContentTypeJSON})
	raised := make(raisedTo, 10)
	names := []string{"quotas.v1.example.com", "resource.k8s.io/ResourceClaim", "ghosts.v1.example.com", "quotas.v1.example.com", "nonsense", "scheduling.k8s.io/PodGroup"}
	w, err := NewWatch(client, noSink{}, nil, nil, Others(names, raised))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.Start(ctx)
	t.Cleanup(func() { cancel(); w.Stop() })
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-raised:
			if got != want {
				t.Fatalf("raised %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("nothing was raised, want %q", want)
		}
	}
	expect("quotas.v1.example.com ns/a ->10")
	server.events["quotas"] <- `{"type":"MODIFIED","object":` + quota("a", "2") + `}`
	expect("quotas.v1.example.com ns/a 10>20")
	server.events["quotas"] <- `{"type":"DELETED","object":` + quota("a", "2") + `}`
	expect("quotas.v1.example.com ns/a 20>-")
	claim := `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"namespace":"ns","name":"c","resourceVersion":"9","managedFields":[{"manager":"m"}]}}`
	server.events["resourceclaims"] <- `{"type":"ADDED","object":` + claim + `}`
	expect("resource.k8s.io/ResourceClaim ns/c ->claim90")
	select { // the watches begin in any order
	case <-server.ghosts:
	case <-time.After(patience):
		t.Error("the resource that the server does not have was not asked for")
	}
	if n := len(w.others); n != 2 {
		t.Errorf("there are %d informers of custom resources, want one of quotas and one of ghosts", n)
	}
	time.Sleep(time.Hour)
	if n := len(raised); n != 0 {
		t.Errorf("then %d more changes were passed on", n)
	}
}

// TestRaising delivers all kinds of informer events.
func TestRaising(t *testing.T) {
	claim := func(version string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", ResourceVersion: version}}
	}
	for _, test := range []struct {
		name     string
		delivers func(cache.ResourceEventHandler)
		want     string
	}{
		{"an addition", func(h cache.ResourceEventHandler) { h.OnAdd(claim("1"), false) }, "claims ns/c ->claim10"},
		{"a version", func(h cache.ResourceEventHandler) { h.OnUpdate(claim("1"), claim("2")) }, "claims ns/c claim10>claim20"},
		{"a deletion", func(h cache.ResourceEventHandler) { h.OnDelete(claim("2")) }, "claims ns/c claim20>-"},
		{"a deletion that was missed", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/c", Obj: claim("1")})
		}, "claims ns/c claim10>-"},
		{"one of which only the key is known", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/c"})
		}, ""},
		{"no object", func(h cache.ResourceEventHandler) { h.OnAdd("c", false) }, ""},
	} {
		raised := make(raisedTo, 10)
		test.delivers(raising("claims", raised))
		close(raised)
		var got []string
		for what := range raised {
			got = append(got, what)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%s: raised %q, want %q", test.name, got, test.want)
		}
	}
}

// TestWhichOthersAreAskedFor names all other resources that can be watched, and some that
// cannot.
func TestWhichOthersAreAskedFor(t *testing.T) {
	server := &otherServer{ghosts: make(chan struct{})}
	asked := make(chan string, 100)
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(listening.Close)
	names := []string{
		"resource.k8s.io/ResourceClaim", "resource.k8s.io/ResourceSlice", "resource.k8s.io/DeviceClass", "scheduling.k8s.io/PodGroup", "scheduling.k8s.io/CompositePodGroup",
		"bars.v2.sub.example.com",
	}
	w, err := NewWatch(connect(t, ClientConfig{Master: listening.URL, ContentType: runtime.ContentTypeJSON}), noSink{}, nil, nil, Others(names, make(raisedTo)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.Start(ctx)
	t.Cleanup(func() { cancel(); w.Stop() })
	wanted := map[string]bool{
		"/apis/resource.k8s.io/v1/resourceclaims": true, "/apis/resource.k8s.io/v1/resourceslices": true, "/apis/resource.k8s.io/v1/deviceclasses": true,
		"/apis/sub.example.com/v2/bars": true,
	}
	for missing := len(wanted); missing > 0; {
		path := next(t, asked)
		first, known := wanted[path]
		if !known {
			t.Fatalf("%s was asked for", path)
		}
		if first {
			missing--
		}
		wanted[path] = false
	}
	for _, name := range names {
		if err := CheckOther(name); err != nil {
			t.Error(err)
		}
	}
}

// TestCheckOther checks names of resources. A $ marks the end of a message.
func TestCheckOther(t *testing.T) {
	for name, want := range map[string]string{
		"foos.v1.example.com": "", "foos.v1.example": "", "bars.v1beta1.a.b.c": "", "resource.k8s.io/ResourceSlice": "", "resource.k8s.io/DeviceClass": "", "scheduling.k8s.io/PodGroup": "",
		"foos.v1":     `resource "foos.v1" of an event: must be a resource that kube-scheduler knows, or <plural>.<version>.<group> as in foos.v1.example.com$`,
		"Foo":         "must be a resource",
		"":            "must be a resource",
		"a.b/c.d.e":   "must be a resource",
		"foos..x.com": `resource "foos..x.com" of an event: must have no empty part between dots, as in foos.v1.example.com$`,
	} {
		err := CheckOther(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error()+"$", want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// TestWholeWatch watches pods and nodes whole, through informers that a plugin shares.
// The plugin gets the sink's objects, with annotations and without managedFields, and a
// new version if only an annotation changes.
func TestWholeWatch(t *testing.T) {
	s := newWatchServer()
	pod := func(n int, note string) *v1.Pod {
		p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: named("p", n)}
		p.Annotations, p.ManagedFields = map[string]string{"note": note}, []metav1.ManagedFieldsEntry{{Manager: "m"}}
		return p
	}
	s.lists["pods"] = []runtime.Object{pod(1, "first")}
	s.lists["nodes"] = []runtime.Object{&v1.Node{ObjectMeta: global("n", 2), Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Address: "192.0.2.7"}}}}}
	client := s.client(t)
	factory := Informers(client, nil)
	shared := factory.Core().V1().Pods()
	sink := objects{make(chan kinds.Object, 10)}
	w, err := NewWatch(client, sink, []model.Kind{model.PodKind, model.NodeKind}, nil, Through(factory), Whole())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.Start(ctx)
	t.Cleanup(func() { cancel(); w.Stop() })
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		switch o := sink.next(t).(type) {
		case *v1.Node:
			got = append(got, o.Status.Addresses[0].Address)
		case *v1.Pod:
			got = append(got, fmt.Sprint(o.Annotations["note"], o.ManagedFields))
		}
	}
	if slices.Sort(got); !slices.Equal(got, []string{"192.0.2.7", "first[]"}) {
		t.Errorf("the sink got %q", got)
	}
	s.events["pods"] <- metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Object: pod(103, "second")}}
	last := sink.next(t).(*v1.Pod)
	held, err := shared.Lister().Pods("ns").Get("p")
	if err != nil || last.Annotations["note"] != "second" || held != last {
		t.Errorf("after the annotation changed the sink got %v, and a plugin %v (%v)", last.Annotations, held, err)
	}
}

type objects struct{ got chan kinds.Object }

func (o objects) Set(object kinds.Object) { o.got <- object }
func (objects) Remove(model.Ref)          {}

// next returns the sink's next object.
func (o objects) next(t *testing.T) kinds.Object {
	t.Helper()
	select {
	case object := <-o.got:
		return object
	case <-time.After(patience):
		t.Fatal("the sink got nothing")
		return nil
	}
}

// A plugin's factory may start the shared informers and wait for them before the watch
// exists. The watch still gets their objects, and a newly decoded version is not stored
// twice.
func TestPluginStartsInformers(t *testing.T) {
	s := newWatchServer()
	node := &v1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: global("n", 2)}
	s.lists["pods"], s.lists["nodes"] = []runtime.Object{}, []runtime.Object{node}
	client := s.client(t)
	factory := Informers(client, nil)
	nodes := factory.Core().V1().Nodes()
	nodes.Informer()
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	factory.WaitForCacheSync(ctx.Done())
	before, err := nodes.Lister().Get("n")
	if err != nil {
		t.Fatal(err)
	}
	sink := objects{make(chan kinds.Object, 10)}
	w, err := NewWatch(client, sink, []model.Kind{model.PodKind, model.NodeKind}, nil, Through(factory), Whole())
	if err != nil {
		t.Fatal(err)
	}
	w.Start(ctx)
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if got := sink.next(t); got != before {
		t.Errorf("the sink got another object than the plugin has: %v", got)
	}
	other := &v1.Node{TypeMeta: node.TypeMeta, ObjectMeta: global("later", 103)}
	s.events["nodes"] <- metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Object: node}}
	s.events["nodes"] <- metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: other}}
	if got := sink.next(t); got.GetName() != "later" {
		t.Errorf("the sink got %v", got)
	}
	if after, err := nodes.Lister().Get("n"); err != nil || after != before {
		t.Errorf("the informer holds a second object of the same version; error %v", err)
	}
}
