package surface

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// request is one request to the serving endpoint.
type request struct {
	method, path string
	user         string // administrator, anonymous, or an unknown bearer token
	accept       string
	body         string
}

func (r request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s as %s %s", r.method, r.path, r.user, r.accept))
}

// response is the compared part of an HTTP response.
type response struct {
	Status      int
	ContentType string
	Body        string
}

const (
	administrator = "administrator"
	anonymous     = "anonymous"
	stranger      = "unknown token"
)

// requests are sent to both programs. Bodies are compared too, except for bodyVaries.
func requests() []request {
	get := func(user string, paths ...string) []request {
		var all []request
		for _, path := range paths {
			all = append(all, request{method: http.MethodGet, path: path, user: user})
		}
		return all
	}
	all := slices.Concat(
		get(anonymous, "/healthz", "/livez", "/readyz", "/healthz?verbose", "/readyz/sched-handler-sync", "/metrics", "/metrics/resources", "/metrics/slis",
			"/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/flags", "/nope", "/"),
		get(stranger, "/healthz", "/metrics", "/configz"),
		get(administrator, "/healthz", "/healthz?verbose", "/livez?verbose", "/readyz", "/readyz?verbose", "/readyz?verbose&exclude=shutdown", "/readyz/sched-handler-sync",
			"/readyz/shutdown", "/readyz/nope", "/healthz/leaderElection", "/livez/ping", "/metrics", "/metrics/resources", "/metrics/slis", "/configz",
			"/flagz", "/statusz", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/flags", "/debug/flags/v", "/nope", "/"),
	)
	for _, of := range []string{"Statusz", "Flagz"} {
		for _, format := range []string{"application/json", "application/yaml"} {
			all = append(all, request{method: http.MethodGet, path: "/" + strings.ToLower(of), user: administrator, accept: format + ";v=v1beta1;g=config.k8s.io;as=" + of})
		}
		all = append(all, request{method: http.MethodGet, path: "/" + strings.ToLower(of), user: administrator, accept: "application/xml"})
	}
	return append(all,
		request{method: http.MethodPut, path: "/debug/flags/v", user: administrator, body: "3"},
		request{method: http.MethodPut, path: "/debug/flags/v", user: administrator, body: "much"},
		request{method: http.MethodPut, path: "/debug/flags/v", user: anonymous, body: "3"},
		request{method: http.MethodPost, path: "/metrics", user: administrator},
		request{method: http.MethodDelete, path: "/metrics/slis", user: administrator},
		request{method: http.MethodDelete, path: "/metrics", user: administrator},
	)
}

// bodyVaries matches paths whose body depends on the time, the process or the machine.
// Only status and content type are compared.
var bodyVaries = regexp.MustCompile(`^/(metrics|flagz|statusz|debug/pprof)`)

// someGated matches a pod with a scheduling gate in /metrics: this program's, or also the
// previous program's.
var someGated = regexp.MustCompile(`scheduler_pending_pods\{queue="gated"\} [1-9]`)

// served are all responses of one program.
type served struct {
	responses map[string]response
	families  map[string]map[string]*dto.MetricFamily // by path
	config    any
	lines     map[string][]string // of /flagz and /statusz
}

// TestServing runs both programs on one cluster, one after the other, with the same pods,
// and compares their responses.
func TestServing(t *testing.T) {
	c, ok := programs(t)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cluster, err := rig.StartCluster(ctx, c.bin, io.Discard, "--nodes=5")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	want := ask(ctx, t, cluster, c.kubeScheduler, "upstream")
	got := ask(ctx, t, cluster, c.berth, "berth")
	t.Run("responses", func(t *testing.T) { compareResponses(t, want, got) })
	t.Run("configz", func(t *testing.T) {
		if diff := cmp.Diff(want.config, got.config); diff != "" {
			t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
		}
	})
	t.Run("flagz and statusz", func(t *testing.T) {
		if diff := cmp.Diff(want.lines, got.lines); diff != "" {
			t.Errorf("kube-scheduler (-), Berth (+):\n%s", diff)
		}
	})
	t.Run("metrics", func(t *testing.T) { compareMetrics(t, want, got) })
}

// ask runs a program as the cluster's scheduler, has it bind and reject pods, and sends
// it all requests.
func ask(ctx context.Context, t *testing.T, cluster *rig.Cluster, program, namespace string) served {
	t.Helper()
	clients := clientsOf(t, cluster)
	process, base := start(ctx, t, cluster, clients, program)
	client, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	work(ctx, t, client, process, namespace)
	until(ctx, t, process, "gauges, which are brought up to date once a second, say so", func() bool {
		text := send(ctx, clients, base, request{method: http.MethodGet, path: "/metrics", user: administrator}).Body
		return strings.Contains(text, `scheduler_cache_size{type="nodes"} 5`) && someGated.MatchString(text)
	})
	s := served{responses: map[string]response{}, families: map[string]map[string]*dto.MetricFamily{}, lines: map[string][]string{}}
	for _, r := range requests() {
		a := send(ctx, clients, base, r)
		s.take(t, r, a)
		s.responses[r.String()] = a
	}
	if err := process.Stop(); err != nil {
		t.Errorf("%s: SIGTERM: %v", program, err)
	}
	return s
}

// starts is the maximum number of starts. A free port may be taken before the program
// opens it.
const starts = 5

// start runs a program on a free port, and returns when it is ready.
func start(ctx context.Context, t *testing.T, cluster *rig.Cluster, clients map[string]*http.Client, program string) (process *rig.Process, base string) {
	t.Helper()
	for try := 1; ; try++ {
		port := freePort(t)
		process, err := rig.Start(io.Discard, program, "--kubeconfig="+cluster.SchedulerKubeconfig, "--authentication-kubeconfig="+cluster.SchedulerKubeconfig,
			"--authorization-kubeconfig="+cluster.SchedulerKubeconfig, "--bind-address=127.0.0.1", "--secure-port="+port)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(process.Kill)
		base := "https://127.0.0.1:" + port
		err = await(ctx, process, func() bool {
			return send(ctx, clients, base, request{method: http.MethodGet, path: "/readyz", user: anonymous}).Status == http.StatusOK
		})
		if err == nil {
			return process, base
		}
		if try == starts || !strings.Contains(process.Log(), "address already in use") {
			t.Fatalf("wait until %s is ready: %v\n%s", program, err, process.Log())
		}
		t.Logf("port %s was taken meanwhile", port)
	}
}

// work has a scheduler bind pods, reject one, and keep one with a scheduling gate.
func work(ctx context.Context, t *testing.T, client kubernetes.Interface, process *rig.Process, namespace string) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := rig.CreatePods(ctx, client, namespace, 8, func(i int) *v1.Pod {
		cpu := "100m"
		if i == 0 {
			cpu = "10000"
		}
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": "x"}},
			Spec: v1.PodSpec{
				Containers: []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}},
			},
		}
		if i == 1 {
			pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
		}
		return pod
	})
	if err != nil {
		t.Fatal(err)
	}
	until(ctx, t, process, "6 pods are bound and one is known not to fit", func() bool {
		pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		bound, told := 0, 0
		if err == nil {
			for _, pod := range pods.Items {
				if pod.Spec.NodeName != "" {
					bound++
				}
				for _, condition := range pod.Status.Conditions {
					if condition.Type == v1.PodScheduled && condition.Reason == v1.PodReasonUnschedulable {
						told++
					}
				}
			}
		}
		return bound == 6 && told == 1
	})
}

