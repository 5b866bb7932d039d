package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// cloud is an API server with a lease and with pods whose ports it forwards, and a
// scheduler behind each port.
type cloud struct {
	*testing.T
	holder string
	pods   []v1.Pod
	api    *httptest.Server
	mu     sync.Mutex
	// authorizations are the Authorization headers of the requests to the scheduler,
	// under mu.
	asked []string
	// authorizations are those of the requests to the scheduler, under mu.
	authorizations []string
	behind         *httptest.Server
	answer         int    // the scheduler's code
	uid            string // of the pod in the scheduler's answer
	port           string // the forwarded port
	forbidden      bool   // to get pods
	forbids        string // the path that may not be read
	listed         []v1.Pod
	edit           func(*clientcmdapi.Config) // of the kubeconfig
}

const forwardedToken = "secret"

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{T: t, answer: http.StatusOK, uid: "u", port: "10259"}
	c.behind = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.authorizations = append(c.authorizations, r.Header.Get("Authorization"))
		c.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+forwardedToken || r.URL.Path != server.ExplainPath("shop", "web-0") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(c.answer)
		if c.answer != http.StatusOK {
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: "not now"})
			return
		}
		_ = json.NewEncoder(w).Encode(history.Answer{Pod: "shop/web-0", UID: c.uid, History: &history.Past{Version: history.Version, Place: "parked"}})
	}))
	t.Cleanup(c.behind.Close)
	c.api = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.api.Close)
	return c
}

func (c *cloud) serve(w http.ResponseWriter, r *http.Request) {
	list := func(of runtime.Object) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_ = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(of, w)
	}
	w.Header().Set("Content-Type", "application/json")
	pod, named := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/kube-system/pods/")
	switch {
	case c.forbids != "" && r.URL.Path == c.forbids:
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler":
		_ = json.NewEncoder(w).Encode(coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.holder}})
	case strings.HasSuffix(pod, "/portforward"):
		c.forward(w, r, strings.TrimSuffix(pod, "/portforward"))
	case r.URL.Path == "/api/v1/pods":
		list(&v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: c.listed})
	case r.URL.Path == "/api/v1/nodes":
		list(&v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}})
	case c.forbidden && strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/"):
		w.WriteHeader(http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/"):
		for i := range c.listed {
			if strings.HasSuffix(r.URL.Path, "/"+c.listed[i].Name) {
				_ = json.NewEncoder(w).Encode(c.listed[i])
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/api/v1/namespaces/shop/pods":
		_ = json.NewEncoder(w).Encode(v1.PodList{Items: c.listed})
	case named && c.forbidden:
		w.WriteHeader(http.StatusForbidden)
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

// forward answers with SPDY, like an API server without WebSockets for port-forwards.
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
			if s.Headers().Get(v1.PortHeader) != c.port {
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

// kubeconfig writes a kubeconfig for the API server, and returns its name.
func (c *cloud) kubeconfig() string {
	c.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.api.Certificate().Raw})
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: c.api.URL, CertificateAuthorityData: ca}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: forwardedToken}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "c"
	if c.edit != nil {
		c.edit(kubeconfig)
	}
	file := filepath.Join(c.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		c.Fatal(err)
	}
	return file
}

// ask requests the history with the flags.
func (c *cloud) ask(flags ...string) asked {
	c.Helper()
	set := pflag.NewFlagSet("explain", pflag.ContinueOnError)
	r := newRunning(set, newConnection(set))
	if err := set.Parse(append(flags, "--kubeconfig", c.kubeconfig())); err != nil {
		c.Fatal(err)
	}
	if err := r.check(); err != nil {
		c.Fatal(err)
	}
	defaults, err := config.Default()
	if err != nil {
		c.Fatal(err)
	}
	// On a busy machine, the timeout may end before the scheduler is reached.
	for tries := 1; ; tries++ {
		got := r.ask(context.Background(), "shop", "web-0", defaults.Source)
		if tries == 10 || got.why == nil || !strings.Contains(got.why.Error(), context.DeadlineExceeded.Error()) {
			return got
		}
	}
}

