package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// watchServer implements the part of the API that informers need. Every kind has one
// list, and any number of events after it.
type watchServer struct {
	// held is the resource whose list is answered only after release is closed.
	held    string
	release chan struct{}
	events  map[string]chan metav1.WatchEvent // by resource

	mu    sync.Mutex
	lists map[string][]runtime.Object
	asked []string
}

func newWatchServer() *watchServer {
	s := &watchServer{release: make(chan struct{}), events: map[string]chan metav1.WatchEvent{}, lists: map[string][]runtime.Object{}}
	for _, resource := range everyResource {
		s.events[resource] = make(chan metav1.WatchEvent)
	}
	return s
}

var everyResource = []string{
	"csidrivers", "csinodes", "csistoragecapacities", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "poddisruptionbudgets", "pods", "replicasets",
	"replicationcontrollers", "services", "statefulsets", "storageclasses", "volumeattachments",
}

// listOf is the type of a resource's list.
func listOf(resource string) metav1.TypeMeta {
	return map[string]metav1.TypeMeta{
		"namespaces":             {APIVersion: "v1", Kind: "NamespaceList"},
		"nodes":                  {APIVersion: "v1", Kind: "NodeList"},
		"pods":                   {APIVersion: "v1", Kind: "PodList"},
		"replicasets":            {APIVersion: "apps/v1", Kind: "ReplicaSetList"},
		"replicationcontrollers": {APIVersion: "v1", Kind: "ReplicationControllerList"},
		"services":               {APIVersion: "v1", Kind: "ServiceList"},
		"statefulsets":           {APIVersion: "apps/v1", Kind: "StatefulSetList"},
		"persistentvolumes":      {APIVersion: "v1", Kind: "PersistentVolumeList"},
		"persistentvolumeclaims": {APIVersion: "v1", Kind: "PersistentVolumeClaimList"},
		"storageclasses":         {APIVersion: "storage.k8s.io/v1", Kind: "StorageClassList"},
		"csinodes":               {APIVersion: "storage.k8s.io/v1", Kind: "CSINodeList"},
		"csidrivers":             {APIVersion: "storage.k8s.io/v1", Kind: "CSIDriverList"},
		"csistoragecapacities":   {APIVersion: "storage.k8s.io/v1", Kind: "CSIStorageCapacityList"},
		"volumeattachments":      {APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachmentList"},
		"poddisruptionbudgets":   {APIVersion: "policy/v1", Kind: "PodDisruptionBudgetList"},
		"resourceclaims":         {APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaimList"},
		"resourceslices":         {APIVersion: "resource.k8s.io/v1", Kind: "ResourceSliceList"},
		"deviceclasses":          {APIVersion: "resource.k8s.io/v1", Kind: "DeviceClassList"},
		"devicetaintrules":       {APIVersion: "resource.k8s.io/v1", Kind: "DeviceTaintRuleList"},
		"podgroups":              {APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroupList"},
		"compositepodgroups":     {APIVersion: "scheduling.k8s.io/v1alpha3", Kind: "CompositePodGroupList"},
	}[resource]
}

// ServeHTTP answers lists and watches. A server that cannot begin a watch with a list
// returns an error, and then receives a list request.
func (s *watchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := path.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		status := apierrors.NewInvalid(schema.GroupKind{}, resource, nil).Status()
		w.WriteHeader(int(status.Code))
		s.send(w, status)
	case query.Get("watch") != "":
		s.watch(w, r, resource)
	default:
		s.list(w, resource, r.URL.Path)
	}
}

func (s *watchServer) send(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
	w.(http.Flusher).Flush()
}

func (s *watchServer) list(w http.ResponseWriter, resource, path string) {
	s.mu.Lock()
	s.asked = append(s.asked, path)
	items := slices.Clone(s.lists[resource])
	s.mu.Unlock()
	if resource == s.held {
		<-s.release
	}
	if items == nil {
		items = []runtime.Object{}
	}
	s.send(w, struct {
		metav1.TypeMeta
		Metadata metav1.ListMeta  `json:"metadata"`
		Items    []runtime.Object `json:"items"`
	}{listOf(resource), metav1.ListMeta{ResourceVersion: "100"}, items})
}

func (s *watchServer) watch(w http.ResponseWriter, r *http.Request, resource string) {
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-s.events[resource]:
			s.send(w, event)
		case <-r.Context().Done():
			return
		}
	}
}

