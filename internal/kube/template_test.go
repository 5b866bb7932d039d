package kube

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// trimmed returns an object as the scheduler keeps it.
func trimmed[T any](t *testing.T, object T) T {
	t.Helper()
	kept, err := kinds.Trim()(object)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
}

// fullPod is the i-th pod of a Deployment.
func fullPod(i int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("web-", i), Namespace: "shop", UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: fmt.Sprint(1000 + i),
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "long"},
		},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName, ServiceAccountName: "web",
			Containers: []v1.Container{{
				Name: "web", Image: "registry.example.com/team/web:v1.2.3", Args: []string{"--listen=:8080"},
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}},
			}},
			Tolerations: []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending, PodIP: "10.0.0.1"},
	}
}

// podServer begins watches of pods with a list, in protobuf. Other resources are empty.
type podServer struct {
	t      *testing.T
	rest   http.Handler
	events chan metav1.WatchEvent
}

// ServeHTTP answers a watch.
func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("sendInitialEvents") != "true" {
		s.rest.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	frames := build.ProtobufInfo(s.t).StreamSerializer.Framer.NewFrameWriter(w)
	for {
		select {
		case event := <-s.events:
			frame, err := event.Marshal()
			if err == nil {
				_, err = frames.Write(frame)
			}
			if err != nil {
				s.t.Errorf("send an event: %v", err)
				return
			}
			w.(http.Flusher).Flush()
			if event.Type == string(watch.Error) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (s *podServer) send(kind watch.EventType, object runtime.Object) {
	s.events <- metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: build.Protobuf(s.t, object)}}
}

// podSink keeps pods.
type podSink struct {
	notebook
	pods chan *v1.Pod
}

func (s podSink) Set(o kinds.Object) { s.pods <- o.(*v1.Pod) }

// TestPodsShareTheirTemplate watches pods of one template, and reads one while others
// arrive: shared fields must not be written.
func TestPodsShareTheirTemplate(t *testing.T) { synctest.Test(t, podsShareTheirTemplate) }

func podsShareTheirTemplate(t *testing.T) {
	const pods = 300
	server := &podServer{t: t, rest: newWatchServer(), events: make(chan metav1.WatchEvent, 2*pods)}
	_, client := inMemory(t, server, ClientConfig{})
	sink := podSink{notebook{make(chan string, 100)}, make(chan *v1.Pod, 2*pods)}
	w := watchInto(t, sink, client, model.PodKind)
	bookmark := func(version string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	}
	next := func() *v1.Pod {
		t.Helper()
		select {
		case pod := <-sink.pods:
			return pod
		case <-time.After(patience):
			t.Fatal("no pod comes")
			return nil
		}
	}
	same := func(got *v1.Pod, want *v1.Pod) {
		t.Helper()
		if diff := cmp.Diff(trimmed(t, want), got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	}
	server.send(watch.Added, fullPod(0))
	server.send(watch.Bookmark, bookmark("1000"))
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := next()
	same(first, fullPod(0))
	for i := 1; i < pods; i++ {
		server.send(watch.Added, fullPod(i))
	}
	for i := 1; i < pods; i++ {
		if first.Spec.Containers[0].Image == "" || first.Spec.Tolerations[0].Key == "" {
			t.Fatal("the first pod has lost something")
		}
		pod := next()
		same(pod, fullPod(i))
		if &pod.Spec.Containers[0] != &first.Spec.Containers[0] {
			t.Fatalf("pod %d has a spec of its own", i)
		}
	}
	changed := fullPod(0)
	changed.ResourceVersion, changed.Labels = "2000", map[string]string{"app": "other"}
	server.send(watch.Modified, changed)
	same(next(), changed)
	// The version is too old to resume from, so everything is listed again. Only objects
	// that have changed since are passed on.
	server.send(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired})
	for i := range pods {
		server.send(watch.Added, fullPod(i))
	}
	server.send(watch.Bookmark, bookmark("3000"))
	same(next(), fullPod(0))
}
