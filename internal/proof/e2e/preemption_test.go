package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// preemptors is the number of pods that preempt, and of full nodes.
var preemptors = flag.Int("preemptors", 60, "how many pods preempt, and how many nodes are full of others; 500 to see many")

// perFullNode is the number of pods with 1 CPU that fill a node of these tests.
const perFullNode = 8

// TestABurstPreempts creates a burst of pods in a cluster that is full of pods with three
// priorities. All of the burst must run. The victims have the lowest priority and no
// budget that would be violated. Their replacements run when room exists again.
func TestABurstPreempts(t *testing.T) {
	w := newFull(t, "burst")
	w.scheduler()
	w.fill()
	w.burst()
	w.awaitBurst()
	victims := w.evicted(time.Time{})
	w.lowestWentFirst(victims)
	if len(victims) != w.n {
		t.Errorf("%d pods were evicted for %d, each of which needs the room of one", len(victims), w.n)
	}
	w.comeBack(len(victims), time.Time{})
}

// TestLeaderIsKilledWhileItPreempts is TestABurstPreempts with two replicas. The leader
// is killed in the middle with SIGKILL. Both record what they do, and the replays of both
// recordings make the same decisions.
func TestLeaderIsKilledWhileItPreempts(t *testing.T) {
	w := newFull(t, "burst-killed")
	const lease = "kube-scheduler"
	recordings := t.TempDir()
	first, _ := w.replica(lease, cluster.SchedulerKubeconfig, "--berth-record", recordings)
	w.await("the first leads", func() bool { return w.holderOf(lease) != "" })
	leader := w.holderOf(lease)
	second, log := w.replica(lease, cluster.SchedulerKubeconfig, "--berth-record", recordings)
	w.await("the second knows the cluster", func() bool { return log.has("Cluster is known") })
	w.fill()
	w.burst()
	w.await("a third of the evictions are made", func() bool { return w.deleted() > w.n/3 })
	first.Kill()
	t.Logf("killed when %d pods were evicted", w.deleted())
	w.await("the second leads", func() bool { return w.holderOf(lease) != leader && w.holderOf(lease) != "" })
	// the API server may receive requests of the first for some time after its end, but
	// not as late as this
	killed := w.takenOver(lease)
	w.awaitBurst()
	victims := w.evicted(killed)
	w.lowestWentFirst(victims)
	// The room that the first made is found again, except for requests in flight when it
	// died.
	if extra := len(victims) - w.n; extra < 0 || extra > w.n/5 {
		t.Errorf("%d pods were evicted for %d", len(victims), w.n)
	}
	w.comeBack(len(victims), killed)
	w.must(second.Stop())
	w.replaysAlike(recordings, 2, w.n)
}

// replaysAlike replays the recordings in a directory by another process each. All
// together have at least this many placements.
func (w *world) replaysAlike(directory string, count, placed int) {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	w.must(err)
	if len(files) != count {
		w.Errorf("recordings: %q", files)
	}
	for _, file := range files {
		code, stdout, stderr := w.plugin(cluster.Kubeconfig, "replay", file, "-o", "json")
		var result struct{ Decisions, Placed int }
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != 0 {
			w.Errorf("replay: exit code %d, %s\n%s", code, stdout, stderr)
		}
		w.Logf("%s: %s", filepath.Base(file), stdout)
		placed -= result.Placed
	}
	if placed > 0 {
		w.Errorf("%d placements are missing in the recordings", placed)
	}
}

// full is a world with nodes of its own, which are full of pods with three priorities.
type full struct {
	*world
	n int // number of nodes, and of pods in the burst

	mu       sync.Mutex
	gone     map[string]bool   // pods whose deletion was seen
	marked   map[string]string // message of the condition DisruptionTarget, by pod
	priority map[string]int32
}

func newFull(t *testing.T, namespace string) *full {
	t.Helper()
	w := &full{world: newWorld(t, namespace), n: *preemptors, gone: map[string]bool{}, marked: map[string]string{}, priority: map[string]int32{}}
	for name, value := range map[string]int32{"low": 10, "middle": 100, "high": 1000, "burst": 10_000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.named(name)}, Value: value}
		_, err := w.client.SchedulingV1().PriorityClasses().Create(w.ctx, class, metav1.CreateOptions{})
		w.must(err)
	}
	t.Cleanup(w.clear)
	w.nodes(0, w.n)
	w.watch()
	return w
}