func until(ctx context.Context, t *testing.T, process *rig.Process, what string, done func() bool) {
	t.Helper()
	if err := await(ctx, process, done); err != nil {
		t.Fatalf("wait until %s: %v\n%s", what, err, process.Log())
	}
}

// await waits until done returns true, or the process has ended.
func await(ctx context.Context, process *rig.Process, done func() bool) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		select {
		case <-process.Exited():
			return false, errors.Join(errors.New("it has ended"), process.Failure())
		default:
			return done(), nil
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := rig.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// clientsOf returns an HTTP client for each user.
func clientsOf(t *testing.T, cluster *rig.Cluster) map[string]*http.Client {
	t.Helper()
	config, err := rig.Config(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// the server has a self-signed certificate
	config.TLSClientConfig.Insecure, config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile = true, nil, ""
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	return map[string]*http.Client{administrator: admin, anonymous: open(), stranger: open()}
}

func send(ctx context.Context, clients map[string]*http.Client, base string, r request) response {
	q, err := http.NewRequestWithContext(ctx, r.method, base+r.path, bytes.NewBufferString(r.body))
	if err != nil {
		return response{Body: err.Error()}
	}
	if r.accept != "" {
		q.Header.Set("Accept", r.accept)
	}
	if r.user == stranger {
		q.Header.Set("Authorization", "Bearer unknown")
	}
	got, err := clients[r.user].Do(q)
	if err != nil {
		return response{Body: err.Error()}
	}
	defer func() { _ = got.Body.Close() }()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return response{Body: err.Error()}
	}
	return response{Status: got.StatusCode, ContentType: got.Header.Get("Content-Type"), Body: string(body)}
}

// take parses responses that are better compared as data than as text.
func (s *served) take(t *testing.T, r request, got response) {
	t.Helper()
	if r.method != http.MethodGet || r.user != administrator || got.Status != http.StatusOK {
		return
	}
	switch path := r.path; {
	case strings.HasPrefix(path, "/metrics"):
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(got.Body))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		s.families[path] = families
	case path == "/configz":
		if err := json.Unmarshal([]byte(got.Body), &s.config); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	case path == "/flagz" || path == "/statusz":
		s.lines[r.String()] = named(got.Body)
	}
}

