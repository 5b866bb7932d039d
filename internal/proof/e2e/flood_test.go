package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

var (
	flood       = flag.Int("flood", 500, "how many pods fit on no node in the test of reports beside a flood of rejections; 5000 to measure")
	floodBeside = flag.Bool("flood-beside", false, "measure kube-scheduler too")
)

// TestReportsBesideAFlood creates many pods that fit on no node, because each node has a
// small pod, as fast as the API server accepts them. A few pods that fit are created
// meanwhile. These end as soon as they are bound, which wakes all rejected pods.
//
// Every pod must get its condition and event. Their delays are logged, from watches of
// the API server: of a condition after the pod's creation, of a Scheduled event after the
// pod's binding.
func TestReportsBesideAFlood(t *testing.T) {
	t.Run("berth", func(t *testing.T) {
		w := newWorld(t, "flood")
		w.berth("--kube-api-qps=10000", "--kube-api-burst=10000")
		w.reportsBesideAFlood()
	})
	if *floodBeside {
		t.Run("kube-scheduler", func(t *testing.T) {
			w := newWorld(t, "flood-beside")
			p, err := rig.Start(&transcript{}, filepath.Join(os.Getenv(binEnv), "kube-scheduler"), "--kubeconfig", cluster.Kubeconfig, "--secure-port=0",
				"--leader-elect=false", "--kube-api-qps=10000", "--kube-api-burst=10000")
			w.must(err)
			w.Cleanup(p.Kill)
			w.reportsBesideAFlood()
		})
	}
}

// podsByNode counts the pods on each node, including those of other tests, which may have
// filled nodes.
func (w *world) podsByNode() map[string]int64 {
	pods, err := w.client.CoreV1().Pods(v1.NamespaceAll).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	on := map[string]int64{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName]++
	}
	return on
}

// fitting is the number of flood pods for each pod that fits.
const fitting = 20

func (w *world) reportsBesideAFlood() {
	seen := w.watchReports()
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	on := w.podsByNode()
	whole := resource.Quantity{}
	w.must(rig.InParallel(len(nodes.Items), func(i int) error {
		if node := &nodes.Items[i]; on[node.Name] >= node.Status.Allocatable.Pods().Value() {
			return nil
		}
		standing := w.pod(fmt.Sprint("standing-", i), "10m")
		standing.Spec.NodeName = nodes.Items[i].Name
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, standing, metav1.CreateOptions{})
		return err
	}))
	for i := range nodes.Items {
		if cpu := nodes.Items[i].Status.Allocatable[v1.ResourceCPU]; cpu.Cmp(whole) > 0 {
			whole = cpu
		}
	}
	created, stop := context.WithCancel(w.ctx)
	defer stop()
	var small sync.WaitGroup
	few := *flood / fitting
	small.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := range few {
			<-tick.C
			if _, err := w.client.CoreV1().Pods(w.namespace).Create(created, w.pod(fmt.Sprint("small-", i), "10m"), metav1.CreateOptions{}); err != nil {
				w.Errorf("create a pod that fits: %v", err)
				return
			}
		}
	})
	began := time.Now()
	w.must(rig.InParallel(*flood, func(i int) error {
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, w.pod(fmt.Sprint("large-", i), whole.String()), metav1.CreateOptions{})
		return err
	}))
	small.Wait()
	w.Logf("%d pods that fit nowhere, and %d that fit: created in %.1f s", *flood, few, time.Since(began).Seconds())
	w.await("every pod has what is to be written about it", func() bool { return seen.count(few, *flood) })
	w.Logf("all of it is written after %.1f s", time.Since(began).Seconds())
	seen.report(w.T)
}

func (w *world) pod(name, cpu string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/main:1", Resources: requests(cpu, "1Mi")}}},
	}
}

// sightings are the times at which watches of the API server first showed an event or a
// change, by pod.
type sightings struct {
	mu                                              sync.Mutex
	added, bound, condition, scheduled, unscheduled map[string]time.Time
}

// watchReports watches the namespace's pods and their events. A pod that fits is deleted
// as soon as it is bound.
func (w *world) watchReports() *sightings {
	w.Helper()
	s := &sightings{
		added: map[string]time.Time{}, bound: map[string]time.Time{}, condition: map[string]time.Time{},
		scheduled: map[string]time.Time{}, unscheduled: map[string]time.Time{},
	}
	ended := make(chan string, *flood)
	changes := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
	take := func(object any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch object := object.(type) {
		case *v1.Pod:
			if s.pod(object) {
				ended <- object.Name
			}
		case *eventsv1.Event:
			s.event(object)
		}
	}
	for _, of := range []cache.SharedIndexInformer{changes.Core().V1().Pods().Informer(), changes.Events().V1().Events().Informer()} {
		_, err := of.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, object any) { take(object) }})
		w.must(err)
	}
	changes.Start(w.ctx.Done())
	changes.WaitForCacheSync(w.ctx.Done())
	go func() {
		now := int64(0)
		for {
			select {
			case name := <-ended:
				_ = w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			case <-w.ctx.Done():
				return
			}
		}
	}()
	return s
}

// pod records a version of a pod. It reports whether it is the first bound version.
func (s *sightings) pod(p *v1.Pod) (bound bool) {
	if strings.HasPrefix(p.Name, "standing-") {
		return false
	}
	first(s.added, p.Name)
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			first(s.condition, p.Name)
		}
	}
	return p.Spec.NodeName != "" && first(s.bound, p.Name)
}

func (s *sightings) event(e *eventsv1.Event) {
	switch e.Reason {
	case "Scheduled":
		first(s.scheduled, e.Regarding.Name)
	case "FailedScheduling":
		first(s.unscheduled, e.Regarding.Name)
	}
}

func first(at map[string]time.Time, name string) bool {
	if _, ok := at[name]; ok {
		return false
	}
	at[name] = time.Now()
	return true
}

// count reports whether the given numbers of pods have a Scheduled event, and a condition
// and event about their rejection.
func (s *sightings) count(scheduled, rejected int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.scheduled) >= scheduled && len(s.condition) >= rejected && len(s.unscheduled) >= rejected
}

func (s *sightings) report(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range []struct {
		what        string
		from, until map[string]time.Time
	}{
		{"bound after its creation", s.added, s.bound},
		{"Scheduled event after the binding", s.bound, s.scheduled},
		{"condition after the creation", s.added, s.condition},
		{"FailedScheduling event after the creation", s.added, s.unscheduled},
	} {
		var late []time.Duration
		for name, at := range row.until {
			late = append(late, at.Sub(row.from[name]))
		}
		slices.Sort(late)
		if n := len(late); n > 0 {
			t.Logf("%-42s %5d pods: median %5d ms, 99 %% within %5d ms, all within %5d ms", row.what, n,
				late[n/2].Milliseconds(), late[n*99/100].Milliseconds(), late[n-1].Milliseconds())
		}
	}
}
