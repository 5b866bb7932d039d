package framework_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestQueueSort orders by a plugin, and by priority where it panics.
func TestQueueSort(t *testing.T) {
	for _, panics := range []bool{false, true} {
		w := newWorld(t, 1)
		points, err := w.runtime.Adapt(&queues{named: "P", panics: panics})
		if err != nil {
			t.Fatal(err)
		}
		a, b := plugin.Queued{Pod: w.pod("a", "1")}, plugin.Queued{Pod: w.pod("b", "1")}
		b.Pod.Priority = 5
		if less := points.QueueSort.Less; less(a, b) != !panics || less(b, a) != panics {
			t.Errorf("panics: %v; a before b: %v, b before a: %v", panics, less(a, b), less(b, a))
		}
	}
}

// writes is a QueueSort plugin that writes to a pod, and keeps the pod.
type writes struct {
	named
	kept fwk.QueuedEntityInfo
}

func (p *writes) Less(a, _ fwk.QueuedEntityInfo) bool {
	a.(interface{ GetPodInfo() fwk.PodInfo }).GetPodInfo().GetPod().Labels = map[string]string{"written": "by plugin"}
	p.kept = a
	return false
}

// TestQueueSortWrites makes a plugin write to a compared pod, in a call and later.
func TestQueueSortWrites(t *testing.T) {
	w := newWorld(t, 1)
	p := &writes{named: "P"}
	points, err := w.runtime.Adapt(p)
	if err != nil {
		t.Fatal(err)
	}
	a, b := w.pod("a", "1"), w.pod("b", "1")
	done := make(chan struct{})
	points.QueueSort.Less(plugin.Queued{Pod: a}, plugin.Queued{Pod: b})
	later := *p
	go func() { defer close(done); later.Less(later.kept, nil) }()
	points.QueueSort.Less(plugin.Queued{Pod: b}, plugin.Queued{Pod: a})
	<-done
	if a.Object.Labels["written"] != "" || b.Object.Labels["written"] != "" {
		t.Error("a plugin has written to the state's pod")
	}
}

// TestQueueSortCopiesOnce queues more pods than the other caches hold, and counts the
// plugin's objects: one for each version of a pod, however often it is compared.
func TestQueueSortCopiesOnce(t *testing.T) {
	const pods = 3000
	w := newWorld(t, 1)
	p := &byRank{named: "ByRank", shown: map[*v1.Pod]bool{}}
	points, err := w.runtime.Adapt(p)
	if err != nil {
		t.Fatal(err)
	}
	q, all := ranked(t, w, points.QueueSort, pods)
	q.Wake(noon, state.Delta{Arrived: all})
	// The pod is now the second, after 000000.
	newer := model.NewPod(w.object(all[0].Name, "100m", build.Labels("rank=000000-changed")))
	w.profile.Compile(newer)
	q.Wake(noon, state.Delta{Arrived: []*model.Pod{newer}})
	last := ""
	for i := range pods {
		work, ok := q.Pop(noon)
		if !ok {
			t.Fatalf("pod %d is missing", i)
		}
		pod := work.First()
		if rank := pod.Labels["rank"]; rank < last || i == 1 && pod != newer {
			t.Fatalf("pod %d has rank %s, after %s", i, rank, last)
		} else {
			last = rank
		}
		work.Conclude(plan.Decision{Outcome: plan.Terminating})
		q.Settle(noon, work)
	}
	if p.compared < 10*pods || len(p.shown) != pods+1 {
		t.Errorf("%d copies of pods in %d comparisons; want %d copies, in ten times as many comparisons", len(p.shown), p.compared, pods+1)
	}
}

// TestQueueSortSeesAttempts runs attempts of pods. The plugin's view has the queue's
// present counts.
func TestQueueSortSeesAttempts(t *testing.T) {
	w := newWorld(t, 1)
	p := &sees{named: "P", seen: map[string]string{}}
	points, err := w.runtime.Adapt(p)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := ranked(t, w, points.QueueSort, 0)
	q.Wake(noon, state.Delta{Arrived: []*model.Pod{w.pod("a", "1"), w.pod("b", "1")}})
	if p.seen["a"] != "0 0 []" || p.seen["b"] != "0 0 []" {
		t.Errorf("at first: %v", p.seen)
	}
	work, _ := q.Pop(noon)
	tried := work.First()
	work.Conclude(plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"Quota"}}})
	q.Settle(noon, work)
	q.Activate(noon.Add(time.Second), []model.PodKey{tried.Key()})
	if got := p.seen[tried.Name]; got != "1 1 [Quota]" {
		t.Errorf("after a rejection the plugin sees %s of %s", got, tried.Name)
	}
}

// sees records its view of the pods that it compares.
type sees struct {
	named
	seen map[string]string
}

func (p *sees) Less(a, b fwk.QueuedEntityInfo) bool {
	for _, q := range []fwk.QueuedEntityInfo{a, b} {
		name := q.(interface{ GetPodInfo() fwk.PodInfo }).GetPodInfo().GetPod().Name
		p.seen[name] = fmt.Sprint(q.GetAttempts(), q.GetUnschedulableCount(), q.GetUnschedulablePlugins().UnsortedList())
	}
	return false
}

// stuck is a QueueSort plugin whose calls do not return until they are released.
type stuck struct {
	named
	calls   atomic.Int32
	release chan struct{}
}

func (p *stuck) Less(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool {
	p.calls.Add(1)
	<-p.release
	return true
}

// sortFailures counts failed calls at QueueSort.
type sortFailures struct{ failed int }

func (c *sortFailures) Ran(_ string, point framework.Point, status string, calls int, _ time.Duration) {
	if point == framework.QueueSort && status == "Error" {
		c.failed += calls
	}
}

// TestQueueSortHangs makes the plugin hang. Priority and time decide, the plugin is not
// called while that call runs, and after the third such call not at all.
func TestQueueSortHangs(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		var failures sortFailures
		runtime, err := framework.New(t.Context(), framework.Config{Profile: name, Deadline: 10 * time.Millisecond, Snapshot: snapshot.New(nil), Log: klog.Logger{}, Observer: &failures})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(runtime.Close)
		p := &stuck{named: "P", release: make(chan struct{})}
		points, err := runtime.Adapt(p)
		if err != nil {
			t.Fatal(err)
		}
		pod := func(name string, priority int32, since int) plugin.Queued {
			object := build.Pod(build.Named(name))
			object.Spec.Priority = &priority
			return plugin.Queued{Pod: model.NewPod(object), Since: noon.Add(time.Duration(since))}
		}
		first, second, third := pod("first", 5, 2), pod("second", 0, 0), pod("third", 0, 1)
		for given := 1; given <= 4; given++ {
			for range 2 { // the second time, the call of the first still runs
				less := points.QueueSort.Less
				if !less(first, second) || less(second, first) || !less(second, third) || less(third, second) {
					t.Errorf("with %d calls given up the order is not by priority and time", given)
				}
			}
			close(p.release)
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
				if _, running := runtime.Lane().Abandoned(); running == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the call that was released still runs")
				}
			}
			if want := min(given, 3); int(p.calls.Load()) != want || failures.failed != want {
				t.Fatalf("%d calls, of which %d are counted as failed; want %d", p.calls.Load(), failures.failed, want)
			}
			p.release = make(chan struct{})
		}
	})
}
