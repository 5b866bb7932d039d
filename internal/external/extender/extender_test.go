package extender

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// service is an extender that answers all requests equally, and keeps them.
type service struct {
	*httptest.Server
	mu          sync.Mutex
	paths       []string
	bodies      []string
	connections map[string]bool // by the client's address
}

func serve(t *testing.T, secure bool, answer http.HandlerFunc) *service {
	s := &service{connections: map[string]bool{}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.paths = append(s.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type"))
		s.bodies = append(s.bodies, string(body))
		s.connections[r.RemoteAddr] = true
		s.mu.Unlock()
		answer(w, r)
	})
	s.Server = httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of expected handshake failures
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// responds returns a handler that responds with a text. The status is 200, unless the
// text begins with a status.
func responds(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var status int
		if n, _ := fmt.Sscanf(text, "%3d", &status); n == 1 && len(text) == 3 {
			w.WriteHeader(status)
			return
		}
		_, _ = io.WriteString(w, text)
	}
}

// all is an extender with every verb, and with a node cache if cached.
func all(url string, cached bool) *configv1.Extender {
	return &configv1.Extender{
		URLPrefix: url, FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind", Weight: 3, NodeCacheCapable: cached,
	}
}

func client(t *testing.T, config *configv1.Extender) *Client {
	t.Helper()
	c, err := New(config, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	pod   = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u0", Annotations: map[string]string{"a": "b"}}}
	nodes = []*v1.Node{named("n1"), named("n2"), named("n3")}
)

func named(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func bindingOf(p *v1.Pod, node string) *v1.Binding {
	return &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node}}
}

