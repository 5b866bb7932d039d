package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/berth-scheduler/berth/deploy/helm/test/chart"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const (
	// binEnv is the folder of the binaries berth, devcluster, provisioner and driver.
	// `make charts-test` builds them and sets it.
	binEnv = "BERTH_E2E_BIN"
	// user is the scheduler's user name at the API server.
	user = "system:serviceaccount:" + chart.Namespace + ":" + chart.Release
	// work is the namespace of the scheduled pods.
	work = "work"
	// leaseDuration equals the one in releaseValues.
	leaseDuration = 10 * time.Second
)

// releaseValues has election times short enough for a test and long enough for a busy
// machine.
const releaseValues = `
featureGates: {GenericWorkload: true}
config:
  leaderElection: {leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 500ms}
  podMaxBackoffSeconds: 1
`

// world is a development cluster without a scheduler.
type world struct {
	*testing.T
	ctx     context.Context
	cancel  context.CancelCauseFunc
	client  *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
	config  *rest.Config
	mapper  meta.RESTMapper
	cluster *rig.Cluster
	audited string // path of the audit log
	bin     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Skipf("%s is not set: this test needs built binaries; run `make charts-test`", binEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, bin: bin}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	policy, err := filepath.Abs("testdata/audit.yaml")
	w.must(err)
	data := filepath.Join(t.TempDir(), "cluster")
	w.audited = filepath.Join(data, "logs", "audit.log")
	// Simulated nodes would start pods. The test does that itself: a pod of the release
	// is ready when its process is.
	w.cluster, err = rig.StartCluster(ctx, bin, nil, "--nodes", "6", "--node-shape", "uniform", "--with-kwok=false", "--data-dir", data, "--audit-policy", policy,
		"--feature-gates", "GenericWorkload=true", "--runtime-config", "scheduling.k8s.io/v1beta1=true")
	w.must(err)
	t.Cleanup(func() {
		if err := w.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.config, err = rig.Config(w.cluster.Kubeconfig)
	w.must(err)
	w.config.WarningHandler = rest.NoWarnings{}
	w.client, err = kubernetes.NewForConfig(w.config)
	w.must(err)
	w.dynamic, err = dynamic.NewForConfig(w.config)
	w.must(err)
	groups, err := restmapper.GetAPIGroupResources(w.client.Discovery())
	w.must(err)
	w.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	for _, start := range []func(io.Writer, ...string) (*rig.Process, error){w.cluster.StartProvisioner, w.cluster.StartDriver} {
		p, err := start(nil)
		w.must(err)
		t.Cleanup(p.End)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// await polls until the condition holds.
func (w *world) await(what string, condition func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		w.Fatalf("waiting until %s: %v", what, err)
	}
}

// apply applies an object like `kubectl apply --server-side`. Unknown fields are an
// error.
func (w *world) apply(o *unstructured.Unstructured, dryRun ...string) error {
	kind := o.GroupVersionKind()
	mapping, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	text, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	resource := dynamic.ResourceInterface(w.dynamic.Resource(mapping.Resource))
	if o.GetNamespace() != "" {
		resource = w.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	force := true
	_, err = resource.Patch(w.ctx, o.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
		FieldManager: "test", Force: &force, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
	return err
}

// validated has the API server validate the rendered objects: admission, fields and RBAC
// rights.
func (w *world) validated() {
	w.Helper()
	text, err := os.ReadFile(everything)
	w.must(err)
	sets := map[string][]*unstructured.Unstructured{"default": render(w.T, ""), "everything": render(w.T, string(text))}
	for name := range chart.Variants {
		for _, o := range build(w.T, filesys.MakeFsOnDisk(), filepath.Join(kustomizeFolder, "overlays", name)) {
			sets[name] = append(sets[name], o)
		}
	}
	for name, objects := range sets {
		for _, o := range objects {
			if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
				continue // of an operator that the cluster lacks; see TestMonitoringIsThatOfTheFolder
			}
			if err := w.apply(o, metav1.DryRunAll); err != nil {
				w.Errorf("%s: %s: %v", name, chart.ID(o), err)
			}
		}
	}
	bad := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "bad", "namespace": "default"}, "datum": map[string]any{}}}
	if err := w.apply(bad, metav1.DryRunAll); err == nil || !strings.Contains(err.Error(), "datum") {
		w.Errorf("a field that does not exist: %v", err)
	}
}

// helm returns the configuration of Helm's actions.
func (w *world) helm() *action.Configuration {
	w.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &w.cluster.Kubeconfig, ptr(chart.Namespace)
	flags.WithWarningPrinter(genericclioptions.NewTestIOStreamsDiscard())
	c := action.NewConfiguration()
	w.must(c.Init(flags, chart.Namespace, "secret"))
	// The development cluster is built without a version.
	c.Capabilities = common.DefaultCapabilities.Copy()
	c.Capabilities.KubeVersion = chart.Kubernetes
	return c
}

func ptr[T any](v T) *T { return &v }

// stream creates pods one after another until stop is called. stop returns their number.
func (w *world) stream() (stop func() int) {
	ctx, cancel := context.WithCancel(w.ctx)
	created := 0
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("stream-", created)}, Spec: v1.PodSpec{SchedulerName: "berth", Containers: []v1.Container{{Name: "main", Image: "app"}}}}
			if _, err := w.client.CoreV1().Pods(work).Create(w.ctx, pod, metav1.CreateOptions{}); err != nil {
				w.Errorf("create a pod: %v", err)
				return
			}
			created++
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return func() int {
		cancel()
		running.Wait()
		return created
	}
}

