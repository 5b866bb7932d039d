package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// restartingServer is an API server that forgets its watches on request, like a restarted
// API server, so that clients list again.
type restartingServer struct {
	t testing.TB
	// streams means that watches begin with the list, in protobuf. Otherwise lists and
	// watches are separate, in JSON.
	streams bool

	mu      sync.Mutex
	objects map[string][]kinds.Object // by resource
	forgets chan struct{}             // closed when the watches end
	watched map[string]bool           // resources with an open watch that ends with forgets
}

func (s *restartingServer) now() (objects map[string][]kinds.Object, forgets chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects, s.forgets
}

// restart ends all watches, once each kind has one. New ones begin with these objects. It
// must wait, because a client that has a list and no watch yet would not list again.
func (s *restartingServer) restart(objects map[string][]kinds.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.watched) < int(model.KindCount) {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	close(s.forgets)
	s.objects, s.forgets, s.watched = objects, make(chan struct{}), nil
}

// watches records an open watch that ends with the channel.
func (s *restartingServer) watches(resource string, forgets chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgets != forgets {
		return
	}
	if s.watched == nil {
		s.watched = map[string]bool{}
	}
	s.watched[resource] = true
}

// ServeHTTP answers lists and watches.
func (s *restartingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	objects, forgets := s.now()
	switch {
	case query.Get("watch") == "":
		w.Header().Set("Content-Type", apiruntime.ContentTypeJSON)
		s.write(w, struct {
			metav1.TypeMeta
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []kinds.Object  `json:"items"`
		}{listOf(resource), metav1.ListMeta{ResourceVersion: "100"}, objects[resource]})
		return
	case query.Get("sendInitialEvents") != "" && !s.streams:
		status := apierrors.NewInvalid(schema.GroupKind{}, resource, nil).Status()
		w.Header().Set("Content-Type", apiruntime.ContentTypeJSON)
		w.WriteHeader(int(status.Code))
		s.write(w, status)
		return
	}
	send := s.sender(w)
	if query.Get("sendInitialEvents") != "" {
		for _, o := range objects[resource] {
			send(watch.Added, o)
		}
		send(watch.Bookmark, bookmarkOf(resource))
	}
	w.(http.Flusher).Flush()
	s.watches(resource, forgets)
	select {
	case <-forgets:
		send(watch.Error, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		})
	case <-r.Context().Done():
	}
}

func (s *restartingServer) write(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
	w.(http.Flusher).Flush()
}

// sender returns a function that sends events.
func (s *restartingServer) sender(w http.ResponseWriter) func(watch.EventType, apiruntime.Object) {
	if !s.streams {
		w.Header().Set("Content-Type", apiruntime.ContentTypeJSON)
		return func(kind watch.EventType, o apiruntime.Object) {
			s.write(w, metav1.WatchEvent{Type: string(kind), Object: apiruntime.RawExtension{Object: o}})
		}
	}
	w.Header().Set("Content-Type", apiruntime.ContentTypeProtobuf+";stream=watch")
	frames := build.ProtobufInfo(s.t).StreamSerializer.Framer.NewFrameWriter(w)
	return func(kind watch.EventType, o apiruntime.Object) {
		event := metav1.WatchEvent{Type: string(kind), Object: apiruntime.RawExtension{Raw: build.Protobuf(s.t, o)}}
		if frame, err := event.Marshal(); err == nil {
			_, _ = frames.Write(frame) // the client may be gone
		}
	}
}

// bookmarkOf returns the object that ends the list of a resource.
func bookmarkOf(resource string) apiruntime.Object {
	end := oneOfEach()[resource][0].DeepCopyObject().(kinds.Object)
	end.SetName("")
	end.SetNamespace("")
	end.SetResourceVersion("100")
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return end
}