func victims() map[string]*extenderv1.Victims {
	return map[string]*extenderv1.Victims{"n1": {Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uv"}}}, NumPDBViolations: 1}}
}

// asked calls a verb, and returns the result in a short form, or the error.
func asked(c *Client, verb string) string {
	var result any
	var err error
	switch verb {
	case "filter":
		result, err = c.Filter(pod, nodes)
	case "prioritize":
		result, err = c.Prioritize(pod, nodes)
	case "preempt":
		result, err = c.ProcessPreemption(pod, victims())
	case "bind":
		result, err = "bound", c.Bind(bindingOf(pod, "n2"))
	}
	if err != nil {
		return "error " + err.Error()
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var verbs = []string{"filter", "prioritize", "preempt", "bind"}

// TestRequests compares requests with kube-scheduler's.
func TestRequests(t *testing.T) {
	for _, row := range []struct {
		verb   string
		cached bool
		want   map[string]string // of the top level, by field: a part of the JSON
	}{
		{"filter", true, map[string]string{"Pod": `"annotations":{"a":"b"}`, "Nodes": "null", "NodeNames": `["n1","n2","n3"]`}},
		{"filter", false, map[string]string{"Pod": `"name":"web-0"`, "Nodes": `"items":[{"metadata":{"name":"n1"`, "NodeNames": "null"}},
		{"prioritize", true, map[string]string{"Pod": `"name":"web-0"`, "Nodes": "null", "NodeNames": `["n1","n2","n3"]`}},
		{"prioritize", false, map[string]string{"Pod": `"name":"web-0"`, "Nodes": `"name":"n3"`, "NodeNames": "null"}},
		{"preempt", true, map[string]string{"Pod": `"uid":"u0"`, "NodeNameToVictims": "null", "NodeNameToMetaVictims": `{"n1":{"Pods":[{"UID":"uv"}],"NumPDBViolations":1}}`}},
		{"preempt", false, map[string]string{"Pod": `"uid":"u0"`, "NodeNameToVictims": `{"n1":{"Pods":[{"metadata":{"name":"v","uid":"uv"`, "NodeNameToMetaVictims": "null"}},
		{"bind", false, map[string]string{"PodName": `"web-0"`, "PodNamespace": `"shop"`, "PodUID": `"u0"`, "Node": `"n2"`}},
	} {
		for _, slash := range []string{"", "/", "//"} {
			s := serve(t, false, responds("null"))
			if got := asked(client(t, all(s.URL+"/v1"+slash, row.cached)), row.verb); strings.HasPrefix(got, "error") {
				t.Errorf("%s: %s", row.verb, got)
			}
			if diff := cmp.Diff([]string{"POST /v1/" + row.verb + " application/json"}, s.paths); diff != "" {
				t.Errorf("%s, requests (-want +got):\n%s", row.verb, diff)
				continue
			}
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(s.bodies[0]), &got); err != nil {
				t.Fatal(err)
			}
			for field, want := range row.want {
				if !strings.Contains(string(got[field]), want) {
					t.Errorf("%s, cached %t: %s is %s, want %s", row.verb, row.cached, field, got[field], want)
				}
			}
			if len(got) != len(row.want) {
				t.Errorf("%s: the fields are %v", row.verb, got)
			}
		}
	}
}

// TestAnswers expects kube-scheduler's result for each answer, however malformed, except
// where kube-scheduler panics.
func TestAnswers(t *testing.T) {
	const decoded = "error json: cannot unmarshal "
	for _, row := range []struct {
		name, verb string
		cached     bool
		answer     string
		want       string // %s is the URL
	}{
		{"names", "filter", true, `{"NodeNames":["n3","n1"],"FailedNodes":{"n2":"full"}}`, `{"Passed":["n3","n1"],"Failed":{"n2":"full"},"Unresolvable":null,"Bare":false}`},
		{"both kinds of failure", "filter", true, `{"NodeNames":[],"FailedNodes":{"n2":"full"},"FailedAndUnresolvableNodes":{"n2":"never","n1":"no"}}`, `{"Passed":null,"Failed":{"n2":"full"},"Unresolvable":{"n1":"no","n2":"never"},"Bare":false}`},
		{"nodes", "filter", false, `{"Nodes":{"items":[{"metadata":{"name":"n2"}}]}}`, `{"Passed":["n2"],"Failed":null,"Unresolvable":null,"Bare":true}`},
		{"nodes although it knows them", "filter", true, `{"Nodes":{"items":[{"metadata":{"name":"n2"}}]}}`, `{"Passed":["n2"],"Failed":null,"Unresolvable":null,"Bare":true}`},
		{"names although it does not know the nodes", "filter", false, `{"NodeNames":["n1"]}`, `{"Passed":null,"Failed":null,"Unresolvable":null,"Bare":false}`},
		{"fields in lower case", "filter", true, `{"nodenames":["n1"]}`, `{"Passed":["n1"],"Failed":null,"Unresolvable":null,"Bare":false}`},
		{"neither", "filter", true, `{}`, `{"Passed":null,"Failed":null,"Unresolvable":null,"Bare":false}`},
		{"null", "filter", true, `null`, `{"Passed":null,"Failed":null,"Unresolvable":null,"Bare":false}`},
		{"a name twice", "filter", true, `{"NodeNames":["n1","n1"]}`, `{"Passed":["n1"],"Failed":null,"Unresolvable":null,"Bare":false}`},
		{"unknown name", "filter", true, `{"NodeNames":["n1","n9"]}`, `error extender "%s" claims a filtered node "n9" which is not found in the input node list`},
		{"unknown node", "filter", false, `{"Nodes":{"items":[{"metadata":{"name":"n9"}}]}}`, `error extender "%s" claims a filtered node "n9" which is not found in the input node list`},
		{"nameless node", "filter", false, `{"Nodes":{"items":[null]}}`, `error extender "%s" claims a filtered node "" which is not found in the input node list`},
		{"error", "filter", true, `{"NodeNames":["n1"],"Error":"no idea"}`, `error no idea`},
		{"list", "filter", true, `[]`, decoded + "array into Go value of type v1.ExtenderFilterResult"},

		{"scores", "prioritize", true, `[{"Host":"n1","Score":10},{"Host":"n2","Score":0}]`, `{"n1":300,"n2":0}`},
		{"out of range", "prioritize", true, `[{"Host":"n1","Score":-4},{"Host":"n2","Score":1000}]`, `{"n1":-120,"n2":30000}`},
		{"twice", "prioritize", true, `[{"Host":"n1","Score":1},{"Host":"n1","Score":2}]`, `{"n1":90}`},
		{"unknown host", "prioritize", true, `[{"Host":"n9","Score":1}]`, `{"n9":30}`},
		{"no scores", "prioritize", true, `null`, `{}`},
		{"empty elements", "prioritize", true, `[null,{}]`, `{"":0}`},
		{"too large a number", "prioritize", true, `[{"Host":"n1","Score":99999999999999999999}]`, decoded + "number 99999999999999999999 into Go struct field HostPriority.Score of type int64"},
		{"object", "prioritize", true, `{}`, decoded + "object into Go value of type v1.HostPriorityList"},

		{"victims", "preempt", true, `{"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"uv"}],"NumPDBViolations":-3}}}`, `{"n1":{"Pods":[{"UID":"uv"}],"NumPDBViolations":-3}}`},
		{"whole victims are not read", "preempt", false, `{"NodeNameToVictims":{"n1":{}}}`, `null`},
		{"nothing", "preempt", true, `{}`, `null`},
		{"null victims", "preempt", true, `{"NodeNameToMetaVictims":{"n1":null,"n2":{"Pods":[null]}}}`, `{"n1":null,"n2":{"Pods":[null],"NumPDBViolations":0}}`},

		{"bound", "bind", true, `{}`, `"bound"`},
		{"not bound", "bind", true, `{"Error":"taken"}`, "error taken"},
		{"not bound, null", "bind", true, `null`, `"bound"`},
	} {
		s := serve(t, false, responds(row.answer))
		want := strings.ReplaceAll(row.want, "%s", s.URL)
		if got := asked(client(t, all(s.URL, row.cached)), row.verb); !strings.HasPrefix(got, want) || !strings.HasPrefix(want, decoded) && got != want {
			t.Errorf("%s: %s\ngot  %s\nwant %s", row.verb, row.name, got, want)
		}
	}
}

// refusing returns the URL of a port that refuses connections until the test ends. The
// port belongs to the near end of a connection, so no other process can listen on it.
// Another process could listen on the port of a closed server.
func refusing(t *testing.T) string {
	t.Helper()
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	near, err := net.Dial("tcp", far.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return "http://" + near.LocalAddr().String()
}

// TestFailures calls every verb of an extender that fails.
func TestFailures(t *testing.T) {
	nobody := refusing(t)
	for _, row := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // %u is the URL with the verb, %v the verb
	}{
		{"500", responds("500"), "failed %v with extender at URL %u, code 500"},
		{"404", responds("404"), "failed %v with extender at URL %u, code 404"},
		{"another success", responds("201"), "failed %v with extender at URL %u, code 201"},
		{"empty", responds(""), "EOF"},
		{"no JSON", responds("<html>"), "invalid character '<' looking for beginning of value"},
		{"half", responds(`{"NodeNames": [`), ""},
		{"breaks off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, `Post "%u": EOF`},
		{"deep", responds(strings.Repeat("[", 100_000)), "exceeded max depth"},
		{"refused", nil, `Post "%u": dial tcp `},
	} {
		for _, verb := range verbs {
			url := nobody
			if row.answer != nil {
				url = serve(t, false, row.answer).URL
			}
			want := "error " + strings.NewReplacer("%v", verb, "%u", url+"/"+verb).Replace(row.want)
			got := asked(client(t, all(url, true)), verb)
			if row.name == "deep" && strings.HasPrefix(got, "error") && strings.Contains(got, row.want) {
				continue
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s, %s: %s\nwant %s", row.name, verb, got, want)
			}
		}
	}
	for url, want := range map[string]string{
		"":             `unsupported protocol scheme ""`,
		"x":            `unsupported protocol scheme ""`,
		"http://a\x7f": "invalid control character in URL",
		"ftp://x":      `unsupported protocol scheme "ftp"`,
	} {
		if got := asked(client(t, all(url, true)), "filter"); !strings.Contains(got, want) {
			t.Errorf("URL %q: %s, want %s", url, got, want)
		}
	}
}

// TestPasswordStaysSecret puts a password into the URL. The extender gets the password,
// and no text has it.
func TestPasswordStaysSecret(t *testing.T) {
	const secret = "hunter2"
	for name, answer := range map[string]http.HandlerFunc{"code": responds("500"), "no JSON": responds("nonsense"), "unknown node": responds(`{"NodeNames": ["n9"]}`), "closed": nil} {
		var got string
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			_, got, _ = r.BasicAuth()
			answer(w, r)
		})
		if answer == nil {
			s.Close()
		}
		var logged []string
		config := all(strings.Replace(s.URL, "http://", "http://user:"+secret+"@", 1), true)
		config.Ignorable = true
		c, err := New(config, funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{c.Traits().Name}
		for _, verb := range []string{"filter", "prioritize", "preempt", "bind"} {
			texts = append(texts, asked(c, verb))
		}
		if text := strings.Join(append(texts, logged...), "\n"); strings.Contains(text, secret) || !strings.Contains(text, "user:xxxxx@") || len(logged) == 0 {
			t.Errorf("%s: %d lines are logged; the texts are\n%s", name, len(logged), text)
		}
		if answer != nil && got != secret {
			t.Errorf("%s: the extender got %q", name, got)
		}
	}
	for prefix, want := range map[string]string{
		"":                                     "",
		"http://a:80/x":                        "http://a:80/x",
		"http://user@a/x":                      "http://user@a/x",
		"http://u:" + secret + "@a:80/x":       "http://u:xxxxx@a:80/x",
		"http://u:" + secret + "@a\x7f":        "http://xxxxx@a\x7f",
		"http://u:" + secret + "/and@more@a/x": "http://xxxxx@a/x",
		"u:" + secret + "@a/x":                 "xxxxx@a/x",
		"//u:" + secret + "@a/x":               "//u:xxxxx@a/x",
		"http://u:%zz" + secret + "@a":         "http://xxxxx@a",
	} {
		if got := Redacted(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
		if got := asked(client(t, all(prefix, true)), "filter"); prefix != "" && prefix != "http://a:80/x" && strings.Contains(got, secret) {
			t.Errorf("%q: the error is %s", prefix, got)
		}
	}
}

// TestTimeout expects that a slow extender, or an endless answer, costs only the timeout.
func TestTimeout(t *testing.T) {
	const timeout = 50 * time.Millisecond
	for name, before := range map[string]string{"silent": "", "drips": `{"NodeNames": ["n1"`} {
		over := make(chan struct{})
		s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
			if before != "" {
				_, _ = io.WriteString(w, before)
				w.(http.Flusher).Flush()
			}
			select {
			case <-over:
			case <-r.Context().Done():
			}
		})
		config := all(s.URL, true)
		config.HTTPTimeout.Duration = timeout
		for _, verb := range verbs {
			if got := asked(client(t, config), verb); !strings.HasPrefix(got, "error ") || !strings.Contains(got, "Client.Timeout") {
				t.Errorf("%s, %s: %s", name, verb, got)
			}
		}
		close(over)
	}
	// A negative timeout would mean no limit.
	for _, given := range []time.Duration{0, -time.Second} {
		config := all("http://x", true)
		config.HTTPTimeout.Duration = given
		if got := client(t, config).http.Timeout; got != 5*time.Second {
			t.Errorf("timeout %v means %v", given, got)
		}
	}
}

// TestLongResponses expects an error for a response that is too long.
func TestLongResponses(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"NodeNames": [`)
		for range 1000 {
			if _, err := io.WriteString(w, `"`+strings.Repeat("n", 1000)+`",`); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"n1"]}`)
	})
	c := client(t, all(s.URL, true))
	c.max = 10_000
	if got := asked(c, "filter"); !strings.Contains(got, "failed filter with extender at URL "+s.URL+"/filter: its response is longer than ") {
		t.Error(got)
	}
	c.max = 2_000_000
	if got := asked(c, "filter"); !strings.Contains(got, "claims a filtered node") {
		t.Error(got)
	}
}

