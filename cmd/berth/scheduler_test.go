package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/history"
	"github.com/berth-scheduler/berth/internal/server"
)

// cloud is an API server that knows a lease, and pods to which it forwards ports; and a scheduler behind the port of each.
type cloud struct {
	*testing.T
	holder string
	pods   []v1.Pod
	api    *httptest.Server
	mu     sync.Mutex
	asked  []string // the pods to which ports were forwarded, under mu
	behind *httptest.Server
	answer int // the scheduler's code
}

const forwardedToken = "secret"

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{T: t, answer: http.StatusOK}
	c.behind = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+forwardedToken || r.URL.Path != server.ExplainPath("shop", "web-0") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(c.answer)
		if c.answer != http.StatusOK {
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: "not now"})
			return
		}
		_ = json.NewEncoder(w).Encode(history.Answer{Pod: "shop/web-0", History: &history.Past{Version: history.Version, Place: "parked"}})
	}))
	t.Cleanup(c.behind.Close)
	c.api = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.api.Close)
	return c
}

func (c *cloud) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	pod, named := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/pods/")
	switch {
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler":
		_ = json.NewEncoder(w).Encode(coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.holder}})
	case strings.HasSuffix(pod, "/portforward"):
		c.forward(w, r, strings.TrimSuffix(pod, "/portforward"))
	case named:
		for i := range c.pods {
			if c.pods[i].Name == pod {
				_ = json.NewEncoder(w).Encode(c.pods[i])
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods":
		_ = json.NewEncoder(w).Encode(v1.PodList{Items: c.pods})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// forward answers as an API server without WebSockets for port-forwards does: by SPDY.
func (c *cloud) forward(w http.ResponseWriter, r *http.Request, pod string) {
	if !httpstream.IsUpgradeRequest(r) || !strings.EqualFold(r.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	c.mu.Lock()
	c.asked = append(c.asked, pod)
	c.mu.Unlock()
	streams := make(chan httpstream.Stream, 8)
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if connection == nil {
		return
	}
	defer connection.Close()
	for {
		select {
		case s := <-streams:
			if s.Headers().Get(v1.StreamType) == v1.StreamTypeError {
				_ = s.Close()
				continue
			}
			if s.Headers().Get(v1.PortHeader) != "10259" {
				c.Errorf("port %s was asked for", s.Headers().Get(v1.PortHeader))
			}
			to, err := net.Dial("tcp", c.behind.Listener.Addr().String())
			if err != nil {
				c.Error(err)
				return
			}
			go func() { _, _ = io.Copy(to, s) }()
			go func() {
				_, _ = io.Copy(s, to)
				_ = s.Close()
			}()
		case <-connection.CloseChan():
			return
		}
	}
}

// ask asks the scheduler with the flags.
func (c *cloud) ask(flags ...string) asked {
	c.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.api.Certificate().Raw})
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: c.api.URL, CertificateAuthorityData: ca}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: forwardedToken}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "c"
	file := filepath.Join(c.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		c.Fatal(err)
	}
	set := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	r := newRunning(set, newConnection(set))
	if err := set.Parse(append(flags, "--kubeconfig", file)); err != nil {
		c.Fatal(err)
	}
	defaults, err := config.Default()
	if err != nil {
		c.Fatal(err)
	}
	return r.ask(context.Background(), "shop", "web-0", defaults.Source)
}

// TestAskTheLeader finds the replica that leads, forwards a port to it and asks it with the user's token; or says why that is not possible.
func TestAskTheLeader(t *testing.T) {
	pod := func(name, node string, change func(*v1.Pod)) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "berth"}}, Spec: v1.PodSpec{NodeName: node}}
		if change != nil {
			change(&p)
		}
		return p
	}
	onHost := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	for name, test := range map[string]struct {
		holder string
		pods   []v1.Pod
		answer int
		flags  []string
		asked  string
		fails  string
	}{
		"a pod":                      {holder: "berth-1_x", pods: []v1.Pod{pod("berth-0", "a", nil), pod("berth-1", "b", nil)}, asked: "berth-1"},
		"in the network of its node": {holder: "b_x", pods: []v1.Pod{pod("other", "b", nil), pod("berth-b", "b", onHost)}, asked: "berth-b"},
		"two on a node":              {holder: "b_x", pods: []v1.Pod{pod("berth-1", "b", onHost), pod("berth-2", "b", onHost)}, fails: "is pod berth-1 or berth-2; name it with --scheduler"},
		"no pod":                     {holder: "host_x", fails: "the scheduler that holds the lease kube-system/kube-scheduler, host, is no pod of that namespace; name it with --scheduler"},
		"nobody leads":               {holder: "", fails: "nobody holds the lease kube-system/kube-scheduler"},
		"another lease":              {holder: "berth-1_x", flags: []string{"--scheduler-lease=a/b"}, fails: "find who leads: "},
		"not a lease":                {holder: "berth-1_x", flags: []string{"--scheduler-lease=a"}, fails: `--scheduler-lease "a": must be NAMESPACE/NAME`},
		"refused":                    {holder: "berth-1_x", pods: []v1.Pod{pod("berth-1", "b", nil)}, answer: http.StatusTooManyRequests, asked: "berth-1", fails: "the scheduler answers 429: not now"},
		"as another user":            {holder: "berth-1_x", flags: []string{"--as=eve"}, fails: "the scheduler knows no --as, and would answer with your own rights"},
		"without TLS":                {holder: "berth-1_x", flags: []string{"--scheduler=http://localhost:1"}, fails: `--scheduler "http://localhost:1": must be an address that begins with https://`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.holder, c.pods = test.holder, test.pods
			if test.answer != 0 {
				c.answer = test.answer
			}
			got := c.ask(test.flags...)
			switch {
			case test.fails != "":
				if got.why == nil || !strings.Contains(got.why.Error(), test.fails) || got.answer != nil {
					t.Errorf("%+v, want the error %q", got, test.fails)
				}
			case got.why != nil || got.answer.History.Place != "parked":
				t.Errorf("%+v: %v", got.answer, got.why)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if asked := strings.Join(c.asked, " "); asked != test.asked {
				t.Errorf("ports were forwarded to %q, want %q", asked, test.asked)
			}
		})
	}
}

// TestTheCertificateIsChecked sends no credentials to an address whose certificate cannot be checked.
func TestTheCertificateIsChecked(t *testing.T) {
	c := newCloud(t)
	if got := c.ask("--scheduler=" + c.behind.URL); got.why == nil || !strings.Contains(got.why.Error(), "certificate") {
		t.Errorf("%+v", got)
	}
}
