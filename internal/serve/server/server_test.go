package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/compatibility"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// endpoints returns the endpoints of a configuration with all content, after change has
// modified it.
func endpoints(t *testing.T, change func(*Config)) http.Handler {
	t.Helper()
	shown := &configv1.KubeSchedulerConfiguration{}
	shown.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	config := Config{
		Configuration: shown,
		Profiling:     true,
		Resources:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "kube_pod_resource_request") }),
		Flags:         flagz.NamedFlagSetsReader{FlagSets: cliflag.NamedFlagSets{}},
		Versions:      compatibility.NewEffectiveVersionFromString("1.37", "1.34", "1.34"),
	}
	change(&config)
	handler, err := Endpoints(config)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func get(t *testing.T, handler http.Handler, path string) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestEndpoints(t *testing.T) {
	all := endpoints(t, func(*Config) {})
	bare := endpoints(t, func(c *Config) { c.Profiling, c.Flags, c.Versions = false, nil, nil })
	for _, test := range []struct {
		path, want string
		always     bool // with any configuration
	}{
		{"/healthz", "ok", true},
		{"/livez", "ok", true},
		{"/readyz", "ok", true},
		{"/metrics", "", true},
		{"/metrics/resources", "kube_pod_resource_request", true},
		{"/metrics/slis", "", true},
		{"/configz", `"kind":"KubeSchedulerConfiguration"`, true},
		{"/debug/pprof/", "goroutine", false},
		{"/debug/flags", "/debug/flags/", false},
		{"/flagz", "kube-scheduler flagz", false},
		{"/statusz", "kube-scheduler statusz", false},
	} {
		if status, body := get(t, all, test.path); status != http.StatusOK || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d, want %q in %s", test.path, status, test.want, body)
		}
		want := http.StatusNotFound
		if test.always {
			want = http.StatusOK
		}
		if status, _ := get(t, bare, test.path); status != want {
			t.Errorf("%s: %d where it is closed, want %d", test.path, status, want)
		}
	}
}

func TestChecks(t *testing.T) {
	synced, stopped := make(chan struct{}), make(chan struct{})
	handler := endpoints(t, func(c *Config) {
		c.Readyz = []healthz.HealthChecker{healthz.NewShutdownHealthz(stopped), Synced(synced)}
	})
	check := func(path string, status int, want string) {
		t.Helper()
		if got, body := get(t, handler, path); got != status || !strings.Contains(body, want) {
			t.Errorf("%s: %d, want %d and %q in\n%s", path, got, status, want, body)
		}
	}
	check("/readyz", 500, "[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed")
	check("/readyz/sched-handler-sync", 500, "internal server error: handlers are not fully synchronized")
	check("/readyz?exclude=sched-handler-sync", 200, "ok")
	check("/livez", 200, "ok")
	close(synced)
	check("/readyz?verbose", 200, "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed")
	close(stopped)
	check("/readyz/shutdown", 500, "internal server error: process is shutting down")
}

func TestWhileLeading(t *testing.T) {
	leading := make(chan struct{})
	handler := WhileLeading(leading, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all") }))
	if status, body := get(t, handler, "/"); status != http.StatusOK || body != "" {
		t.Errorf("%d %s", status, body)
	}
	close(leading)
	if status, body := get(t, handler, "/"); status != http.StatusOK || body != "all" {
		t.Errorf("%d %s", status, body)
	}
}