// TestConnectionsAreReused sends many requests, with answers that have bytes after the
// decoded part, and with failures.
func TestConnectionsAreReused(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"line": responds("null\n"),
		"chunks": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "null")
			w.(http.Flusher).Flush()
			time.Sleep(2 * time.Millisecond)
			_, _ = io.WriteString(w, strings.Repeat(" ", 5000)+"\n")
		},
		"failure": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 5000), http.StatusInternalServerError)
		},
	} {
		for _, secure := range []bool{false, true} {
			s := serve(t, secure, answer)
			config := all(s.URL, true)
			config.EnableHTTPS = secure
			c := client(t, config)
			for range 5 {
				for _, verb := range verbs {
					asked(c, verb)
				}
			}
			// Usually one connection is enough. On a busy machine, net/http may give up
			// waiting for the end of a request and open a few more.
			if len(s.paths) != 20 || len(s.connections) > 10 {
				t.Errorf("%s, TLS %t: %d requests on %d connections", name, secure, len(s.paths), len(s.connections))
			}
		}
	}
}

// TestTLS compares the trusted servers with kube-scheduler's rules.
func TestTLS(t *testing.T) {
	s := serve(t, true, responds("{}"))
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	another := serve(t, true, responds("{}"))
	for _, row := range []struct {
		name  string
		https bool
		tls   *configv1.ExtenderTLSConfig
		fails string
	}{
		{"nothing configured", false, nil, "certificate"},
		{"enabled without authority", true, nil, ""},
		{"enabled, empty", true, &configv1.ExtenderTLSConfig{}, ""},
		{"authority", true, &configv1.ExtenderTLSConfig{CAData: authority}, ""},
		{"authority, not enabled", false, &configv1.ExtenderTLSConfig{CAData: authority}, ""},
		{"authority, another name", true, &configv1.ExtenderTLSConfig{CAData: authority, ServerName: "other.test"}, "certificate is valid for"},
		{"another name, no authority", true, &configv1.ExtenderTLSConfig{ServerName: "other.test"}, ""},
		{"insecure", false, &configv1.ExtenderTLSConfig{Insecure: true}, ""},
	} {
		config := all(s.URL, true)
		config.EnableHTTPS, config.TLSConfig = row.https, row.tls
		if got := asked(client(t, config), "bind"); (row.fails == "") != (got == `"bound"`) || !strings.Contains(got, row.fails) {
			t.Errorf("%s: %s, want failure %q", row.name, got, row.fails)
		}
	}
	config := all(another.URL, true)
	config.EnableHTTPS, config.TLSConfig = true, &configv1.ExtenderTLSConfig{CAData: authority, ServerName: "example.com"}
	// The servers of httptest share one certificate.
	if got := asked(client(t, config), "filter"); strings.HasPrefix(got, "error") {
		t.Error(got)
	}
}