// bound waits until every pod of the namespace has a node, except the given ones.
func (w *world) bound(without ...string) {
	w.Helper()
	var waiting []string
	defer func() {
		if w.Failed() {
			w.Logf("without a node: %q", waiting)
		}
	}()
	w.await("all pods have a node", func() bool {
		waiting = nil
		pods, err := w.client.CoreV1().Pods(work).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		for _, p := range pods.Items {
			if p.Spec.NodeName == "" && !slices.Contains(without, p.Name) {
				waiting = append(waiting, p.Name)
			}
		}
		return len(waiting) == 0
	})
}

// TestRelease installs the chart and has the release schedule pods of every kind. It
// changes the configuration under load, then to an invalid one, rolls back, and
// uninstalls. Its processes run with the service account of the Deployment's pods.
func TestRelease(t *testing.T) {
	w := newWorld(t)
	for name, labels := range map[string]map[string]string{work: nil, chart.Namespace: {"pod-security.kubernetes.io/enforce": "restricted"}} {
		_, err := w.client.CoreV1().Namespaces().Create(w.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
		w.must(err)
	}
	w.validated()
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	k := &kubelet{T: t, client: w.client, admin: w.cluster.Kubeconfig, binary: filepath.Join(w.bin, "berth"), folder: t.TempDir(), failed: w.cancel, replicas: map[types.UID]*replica{}, fewest: 99}
	for _, node := range nodes.Items {
		k.nodes = append(k.nodes, node.Name)
	}
	ctx, stop := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		if t.Failed() {
			w.requests(func(r *request) {
				if r.refused() {
					t.Logf("refused at %v: %s, %s", r.StageTimestamp, r.right(), r.URI)
				}
			})
			for _, r := range k.history {
				t.Logf("the end of the log of %s:\n%s", r.pod.Name, r.process.Log())
			}
		}
	})

	helm := w.helm()
	loaded, err := loader.Load(chartFolder)
	w.must(err)
	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = chart.Release, chart.Namespace, kube.StatusWatcherStrategy, 2*time.Minute
	began := time.Now()
	_, err = install.RunWithContext(w.ctx, loaded, chart.WithImage(values(t, releaseValues)))
	w.must(err)
	first := k.ready()
	t.Logf("installed after %v", time.Since(began).Round(time.Millisecond))
	if len(first) != 2 {
		t.Fatalf("%d replicas are ready, want 2", len(first))
	}
	leader := w.leader("")
	w.serves(first[0])
	w.schedules(k.nodes)
	w.explains(k.nodes)

	// Configuration change under load.
	stopStream := w.stream()
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout, upgrade.ResetThenReuseValues = chart.Namespace, kube.StatusWatcherStrategy, 2*time.Minute, true
	_, err = upgrade.RunWithContext(w.ctx, chart.Release, loaded, values(t, "config: {podMaxBackoffSeconds: 2}"))
	w.must(err)
	w.rolled(k, 4, first, "podMaxBackoffSeconds: 2")
	second := k.ready()
	leader = w.leader(leader)
	time.Sleep(time.Second) // the new leader binds for a while
	streamed := stopStream()
	w.bound("choosy")

	// Configuration that the scheduler rejects.
	k.letCrash(true)
	upgrade.Timeout = 5 * time.Second
	if _, err = upgrade.RunWithContext(w.ctx, chart.Release, loaded, values(t, "config: {podInitialBackoffSeconds: 3}")); err == nil {
		t.Error("the upgrade to a configuration that the scheduler refuses has succeeded")
	}
	var crashed *replica
	w.await("a new replica has ended", func() bool { crashed = k.lastCrashed(); return crashed != nil })
	if log := crashed.process.Log(); !strings.Contains(log, "podMaxBackoffSeconds: Invalid value: 2") {
		t.Errorf("the log does not name the field and the value:\n%s", log)
	}
	if got := k.ready(); !slices.Equal(got, second) {
		t.Errorf("%d replicas are ready, want the two from before", len(got))
	}
	_, err = w.client.CoreV1().Pods(work).Create(w.ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile"}, Spec: v1.PodSpec{
		SchedulerName: "berth", Containers: []v1.Container{{Name: "main", Image: "app"}}}}, metav1.CreateOptions{})
	w.must(err)
	w.bound("choosy")
	k.letCrash(false)

	rollback := action.NewRollback(helm)
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = 1, kube.StatusWatcherStrategy, 2*time.Minute
	w.must(rollback.Run(chart.Release))
	w.rolled(k, 7, second, "podMaxBackoffSeconds: 1")
	w.leader(leader)

	// The uninstall removes rights before the processes have ended, so they cannot
	// release the lease.
	until := time.Now()
	uninstall := action.NewUninstall(helm)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, 2*time.Minute
	_, err = uninstall.Run(chart.Release)
	w.must(err)
	w.await("all processes have ended", func() bool { return len(k.ready()) == 0 })
	w.leavesNothing()
	w.audit(streamed, until)
}