// cluster returns a number of pods, a tenth as many nodes and five of each other kind. If
// again is not 0, each kind has one more object, which an earlier list lacked.
// ReplicaSets with an odd number then have another version with equal fields for
// scheduling.
func cluster(pods, again int) map[string][]kinds.Object {
	all := map[string][]kinds.Object{}
	namespaced := map[string]bool{}
	for kind := range model.KindCount {
		namespaced[kinds.Get(kind).Resource.Resource] = kinds.Get(kind).Namespaced
	}
	meta := func(resource, name string, version int) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: name, UID: types.UID(resource + name), ResourceVersion: fmt.Sprint(version), Labels: map[string]string{"app": name}}
		if namespaced[resource] {
			m.Namespace = "ns"
		}
		return m
	}
	add := func(resource string, count int, object func(meta metav1.ObjectMeta) kinds.Object) {
		for i := range count {
			version := 1
			if resource == "replicasets" && i%2 == 1 {
				version += again
			}
			all[resource] = append(all[resource], object(meta(resource, fmt.Sprint("o", i), version)))
		}
		if again > 0 {
			all[resource] = append(all[resource], object(meta(resource, fmt.Sprint("new", again), 50)))
		}
	}
	selector := func(m metav1.ObjectMeta) *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: m.Labels} }
	kind := func(version, kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: version, Kind: kind} }
	add("pods", pods, func(m metav1.ObjectMeta) kinds.Object {
		p := runningPod(len(all["pods"]), pods)
		p.TypeMeta = kind("v1", "Pod")
		p.Name, p.UID, p.ResourceVersion = m.Name, m.UID, m.ResourceVersion
		return p
	})
	add("nodes", pods/10, func(m metav1.ObjectMeta) kinds.Object { return &v1.Node{TypeMeta: kind("v1", "Node"), ObjectMeta: m} })
	add("namespaces", 5, func(m metav1.ObjectMeta) kinds.Object {
		return &v1.Namespace{TypeMeta: kind("v1", "Namespace"), ObjectMeta: m}
	})
	add("services", 5, func(m metav1.ObjectMeta) kinds.Object {
		return &v1.Service{TypeMeta: kind("v1", "Service"), ObjectMeta: m, Spec: v1.ServiceSpec{Selector: m.Labels}}
	})
	add("replicationcontrollers", 5, func(m metav1.ObjectMeta) kinds.Object {
		return &v1.ReplicationController{TypeMeta: kind("v1", "ReplicationController"), ObjectMeta: m}
	})
	add("replicasets", 5, func(m metav1.ObjectMeta) kinds.Object {
		return &appsv1.ReplicaSet{TypeMeta: kind("apps/v1", "ReplicaSet"), ObjectMeta: m, Spec: appsv1.ReplicaSetSpec{Selector: selector(m)}}
	})
	add("statefulsets", 5, func(m metav1.ObjectMeta) kinds.Object {
		return &appsv1.StatefulSet{TypeMeta: kind("apps/v1", "StatefulSet"), ObjectMeta: m, Spec: appsv1.StatefulSetSpec{Selector: selector(m)}}
	})
	for resource, samples := range oneOfEach() {
		if all[resource] == nil { // the kinds of storage, whose every version counts
			add(resource, 5, func(m metav1.ObjectMeta) kinds.Object {
				o := samples[0].DeepCopyObject().(kinds.Object)
				list := listOf(resource)
				o.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(list.APIVersion, strings.TrimSuffix(list.Kind, "List")))
				o.SetNamespace(m.Namespace)
				o.SetName(m.Name)
				o.SetUID(m.UID)
				o.SetResourceVersion(m.ResourceVersion)
				return o
			})
		}
	}
	return all
}

// runningPod is the i-th pod of a cluster, as created by a Deployment and updated by a
// kubelet. Deployments have a hundred pods.
func runningPod(i, pods int) *v1.Pod {
	p := fullPod(i)
	set := fmt.Sprint("web-", i/100)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: types.UID(set), Controller: &yes}}
	p.Labels = map[string]string{"app": set, "pod-template-hash": "5d4f8c7b9"}
	p.Spec.NodeName = fmt.Sprint("o", i%max(pods/10, 1))
	p.Status.Phase = v1.PodRunning
	began := metav1.NewTime(time.Unix(1_700_000_000, 0))
	for _, condition := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.PodReady, v1.ContainersReady} {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: began})
	}
	return p
}

// scheduler holds a watch's objects as the running scheduler does, with the last version
// of each object that was passed on.
type scheduler struct {
	*ingest.Ingest
	state *state.State
	watch *Watch
	// arrived receives the references of objects that an earlier list lacked.
	arrived chan model.Ref

	mu     sync.Mutex
	passed map[model.Ref]kinds.Object
}

func (s *scheduler) Set(o kinds.Object) {
	s.Ingest.Set(o)
	ref, _ := kinds.RefOf(o)
	s.mu.Lock()
	if s.passed != nil {
		s.passed[ref] = o
	}
	s.mu.Unlock()
	if o.GetResourceVersion() == "50" {
		s.arrived <- ref
	}
}