func TestIsInterested(t *testing.T) {
	amount := func(name, value string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceName(name): resource.MustParse(value)}
	}
	with := func(requests, limits v1.ResourceList) []v1.Container {
		return []v1.Container{{}, {Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}}
	}
	const gpu = "example.com/gpu"
	for _, row := range []struct {
		name string
		spec v1.PodSpec
		want bool
	}{
		{"nothing", v1.PodSpec{}, false},
		{"request", v1.PodSpec{Containers: with(amount(gpu, "1"), nil)}, true},
		{"request of 0", v1.PodSpec{Containers: with(amount(gpu, "0"), nil)}, true},
		{"limit", v1.PodSpec{Containers: with(nil, amount(gpu, "1"))}, true},
		{"init container", v1.PodSpec{InitContainers: with(amount(gpu, "1"), nil)}, true},
		{"limit of an init container", v1.PodSpec{InitContainers: with(nil, amount(gpu, "1"))}, true},
		{"another resource", v1.PodSpec{Containers: with(amount("example.com/nic", "1"), amount("cpu", "1"))}, false},
		{"of the whole pod", v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: amount(gpu, "1")}}, false},
		{"overhead", v1.PodSpec{Overhead: amount(gpu, "1")}, false},
		{"ephemeral container", v1.PodSpec{EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Resources: v1.ResourceRequirements{Requests: amount(gpu, "1")}}}}}, false},
	} {
		config := all("http://x", true)
		if !client(t, config).IsInterested(&v1.Pod{Spec: row.spec}) {
			t.Errorf("%s: an extender that manages nothing is not interested", row.name)
		}
		config.ManagedResources = []configv1.ExtenderManagedResource{{Name: "example.com/fpga"}, {Name: gpu}}
		if got := client(t, config).IsInterested(&v1.Pod{Spec: row.spec}); got != row.want {
			t.Errorf("%s: interested %t, want %t", row.name, got, row.want)
		}
	}
}

