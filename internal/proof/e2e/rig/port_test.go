package rig

import (
	"net"
	"strconv"
	"testing"
)

// TestFreePort checks that a port is not chosen again while a server listens on it.
func TestFreePort(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < firstPort || n > lastPort {
		t.Fatalf("port %q is not from %d to %d: %v", port, firstPort, lastPort, err)
	}
	if again, err := freePort(n, n); err != nil || again != port {
		t.Errorf("port %q, want %q: %v", again, port, err)
	}
	server, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if taken, err := freePort(n, n); err == nil {
		t.Errorf("port %q is chosen, at which a server listens", taken)
	}
}
