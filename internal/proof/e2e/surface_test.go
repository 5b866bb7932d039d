package e2e_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// schedulerConf is the path of the kubeconfig in the manifest of a static kube-scheduler
// pod.
const schedulerConf = "/etc/kubernetes/scheduler.conf"

// transcript keeps the whole log of a process.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *transcript) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text.Bytes(), []byte(text))
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// kubeScheduler starts Berth under the name of kube-scheduler. The process has ended when
// the test ends.
func (w *world) kubeScheduler(log *transcript, args ...string) *rig.Process {
	w.Helper()
	binary, err := filepath.Abs(filepath.Join(os.Getenv(binEnv), "berth"))
	w.must(err)
	named := filepath.Join(w.TempDir(), "kube-scheduler")
	w.must(os.Symlink(binary, named))
	p, err := rig.Start(log, named, args...)
	w.must(err)
	w.Cleanup(func() {
		p.Kill()
		if w.Failed() {
			text := log.String()
			w.Logf("the end of what kube-scheduler %v logged:\n%s", args, text[max(0, len(text)-8<<10):])
		}
	})
	return p
}

// staticPod reads the manifest. It returns the command line with the cluster's kubeconfig
// instead of the file on the host. The port of the manifest's probes must be free.
func (w *world) staticPod() (args []string, probes []string) {
	w.Helper()
	text, err := os.ReadFile("testdata/kube-scheduler.yaml")
	w.must(err)
	var pod v1.Pod
	w.must(yaml.UnmarshalStrict(text, &pod))
	container := pod.Spec.Containers[0]
	for _, arg := range container.Command[1:] {
		args = append(args, strings.ReplaceAll(arg, schedulerConf, cluster.SchedulerKubeconfig))
	}
	for _, probe := range []*v1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		probes = append(probes, probe.HTTPGet.Path)
	}
	return args, probes
}

// securePort returns a flag that makes the test's scheduler serve on a free port.
func (w *world) securePort() string {
	w.Helper()
	port, err := rig.FreePort()
	w.must(err)
	w.servesAt = net.JoinHostPort("127.0.0.1", port)
	return "--secure-port=" + port
}

