package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// alone are the flags of a scheduler without a lease and a port.
var alone = []string{"--leader-elect=false", "--secure-port=0"}

// maxLines is the limit of lines in a log, however many pods fail.
const maxLines = 250

// logged keeps a whole log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startAlone starts a scheduler without a lease and keeps its log. It is stopped when the
// test ends.
func (w *world) startAlone(log io.Writer, args ...string) *rig.Process {
	w.Helper()
	p, err := cluster.StartBerth(log, append(args, alone...)...)
	w.must(err)
	w.Cleanup(func() {
		select {
		case <-p.Exited():
		default:
			if err := p.Stop(); err != nil {
				w.Error(err)
			}
		}
	})
	return p
}

// smallPods creates bare pods that all fit. They are deleted when the test ends.
func (w *world) smallPods(n int) {
	w.Helper()
	w.must(rig.CreatePods(w.ctx, w.client, w.namespace, n, func(i int) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("100m", "64Mi")}}},
		}
	}))
	w.Cleanup(func() {
		if err := rig.DeletePods(context.Background(), w.client, w.namespace); err != nil {
			w.Error(err)
		}
	})
}

// bound counts the pods on nodes in the namespace. ok is false while the API server does
// not respond.
func (w *world) bound() (n int, ok bool) {
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return 0, false
	}
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			n++
		}
	}
	return n, true
}

func (w *world) awaitBound(want int) {
	w.Helper()
	w.await(fmt.Sprintf("%d pods are bound", want), func() bool {
		n, ok := w.bound()
		return ok && n >= want
	})
}

// allWell checks the final state, which must be the same after any failure. killed is as
// in eachPodBoundOnce.
func (w *world) allWell(log *logged, killed time.Time) {
	w.Helper()
	if bad := w.overcommitted(); len(bad) > 0 {
		w.Errorf("over-committed: %s", strings.Join(bad, "; "))
	}
	w.eachPodBoundOnce(killed)
	if lines := strings.Count(log.String(), "\n"); lines > maxLines {
		w.Errorf("the log has %d lines, more than %d; its beginning:\n%.4000s", lines, maxLines, log)
	} else {
		w.Logf("the log has %d lines", lines)
	}
}

// TestAPIServerDiesUnderLoad kills the API server twice while pods are being bound. It
// returns on the same address each time. Requests in flight have been stored or not.
func TestAPIServerDiesUnderLoad(t *testing.T) {
	const pods = 2_000
	w := newWorld(t, "api-server-dies")
	w.smallPods(pods)
	log := &logged{}
	w.startAlone(log)
	var killed time.Time
	for _, when := range []int{pods / 10, pods / 3} {
		w.awaitBound(when)
		before := w.serverStarted()
		cluster.Signal(syscall.SIGUSR1)
		n, _ := w.bound()
		t.Logf("the API server is killed when about %d pods are bound", n)
		w.await("the API server is another process", func() bool {
			now := w.serverStarted()
			return now != "" && now != before
		})
		killed = time.Now()
	}
	w.awaitBound(pods)
	w.allWell(log, killed)
	for _, said := range []string{"Failed to watch", " pod"} {
		if !strings.Contains(log.String(), said) {
			t.Errorf("the log does not say %q:\n%s", said, log)
		}
	}
}

// serverStarted returns the start time of the API server's process, or "" while it does
// not respond.
func (w *world) serverStarted() string {
	metrics, err := w.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(w.ctx)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(metrics), "\nprocess_start_time_seconds ")
	started, _, _ := strings.Cut(rest, "\n")
	return started
}

// TestBerthDiesFiveTimes kills Berth five times with SIGKILL while 2,000 pods are being
// bound. Its requests in flight have been stored or not, and the responses are lost.
func TestBerthDiesFiveTimes(t *testing.T) {
	const pods, deaths = 2_000, 5
	w := newWorld(t, "berth-dies")
	w.smallPods(pods)
	log := &logged{}
	for death := range deaths {
		began := time.Now()
		before, _ := w.bound()
		p := w.startAlone(log)
		w.awaitBound(min(pods, before+1))
		t.Logf("process %d: first binding seen %s after its start", death+1, time.Since(began).Round(time.Millisecond))
		w.awaitBound(pods * (death + 1) / (deaths + 1))
		p.Kill()
	}
	killed := w.awaitSync(w.startAlone(log))
	w.awaitBound(pods)
	w.allWell(log, killed)
}

