package plugged

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// binEnv is the folder of the built programs. "make beside" sets it.
const binEnv = "BERTH_E2E_BIN"

// TestBesideKubeScheduler runs the same scripts under kube-scheduler and under Berth,
// against one API server. Both have the plugins of this package and of parity/moved. The
// results must match: nodes, conditions, events, evictions and annotations.
func TestBesideKubeScheduler(t *testing.T) {
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Skipf("%s does not name a folder with devcluster, moved-kube-scheduler and moved-berth, as make beside does", binEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	f := startFloor(ctx, t, bin)
	want, got := map[string][]string{}, map[string][]string{}
	for _, sort := range sorts() {
		f.configure(t, sort)
		// Namespace names of the same length, because long event texts are cut off.
		maps.Copy(want, f.play(ctx, t, sort, "moved-kube-scheduler", "upstream"))
		maps.Copy(got, f.play(ctx, t, sort, "moved-berth", "berth-01"))
	}
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		t.Run(name, func(t *testing.T) {
			if len(want[name]) == 0 {
				t.Error("the script noted nothing")
			}
			if differs := scripts[name].differs; differs != "" {
				if cmp.Equal(want[name], got[name]) {
					t.Errorf("both schedulers note the same; docs/plugins.md says: %s", differs)
				}
			} else if diff := cmp.Diff(want[name], got[name]); diff != "" {
				t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
			}
			t.Logf("\n%s", strings.Join(got[name], "\n"))
		})
	}
}

// floor is a cluster whose nodes are divided among the scripts.
type floor struct {
	cluster *rig.Cluster
	bin     string
	clients kubernetes.Interface
	dynamic dynamic.Interface
	nodes   map[string][]string // by script
	config  string
	watcher string // address of the load-watcher stub
}

func startFloor(ctx context.Context, t *testing.T, bin string) *floor {
	t.Helper()
	total := 0
	for _, s := range scripts {
		total += s.nodes
	}
	must := mustOf(t)
	f := openFloor(ctx, t, bin, total)
	list, err := f.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(err)
	if len(list.Items) != total {
		t.Fatalf("the cluster has %d nodes and not %d", len(list.Items), total)
	}
	free := list.Items
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		for range scripts[name].nodes {
			must((&stage{clients: f.clients}).labelNode(ctx, free[0].Name, PoolLabel, name))
			f.nodes[name] = append(f.nodes[name], free[0].Name)
			free = free[1:]
		}
	}
	for _, priority := range []int32{10, 11, 12, 13, 20} {
		_, err := f.clients.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("plugged-%d", priority)}, Value: priority,
		}, metav1.CreateOptions{})
		must(err)
	}
	must(f.define(ctx, ZonesResource, "NodeZone", "Cluster"))
	must(f.define(ctx, podGroups, "PodGroup", "Namespaced"))
	must(f.define(ctx, elasticQuotas, "ElasticQuota", "Namespaced"))
	must(f.define(ctx, nodeTopologies, "NodeResourceTopology", "Cluster"))
	must(f.define(ctx, appGroups, "AppGroup", "Namespaced"))
	must(f.define(ctx, networkTopologies, "NetworkTopology", "Namespaced"))
	must(f.define(ctx, seccompProfiles, "SeccompProfile", "Namespaced"))
	watcher := httptest.NewServer(loads(f.nodes["packing"], f.nodes["variation"], f.nodes["overcommit"], f.nodes["peaks"]))
	t.Cleanup(watcher.Close)
	f.watcher = watcher.URL
	return f
}