func (w *full) named(name string) string { return w.namespace + "-" + name }

// scheduler starts Berth alone.
func (w *full) scheduler() { w.berth() }

// nodes creates nodes that only this test's pods can use.
func (w *full) nodes(from, to int) {
	w.Helper()
	has := v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(perFullNode, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("32Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	w.must(rig.InParallel(to-from, func(i int) error {
		name := fmt.Sprintf("%s-%d", w.namespace, from+i)
		_, err := w.client.CoreV1().Nodes().Create(w.ctx, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, "only": w.namespace}},
			Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "only", Value: w.namespace, Effect: v1.TaintEffectNoSchedule}}},
			Status: v1.NodeStatus{
				Capacity: has, Allocatable: has,
				Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
			},
		}, metav1.CreateOptions{})
		return err
	}))
}

// spec returns a pod of 1 CPU that fits only on the test's nodes.
func (w *full) spec(class string) v1.PodSpec {
	return v1.PodSpec{
		PriorityClassName: w.named(class),
		NodeSelector:      map[string]string{"only": w.namespace},
		Tolerations:       []v1.Toleration{{Key: "only", Operator: v1.TolerationOpExists}},
		Containers:        []v1.Container{{Name: "main", Image: "i", Resources: requests("1", "1Gi")}},
	}
}

// watch records the deletions of the test's pods.
func (w *full) watch() {
	w.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
	seen := func(object any) {
		pod := object.(*v1.Pod)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.priority[pod.Name] = *pod.Spec.Priority
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue {
				w.marked[pod.Name] = c.Reason + ": " + c.Message
			}
		}
		if pod.DeletionTimestamp != nil {
			w.gone[pod.Name] = true
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, now any) { seen(now) },
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			seen(object)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.gone[object.(*v1.Pod).Name] = true
		},
	})
	w.must(err)
	factory.StartWithContext(w.ctx)
	factory.WaitForCacheSync(w.ctx.Done())
}

// deleted returns the number of pods whose deletion has begun.
func (w *full) deleted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.gone)
}

// fill fills the nodes. Half of the pods with the lowest priority, and all with the
// middle one, have a budget that allows no disruption.
func (w *full) fill() {
	w.Helper()
	for _, d := range []struct {
		name, class string
		perNode     int
		guarded     bool
	}{
		{"free", "low", 2, false}, {"guarded", "low", 2, true}, {"middle", "middle", 2, true}, {"high", "high", 2, false},
	} {
		labels := map[string]string{"app": d.name}
		replicas := int32(d.perNode * w.n)
		_, err := w.client.AppsV1().Deployments(w.namespace).Create(w.ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: d.name},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: w.spec(d.class)},
			},
		}, metav1.CreateOptions{})
		w.must(err)
		if !d.guarded {
			continue
		}
		none := intstr.FromInt32(0)
		_, err = w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: d.name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	w.awaitRunning(perFullNode * w.n)
	w.await("the budgets are counted", func() bool {
		list, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		for _, b := range list.Items {
			if int(b.Status.ExpectedPods) != 2*w.n || b.Status.DisruptionsAllowed != 0 {
				return false
			}
		}
		return len(list.Items) == 2
	})
}

// burst creates the preemptors.
func (w *full) burst() {
	w.Helper()
	w.must(rig.CreatePods(w.ctx, w.client, w.namespace, w.n, func(i int) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("burst-", i)}, Spec: w.spec("burst")}
	}))
}

