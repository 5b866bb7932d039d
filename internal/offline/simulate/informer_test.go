package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/model"
)

// delivered is a handler that records deliveries as text.
type delivered []string

func (d *delivered) OnAdd(object any, initial bool) {
	*d = append(*d, fmt.Sprintf("add %s, in the first list: %t", versionOf(object), initial))
}
func (d *delivered) OnUpdate(old, newer any) {
	*d = append(*d, fmt.Sprintf("update %s to %s, the same in memory: %t", versionOf(old), versionOf(newer), old == newer))
}
func (d *delivered) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		*d = append(*d, fmt.Sprintf("delete %s, missed %s", missed.Key, versionOf(missed.Obj)))
		return
	}
	*d = append(*d, "delete "+versionOf(object))
}

func versionOf(object any) string {
	o := object.(kinds.Object)
	return fmt.Sprintf("%s/%s %s/%s", o.GetNamespace(), o.GetName(), o.GetUID(), o.GetResourceVersion())
}

// take returns the deliveries since the last call. Deletions come first after a list, in
// any order.
func (d *delivered) take() []string {
	all := *d
	*d = nil
	deletions := 0
	for deletions < len(all) && strings.HasPrefix(all[deletions], "delete") {
		deletions++
	}
	slices.Sort(all[:deletions])
	return all
}

// podServer is the API server of client-go's informers.
type podServer struct {
	pods  map[string]*v1.Pod // changed only while the informer waits
	watch atomic.Pointer[apiwatch.RaceFreeFakeWatcher]
}

// List returns the pods, by name.
func (s *podServer) List(metav1.ListOptions) (runtime.Object, error) {
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, pod := range s.sorted() {
		list.Items = append(list.Items, *pod.(*v1.Pod))
	}
	return list, nil
}

// Watch begins a watch.
func (s *podServer) Watch(metav1.ListOptions) (apiwatch.Interface, error) {
	watch := apiwatch.NewRaceFreeFake()
	s.watch.Store(watch)
	return watch, nil
}

// IsWatchListSemanticsUnSupported makes informers use lists.
func (*podServer) IsWatchListSemanticsUnSupported() bool { return true }

func (s *podServer) sorted() []kinds.Object {
	var names []string
	for name := range s.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	var pods []kinds.Object
	for _, name := range names {
		pods = append(pods, s.pods[name])
	}
	return pods
}

// TestInformer gives the same events to client-go's informer and to the simulation's, by
// seed: additions, versions, repeated versions, deletions, and lists after a watch that
// missed some of these. Both must deliver the same.
func TestInformer(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { compareInformers(t, seed, counts) })
	}
	for _, what := range []string{"add", "update", "delete", "missed", "the same in memory: true", "the same in memory: false"} {
		if counts[what] < 20 {
			t.Errorf("%q came up %d times", what, counts[what])
		}
	}
}

func compareInformers(t *testing.T, seed uint64, counts map[string]int) {
	r := rand.New(rand.NewPCG(seed, 0))
	c := &Cluster{happened: map[string]int{}, chaos: newChaos(Faults{}, seed)}
	var ours, theirs delivered
	mine := newInformer(c, model.PodKind, &ours)
	server := &podServer{pods: map[string]*v1.Pod{}}
	var store cache.Store
	hold := func(object any) (any, error) {
		return kube.Held(kinds.Get(model.PodKind), store, object.(kinds.Object))
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: server, ObjectType: &v1.Pod{}, Handler: &theirs, Transform: hold})
	version := 0
	// change makes one change to the pods, and shows it unless the watch is broken.
	change := func(broken bool) {
		version++
		name := fmt.Sprint("p", r.IntN(4))
		now := server.pods[name]
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("u", version)), ResourceVersion: fmt.Sprint(version)}}
		event := apiwatch.Added
		switch {
		case now == nil:
			server.pods[name] = pod
		case r.IntN(3) == 0:
			delete(server.pods, name)
			pod, event = now, apiwatch.Deleted
		case r.IntN(4) == 0:
			pod, event = now.DeepCopy(), apiwatch.Modified // shown again
		default:
			if !broken || r.IntN(2) == 0 { // otherwise it is another pod
				pod.UID = now.UID
			}
			server.pods[name], event = pod, apiwatch.Modified
		}
		if broken {
			return
		}
		server.watch.Load().Action(event, pod.DeepCopy())
		if event == apiwatch.Deleted {
			mine.remove(pod)
		} else {
			mine.set(pod)
		}
	}
	for range 3 {
		change(true)
	}
	go controller.RunWithContext(t.Context())
	synctest.Wait()
	mine.replace(server.sorted(), true)
	for step := range 60 {
		if step > 0 && r.IntN(6) == 0 {
			for range r.IntN(5) {
				change(true)
			}
			before := server.watch.Load()
			before.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
			synctest.Wait()
			for server.watch.Load() == before {
				// in the time of the synctest bubble: the informer waits before it lists
				// again
				time.Sleep(time.Second)
				synctest.Wait()
			}
			mine.replace(server.sorted(), false)
		} else if step > 0 {
			change(false)
			synctest.Wait()
		}
		got, want := ours.take(), theirs.take()
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, step %d: the simulation's informer delivers\n%s\nclient-go's delivers\n%s", seed, step, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, line := range got {
			for _, what := range []string{"add", "update", "delete", "missed", "the same in memory: true", "the same in memory: false"} {
				if strings.Contains(line, what) {
					counts[what]++
				}
			}
		}
	}
}
