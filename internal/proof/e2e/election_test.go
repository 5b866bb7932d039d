package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// crossing is a proxy to the API server for one replica. It records the times of lease
// renewals and bindings, and can block only the requests for leases. That is the worst
// kind of partition, in which a leader can bind but cannot renew its lease.
type crossing struct {
	kubeconfig string
	// selects the requests without a response; nil for none
	cut atomic.Pointer[func(*http.Request) bool]

	mu       sync.Mutex
	renewals []time.Time // times of lease writes, by this clock
	bindings []time.Time // arrival times of bindings
}

// newCrossing starts a proxy with the scheduler's permissions.
func (w *world) newCrossing() *crossing {
	w.Helper()
	config, err := rig.Config(cluster.SchedulerKubeconfig)
	w.must(err)
	transport, err := rest.TransportFor(config)
	w.must(err)
	target, err := url.Parse(config.Host)
	w.must(err)
	c := &crossing{}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: c.note,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) {}, // clients that disconnect
	}
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if cut := c.cut.Load(); cut != nil && (*cut)(request) {
			select { // the request is blocked
			case <-request.Context().Done():
			case <-w.ctx.Done():
			case <-gone:
			}
			return
		}
		if isBinding(request) {
			c.mu.Lock()
			c.bindings = append(c.bindings, time.Now())
			c.mu.Unlock()
		}
		proxy.ServeHTTP(response, request)
	}))
	w.Cleanup(func() {
		close(gone)
		server.CloseClientConnections()
		server.Close()
	})
	c.kubeconfig = filepath.Join(w.TempDir(), "kubeconfig")
	w.must(os.WriteFile(c.kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, server.URL), 0o600))
	return c
}

func isLease(r *http.Request) bool { return strings.Contains(r.URL.Path, "/leases") }

func writesLease(r *http.Request) bool { return isLease(r) && r.Method != http.MethodGet }

func isBinding(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding")
}

// note records that a lease was written.
func (c *crossing) note(response *http.Response) error {
	if writesLease(response.Request) && response.StatusCode < http.StatusMultipleChoices {
		c.mu.Lock()
		c.renewals = append(c.renewals, time.Now())
		c.mu.Unlock()
	}
	return nil
}

// seen returns the times of the first and last renewal, and of the first and last
// binding, or zero.
func (c *crossing) seen() (acquired, renewed, firstBound, lastBound time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.renewals); n > 0 {
		acquired, renewed = c.renewals[0], c.renewals[n-1]
	}
	if n := len(c.bindings); n > 0 {
		firstBound, lastBound = c.bindings[0], c.bindings[n-1]
	}
	return acquired, renewed, firstBound, lastBound
}

const (
	leaseDuration = 10 * time.Second
	// a busy API server on a busy machine uses some of that for a renewal
	renewDeadline = 8 * time.Second
)

// replica starts a scheduler with a lease of a few seconds.
func (w *world) replica(lease, kubeconfig string, more ...string) (*rig.Process, *transcript) {
	log := &transcript{}
	args := append([]string{
		"--kubeconfig", kubeconfig, "--secure-port=0", "--leader-elect-resource-name=" + lease,
		"--leader-elect-lease-duration=" + leaseDuration.String(), "--leader-elect-renew-deadline=" + renewDeadline.String(), "--leader-elect-retry-period=500ms",
	}, more...)
	return w.kubeScheduler(log, args...), log
}

// holderOf returns the holder of the lease, or "".
func (w *world) holderOf(lease string) string {
	object, err := w.client.CoordinationV1().Leases("kube-system").Get(w.ctx, lease, metav1.GetOptions{})
	if err != nil || object.Spec.HolderIdentity == nil {
		return ""
	}
	return *object.Spec.HolderIdentity
}

// takenOver returns the time at which the present holder acquired the lease. All requests
// of the previous holder came earlier.
func (w *world) takenOver(lease string) time.Time {
	w.Helper()
	object, err := w.client.CoordinationV1().Leases("kube-system").Get(w.ctx, lease, metav1.GetOptions{})
	w.must(err)
	return object.Spec.AcquireTime.Time
}

// stream creates pods one after another until stop is called, which returns their number.
func (w *world) stream(pause time.Duration) (stop func() int) {
	ctx, cancel := context.WithCancel(w.ctx)
	created := make(chan int)
	go func() {
		n := 0
		defer func() { created <- n }()
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("stream-", n)},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("10m", "8Mi")}}},
			}
			if _, err := w.client.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				if ctx.Err() == nil {
					w.Errorf("create a pod: %v", err)
				}
				return
			}
			n++
		}
	}()
	return func() int {
		cancel()
		return <-created
	}
}

