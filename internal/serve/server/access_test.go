package server

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
)

// TestStartMetrics serves the health checks to everybody, and no metrics without
// authorization by an API server.
func TestStartMetrics(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := NewAccess(0)
	a.Serving.Listener = listener
	synced := make(chan struct{})
	stop, err := a.StartMetrics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret 1\n") }), Synced(synced), healthz.PingHealthz)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	// The certificate is self-signed.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	if code, body := get("/readyz"); code != http.StatusInternalServerError {
		t.Errorf("/readyz before everything was listed: %d %s", code, body)
	}
	close(synced)
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := get("/metrics"); code != http.StatusForbidden || strings.Contains(body, "secret") {
		t.Errorf("/metrics without any right: %d %s", code, body)
	}
}

// TestNoMetricsWithoutAPort listens nowhere.
func TestNoMetricsWithoutAPort(t *testing.T) {
	stop, err := NewAccess(0).StartMetrics(http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	stop()
}
