package neighbours

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// binEnv names the folder of the built programs. "make neighbours" sets it.
const binEnv = "BERTH_E2E_BIN"

var only = flag.String("scenes", "", "a regular expression; play only the scenes with a name that it matches")

// A neighbour is a program that works beside the scheduler.
type neighbour struct {
	nodes   int
	gates   string // feature gates of the API server and of both schedulers
	install func(ctx context.Context, s *stage) error
	scenes  []scene
}

// A scene is a part of a neighbour's script, with objects in a namespace of its own. Its
// notes must be the same with both schedulers.
type scene struct {
	name string
	play func(ctx context.Context, s *stage) error
}

// besideBoth returns a test that plays the scenes of a neighbour with kube-scheduler and
// with Berth, each in a new cluster, and compares the notes.
func besideBoth(n neighbour) func(t *testing.T) {
	return func(t *testing.T) {
		bin := os.Getenv(binEnv)
		if bin == "" {
			t.Skipf("%s does not name a folder with the programs, as make neighbours does", binEnv)
		}
		n.scenes = slices.DeleteFunc(slices.Clone(n.scenes), func(s scene) bool {
			matched, err := regexp.MatchString(*only, s.name)
			if err != nil {
				t.Fatal(err)
			}
			return !matched
		})
		if len(n.scenes) == 0 {
			t.Fatalf("-scenes %q: no scene has such a name", *only)
		}
		want := playAll(t, bin, "kube-scheduler", n)
		got := playAll(t, bin, "berth", n)
		for _, scene := range n.scenes {
			t.Run(scene.name, func(t *testing.T) {
				if len(want[scene.name]) == 0 {
					t.Error("the scene noted nothing with kube-scheduler")
				}
				if diff := gocmp.Diff(want[scene.name], got[scene.name]); diff != "" {
					t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
				}
				t.Logf("\n%s", strings.Join(got[scene.name], "\n"))
			})
		}
	}
}

// stage is a cluster with one scheduler and one neighbour.
type stage struct {
	t       *testing.T
	bin     string
	folder  string
	cluster *rig.Cluster
	clients kubernetes.Interface
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	nodes   []string // at the start, sorted
	gates   []string // a flag, or none

	namespace   string
	notes       []string
	collections []schema.GroupVersionResource // what clear deletes beside pods and workloads
	cleanup     []func(context.Context) error // of the scene
	managers    []*rig.Process                // of the neighbour, which run until the end

	mu   sync.Mutex
	pods map[types.UID]*v1.Pod // every version seen last, also of pods that are gone
}

// playAll returns the notes by scene.
func playAll(t *testing.T, bin, scheduler string, n neighbour) map[string][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	s := &stage{t: t, bin: bin, folder: t.TempDir(), pods: map[types.UID]*v1.Pod{}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("beside %s: %v", scheduler, err)
		}
	}
	began := time.Now()
	defer func() {
		for _, process := range s.managers {
			process.Kill()
		}
		if s.cluster == nil {
			return
		}
		if err := s.cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	must(s.open(ctx, n))
	must(s.watchPods(ctx))
	process, err := s.startScheduler(scheduler)
	must(err)
	defer process.End() // both exit with 1 without leader election
	must(n.install(ctx, s))
	notes := map[string][]string{}
	for _, scene := range n.scenes {
		s.namespace, s.notes = scene.name, nil
		must(s.apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+scene.name+"}"))
		if err := scene.play(ctx, s); err != nil {
			t.Errorf("%s beside %s: %v", scene.name, scheduler, err)
			s.note("the scene failed beside %s", scheduler)
		}
		must(s.ended())
		must(s.clear(ctx))
		notes[scene.name] = s.notes
		select {
		case <-process.Exited():
			t.Fatalf("%s has ended:\n%s", scheduler, process.Log())
		default:
		}
	}
	if t.Failed() {
		t.Logf("the end of the log of %s:\n%s", scheduler, process.Log())
	}
	t.Logf("%s: all scenes in %v", scheduler, time.Since(began).Round(time.Second))
	return notes
}

func (s *stage) open(ctx context.Context, n neighbour) error {
	var err error
	if n.gates != "" {
		s.gates = []string{"--feature-gates=" + n.gates}
	}
	flags := append([]string{"--nodes", fmt.Sprint(n.nodes), "--node-shape", "uniform", "--data-dir", filepath.Join(s.folder, "cluster"), "--runtime-config", "scheduling.k8s.io/v1beta1=true"}, s.gates...)
	if s.cluster, err = rig.StartCluster(ctx, s.bin, nil, flags...); err != nil {
		return err
	}
	config, err := rig.Config(s.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	if s.clients, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	config.ContentType = "application/json"
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.clients.Discovery()))
	list, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range list.Items {
		s.nodes = append(s.nodes, node.Name)
	}
	slices.Sort(s.nodes)
	return nil
}