// TestWebhookRejectsBindings starts an admission webhook that refuses a fifth of all
// bindings, independent of the pod.
func TestWebhookRejectsBindings(t *testing.T) {
	const pods = 1_500
	w := newWorld(t, "webhook")
	hook := w.startWebhook()
	w.smallPods(pods)
	w.awaitWebhook(hook)
	log := &logged{}
	w.startAlone(log)
	w.awaitBound(pods)
	w.allWell(log, time.Time{})
	asked, denied := hook.asked.Load(), hook.denied.Load()
	t.Logf("%d bindings were asked for, %d denied", asked, denied)
	if denied < pods/8 {
		t.Errorf("%d of %d bindings were denied, want about a fifth", denied, asked)
	}
	if !strings.Contains(log.String(), "a fifth is denied") {
		t.Errorf("the log does not say why bindings failed:\n%.4000s", log)
	}
}

// webhook denies a fifth of the bindings.
type webhook struct {
	asked, denied atomic.Int64
}

// ServeHTTP answers an AdmissionReview.
func (h *webhook) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(out, fmt.Sprint("not an AdmissionReview: ", err), http.StatusBadRequest)
		return
	}
	number := h.asked.Add(1)
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, review.Request.Name, number)
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if hash.Sum32()%5 == 0 {
		h.denied.Add(1)
		response.Allowed, response.Result = false, &metav1.Status{Message: "a fifth is denied"}
	}
	review.Request, review.Response = nil, response
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(&review)
}

// startWebhook serves a webhook on loopback. It configures the API server to call it for
// the bindings of the namespace.
func (w *world) startWebhook() *webhook {
	w.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	w.must(err)
	pair, err := tls.X509KeyPair(cert, key)
	w.must(err)
	hook := &webhook{}
	server := httptest.NewUnstartedServer(hook)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	w.Cleanup(server.Close)
	url, fail, none := server.URL, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "bindings.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "bindings.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: cert},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: w.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
			}},
		}},
	}
	webhooks := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = webhooks.Create(w.ctx, config, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		if err := webhooks.Delete(context.Background(), config.Name, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	return hook
}

// awaitWebhook waits until the API server calls the webhook, which takes some time after
// its creation.
func (w *world) awaitWebhook(hook *webhook) {
	w.Helper()
	w.await("the API server asks the webhook", func() bool {
		_ = w.client.CoreV1().Pods(w.namespace).Bind(w.ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "pod-0"}, Target: v1.ObjectReference{Kind: "Node", Name: "nowhere"},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return hook.asked.Load() > 0
	})
	hook.asked.Store(0)
	hook.denied.Store(0)
}

// TestInitialListsAreStreamed checks in the log of requests that Berth gets its first
// lists through watches, which saves both sides the memory of a whole list. The first
// binding of a new process must come soon.
func TestInitialListsAreStreamed(t *testing.T) {
	w := newWorld(t, "streamed")
	log := &logged{}
	w.smallPods(1)
	w.startAlone(log, "-v=7")
	w.awaitBound(1)
	for _, kind := range []string{"pods", "nodes", "namespaces"} {
		streamed := false
		for line := range strings.Lines(log.String()) {
			streamed = streamed || strings.Contains(line, "/"+kind+"?") && strings.Contains(line, "sendInitialEvents=true")
		}
		if !streamed {
			t.Errorf("%s are not listed through a watch", kind)
		}
	}
}

// TestRepeatedEventIsASeries rejects an otherwise unchanged pod repeatedly. One event
// must count all rejections.
func TestRepeatedEventIsASeries(t *testing.T) {
	const others = 40
	w := newWorld(t, "series")
	w.smallPods(others)
	w.startAlone(&logged{})
	w.awaitBound(others)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("900", "1Gi")}},
	}}
	_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
	w.must(err)
	w.await("an event says why", func() bool { return len(w.events("huge")) > 0 })
	now, deleted := int64(0), 0
	w.await("the event is a series", func() bool {
		if deleted < others { // each deletion wakes it, and it is rejected again
			w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, fmt.Sprintf("pod-%d", deleted), metav1.DeleteOptions{GracePeriodSeconds: &now}))
			deleted++
		}
		for _, e := range w.events("huge") {
			if e.Series != nil && e.Series.Count >= 2 {
				return true
			}
		}
		return false
	})
}