func TestVerbs(t *testing.T) {
	for _, verb := range append(verbs, "") {
		config := &configv1.Extender{URLPrefix: "http://x"}
		switch verb {
		case "filter":
			config.FilterVerb = "f"
		case "prioritize":
			config.PrioritizeVerb = "p"
		case "preempt":
			config.PreemptVerb = "p"
		case "bind":
			config.BindVerb = "b"
		}
		x := client(t, config).Traits()
		if got := []bool{x.Filters, x.Prioritizes, x.Preempts, x.Binds}; !slices.Equal(got, []bool{verb == "filter", verb == "prioritize", verb == "preempt", verb == "bind"}) {
			t.Errorf("%q: has verbs %v", verb, got)
		}
	}
}

// lines returns a logger and its output.
func lines() (logr.Logger, func() []string) {
	var mu sync.Mutex
	var all []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, args)
	}, funcr.Options{})
	return logger, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// TestPassedOver expects few log lines for ignored failures.
func TestPassedOver(t *testing.T) {
	s := serve(t, false, responds("500"))
	for _, row := range []struct {
		verb      string
		ignorable bool
		want      int
	}{
		{"filter", true, 3}, {"filter", false, 0}, {"prioritize", true, 3}, {"prioritize", false, 3}, {"preempt", true, 3}, {"preempt", false, 0},
		{"bind", true, 3}, {"bind", false, 0},
	} {
		logger, written := lines()
		config := all(s.URL, true)
		config.Ignorable = row.ignorable
		set, err := NewSet([]configv1.Extender{*config}, logger)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			asked(set.clients[0], row.verb)
		}
		if got := len(written()); got != row.want {
			t.Errorf("%s, ignorable %t: %d lines, want %d: %q", row.verb, row.ignorable, got, row.want, written())
		}
		set.Close()
		if after := written(); row.want > 0 && (len(after) != row.want+1 || !strings.Contains(after[row.want], "47")) {
			t.Errorf("%s: in the end the log is %q", row.verb, after)
		}
	}
}