// openFloor starts a cluster with this number of nodes, 32 CPUs each.
func openFloor(ctx context.Context, t testing.TB, bin string, nodes int) *floor {
	t.Helper()
	must := mustOf(t)
	cluster, err := rig.StartCluster(ctx, bin, nil, "--nodes", fmt.Sprint(nodes), "--node-shape", "uniform", "--data-dir", filepath.Join(t.TempDir(), "cluster"))
	must(err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := &floor{cluster: cluster, bin: bin, nodes: map[string][]string{}, config: filepath.Join(t.TempDir(), "config.yaml")}
	f.clients, err = cluster.Client()
	must(err)
	config, err := rig.Config(cluster.Kubeconfig)
	must(err)
	config.ContentType = "application/json"
	f.dynamic, err = dynamic.NewForConfig(config)
	must(err)
	return f
}

// mustOf returns a function that ends the test at an error.
func mustOf(t testing.TB) func(err error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sorts lists the QueueSort plugins of all scripts. A scheduler has one for all profiles.
func sorts() []string {
	list := []string{""}
	for _, s := range scripts {
		if !slices.Contains(list, s.sort) {
			list = append(list, s.sort)
		}
	}
	slices.Sort(list)
	return list
}

// scriptsWith returns the names of the scripts with a QueueSort plugin.
func scriptsWith(sort string) []string {
	names := slices.Sorted(maps.Keys(scripts))
	return slices.DeleteFunc(names, func(name string) bool { return scripts[name].sort != sort })
}

// configure writes the configuration with the profiles of one QueueSort plugin's scripts.
func (f *floor) configure(t *testing.T, sort string) {
	t.Helper()
	text := strings.ReplaceAll(configuration(f.cluster.Kubeconfig, sort, f.nodes), "WATCHER", f.watcher)
	if err := os.WriteFile(f.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// loads is a load-watcher stub. In each group of three nodes, the first has little load
// with a high variance, the second slightly less than the target, and the third too much.
func loads(threes ...[]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var text []string
		for _, nodes := range threes {
			for i, percent := range []int{20, 45, 80} {
				var metrics []string
				for operator, value := range map[string]int{"Latest": percent, "AVG": percent, "STD": 30 - 10*i} {
					metrics = append(metrics, fmt.Sprintf(`{"name":"cpu","type":"CPU","operator":%q,"value":%d}`, operator, value))
				}
				text = append(text, fmt.Sprintf(`%q:{"metrics":[%s]}`, nodes[i], strings.Join(metrics, ",")))
			}
		}
		now := time.Now().Unix()
		_, _ = fmt.Fprintf(w, `{"timestamp":%d,"window":{"duration":"15m","start":%d,"end":%d},"source":"test","data":{"NodeMetricsMap":{%s}}}`, now, now-900, now, strings.Join(text, ","))
	})
}

// configuration returns a configuration with a profile for each script of one QueueSort
// plugin. A profile has its script's name. NODE0 in a script's configuration is replaced
// by the name of its first node, and so on.
func configuration(kubeconfig, sort string, nodes map[string][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 1000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
`, kubeconfig)
	for _, name := range scriptsWith(sort) {
		s := scripts[name]
		order := `{queueSort: {disabled: [{name: "*"}], enabled: [{name: ` + stdcmp.Or(sort, OrderedName) + `}]}, ` + strings.TrimPrefix(s.plugins, "{")
		fmt.Fprintf(&text, "- schedulerName: %s\n  plugins: %s\n", name, order)
		if s.config != "" {
			config := s.config
			for i, node := range nodes[name] {
				config = strings.ReplaceAll(config, fmt.Sprintf("NODE%d", i), node)
			}
			fmt.Fprintf(&text, "  pluginConfig: %s\n", config)
		}
	}
	return text.String()
}

// define creates a CustomResourceDefinition and waits until the API server serves the
// resource.
func (f *floor) define(ctx context.Context, resource schema.GroupVersionResource, kind, scope string) error {
	definitions := f.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	name := resource.Resource + "." + resource.Group
	open := map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	_, err := definitions.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": map[string]any{
			"group": resource.Group, "scope": scope, "names": map[string]any{"plural": resource.Resource, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{"name": resource.Version, "served": true, "storage": true, "schema": open}},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		_, err := f.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// play runs the scripts of one QueueSort plugin in parallel under a scheduler and returns
// their notes.
func (f *floor) play(ctx context.Context, t *testing.T, sort, program, side string) map[string][]string {
	t.Helper()
	stages := map[string]*stage{}
	for _, name := range scriptsWith(sort) {
		s := &stage{clients: f.clients, dynamic: f.dynamic, scheduler: name, namespace: name + "-" + side, nodes: f.nodes[name], seen: map[string]*v1.Pod{}}
		stages[name] = s
		_, err := f.clients.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
		if err == nil && scripts[name].objects != nil {
			err = scripts[name].objects(ctx, s)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	process, err := rig.Start(nil, filepath.Join(f.bin, program), "--config", f.config, "--secure-port=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	scheduling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-process.Exited():
			cancel(fmt.Errorf("%s has ended", program))
		case <-scheduling.Done():
		}
	}()
	began := time.Now()
	var group sync.WaitGroup
	for name, s := range stages {
		group.Go(func() {
			if err := scripts[name].run(scheduling, s); err != nil {
				t.Errorf("%s under %s: %v", name, program, err)
				s.note("the script failed under %s", program)
			}
		})
	}
	group.Wait()
	t.Logf("%s: all scripts with order %q in %v", program, sort, time.Since(began).Round(time.Millisecond))
	if t.Failed() {
		t.Logf("the end of the log of %s:\n%s", program, process.Log())
	}
	notes := map[string][]string{}
	for name, s := range stages {
		notes[name] = s.notes
		if err := rig.DeletePods(ctx, f.clients, s.namespace); err != nil {
			t.Error(err)
		}
		if err := f.clients.CoreV1().ConfigMaps(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
	process.End() // both exit with 1 without leader election
	return notes
}