// notebook is a sink that sends a text for each call to a channel, so that tests can wait
// for it.
type notebook struct{ calls chan string }

func (n notebook) Set(o kinds.Object) {
	ref, ok := kinds.RefOf(o)
	n.calls <- fmt.Sprintf("set %s %t %s", words(ref), ok, o.GetResourceVersion())
}
func (n notebook) Remove(ref model.Ref) { n.calls <- "gone " + words(ref) }

func words(ref model.Ref) string {
	return fmt.Sprint(kinds.Get(ref.Kind).Resource.Resource, " ", ref.Namespace, "/", ref.Name)
}

// expect waits for calls of the sink, in any order.
func (n notebook) expect(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	late := time.After(patience)
	for range want {
		select {
		case what := <-n.calls:
			got = append(got, what)
		case <-late:
			t.Fatalf("called %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the sink was called with (-want +got):\n%s", diff)
	}
}

func startWatch(t *testing.T, s *watchServer, reads ...model.Kind) (*Watch, notebook) {
	t.Helper()
	sink := notebook{make(chan string, 100)}
	return watchInto(t, sink, s.client(t), reads...), sink
}

// client is a client of the server.
func (s *watchServer) client(t *testing.T) *Client {
	t.Helper()
	_, client := inMemory(t, s, ClientConfig{ContentType: runtime.ContentTypeJSON})
	return client
}

// watchInto watches until the test ends.
func watchInto(t testing.TB, sink Sink, client *Client, reads ...model.Kind) *Watch {
	t.Helper()
	w, err := NewWatch(client, sink, reads, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.Start(ctx)
	t.Cleanup(func() {
		cancel()
		w.Stop()
	})
	return w
}

// named is version n of an object.
func named(name string, n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: fmt.Sprint(n)}
}

// global is version n of an object without a namespace.
func global(name string, n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(n)}
}

func oneOfEach() map[string][]runtime.Object {
	return map[string][]runtime.Object{
		"pods":                   {&v1.Pod{ObjectMeta: named("p", 1)}},
		"nodes":                  {&v1.Node{ObjectMeta: global("n", 2)}},
		"namespaces":             {&v1.Namespace{ObjectMeta: global("ns", 3)}},
		"services":               {&v1.Service{ObjectMeta: named("s", 4)}},
		"replicationcontrollers": {&v1.ReplicationController{ObjectMeta: named("c", 5)}},
		"replicasets":            {&appsv1.ReplicaSet{ObjectMeta: named("r", 6)}},
		"statefulsets":           {&appsv1.StatefulSet{ObjectMeta: named("t", 7)}},
		"persistentvolumes":      {&v1.PersistentVolume{ObjectMeta: global("v", 8)}},
		"persistentvolumeclaims": {&v1.PersistentVolumeClaim{ObjectMeta: named("v", 9)}},
		"storageclasses":         {&storagev1.StorageClass{ObjectMeta: global("c", 10)}},
		"csinodes":               {&storagev1.CSINode{ObjectMeta: global("n", 11)}},
		"csidrivers":             {&storagev1.CSIDriver{ObjectMeta: global("d", 12)}},
		"csistoragecapacities":   {&storagev1.CSIStorageCapacity{ObjectMeta: named("c", 13)}},
		"volumeattachments":      {&storagev1.VolumeAttachment{ObjectMeta: global("a", 14)}},
		"poddisruptionbudgets":   {&policyv1.PodDisruptionBudget{ObjectMeta: named("b", 15)}},
		"resourceclaims":         {&resourcev1.ResourceClaim{ObjectMeta: named("c", 16)}},
		"resourceslices":         {&resourcev1.ResourceSlice{ObjectMeta: global("s", 17)}},
		"deviceclasses":          {&resourcev1.DeviceClass{ObjectMeta: global("c", 18)}},
		"devicetaintrules":       {&resourcev1.DeviceTaintRule{ObjectMeta: global("r", 19)}},
		"podgroups":              {&schedulingv1beta1.PodGroup{ObjectMeta: named("g", 20)}},
		"compositepodgroups":     {&schedulingv1alpha3.CompositePodGroup{ObjectMeta: named("g", 21)}},
	}
}