// ask sends a request without a check of the server's certificate.
func (w *world) ask(client *http.Client, method, path, token string) (status int, body string) {
	w.Helper()
	request, err := http.NewRequestWithContext(w.ctx, method, "https://"+w.servesAt+path, nil)
	w.must(err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	w.must(err)
	return response.StatusCode, string(text)
}

// clientOf returns a client of the endpoints with the certificate of a kubeconfig, or an
// anonymous one.
func (w *world) clientOf(kubeconfig string) *http.Client {
	w.Helper()
	settings := &tls.Config{InsecureSkipVerify: true} // the server's certificate is self-signed, and not under test
	if kubeconfig != "" {
		config, err := rig.Config(kubeconfig)
		w.must(err)
		own, err := rest.TLSConfigFor(config)
		w.must(err)
		settings.GetClientCertificate, settings.Certificates = own.GetClientCertificate, own.Certificates
	}
	transport := &http.Transport{TLSClientConfig: settings}
	w.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// token returns a token of a new service account, with the given cluster role if any.
func (w *world) token(name, role string) string {
	w.Helper()
	_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	if role != "" {
		_, err := w.client.RbacV1().ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: name}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	answer, err := w.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	return answer.Status.Token
}

// TestStaticPodOfKubeScheduler runs the command line of kubeadm's manifest as the user
// system:kube-scheduler with Kubernetes' own roles. Only the executable and the port,
// which may be taken, are replaced.
func TestStaticPodOfKubeScheduler(t *testing.T) {
	w := newWorld(t, "static")
	args, probes := w.staticPod()
	log := &transcript{}
	p := w.kubeScheduler(log, append(args, w.securePort())...)
	anonymous := w.clientOf("")
	for _, probe := range probes {
		w.await("probe "+probe+" passes", func() bool {
			status, _ := w.ask(anonymous, http.MethodGet, probe, "")
			return status == http.StatusOK
		})
	}
	w.deployment("web", 50, func(*v1.PodSpec) {})
	w.awaitRunning(50)
	w.checkAccess(anonymous)
	w.checkEndpoints()

	p.Signal(syscall.SIGUSR2)
	w.await("the state is dumped", func() bool { return log.has("Dump of scheduling queue") })
	if log.has("Cache mismatch") {
		t.Error("what the scheduler believes differs from what the watches show")
	}
	if log.has("forbidden") {
		t.Error("the built-in roles do not suffice")
	}
	p.Signal(syscall.SIGTERM)
	<-p.Exited()
	if err := p.Failure(); err != nil {
		t.Errorf("stopped, a leader ends with %v", err)
	}
	lease, err := w.client.CoordinationV1().Leases("kube-system").Get(w.ctx, "kube-scheduler", metav1.GetOptions{})
	w.must(err)
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the lease still belongs to %s", *holder)
	}
	events, err := w.client.CoreV1().Events("kube-system").List(w.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Lease"})
	w.must(err)
	leads := false
	for _, e := range events.Items {
		leads = leads || e.Reason == "LeaderElection" && strings.HasSuffix(e.Message, " became leader") && e.Source.Component == "default-scheduler"
	}
	if !leads {
		t.Errorf("no event names the leader: %v", events.Items)
	}
}

// checkAccess sends requests without credentials, with a wrong token, without
// permissions, and with permissions.
func (w *world) checkAccess(anonymous *http.Client) {
	w.Helper()
	admin, scheduler := w.clientOf(cluster.Kubeconfig), w.clientOf(cluster.SchedulerKubeconfig)
	stranger, monitor := w.token("stranger", ""), w.token("monitor", "system:monitoring")
	for _, test := range []struct {
		name   string
		client *http.Client
		token  string
		path   string
		want   int
	}{
		{"anonymous", anonymous, "", "/livez", http.StatusOK},
		{"anonymous", anonymous, "", "/healthz", http.StatusOK},
		{"anonymous", anonymous, "", "/readyz/sched-handler-sync", http.StatusForbidden},
		{"anonymous", anonymous, "", "/metrics", http.StatusForbidden},
		{"anonymous", anonymous, "", "/configz", http.StatusForbidden},
		{"anonymous", anonymous, "", "/nonsense", http.StatusForbidden},
		{"wrong token", anonymous, "nonsense", "/metrics", http.StatusUnauthorized},
		{"wrong token", anonymous, "nonsense", "/livez", http.StatusUnauthorized},
		{"no rights", anonymous, stranger, "/metrics", http.StatusForbidden},
		{"no rights", anonymous, stranger, "/readyz", http.StatusOK},
		{"a monitor", anonymous, monitor, "/metrics", http.StatusOK},
		{"a monitor", anonymous, monitor, "/metrics/slis", http.StatusOK},
		{"a monitor", anonymous, monitor, "/debug/pprof/", http.StatusForbidden},
		{"the scheduler's user", scheduler, "", "/metrics", http.StatusForbidden},
		{"an administrator", admin, "", "/metrics", http.StatusOK},
		{"an administrator", admin, "", "/nonsense", http.StatusNotFound},
	} {
		if got, body := w.ask(test.client, http.MethodGet, test.path, test.token); got != test.want {
			w.Errorf("%s gets %d for %s, want %d: %s", test.name, got, test.path, test.want, body)
		}
	}
}

// checkEndpoints requests all endpoints.
func (w *world) checkEndpoints() {
	w.Helper()
	admin := w.clientOf(cluster.Kubeconfig)
	for _, test := range []struct{ method, path, want string }{
		{http.MethodGet, "/healthz?verbose", "[+]leaderElection ok\n[+]scheduling-loop ok\nhealthz check passed"},
		{http.MethodGet, "/livez?verbose", "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed"},
		{http.MethodGet, "/readyz?verbose", "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed"},
		{http.MethodGet, "/metrics", "leader_election_master_status{name=\"kube-scheduler\"} 1"},
		{http.MethodGet, "/metrics", "rest_client_requests_total"},
		{http.MethodGet, "/metrics", "kubernetes_feature_enabled"},
		{http.MethodGet, "/metrics/slis", `kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 1`},
		{http.MethodGet, "/configz", `{"componentconfig":{"kind":"KubeSchedulerConfiguration","apiVersion":"kubescheduler.config.k8s.io/v1"`},
		{http.MethodGet, "/flagz", "kube-scheduler flagz"},
		{http.MethodGet, "/statusz", "kube-scheduler statusz"},
		{http.MethodGet, "/debug/pprof/", "goroutine"},
		{http.MethodGet, "/debug/flags", "/debug/flags/"},
	} {
		if status, body := w.ask(admin, test.method, test.path, ""); status != http.StatusOK || !strings.Contains(body, test.want) {
			w.Errorf("%s %s: %d, want %q in\n%.2000s", test.method, test.path, status, test.want, body)
		}
	}
	if status, body := w.ask(admin, http.MethodGet, "/metrics/resources", ""); status != http.StatusOK {
		w.Errorf("/metrics/resources: %d %s", status, body)
	}
}

// TestStandby checks a replica that does not lead. It is healthy and ready, but serves no
// resource metrics of the cluster. When stopped, it exits with 0 and leaves the lease to
// its holder.
func TestStandby(t *testing.T) {
	w := newWorld(t, "standby")
	leader := w.kubeScheduler(&transcript{}, "--kubeconfig", cluster.SchedulerKubeconfig, "--secure-port=0")
	holder := ""
	w.await("one leads", func() bool {
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(w.ctx, "kube-scheduler", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		holder = *lease.Spec.HolderIdentity
		return holder != ""
	})
	args, _ := w.staticPod()
	standby := w.kubeScheduler(&transcript{}, append(args, w.securePort())...)
	admin := w.clientOf(cluster.Kubeconfig)
	w.await("the other is ready", func() bool {
		status, _ := w.ask(admin, http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	})
	if status, body := w.ask(admin, http.MethodGet, "/metrics/resources", ""); status != http.StatusOK || body != "" {
		t.Errorf("/metrics/resources: %d %s", status, body)
	}
	for _, p := range []*rig.Process{standby, leader} {
		p.Signal(syscall.SIGTERM)
		select {
		case <-p.Exited():
			w.must(p.Failure())
		case <-time.After(2 * time.Minute):
			t.Fatal("it does not stop")
		}
		lease, err := w.client.CoordinationV1().Leases("kube-system").Get(w.ctx, "kube-scheduler", metav1.GetOptions{})
		w.must(err)
		want := holder
		if p == leader {
			want = ""
		}
		if got := fmt.Sprint(*lease.Spec.HolderIdentity); got != want {
			t.Errorf("the lease belongs to %q, want %q", got, want)
		}
	}
}