// TestAskTheLeader finds the leader, forwards a port to it and sends the request with the
// user's token; or reports why that is not possible.
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
		port   string
		denies bool
		fails  string
	}{
		"a pod":                      {holder: "berth-1_x", pods: []v1.Pod{pod("berth-0", "a", nil), pod("berth-1", "b", nil)}, asked: "berth-1"},
		"in the network of its node": {holder: "b_x", pods: []v1.Pod{pod("other", "b", nil), pod("berth-b", "b", onHost)}, asked: "berth-b"},
		"two on a node":              {holder: "b_x", pods: []v1.Pod{pod("berth-1", "b", onHost), pod("berth-2", "b", onHost)}, fails: "is pod berth-1 or berth-2; give its address with --scheduler"},
		"no pod":                     {holder: "host_x", fails: "the holder of the lease kube-system/kube-scheduler, host, is not a pod in that namespace; give its address with --scheduler"},
		"nobody leads":               {holder: "", fails: "the lease kube-system/kube-scheduler has no holder"},
		"another lease":              {holder: "berth-1_x", flags: []string{"--scheduler-lease=a/b"}, fails: "find the leader: "},
		"another port":               {holder: "berth-1_x", pods: []v1.Pod{pod("berth-1", "b", nil)}, flags: []string{"--scheduler-port=20259"}, port: "20259", asked: "berth-1"},
		"who may not get pods":       {holder: "berth-1_x", pods: []v1.Pod{pod("berth-1", "b", nil)}, denies: true, fails: "find the pod of the lease holder, kube-system/berth-1: "},
		"refused":                    {holder: "berth-1_x", pods: []v1.Pod{pod("berth-1", "b", nil)}, answer: http.StatusTooManyRequests, asked: "berth-1", fails: "the scheduler returned 429: not now"},
		"as another user":            {holder: "berth-1_x", flags: []string{"--as=eve"}, fails: "--as is not supported with --scheduler, which would use your own permissions"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.holder, c.pods, c.forbidden, c.port = test.holder, test.pods, test.denies, cmp.Or(test.port, c.port)
			if test.answer != 0 {
				c.answer = test.answer
			}
			got := c.ask(append([]string{"--scheduler=leader"}, test.flags...)...)
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

// TestTheCertificateIsChecked sends no credentials to an address with an unverifiable
// certificate, even if the API server's certificate is not verified.
func TestTheCertificateIsChecked(t *testing.T) {
	c := newCloud(t)
	for _, insecure := range []bool{false, true} {
		c.edit = func(k *clientcmdapi.Config) {
			if k.Clusters["c"].InsecureSkipTLSVerify = insecure; insecure {
				k.Clusters["c"].CertificateAuthorityData = nil
			}
		}
		if got := c.ask("--scheduler=" + c.behind.URL); got.why == nil || !strings.Contains(got.why.Error(), "certificate") || c.authorizations != nil {
			t.Errorf("insecure %t: %v, with %q", insecure, got.why, c.authorizations)
		}
	}
}

// TestNoPasswordIsSent sends the user's token to an address, and not the user's password.
func TestNoPasswordIsSent(t *testing.T) {
	c := newCloud(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.behind.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--scheduler=" + c.behind.URL, "--scheduler-certificate-authority=" + ca}
	if got := c.ask(flags...); got.why != nil {
		t.Errorf("with a token: %v", got.why)
	}
	c.edit = func(k *clientcmdapi.Config) {
		k.AuthInfos["u"] = &clientcmdapi.AuthInfo{Username: "eve", Password: "word"}
	}
	if got := c.ask(flags...); got.why == nil || !slices.Equal(c.authorizations, []string{"Bearer " + forwardedToken, ""}) {
		t.Errorf("with a password: %v, the scheduler got %q", got.why, c.authorizations)
	}
}

// TestExplainAsksIfAskedTo contacts a scheduler only if --scheduler names it, and accepts
// only an answer for the same pod.
func TestExplainAsksIfAskedTo(t *testing.T) {
	placed := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u"}, Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, NodeName: "n"}}
	pending := placed
	pending.Spec.NodeName = ""
	const bound = `--pod "shop/web-0": the pod is not pending, it is bound to node "n"`
	for name, test := range map[string]struct {
		pod         v1.Pod
		uid         string
		flags       []string
		code        int
		says, notes string // output on stdout, and on stderr
		asks        bool
	}{
		"a pending pod":               {pod: pending, says: "Pod shop/web-0, profile default-scheduler: "},
		"a pending pod, asks":         {pod: pending, flags: []string{"--scheduler=leader"}, says: "Now: parked.", asks: true},
		"a pod on a node":             {pod: placed, code: 2, notes: bound + "; no pod of the snapshot is pending; if the cluster's scheduler is Berth, --scheduler leader shows why the pod is there"},
		"a pod on a node, asks":       {pod: placed, flags: []string{"--scheduler=leader"}, says: "Pod shop/web-0", asks: true},
		"about another pending pod":   {pod: pending, uid: "other", flags: []string{"--scheduler=leader"}, says: "Pod shop/web-0", notes: `another pod of this name, with UID "other" instead of "u"`, asks: true},
		"about another pod on a node": {pod: placed, uid: "other", flags: []string{"--scheduler=leader"}, code: 2, notes: bound, asks: true},
		"none":                        {pod: placed, flags: []string{"--scheduler=none"}, code: 2, notes: `--scheduler "none": must be leader, or an address that begins with https://`},
		"without TLS":                 {pod: placed, flags: []string{"--scheduler=http://localhost:1"}, code: 2, notes: `--scheduler "http://localhost:1": must be leader, or an address`},
		"a lease, asks nobody":        {pod: placed, flags: []string{"--scheduler-lease=a/b"}, code: 2, notes: "--scheduler-lease: is for --scheduler leader"},
		"a port, asks nobody":         {pod: placed, flags: []string{"--scheduler-port=1"}, code: 2, notes: "--scheduler-port: is for --scheduler leader"},
		"an authority for the leader": {pod: placed, flags: []string{"--scheduler=leader", "--scheduler-certificate-authority=x"}, code: 2, notes: "--scheduler-certificate-authority: is for --scheduler with an address"},
		"no lease":                    {pod: placed, flags: []string{"--scheduler=leader", "--scheduler-lease=a"}, code: 2, notes: `--scheduler-lease "a": must be NAMESPACE/NAME`},
		"no port":                     {pod: placed, flags: []string{"--scheduler=leader", "--scheduler-port=0"}, code: 2, notes: "--scheduler-port 0: must be between 1 and 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.holder, c.listed = "berth-1_x", []v1.Pod{test.pod}
			c.pods = []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "berth-1"}}}
			c.uid = cmp.Or(test.uid, c.uid)
			var out, errs bytes.Buffer
			code := run(t.Context(), append([]string{"berth", "explain", "shop/web-0", "--kubeconfig", c.kubeconfig()}, test.flags...), &out, &errs)
			if code != test.code || !strings.Contains(out.String(), test.says) || test.says == "" && out.Len() > 0 || !strings.Contains(errs.String(), test.notes) {
				t.Errorf("exit code %d, want %d\n%s\n%s\nwant %q and %q", code, test.code, &out, &errs, test.says, test.notes)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if asked := len(c.authorizations) > 0; asked != test.asks || len(c.asked) > 0 != test.asks || strings.Contains(errs.String(), "history") && test.uid == "" {
				t.Errorf("the scheduler was asked: %t, want %t\n%s", asked, test.asks, &errs)
			}
		})
	}
}