func placed(object *v1.Pod) *plan.Placement {
	p := &plan.Placement{NodeName: "n2"}
	p.Pod = model.NewPod(object)
	return p
}

// TestBindSteps binds through the first interested extender. If it fails and is
// ignorable, a Bind plugin binds.
func TestBindSteps(t *testing.T) {
	managing := v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}}}
	good, bad := serve(t, false, responds("{}")), serve(t, false, responds(`{"Error":"taken"}`))
	for _, row := range []struct {
		name    string
		configs []configv1.Extender
		spec    v1.PodSpec
		steps   bool
		want    string
	}{
		{"none binds", []configv1.Extender{{URLPrefix: good.URL, FilterVerb: "f"}}, v1.PodSpec{}, false, ""},
		{"binds", []configv1.Extender{{URLPrefix: good.URL, BindVerb: "b"}}, v1.PodSpec{}, true, "bound"},
		{"fails", []configv1.Extender{{URLPrefix: bad.URL, BindVerb: "b"}}, v1.PodSpec{}, true, "taken"},
		{"fails and is ignored", []configv1.Extender{{URLPrefix: bad.URL, BindVerb: "b", Ignorable: true}}, v1.PodSpec{}, true, "skipped"},
		{"not interested", []configv1.Extender{{URLPrefix: good.URL, BindVerb: "b", ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}}}}, v1.PodSpec{}, false, ""},
		{"interested", []configv1.Extender{{URLPrefix: good.URL, BindVerb: "b", ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}}}}, managing, true, "bound"},
		{"one is ignored, another binds", []configv1.Extender{{URLPrefix: bad.URL, BindVerb: "b", Ignorable: true}, {URLPrefix: good.URL, BindVerb: "b"}}, v1.PodSpec{}, true, "bound"},
	} {
		set, err := NewSet(row.configs, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		object := pod.DeepCopy()
		object.Spec = row.spec
		steps, err := set.BindSteps().Steps(state.View{}, placed(object))
		if err != nil || (len(steps) == 1) != row.steps {
			t.Errorf("%s: steps %v, error %v", row.name, steps, err)
		}
		if len(steps) == 0 {
			continue
		}
		got := "bound"
		switch result := steps[0].Call.(commit.Call).Run(t.Context()); {
		case result.Rejected:
			got = "rejected"
		case result.Skipped && result.Err == nil:
			got = "skipped"
		case result.Err != nil:
			got = result.Err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	if last := good.bodies[len(good.bodies)-1]; last != `{"PodName":"web-0","PodNamespace":"shop","PodUID":"u0","Node":"n2"}` {
		t.Errorf("binds with %s", last)
	}
}

// TestBindEndsWithTheContext expects that a binding ends when the process does.
func TestBindEndsWithTheContext(t *testing.T) {
	arrived, over := make(chan struct{}), make(chan struct{})
	s := serve(t, false, func(http.ResponseWriter, *http.Request) { close(arrived); <-over })
	defer close(over)
	set, err := NewSet([]configv1.Extender{{URLPrefix: s.URL, BindVerb: "b"}}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := set.BindSteps().Steps(state.View{}, placed(pod))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-arrived; stop() }()
	if result := steps[0].Call.(commit.Call).Run(ctx); result.Err == nil || !strings.Contains(result.Err.Error(), "context canceled") {
		t.Errorf("%+v", result)
	}
}

// TestOrder expects ignorable extenders after the others.
func TestOrder(t *testing.T) {
	set, err := NewSet([]configv1.Extender{{URLPrefix: "a", Ignorable: true}, {URLPrefix: "b"}, {URLPrefix: "c", Ignorable: true}, {URLPrefix: "d"}}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range set.Extenders() {
		names = append(names, e.Traits().Name)
	}
	if diff := cmp.Diff([]string{"b", "d", "a", "c"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if set.Binds() || set.BindSteps().Name != plugin.ExtenderName {
		t.Errorf("binds %t, name %s", set.Binds(), set.BindSteps().Name)
	}
}