// leader waits for a new holder of the lease and returns it.
func (w *world) leader(not string) (holder string) {
	w.Helper()
	w.await("a replica leads", func() bool {
		lease, err := w.client.CoordinationV1().Leases(chart.Namespace).Get(w.ctx, chart.Release, metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		holder = *lease.Spec.HolderIdentity
		return holder != "" && holder != not
	})
	return holder
}

// rolled checks that all replicas were replaced, each only while enough others were
// ready, and that the new ones have the configuration.
func (w *world) rolled(k *kubelet, started int, before []*replica, config string) {
	w.Helper()
	w.await("the replicas are replaced", func() bool {
		ready := k.ready()
		return len(ready) == 2 && !slices.ContainsFunc(before, func(r *replica) bool { return slices.Contains(ready, r) })
	})
	for _, r := range k.ready() {
		if !strings.Contains(r.config, config) {
			w.Errorf("%s was started with this configuration, which lacks %s:\n%s", r.pod.Name, config, r.config)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.history) != started {
		w.Errorf("%d processes were started, want %d", len(k.history), started)
	}
	if k.fewest < 2 {
		w.Errorf("a replica was stopped when %d others were ready, want 2", k.fewest)
	}
}

// serves requests a replica's health, which requires no right, and its metrics, which
// require one.
func (w *world) serves(r *replica) {
	w.Helper()
	tokens := map[string]string{}
	for _, name := range []string{"prometheus", "somebody"} {
		_, err := w.client.CoreV1().ServiceAccounts(work).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.must(err)
		token, err := w.client.CoreV1().ServiceAccounts(work).CreateToken(w.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		w.must(err)
		tokens[name] = token.Status.Token
	}
	_, err := w.client.RbacV1().ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "reads-metrics"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-metrics"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: work, Name: "prometheus"}}}, metav1.CreateOptions{})
	w.must(err)
	// a denial is cached for ten seconds, so the right is awaited at the API server first
	w.await("the right is known", func() bool {
		review, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(w.ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:work:prometheus", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}}}, metav1.CreateOptions{})
		w.must(err)
		return review.Status.Allowed
	})
	expect := func(path, token string, status int, text string) {
		w.Helper()
		response, err := r.ask(w.ctx, path, token)
		w.must(err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		w.must(err)
		if response.StatusCode != status || !strings.Contains(string(body), text) {
			w.Errorf("%s: %s, want %d and %q", path, response.Status, status, text)
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		expect(path, "", http.StatusOK, "ok")
	}
	expect("/metrics", "", http.StatusForbidden, "")
	expect("/metrics", tokens["somebody"], http.StatusForbidden, "")
	expect("/metrics", tokens["prometheus"], http.StatusOK, "berth_build_info")
}

// schedules creates a pod of each kind, waits until they have nodes, and then has one
// preempted.
func (w *world) schedules(nodes []string) {
	w.Helper()
	w.await("the provisioner and the driver have published", func() bool {
		drivers, err := w.client.StorageV1().CSIDrivers().List(w.ctx, metav1.ListOptions{})
		w.must(err)
		slices, err := w.client.ResourceV1().ResourceSlices().List(w.ctx, metav1.ListOptions{})
		w.must(err)
		return len(drivers.Items) > 0 && len(slices.Items) == len(nodes)
	})
	text, err := os.ReadFile("testdata/workload.yaml")
	w.must(err)
	objects, err := chart.Parse(bytes.ReplaceAll(text, []byte("NODE"), []byte(nodes[1])))
	w.must(err)
	for _, o := range objects {
		if err := w.apply(o); err != nil {
			w.Fatalf("%s: %v", chart.ID(o), err)
		}
	}
	w.bound()
	urgent := &v1.Pod{}
	w.must(unstructuredTo(objects, "victim", urgent))
	urgent.Name, urgent.ResourceVersion, urgent.Spec.PriorityClassName = "urgent", "", "urgent"
	_, err = w.client.CoreV1().Pods(work).Create(w.ctx, urgent, metav1.CreateOptions{})
	w.must(err)
	w.bound()
	pods, err := w.client.CoreV1().Pods(work).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if want := []string{"claim", "extended", "gang-1", "gang-2", "local", "plain", "provisioned", "urgent"}; !slices.Equal(names, want) {
		w.Errorf("the pods with a node are %q, want %q", names, want)
	}
}

func unstructuredTo(objects []*unstructured.Unstructured, pod string, to *v1.Pod) error {
	for _, o := range objects {
		if o.GetKind() == "Pod" && o.GetName() == pod {
			text, err := json.Marshal(o.Object)
			if err != nil {
				return err
			}
			return json.Unmarshal(text, to)
		}
	}
	return fmt.Errorf("there is no pod %s", pod)
}

// explains creates a pod without feasible nodes and changes the reason of its rejection.
// It then repeats the rejection, so the event is counted.
func (w *world) explains(nodes []string) {
	w.Helper()
	label := func(node, value string) {
		w.Helper()
		_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"chosen":%s}}}`, value), metav1.PatchOptions{})
		w.must(err)
	}
	choosy := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "choosy"}, Spec: v1.PodSpec{SchedulerName: "berth", NodeSelector: map[string]string{"chosen": "yes"}, Containers: []v1.Container{{
		Name: "main", Image: "app", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("64")}}}}}}
	_, err := w.client.CoreV1().Pods(work).Create(w.ctx, choosy, metav1.CreateOptions{})
	w.must(err)
	rejected := func(reason string, times int32) func() bool {
		return func() bool {
			events, err := w.client.EventsV1().Events(work).List(w.ctx, metav1.ListOptions{})
			w.must(err)
			for _, e := range events.Items {
				count := int32(1)
				if e.Series != nil {
					count = e.Series.Count
				}
				if e.Regarding.Name == choosy.Name && e.Reason == "FailedScheduling" && strings.Contains(e.Note, reason) && count >= times {
					return true
				}
			}
			return false
		}
	}
	w.await("an event says why", rejected("6 node(s) didn't match Pod's node affinity/selector", 1))
	on := 0
	label(nodes[on], `"yes"`)
	// The condition is checked, because the event still has the former reason.
	// kube-scheduler does the same while it has not yet seen the pod's version with the
	// former condition.
	w.await("the pod's condition says why not there", func() bool {
		pod, err := w.client.CoreV1().Pods(work).Get(w.ctx, choosy.Name, metav1.GetOptions{})
		w.must(err)
		return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodScheduled && strings.Contains(c.Message, "1 Insufficient cpu")
		})
	})
	w.await("the event is counted", func() bool { // a label on another node retries the pod
		label(nodes[on], "null")
		on = (on + 1) % len(nodes)
		label(nodes[on], `"yes"`)
		return rejected("didn't match Pod's node affinity/selector", 2)()
	})
}

// leavesNothing lists the objects of all kinds and expects no objects of the release.
func (w *world) leavesNothing() {
	w.Helper()
	kept := map[string]string{
		"namespaces " + chart.Namespace:                       "the test has made it, as --create-namespace does; Helm never deletes it",
		"serviceaccounts " + chart.Namespace + "/default":     "each namespace has it",
		"configmaps " + chart.Namespace + "/kube-root-ca.crt": "each namespace has it",
		"leases " + chart.Namespace + "/" + chart.Release:     "the scheduler has made it, with what it was needed for; another release of that name goes on with it",
		"events": "they end after an hour",
	}
	lists, err := w.client.Discovery().ServerPreferredResources()
	w.must(err)
	client, err := metadata.NewForConfig(w.config)
	w.must(err)
	var left []string
	defer func() {
		if len(left) > 0 {
			w.Errorf("uninstalled, but there are still %q", left)
		}
	}()
	seen := map[string]bool{}
	w.await("nothing is left", func() bool { // the garbage collector takes a moment
		left = nil
		for _, list := range lists {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			w.must(err)
			for _, resource := range list.APIResources {
				if !slices.Contains(resource.Verbs, "list") {
					continue
				}
				objects, err := client.Resource(version.WithResource(resource.Name)).List(w.ctx, metav1.ListOptions{})
				w.must(err)
				for _, o := range objects.Items {
					if o.Namespace != chart.Namespace && !strings.HasPrefix(o.Name, chart.Release) && o.Labels["app.kubernetes.io/instance"] != chart.Release {
						continue
					}
					id := resource.Name + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
					if seen[id], seen[resource.Name] = true, true; kept[id] == "" && kept[resource.Name] == "" {
						left = append(left, id)
					}
				}
			}
		}
		return len(left) == 0
	})
	for id := range kept {
		if !seen[id] {
			w.Errorf("%s is said to be kept, and is not there: the list is out of date", id)
		}
	}
}

// request is a line of the audit log.
type request struct {
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	User      struct{ Username string }
	ObjectRef struct {
		APIGroup, Resource, Subresource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct{ Code int }
	RequestObject  json.RawMessage `json:"requestObject"`
	StageTimestamp time.Time       `json:"stageTimestamp"`
}

// right returns the right that a request needs, as in a role's rule: verb,
// group/resource.
func (r *request) right() string {
	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	return r.Verb + " " + r.ObjectRef.APIGroup + "/" + resource
}

// refused reports whether the API server denied a request.
func (r *request) refused() bool {
	return r.ResponseStatus.Code == http.StatusForbidden || r.ResponseStatus.Code == http.StatusUnauthorized
}

// requests calls do for each scheduler request in the audit log.
func (w *world) requests(do func(*request)) {
	w.Helper()
	file, err := os.Open(w.audited)
	w.must(err)
	defer file.Close()
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the last line may be incomplete
		}
		r := &request{}
		w.must(json.Unmarshal(line, r))
		if r.User.Username == user {
			do(r)
		}
	}
}

// unused are the scheduler's rights that this test does not use, with the reason for
// each.
var unused = map[string]string{
	"get /pods":                                    "it reads a pod when the answer to its binding was lost",
	"get /persistentvolumes":                       "it reads a volume when the answer to its write was lost",
	"get /persistentvolumeclaims":                  "it reads a claim when the answer to its write was lost",
	"get resource.k8s.io/resourceclaims":           "it reads a claim when the answer to its write was lost",
	"create resource.k8s.io/resourceclaims":        "the API server asks for it when a patch makes a claim; it is no request of its own",
	"delete resource.k8s.io/resourceclaims":        "it takes back the claim for extended resources of a pod that cannot be bound",
	"patch resource.k8s.io/resourceclaims/binding": "the API server asks for it with each write of resourceclaims/status; it is no request of its own",
	"update /pods/finalizers":                      "the admission plugin OwnerReferencesPermissionEnforcement asks for it; it is no request of its own",
	"patch /events":                                "it counts an event about the lease that repeats",
}

// audit reads the audit log until a time. No scheduler request was denied, each right of
// its roles was used, and each pod was bound once. No pause between bindings was as long
// as a lease.
func (w *world) audit(streamed int, until time.Time) {
	w.Helper()
	used, bound := map[string]int{}, map[types.UID]int{}
	var times []time.Time // of the bindings of streamed pods
	w.requests(func(r *request) {
		if r.StageTimestamp.After(until) {
			return
		}
		if r.refused() {
			w.Errorf("the scheduler may not %s: %s", r.right(), r.URI)
		}
		used[r.right()]++
		if r.right() == "create /pods/binding" && r.ResponseStatus.Code < 300 {
			var binding v1.Binding
			w.must(json.Unmarshal(r.RequestObject, &binding))
			bound[binding.UID]++
			if strings.HasPrefix(r.ObjectRef.Name, "stream-") {
				times = append(times, r.StageTimestamp)
			}
		}
	})
	allowed := map[string]bool{}
	for _, o := range render(w.T, releaseValues) {
		// a role for users, without a binding
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" || strings.HasSuffix(o.GetName(), "-explain") {
			continue
		}
		for _, rule := range get[rbacv1.ClusterRole](w.T, []*unstructured.Unstructured{o}, o.GetKind(), o.GetName()).Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range rule.Resources {
					allowed[verb+" "+rule.APIGroups[0]+"/"+resource] = true
				}
			}
		}
	}
	for _, right := range slices.Sorted(maps.Keys(allowed)) {
		if resource, list := strings.CutPrefix(right, "list "); list && used["watch "+resource] > 0 {
			// a watch begins with a list; a client falls back to a real list if the API
			// server does not send it
			continue
		}
		if (used[right] == 0) == (unused[right] == "") {
			w.Errorf("the roles allow to %s, which was used %d times; the reason for what is not used is %q", right, used[right], unused[right])
		}
	}
	for uid, n := range bound {
		if n > 1 {
			w.Errorf("pod %s was bound %d times", uid, n)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	longest := time.Duration(0)
	for i := 1; i < len(times); i++ {
		longest = max(longest, times[i].Sub(times[i-1]))
	}
	if len(times) != streamed || streamed < 20 {
		w.Errorf("%d of %d pods were bound while the replicas were replaced", len(times), streamed)
	}
	if longest >= leaseDuration {
		w.Errorf("no pod was bound for %v while the replicas were replaced, as long as a lease lasts", longest)
	}
	w.Logf("%d kinds of request, %d pods bound, %d of them while the replicas were replaced, %v at the most between two bindings", len(used), len(bound), streamed, longest.Round(time.Millisecond))
}
