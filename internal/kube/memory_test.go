package kube

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// pipes is a listener whose connections are in memory. In a bubble of testing/synctest time passes only when client and server wait, and then at once: pauses, timeouts and
// leases take no time, however busy the machine is.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inMemory serves until the test ends, and returns how to reach that, and a client.
func inMemory(t testing.TB, handler http.Handler, config ClientConfig) (*rest.Config, *Client) {
	t.Helper()
	listener := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{Handler: handler} //nolint:gosec // nobody else can connect
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) })
	t.Cleanup(func() {
		_ = web.Close()
		serving.Wait()
	})
	config.Master = "http://memory"
	access, err := Access(config)
	if err != nil {
		t.Fatal(err)
	}
	access.Dial = listener.dial
	client, err := Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	return access, client
}