// everyKind returns every kind of the table.
func everyKind() []model.Kind {
	var all []model.Kind
	for kind := range model.KindCount {
		all = append(all, kind)
	}
	return all
}

// pathOf returns the API path of a kind.
func pathOf(kind model.Kind) string {
	resource := kinds.Get(kind).Resource
	if resource.Group == "" {
		return "/api/" + resource.Version + "/" + resource.Resource
	}
	return "/apis/" + resource.Group + "/" + resource.Version + "/" + resource.Resource
}

// TestOnlyWhatIsReadIsWatched lists one object of each kind, and expects no request for
// other kinds.
func TestOnlyWhatIsReadIsWatched(t *testing.T) {
	wanted := map[model.Kind]string{
		model.PodKind: "set pods ns/p true 1", model.NodeKind: "set nodes /n true 2", model.NamespaceKind: "set namespaces /ns true 3",
		model.ServiceKind: "set services ns/s true 4", model.ReplicationControllerKind: "set replicationcontrollers ns/c true 5",
		model.ReplicaSetKind: "set replicasets ns/r true 6", model.StatefulSetKind: "set statefulsets ns/t true 7",
		model.PersistentVolumeKind: "set persistentvolumes /v true 8", model.PersistentVolumeClaimKind: "set persistentvolumeclaims ns/v true 9",
		model.StorageClassKind: "set storageclasses /c true 10", model.CSINodeKind: "set csinodes /n true 11",
		model.CSIDriverKind: "set csidrivers /d true 12", model.CSIStorageCapacityKind: "set csistoragecapacities ns/c true 13",
		model.VolumeAttachmentKind: "set volumeattachments /a true 14", model.PodDisruptionBudgetKind: "set poddisruptionbudgets ns/b true 15",
		model.ResourceClaimKind: "set resourceclaims ns/c true 16", model.ResourceSliceKind: "set resourceslices /s true 17",
		model.DeviceClassKind: "set deviceclasses /c true 18", model.DeviceTaintRuleKind: "set devicetaintrules /r true 19",
		model.PodGroupKind: "set podgroups ns/g true 20", model.CompositePodGroupKind: "set compositepodgroups ns/g true 21",
	}
	for _, reads := range [][]model.Kind{
		{model.PodKind, model.NodeKind}, {model.PodKind, model.NodeKind, model.NamespaceKind}, {model.PodKind, model.NodeKind, model.StatefulSetKind},
		everyKind(),
	} {
		synctest.Test(t, func(t *testing.T) {
			server := newWatchServer()
			server.lists = oneOfEach()
			w, sink := startWatch(t, server, reads...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := w.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			var want, asked []string
			for _, kind := range reads {
				want, asked = append(want, wanted[kind]), append(asked, pathOf(kind))
			}
			if slices.Contains(reads, model.ResourceClaimKind) {
				asked = append(asked, "/apis/resource.k8s.io/v1") // the discovery request
			}
			sink.expect(t, want...)
			if want, got := (Counts{Pods: 1, Nodes: 1, Others: len(reads) - 2}), w.Counts(); got != want {
				t.Errorf("%v: counts %+v, want %+v", reads, got, want)
			}
			slices.Sort(asked)
			server.mu.Lock()
			slices.Sort(server.asked)
			if diff := cmp.Diff(asked, slices.Compact(server.asked)); diff != "" {
				t.Errorf("%v: asked for (-want +got):\n%s", reads, diff)
			}
			server.mu.Unlock()
		})
	}
}

// resynced counts the updates that an informer delivers.
type resynced struct{ updates atomic.Int32 }

func (*resynced) OnAdd(any, bool)     {}
func (r *resynced) OnUpdate(_, _ any) { r.updates.Add(1) }
func (*resynced) OnDelete(any)        {}

// TestNothingIsDeliveredAgain waits an hour without changes. Informers do not resync,
// which would take time for each object.
func TestNothingIsDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newWatchServer()
		server.lists = oneOfEach()
		w, _ := startWatch(t, server, everyKind()...)
		again := &resynced{}
		for _, informer := range w.informers {
			if _, err := informer.AddEventHandler(again); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if n := again.updates.Load(); n != 0 {
			t.Errorf("%d updates were delivered", n)
		}
	})
}

