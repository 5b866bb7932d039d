package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// binEnv names the folder with the binaries berth and devcluster; `make e2e` builds them
// and sets it.
const binEnv = "BERTH_E2E_BIN"

// cluster is shared by the tests of this package, because a start costs more than most
// tests.
var cluster *rig.Cluster

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	bin := os.Getenv(binEnv)
	if bin == "" {
		fmt.Fprintf(os.Stderr, "%s is not set: these tests need built binaries; run `make e2e`\n", binEnv)
		return 0
	}
	folder, err := os.MkdirTemp("", "berth-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	policy, err := filepath.Abs("testdata/audit.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	data := filepath.Join(folder, "cluster")
	auditLog = filepath.Join(data, "logs", "audit.log")
	cluster, err = rig.StartCluster(ctx, bin, nil, "--nodes", "500", "--data-dir", data, "--audit-policy", policy)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// make test sets it, for the cluster, too; schedulers shall use Go's default
	os.Unsetenv("GOGC")
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// world is the fixture of most tests: a namespace and clients.
type world struct {
	*testing.T
	ctx       context.Context
	client    *kubernetes.Clientset
	namespace string
	servesAt  string // the address of the test's scheduler, if it serves
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	client, err := cluster.Client()
	w := &world{T: t, ctx: ctx, client: client, namespace: namespace}
	w.must(err)
	_, err = client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	w.must(err)
	t.Cleanup(w.noneRefused)
	return w
}

// noneRefused fails the test if a node has refused one of its pods.
func (w *world) noneRefused() {
	list, err := w.client.CoreV1().Pods(w.namespace).List(context.Background(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		if err := rig.Refused(&list.Items[i]); err != nil {
			w.Error(err)
		}
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// berth starts the scheduler. It is stopped at the end of the test, and must not have
// failed before.
func (w *world) berth(args ...string) *rig.Process {
	w.Helper()
	p, err := cluster.StartBerth(nil, args...)
	w.must(err)
	w.Cleanup(func() {
		select {
		case <-p.Exited():
		default:
			if err := p.Stop(); err != nil {
				w.Error(err)
			}
		}
		if w.Failed() {
			w.Logf("the end of Berth's log:\n%s", p.Log())
		}
	})
	return p
}

// pods lists the stored pods. It does not use the API server's cache (resource version
// "0"), which may lack a pod that was just created.
func (w *world) pods() []v1.Pod {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	return list.Items
}

// nodeOf returns the node of a pod, or "".
func (w *world) nodeOf(name string) string {
	w.Helper()
	pod, err := w.client.CoreV1().Pods(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return pod.Spec.NodeName
}

func (w *world) await(what string, condition func() bool) {
	w.Helper()
	await(w.ctx, w, what, condition)
}

// await polls until the condition holds.
func await(ctx context.Context, t testing.TB, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func requests(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}}
}

func (w *world) deployment(name string, replicas int32, shape func(*v1.PodSpec)) {
	w.Helper()
	labels := map[string]string{"app": name}
	spec := v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/" + name + ":1", Resources: requests("250m", "256Mi")}}}
	shape(&spec)
	_, err := w.client.AppsV1().Deployments(w.namespace).Create(w.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) awaitRunning(want int) {
	w.Helper()
	w.await(fmt.Sprintf("%d pods run", want), func() bool {
		running := 0
		for _, p := range w.pods() {
			w.must(rig.Refused(&p))
			if p.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == want
	})
}

// overcommitted lists the nodes whose pods exceed the allocatable resources, or share a
// host port.
func (w *world) overcommitted() []string {
	w.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	pods, err := w.client.CoreV1().Pods(metav1.NamespaceAll).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	used := map[string]v1.ResourceList{}
	ports := map[string]bool{}
	var bad []string
	for _, p := range pods.Items {
		sum := used[p.Spec.NodeName]
		if sum == nil {
			sum = v1.ResourceList{}
			used[p.Spec.NodeName] = sum
		}
		for _, c := range p.Spec.Containers {
			for name, q := range c.Resources.Requests {
				have := sum[name]
				have.Add(q)
				sum[name] = have
			}
			for _, port := range c.Ports {
				key := fmt.Sprintf("%s:%d", p.Spec.NodeName, port.HostPort)
				if port.HostPort > 0 && ports[key] && p.Spec.NodeName != "" {
					bad = append(bad, "host port "+key)
				}
				ports[key] = true
			}
		}
		have := sum[v1.ResourcePods]
		have.Add(resource.MustParse("1"))
		sum[v1.ResourcePods] = have
	}
	for _, n := range nodes.Items {
		for name, sum := range used[n.Name] {
			if sum.Cmp(n.Status.Allocatable[name]) > 0 {
				allocatable := n.Status.Allocatable[name]
				bad = append(bad, fmt.Sprintf("node %s: %s of %s %s", n.Name, sum.String(), allocatable.String(), name))
			}
		}
	}
	return bad
}

// TestDeploymentsRunThroughARestart schedules 1,000 pods of Deployments with different
// constraints. Berth is killed and restarted in the middle. Every pod must run, no node
// may be overcommitted, and no pod may have been bound twice.
func TestDeploymentsRunThroughARestart(t *testing.T) {
	w := newWorld(t, "restart")
	first := w.berth()
	w.deployment("web", 600, func(*v1.PodSpec) {})
	w.deployment("big", 150, func(s *v1.PodSpec) { s.Containers[0].Resources = requests("2", "4Gi") })
	w.deployment("zonal", 100, func(s *v1.PodSpec) { s.NodeSelector = map[string]string{v1.LabelTopologyZone: "eu-1b"} })
	w.deployment("edge", 150, func(s *v1.PodSpec) {
		s.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	})
	w.await("a third is bound", func() bool {
		return len(slices.DeleteFunc(w.pods(), func(p v1.Pod) bool { return p.Spec.NodeName == "" })) > 330
	})
	first.Kill()
	killed := w.awaitSync(w.berth())
	w.awaitRunning(1000)
	if bad := w.overcommitted(); len(bad) > 0 {
		t.Errorf("over-committed: %s", strings.Join(bad, "; "))
	}
	w.eachPodBoundOnce(killed)
}

// TestPendingPodIsExplainedAndWoken creates a pod that fits no node. Its condition and
// event name the reason, and a suitable node wakes it.
func TestPendingPodIsExplainedAndWoken(t *testing.T) {
	w := newWorld(t, "pending")
	w.berth()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "picky"},
		Spec: v1.PodSpec{
			NodeSelector: map[string]string{"special": "yes"},
			Containers:   []v1.Container{{Name: "main", Image: "registry.example/picky:1", Resources: requests("1", "1Gi")}},
		},
	}
	_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
	w.must(err)
	const message = "0/500 nodes are available: 25 node(s) had untolerated taint(s), 475 node(s) didn't match Pod's node affinity/selector. " +
		"preemption: 0/500 nodes are available: 500 Preemption is not helpful for scheduling."
	w.await("the condition says why", func() bool {
		condition := w.scheduledCondition("picky")
		return condition != nil && condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonUnschedulable && condition.Message == message
	})
	w.await("an event says why", func() bool {
		return slices.ContainsFunc(w.events("picky"), func(e eventsv1.Event) bool {
			return e.Type == v1.EventTypeWarning && e.Reason == "FailedScheduling" && e.Action == "Scheduling" && e.Note == message &&
				e.ReportingController == "default-scheduler"
		})
	})
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{Limit: 1})
	w.must(err)
	node := nodes.Items[0].Name
	w.label(node, `{"metadata":{"labels":{"special":"yes"}}}`)
	t.Cleanup(func() {
		client, err := cluster.Client()
		w.must(err)
		_, err = client.CoreV1().Nodes().Patch(context.Background(), node, "application/strategic-merge-patch+json", []byte(`{"metadata":{"labels":{"special":null}}}`), metav1.PatchOptions{})
		w.must(err)
	})
	w.await("the pod runs on the node that was labelled for it", func() bool {
		p := w.pods()[0]
		return p.Spec.NodeName == node && p.Status.Phase == v1.PodRunning
	})
	w.await("an event says where it went", func() bool {
		return slices.ContainsFunc(w.events("picky"), func(e eventsv1.Event) bool {
			return e.Type == v1.EventTypeNormal && e.Reason == "Scheduled" && e.Action == "Binding" &&
				e.Note == "Successfully assigned pending/picky to "+node
		})
	})
}

func (w *world) label(node, patch string) {
	w.Helper()
	_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{})
	w.must(err)
}

func (w *world) scheduledCondition(pod string) *v1.PodCondition {
	w.Helper()
	p, err := w.client.CoreV1().Pods(w.namespace).Get(w.ctx, pod, metav1.GetOptions{})
	w.must(err)
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func (w *world) events(pod string) []eventsv1.Event {
	w.Helper()
	list, err := w.client.EventsV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name != pod })
}

// TestGatedPodWaitsForItsGates removes the scheduling gate of a pod. The pod must be
// scheduled then and not before.
func TestGatedPodWaitsForItsGates(t *testing.T) {
	w := newWorld(t, "gated")
	w.berth()
	for _, name := range []string{"gated", "free"} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i"}}}}
		if name == "gated" {
			pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
		}
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
		w.must(err)
	}
	w.await("the pod without a gate is bound", func() bool { return w.nodeOf("free") != "" })
	if on := w.nodeOf("gated"); on != "" {
		t.Fatalf("the gated pod is on %s", on)
	}
	_, err := w.client.CoreV1().Pods(w.namespace).Patch(w.ctx, "gated", "application/json-patch+json", []byte(`[{"op":"remove","path":"/spec/schedulingGates"}]`), metav1.PatchOptions{})
	w.must(err)
	w.await("the pod is bound once its gate is gone", func() bool { return w.nodeOf("gated") != "" })
}

// TestStopIsClean stops an idle scheduler. It must end on its own, without an error.
func TestStopIsClean(t *testing.T) {
	w := newWorld(t, "stop")
	p, err := cluster.StartBerth(nil)
	w.must(err)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i"}}}}
	_, err = w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
	w.must(err)
	w.await("the pod is bound", func() bool { return w.nodeOf(pod.Name) != "" })
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited():
	case <-time.After(2 * time.Minute):
		p.Kill()
		t.Fatal(errors.New("berth did not stop"))
	}
}