func (w *full) awaitBurst() {
	w.Helper()
	began := time.Now()
	w.await("the burst runs", func() bool {
		running := 0
		for _, p := range w.pods() {
			if strings.HasPrefix(p.Name, "burst-") && p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == w.n
	})
	w.Logf("%d pods of the burst run after %.1f s", w.n, time.Since(began).Seconds())
}

// evicted returns the pods that the scheduler has deleted, by the API server's audit log.
// Each must have been marked before, and no one else may have deleted any.
//
// Events name the preemptors of pods that were evicted after the given time; a killed
// process loses its unwritten events. The results of its last requests may be unknown,
// too. A request with a failure in the log was carried out if the pod is gone.
func (w *full) evicted(told time.Time) []string {
	w.Helper()
	marked, silent, inDoubt := map[string]bool{}, map[string]bool{}, map[string]bool{}
	w.audit(func(a *audited) {
		switch {
		case a.what() == "patch pods/status" && bytes.Contains(a.RequestObject, []byte(v1.DisruptionTarget)):
			marked[a.ObjectRef.Name] = true
		case a.what() == "delete pods":
			if after := a.RequestReceivedTimestamp.After(told); after || a.stored() {
				silent[a.ObjectRef.Name] = after
				delete(inDoubt, a.ObjectRef.Name)
			} else if _, known := silent[a.ObjectRef.Name]; !known {
				inDoubt[a.ObjectRef.Name] = true
			}
			if !marked[a.ObjectRef.Name] {
				w.Errorf("pod %s is deleted before it has the condition DisruptionTarget", a.ObjectRef.Name)
			}
		}
	})
	w.await("the end of each victim is seen", func() bool { return w.deleted() >= len(silent) })
	w.mu.Lock()
	for name := range inDoubt {
		if w.gone[name] {
			silent[name] = false
		}
	}
	names := slices.Sorted(maps.Keys(silent))
	for _, name := range names {
		const want = "PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod"
		if w.marked[name] != want {
			w.Errorf("pod %s was evicted with the condition %q, want %q", name, w.marked[name], want)
		}
	}
	if len(w.gone) != len(names) {
		w.Errorf("%d pods have ended, the scheduler deleted %d", len(w.gone), len(names))
	}
	w.mu.Unlock()
	events := map[string]bool{}
	w.await("each victim has an event", func() bool {
		list, err := w.client.EventsV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		for _, e := range list.Items {
			if e.Reason == "Preempted" && e.Action == "Preempting" && e.Type == v1.EventTypeNormal && strings.HasPrefix(e.Note, "Preempted by pod ") {
				events[e.Regarding.Name] = true
			}
		}
		for name, wanted := range silent {
			if wanted && !events[name] {
				return false
			}
		}
		return true
	})
	w.Logf("%d pods were evicted, %d of them have an event; of %d requests it was in doubt", len(names), len(events), len(inDoubt))
	return names
}

// lowestWentFirst checks that all victims have the lowest priority and no budget, since
// enough of these existed.
func (w *full) lowestWentFirst(victims []string) {
	w.Helper()
	for _, name := range victims {
		if !strings.HasPrefix(name, "free-") {
			w.Errorf("pod %s was evicted, although there were pods of the lowest priority without a budget", name)
		}
	}
}

// comeBack checks that the replacements of evicted pods run as soon as room exists, and
// that every pod was bound once.
func (w *full) comeBack(victims int, killed time.Time) {
	w.Helper()
	w.await("the evicted replicas are replaced", func() bool { return len(w.pods()) == (perFullNode+1)*w.n })
	w.nodes(w.n, w.n+(victims+perFullNode-1)/perFullNode)
	w.awaitRunning((perFullNode + 1) * w.n)
	if bad := w.overcommitted(); len(bad) > 0 {
		w.Errorf("over-committed: %s", strings.Join(bad, "; "))
	}
	w.eachPodBoundOnce(killed)
}

// clear deletes the pods, nodes and classes, which would affect other tests.
func (w *full) clear() {
	w.Helper()
	ctx, all := context.Background(), metav1.ListOptions{LabelSelector: "only=" + w.namespace}
	w.must(w.client.AppsV1().Deployments(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.must(w.client.AppsV1().ReplicaSets(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	w.must(rig.DeletePods(ctx, w.client, w.namespace))
	w.must(w.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, all))
	for _, name := range []string{"low", "middle", "high", "burst"} {
		w.must(w.client.SchedulingV1().PriorityClasses().Delete(ctx, w.named(name), metav1.DeleteOptions{}))
	}
}
