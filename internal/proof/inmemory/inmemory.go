// Package inmemory serves HTTP to tests through memory, so that client and server share a
// bubble of testing/synctest. Time passes there only while both wait, and then at once.
// So pauses, timeouts and leases take no real time, however busy the machine is.
//
// It takes a handler and returns the dial function for clients. It owns the server, which
// ends with the test. It never listens.
package inmemory

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/runtime"
)

// The second error handler pauses between errors, and stores the time of the last one for
// the whole process. The clock of a bubble begins in the year 2000, so after an error
// outside of it the pause would take decades.
func init() { runtime.ErrorHandlers = runtime.ErrorHandlers[:1] } // the first one logs

// Dial connects to the server, whatever the address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serve serves until the test ends. closing may be nil. It is called first, to end open
// requests; the server then waits for all requests.
func Serve(t testing.TB, handler http.Handler, closing func()) Dial {
	t.Helper()
	l := &listener{connections: make(chan net.Conn), closed: make(chan struct{})}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) })
	t.Cleanup(func() {
		if closing != nil {
			closing()
		}
		_ = web.Close()
		serving.Wait()
	})
	return l.dial
}

// listener is a net.Listener with connections in memory.
type listener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