// TestSyncWaitsForEveryKind delays the list of one kind.
func TestSyncWaitsForEveryKind(t *testing.T) {
	for _, held := range everyResource {
		t.Run(held, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newWatchServer()
				server.held = held
				w, _ := startWatch(t, server, everyKind()...)
				short, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := w.Sync(short); err == nil || !strings.Contains(err.Error(), "first list of the cluster's objects") {
					t.Errorf("without the list of %s, Sync ends with %v", held, err)
				}
				close(server.release)
				long, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := w.Sync(long); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestOnlyWhatMattersIsPassedOn changes fields of an object that scheduling reads, and
// others.
func TestOnlyWhatMattersIsPassedOn(t *testing.T) {
	replicaSet := func(n int, app string, replicas int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: named("r", n),
			Spec:   appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status: appsv1.ReplicaSetStatus{Replicas: replicas},
		}
	}
	namespace := func(n int, team string) *v1.Namespace {
		return &v1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: fmt.Sprint(n), Labels: map[string]string{"team": team}},
			Status:     v1.NamespaceStatus{Phase: v1.NamespaceActive},
		}
	}
	again := func(n *v1.Namespace) *v1.Namespace {
		n.UID = "another"
		return n
	}
	pod := func(n int, scheduler, node string) *v1.Pod {
		return &v1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: named("p", n), Spec: v1.PodSpec{SchedulerName: scheduler, NodeName: node},
		}
	}
	server := newWatchServer()
	_, sink := startWatch(t, server, everyKind()...)
	for _, step := range []struct {
		resource, event string
		object          runtime.Object
		calls           []string
	}{
		{"replicasets", "ADDED", replicaSet(101, "web", 0), []string{"set replicasets ns/r true 101"}},
		{"replicasets", "MODIFIED", replicaSet(102, "web", 3), nil},
		{"replicasets", "MODIFIED", replicaSet(103, "db", 3), []string{"set replicasets ns/r true 103"}},
		{"replicasets", "DELETED", replicaSet(104, "db", 0), []string{"gone replicasets ns/r"}},
		{"namespaces", "ADDED", namespace(101, "x"), []string{"set namespaces /ns true 101"}},
		{"namespaces", "MODIFIED", namespace(102, "x"), nil},
		{"namespaces", "MODIFIED", namespace(103, "y"), []string{"set namespaces /ns true 103"}},
		// After a broken watch, a recreated namespace may appear as a change of the
		// deleted one.
		{"namespaces", "MODIFIED", again(namespace(104, "y")), []string{"gone namespaces /ns", "set namespaces /ns true 104"}},
		{"pods", "ADDED", pod(101, "theirs", ""), []string{"set pods ns/p true 101"}},
		{"pods", "MODIFIED", pod(102, "theirs", "n"), []string{"set pods ns/p true 102"}},
		{"pods", "MODIFIED", pod(103, "theirs", "m"), []string{"set pods ns/p true 103"}},
		// The sink ignores pending pods of other schedulers, so the end of the pod that
		// it has must be passed on first.
		{"pods", "MODIFIED", pod(104, "theirs", ""), []string{"gone pods ns/p", "set pods ns/p true 104"}},
		{"pods", "MODIFIED", pod(105, "ours", ""), []string{"gone pods ns/p", "set pods ns/p true 105"}},
		{"pods", "MODIFIED", pod(106, "theirs", ""), []string{"gone pods ns/p", "set pods ns/p true 106"}},
	} {
		select {
		case server.events[step.resource] <- metav1.WatchEvent{Type: step.event, Object: runtime.RawExtension{Object: step.object}}:
		case <-time.After(patience):
			t.Fatalf("there is no watch of %s", step.resource)
		}
		// A call that is missing here fails the next step, which expects other calls.
		sink.expect(t, step.calls...)
	}
}