// configuration has two more profiles, for neighbours that empty nodes: one that prefers
// full nodes, and one in which no other score is against it.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- schedulerName: default-scheduler
- schedulerName: most-allocated
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
- schedulerName: packing
  plugins:
    score: {disabled: [{name: NodeResourcesBalancedAllocation}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
  - name: PodTopologySpread
    args: {defaultingType: List}
`

// startScheduler starts a scheduler with exactly a scheduler's rights.
func (s *stage) startScheduler(program string) (*rig.Process, error) {
	config, err := s.file("scheduler.yaml", fmt.Sprintf(configuration, s.cluster.SchedulerKubeconfig))
	if err != nil {
		return nil, err
	}
	args := append([]string{"--config", config, "--secure-port=0"}, s.gates...)
	if program == "berth" {
		args = append([]string{"scheduler"}, args...)
	}
	return rig.Start(nil, filepath.Join(s.bin, program), args...)
}

// file writes a file into the stage's folder and returns its path.
func (s *stage) file(name, text string) (string, error) {
	path := filepath.Join(s.folder, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// start starts a neighbour's manager with the rights of an administrator. The test fails
// if it ends before the scenes do.
func (s *stage) start(log io.Writer, program string, args ...string) (*rig.Process, error) {
	process, err := rig.Start(log, filepath.Join(s.bin, program), args...)
	if err != nil {
		return nil, err
	}
	s.managers = append(s.managers, process)
	return process, nil
}

// ended returns an error if a manager has ended by itself: the scenes then show nothing.
func (s *stage) ended() error {
	for _, process := range s.managers {
		if err := process.Failure(); err != nil {
			return fmt.Errorf("a manager has ended: %w\n%s", err, process.Log())
		}
	}
	return nil
}

// stop ends a manager that a scene has started.
func (s *stage) stop(process *rig.Process) {
	s.managers = slices.DeleteFunc(s.managers, func(p *rig.Process) bool { return p == process })
	process.End()
}

// note adds a line that is compared.
func (s *stage) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// moduleFile reads a file of a neighbour's module, at the version of its go.mod.
func moduleFile(ctx context.Context, neighbour, module string, path ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = neighbour
	var stderr bytes.Buffer
	command.Stderr = &stderr
	folder, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("find the files of %s: %w\n%s", module, err, stderr.Bytes())
	}
	return os.ReadFile(filepath.Join(append([]string{strings.TrimSpace(string(folder))}, path...)...))
}

// apply creates or updates the objects of YAML documents. Objects without a namespace are
// in the scene's. Kinds of definitions that were created before are waited for.
func (s *stage) apply(ctx context.Context, documents string, changes ...func(*unstructured.Unstructured)) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(documents)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return fmt.Errorf("parse: %w\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		for _, change := range changes {
			change(object)
		}
		if err := s.applyOne(ctx, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

func (s *stage) applyOne(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	err := poll(ctx, time.Minute, func() error {
		var err error
		if mapping, err = s.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			s.mapper.Reset()
		}
		return err
	})
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = s.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(s.namespace)
		}
		resource = s.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: "neighbours", Force: true})
	return err
}

// clear deletes the workloads of the scene's namespace, waits until its pods are gone.
func (s *stage) clear(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	options, all := metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}
	err := errors.Join(
		s.clients.AppsV1().Deployments(s.namespace).DeleteCollection(ctx, options, all),
		s.clients.BatchV1().Jobs(s.namespace).DeleteCollection(ctx, options, all),
	)
	for _, collection := range s.collections {
		err = errors.Join(err, s.dynamic.Resource(collection).Namespace(s.namespace).DeleteCollection(ctx, options, all))
	}
	if err != nil {
		return err
	}
	err = poll(ctx, 2*time.Minute, func() error {
		if err := rig.DeletePods(ctx, s.clients, s.namespace); err != nil {
			return err
		}
		list, err := s.clients.CoreV1().Pods(s.namespace).List(ctx, all)
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(list.Items))
		}
		return err
	})
	for _, cleanup := range s.cleanup {
		err = errors.Join(err, cleanup(ctx))
	}
	s.cleanup = nil
	return err
}

// watchPods records the last version of every pod.
func (s *stage) watchPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(s.clients, 0)
	informer := factory.Core().V1().Pods().Informer()
	record := func(object any) {
		if pod, ok := object.(*v1.Pod); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pods[pod.UID] = pod
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: record, UpdateFunc: func(_, object any) { record(object) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

// created returns how many pods the scene's namespace has had so far.
func (s *stage) created() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, pod := range s.pods {
		if pod.Namespace == s.namespace {
			count++
		}
	}
	return count
}

// list returns the living pods of the scene's namespace.
func (s *stage) list(ctx context.Context) ([]v1.Pod, error) {
	list, err := s.clients.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod v1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// bound waits until the scene's namespace has n living pods, each bound and running.
func (s *stage) bound(ctx context.Context, n int) error {
	return s.until(ctx, func(pods []v1.Pod) error {
		running := 0
		for _, pod := range pods {
			if err := rig.Refused(&pod); err != nil {
				return err
			}
			if pod.Spec.NodeName != "" && pod.Status.Phase == v1.PodRunning {
				running++
			}
		}
		if len(pods) != n || running != n {
			return fmt.Errorf("of %d pods, %d run, want %d", len(pods), running, n)
		}
		return nil
	})
}

// until waits until a condition on the scene's living pods holds.
func (s *stage) until(ctx context.Context, condition func([]v1.Pod) error) error {
	return poll(ctx, 90*time.Second, func() error {
		pods, err := s.list(ctx)
		if err != nil {
			return err
		}
		return condition(pods)
	})
}

// noteState notes the living pods: how many run, on how many nodes each, and for those
// that do not run the condition PodScheduled. What a group counts is given by a function
// of the pod's node, such as its zone.
func (s *stage) noteState(ctx context.Context, group func(*v1.Node) string) error {
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	nodes, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	groups := map[string]string{}
	for i := range nodes.Items {
		groups[nodes.Items[i].Name] = group(&nodes.Items[i])
	}
	counts, waiting := map[string]int{}, []string{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			counts[groups[pod.Spec.NodeName]]++
			continue
		}
		waiting = append(waiting, "pending: "+scheduled(&pod))
	}
	s.note("bound, by group: %v", slices.Sorted(maps.Values(counts)))
	slices.Sort(waiting)
	s.notes = append(s.notes, waiting...)
	return nil
}

// scheduled returns the condition PodScheduled as text.
func scheduled(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return fmt.Sprintf("%s %s: %s", c.Status, cmp.Or(c.Reason, "-"), cmp.Or(c.Message, "-"))
		}
	}
	return "no condition PodScheduled"
}

// byNode is a group for each node.
func byNode(node *v1.Node) string { return node.Name }

// byLabel is a group for each value of a label.
func byLabel(key string) func(*v1.Node) string {
	return func(node *v1.Node) string { return node.Labels[key] }
}

// change patches a node.
func (s *stage) change(ctx context.Context, node, patch string) error {
	_, err := s.clients.CoreV1().Nodes().Patch(ctx, node, mergePatch, []byte(patch), metav1.PatchOptions{})
	return err
}

// label sets a label of nodes. An empty value removes it.
func (s *stage) label(ctx context.Context, key, value string, nodes ...string) error {
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	for _, node := range nodes {
		if err := s.change(ctx, node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, text)); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the scene's state has not changed for a time, so that what must not
// happen has had its time to happen.
func (s *stage) settle(ctx context.Context, quiet time.Duration, state func(context.Context) (string, error)) error {
	last, since := "", time.Now()
	return poll(ctx, 2*time.Minute, func() error {
		now, err := state(ctx)
		if err != nil {
			return err
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < quiet {
			return fmt.Errorf("the state has changed in the last %v:\n%s", quiet, now)
		}
		return nil
	})
}

// labelPod sets a label of a pod of the scene.
func (s *stage) labelPod(ctx context.Context, pod, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := s.clients.CoreV1().Pods(s.namespace).Patch(ctx, pod, mergePatch, []byte(patch), metav1.PatchOptions{})
	return err
}

// cordon makes nodes unschedulable, or schedulable again.
func (s *stage) cordon(ctx context.Context, unschedulable bool, nodes ...string) error {
	for _, node := range nodes {
		if err := s.change(ctx, node, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, unschedulable)); err != nil {
			return err
		}
	}
	return nil
}

// scale sets the replicas of a Deployment.
func (s *stage) scale(ctx context.Context, deployment string, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.clients.AppsV1().Deployments(s.namespace).Patch(ctx, deployment, mergePatch, patch, metav1.PatchOptions{})
	return err
}

// mergePatch is the type of patches of typed objects.
const mergePatch = types.StrategicMergePatchType

// poll repeats an attempt until it succeeds, for at most a time. The error is that of the
// last attempt.
func poll(ctx context.Context, limit time.Duration, attempt func() error) error {
	end := time.Now().Add(limit)
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("after %v: %w", limit, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