// firstWord matches the beginning of a line of /flagz or /statusz. The text after a name
// varies on purpose, to prevent parsing.
var firstWord = regexp.MustCompile(`^\s*[\w-]+`)

// named returns the first word of each line.
func named(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		if name := strings.TrimSpace(firstWord.FindString(line)); name != "" && !strings.HasPrefix(name, "berth-") {
			names = append(names, name)
		}
	}
	return names
}

func compareResponses(t *testing.T, want, got served) {
	for _, name := range slices.Sorted(maps.Keys(want.responses)) {
		w, g := want.responses[name], got.responses[name]
		path := strings.Fields(name)[1]
		if bodyVaries.MatchString(path) && w.Status == http.StatusOK || path == "/configz" && w.Status == http.StatusOK {
			w.Body, g.Body = "", ""
		}
		// kube-scheduler lacks this check
		g.Body = strings.Replace(g.Body, "[+]scheduling-loop ok\n", "", 1)
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s: kube-scheduler (-), Berth (+):\n%s", name, diff)
		}
	}
}

// series is the compared part of a metric: its type, its label names and a histogram's
// buckets. Values differ.
type series struct {
	Type    string
	Labels  []string
	Buckets []float64
}

func seriesOf(families map[string]*dto.MetricFamily) map[string]series {
	all := map[string]series{}
	for name, family := range families {
		one := series{Type: family.GetType().String()}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !slices.Contains(one.Labels, label.GetName()) {
					one.Labels = append(one.Labels, label.GetName())
				}
			}
			if one.Buckets == nil {
				for _, bucket := range metric.GetHistogram().GetBucket() {
					one.Buckets = append(one.Buckets, bucket.GetUpperBound())
				}
			}
		}
		slices.Sort(one.Labels)
		all[name] = one
	}
	return all
}

// missing are series that kube-scheduler serves in this test and Berth lacks, with the
// reason.
var missing = map[string]string{
	"scheduler_batch_attempts_total":                    noBatches,
	"scheduler_batch_cache_flushed_total":               noBatches,
	"scheduler_get_node_hint_duration_seconds":          noBatches,
	"scheduler_store_schedule_results_duration_seconds": noBatches,
}

const noBatches = "Berth has no batches: pods with equal needs share columns. The series is registered and never has a member"

// different are series that differ in labels or buckets, with the reason.
var different = map[string]string{
	"authentication_token_cache_request_duration_seconds": "it has no buckets of its own; kube-scheduler makes it before it heeds the feature gate NativeHistograms, Berth after",
}

// additional are name prefixes of series that only Berth serves, with the reason.
var additional = map[string]string{
	"berth_": "what only Berth has",
}

func compareMetrics(t *testing.T, want, got served) {
	for _, path := range slices.Sorted(maps.Keys(want.families)) {
		w, g := seriesOf(want.families[path]), seriesOf(got.families[path])
		for _, name := range slices.Sorted(maps.Keys(w)) {
			reason, known := missing[name]
			have, ok := g[name]
			switch {
			case !ok && !known:
				t.Errorf("%s: Berth does not serve %s %v", path, name, w[name])
			case ok && known:
				t.Errorf("%s: Berth serves %s, which is listed as missing (%s)", path, name, reason)
			case different[name] != "":
			case ok:
				if diff := cmp.Diff(w[name], have); diff != "" {
					t.Errorf("%s: %s: kube-scheduler (-), Berth (+):\n%s", path, name, diff)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[name]; !ok && !isAdditional(name) {
				t.Errorf("%s: only Berth serves %s %v", path, name, g[name])
			}
		}
	}
}

func isAdditional(name string) bool {
	for beginning := range additional {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}