// narrowUser is a cluster whose user may read the namespace shop only. Its pod was
// rejected.
func narrowUser(t *testing.T) *cloud {
	t.Helper()
	c := newCloud(t)
	c.forbids = "/api/v1/pods"
	c.listed = []v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u"},
		Spec:       v1.PodSpec{SchedulerName: "default-scheduler"},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."},
		}},
	}}
	return c
}

// TestNarrowUser answers about a pod from its condition, and lists the queue from the
// conditions of the pods, without a right outside of the namespace.
func TestNarrowUser(t *testing.T) {
	flags := []string{"--kubeconfig", narrowUser(t).kubeconfig(), "-n", "shop"}
	for args, want := range map[string]string{
		"explain web-0":                                  "Pod shop/web-0, scheduler default-scheduler: 0/1 nodes are available: 1 Insufficient cpu.\n",
		"explain web-0 -o json":                          `"message":"0/1 nodes are available: 1 Insufficient cpu."`,
		"explain web-0 -o jsonpath={.message}":           "0/1 nodes are available: 1 Insufficient cpu.\n",
		"explain web-0 -o name":                          "pod/web-0\n",
		"explain":                                        "Pod shop/web-0, scheduler default-scheduler: 0/1 nodes are available: 1 Insufficient cpu.\n",
		"explain -o json":                                `"message":"0/1 nodes are available: 1 Insufficient cpu."`,
		"explain -o name":                                "pod/web-0\n",
		"explain -l app=none":                            "No pod is pending in namespace shop.\n",
		"explain -l app=none -o json":                    "[]\n",
		"queue --no-headers -o custom-columns=R:.reason": "0/1 nodes are available: 1 Insufficient cpu.\n",
	} {
		code, got := transcript(t, append(strings.Fields(args), flags...)...)
		if code != 0 || !strings.Contains(before(got), want) || !strings.Contains(got, "Note: ") {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
	const missing = "you may not list pods in all namespaces, which the command needs"
	for args, want := range map[string]string{
		"explain -n none":            missing,
		"explain --pod-group shop/g": missing,
		"explain --pod web-0":        `--pod "web-0": must be NAMESPACE/NAME`,
		"explain --pod shop/web-1":   `--pod "shop/web-1": pod not found in namespace "shop"; did you mean shop/web-0?`,
		"queue -A":                   "you may not list pods in all namespaces either: list the pods of a namespace that you may read with -n, or request the verb list on pods in a ClusterRole",
		"top nodes":                  missing + ": request the verb list on pods in a ClusterRole, or get a file",
	} {
		exit := map[bool]int{true: 1, false: 2}[strings.HasPrefix(want, "you may not")]
		if code, got := transcript(t, append(strings.Fields(args), flags[:2]...)...); code != exit || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
}

// TestNarrowUserMayListOnly answers about a named pod from the list of its namespace, if
// the user may not get pods.
func TestNarrowUserMayListOnly(t *testing.T) {
	c := narrowUser(t)
	c.forbidden = true
	placed := *c.listed[0].DeepCopy()
	placed.Name, placed.Spec.NodeName = "web-1", "n"
	c.listed = append(c.listed, placed)
	for args, want := range map[string]string{
		"explain web-0":       "Pod shop/web-0, scheduler default-scheduler: 0/1 nodes are available: 1 Insufficient cpu.\n",
		"explain web-1":       `pod "shop/web-1" is not pending, it is bound to node "n"`,
		"explain web-9":       `--pod "shop/web-9": pod not found in namespace "shop"; did you mean shop/web-0?`,
		"explain --pod web-0": `--pod "web-0": must be NAMESPACE/NAME; did you mean shop/web-0?`,
	} {
		code, got := transcript(t, append(strings.Fields(args), "-n", "shop", "--kubeconfig", c.kubeconfig())...)
		if exit := map[bool]int{true: 0, false: 2}[strings.HasPrefix(want, "Pod")]; code != exit || !strings.Contains(got, want) {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, got)
		}
	}
}

// TestNarrowUserWithEqualPods answers about equal pods in one line.
func TestNarrowUserWithEqualPods(t *testing.T) {
	c := narrowUser(t)
	for i := range 2999 {
		pod := *c.listed[0].DeepCopy()
		pod.Name = fmt.Sprint("web-", i+1)
		c.listed = append(c.listed, pod)
	}
	code, got := transcript(t, "explain", "-n", "shop", "--kubeconfig", c.kubeconfig())
	if want := "Pod shop/web-0 and 2999 other pods, scheduler default-scheduler: 0/1 nodes are available: 1 Insufficient cpu.\n"; code != 0 || before(got) != want {
		t.Errorf("exit code %d\n%s", code, got)
	}
	code, got = transcript(t, "explain", "-n", "shop", "-o", "wide", "--kubeconfig", c.kubeconfig())
	if want := "Pod shop/web-2999, scheduler default-scheduler: 0/1 nodes"; code != 0 || strings.Count(before(got), "\n") != 3000 || !strings.Contains(got, want) {
		t.Errorf("exit code %d\n%s", code, got)
	}
}

// TestSchedulerNeedsAPod: the history is of one pod, so --scheduler alone is refused.
func TestSchedulerNeedsAPod(t *testing.T) {
	c := newCloud(t)
	for _, args := range [][]string{{"explain"}, {"explain", "-l", "app=web"}, {"explain", "--pod-group", "shop/g"}} {
		code, got := transcript(t, append(args, "--scheduler", "leader", "--kubeconfig", c.kubeconfig())...)
		if code != 2 || !strings.Contains(got, "--scheduler leader: shows the history of one pod: name the pod, or list what waits with kubectl berth queue") || len(c.asked) > 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, got)
		}
	}
}

// TestExplainWorkloadsOnALiveCluster adds the pods of a Deployment to a live cluster, and
// explains only these.
func TestExplainWorkloadsOnALiveCluster(t *testing.T) {
	c := newCloud(t)
	c.listed = []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}}
	file := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(deployment, "1000000", "3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, got := transcript(t, "explain", "-f", file, "--kubeconfig", c.kubeconfig(), "-o", "name")
	if code != 0 || strings.Count(before(got), "pod/big-") != 3 || strings.Contains(got, "other") {
		t.Errorf("exit code %d\n%s", code, got)
	}
	code, got = transcript(t, "explain", "-f", file, "--kubeconfig", c.kubeconfig())
	if code != 0 || !strings.Contains(got, "0 of 1 nodes are feasible") || !strings.Contains(got, "The same holds for 2 other pods of ReplicaSet/big-") {
		t.Errorf("exit code %d\n%s", code, got)
	}
}
