package rig

import (
	"net"
	"strconv"
	"testing"
)

// TestFreePort chooses ports, one of which is taken, and listens at them.
func TestFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(firstPort))
	if err == nil { // otherwise another process has it
		defer func() { _ = taken.Close() }()
	}
	for range 100 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.Atoi(port); err != nil || n <= firstPort || n > lastPort {
			t.Fatalf("port %q is not from %d to %d: %v", port, firstPort+1, lastPort, err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
	}
}