// boundAll waits until every pod of the namespace has a node, and at least the given
// number exist.
func (w *world) boundAll(atLeast int) {
	w.Helper()
	w.await(fmt.Sprintf("%d pods or more are bound", atLeast), func() bool {
		pods := w.pods()
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				return false
			}
		}
		return len(pods) >= atLeast
	})
}

// TestLeaderIsKilled kills the leader of two replicas under load. The other takes over at
// once, and every pod is bound once.
func TestLeaderIsKilled(t *testing.T) {
	w := newWorld(t, "killed")
	const lease = "kube-scheduler"
	way := w.newCrossing()
	first, _ := w.replica(lease, cluster.SchedulerKubeconfig)
	w.await("the first leads", func() bool { return w.holderOf(lease) != "" })
	leader := w.holderOf(lease)
	second, secondLog := w.replica(lease, way.kubeconfig)
	w.await("the second knows the cluster", func() bool { return secondLog.has("Cluster is known") })
	stop := w.stream(5 * time.Millisecond)
	w.deployment("load", 500, func(*v1.PodSpec) {})
	w.await("a hundred pods are bound", func() bool {
		bound := 0
		for _, p := range w.pods() {
			if p.Spec.NodeName != "" {
				bound++
			}
		}
		return bound > 100
	})
	if _, _, bound, _ := way.seen(); !bound.IsZero() {
		t.Error("a replica binds that does not lead")
	}
	first.Kill()
	w.await("the second leads", func() bool { return w.holderOf(lease) != leader && w.holderOf(lease) != "" })
	w.await("the second binds", func() bool { _, _, bound, _ := way.seen(); return !bound.IsZero() })
	w.boundAll(500 + stop())
	acquired, _, bound, _ := way.seen()
	if bound.Before(acquired) {
		t.Errorf("the second bound %v before it had acquired the lease", acquired.Sub(bound))
	}
	t.Logf("first binding %v after the lease was acquired", bound.Sub(acquired))
	if bad := w.overcommitted(); len(bad) > 0 {
		t.Errorf("over-committed: %s", strings.Join(bad, "; "))
	}
	w.eachPodBoundOnce(w.takenOver(lease))
	w.must(second.Stop())
}

// TestLeaderIsCutOff keeps a leader from renewing its lease while it can still bind. It
// must stop binding before the lease ends, and exit with 1. The other replica must not
// begin before. The same must hold if the leader can still read the lease, and sees
// itself as the holder.
func TestLeaderIsCutOff(t *testing.T) {
	t.Run("everything", func(t *testing.T) { newWorld(t, "cutoff").cutOff(isLease) })
	t.Run("writes", func(t *testing.T) { newWorld(t, "cutoff-writes").cutOff(writesLease) })
}

// cutOff blocks some of a leader's requests for its lease.
func (w *world) cutOff(cut func(*http.Request) bool) {
	const lease = "kube-scheduler"
	firstWay, secondWay := w.newCrossing(), w.newCrossing()
	first, firstLog := w.replica(lease, firstWay.kubeconfig)
	w.await("the first leads", func() bool { return w.holderOf(lease) != "" })
	second, secondLog := w.replica(lease, secondWay.kubeconfig)
	w.await("the second knows the cluster", func() bool { return secondLog.has("Cluster is known") })
	stop := w.stream(10 * time.Millisecond)
	w.await("the first binds", func() bool { _, _, bound, _ := firstWay.seen(); return !bound.IsZero() })

	firstWay.cut.Store(&cut)
	select {
	case <-first.Exited():
	case <-time.After(time.Minute):
		w.Fatal("a leader that cannot renew its lease goes on")
	}
	if failed := (*exec.ExitError)(nil); !errors.As(first.Failure(), &failed) || failed.ExitCode() != 1 || !firstLog.has("Leaderelection lost") {
		w.Errorf("the first ended with %v", first.Failure())
	}
	w.await("the second binds", func() bool { _, _, bound, _ := secondWay.seen(); return !bound.IsZero() })
	w.boundAll(stop())

	_, renewed, _, lastBound := firstWay.seen()
	acquired, _, firstBound, _ := secondWay.seen()
	// The last renewal was stored before it was recorded, so others may regard the lease
	// as expired a little earlier.
	if expired := renewed.Add(leaseDuration); !lastBound.Before(expired) {
		w.Errorf("the first bound %v after its lease had expired", lastBound.Sub(expired))
	}
	if !lastBound.Before(acquired) {
		w.Errorf("the first bound %v after the second had acquired the lease", lastBound.Sub(acquired))
	}
	if firstBound.Before(acquired) {
		w.Errorf("the second bound %v before it had acquired the lease", acquired.Sub(firstBound))
	}
	w.Logf("last binding of the first %v after its last renewal; first of the second %v after acquiring the lease",
		lastBound.Sub(renewed), firstBound.Sub(acquired))
	w.eachPodBoundOnce(w.takenOver(lease))
	w.must(second.Stop())
}
