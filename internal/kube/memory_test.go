package kube

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/inmemory"
)

// inMemory serves until the test ends, and returns a client configuration and a client.
func inMemory(t testing.TB, handler http.Handler, config ClientConfig) (*rest.Config, *Client) {
	t.Helper()
	config.Master = "http://memory"
	access, err := Access(config)
	if err != nil {
		t.Fatal(err)
	}
	access.Dial = inmemory.Serve(t, handler, nil)
	client, err := Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	return access, client
}