// listed waits until each kind was listed again, and applies the changes.
func (s *scheduler) listed() {
	for range model.KindCount {
		<-s.arrived
	}
	s.state.Apply(s.Drain())
}

// watchedBy starts a scheduler's watch of every kind.
func watchedBy(t testing.TB, server *restartingServer) *scheduler {
	t.Helper()
	s := &scheduler{Ingest: ingest.New(nil), state: state.New(), arrived: make(chan model.Ref, 100), passed: map[model.Ref]kinds.Object{}}
	config := ClientConfig{}
	if !server.streams {
		config.ContentType = apiruntime.ContentTypeJSON
	}
	_, client := inMemory(t, server, config)
	s.watch = watchInto(t, s, client, everyKind()...)
	if err := s.watch.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.state.Apply(s.Drain())
	return s
}

// heldOnce checks that the informers hold the same objects as the sink and the state, or
// share the fields that the state keeps.
func (s *scheduler) heldOnce(t *testing.T) {
	t.Helper()
	objects := 0
	for kind, informer := range s.watch.informers {
		for _, o := range informer.GetStore().List() {
			held := o.(kinds.Object)
			ref, _ := kinds.RefOf(held)
			passed := s.passed[ref]
			if same := passed == held || passed != nil && held.GetResourceVersion() != passed.GetResourceVersion() && keptOf(passed) == keptOf(held); !same {
				t.Errorf("%v: version %s is held twice", ref, held.GetResourceVersion())
			}
			if model.Kind(kind) == model.PodKind || model.Kind(kind) == model.NodeKind {
				objects++
			}
		}
	}
	inState := 0
	for slot := range s.state.Slots() {
		for pod := range s.state.PodsOn(int32(slot)) {
			inState++
			if s.passed[pod.Key().Ref()] != kinds.Object(pod.Object) {
				t.Errorf("the state holds another object of pod %s", pod)
			}
		}
		if node := s.state.Node(int32(slot)); s.state.Alive()[slot] {
			inState++
			if s.passed[model.Ref{Kind: model.NodeKind, Name: node.Name()}] != kinds.Object(node.Object()) {
				t.Errorf("the state holds another object of node %s", node.Name())
			}
		}
	}
	if objects != inState {
		t.Errorf("the informers hold %d pods and nodes, the state %d", objects, inState)
	}
}

// keptOf returns the part of a ReplicaSet that the state keeps.
func keptOf(o kinds.Object) any {
	if set, ok := o.(*appsv1.ReplicaSet); ok {
		return set.Spec.Selector
	}
	return nil
}

// TestListedAgainIsHeldOnce restarts an API server, so that all objects are listed again.
// Unchanged objects are still in memory once.
func TestListedAgainIsHeldOnce(t *testing.T) {
	for _, streams := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := &restartingServer{t: t, streams: streams, objects: cluster(300, 0), forgets: make(chan struct{})}
			s := watchedBy(t, server)
			s.heldOnce(t)
			for again := 1; again <= 2; again++ {
				server.restart(cluster(300, again))
				s.listed()
				s.heldOnce(t)
			}
		})
	}
}

// BenchmarkMemoryOfARelist lists 10,000 running pods on 1,000 nodes repeatedly. It
// reports the memory of a pod with all its holders before, and the increase after the
// last list.
func BenchmarkMemoryOfARelist(b *testing.B) {
	const pods = 10_000
	server := &restartingServer{t: b, streams: true, objects: cluster(pods, 0), forgets: make(chan struct{})}
	empty := heap()
	s := watchedBy(b, server)
	s.passed = nil
	before, again := heap(), 0
	b.Run("pods=10000", func(b *testing.B) {
		for range b.N {
			again++
			server.restart(cluster(pods, again))
			s.listed()
		}
		b.StopTimer()
		b.ReportMetric(float64(before-empty)/pods, "B/pod")
		b.ReportMetric(float64(heap()-before)/pods, "more-B/pod")
	})
	if counts := s.watch.Counts(); counts.Pods != pods+1 || s.state.Pods() != pods+1 {
		b.Fatalf("%+v, and %d pods in the state", counts, s.state.Pods())
	}
}

// heap returns the bytes that are in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
