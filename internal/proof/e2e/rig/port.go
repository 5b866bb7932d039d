package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below Linux's range of ephemeral ports. So no connection, and no
// server that lets the kernel choose, takes a port before the program for which it was
// chosen. The development cluster chooses its ports below firstPort.
const (
	firstPort = 30000
	lastPort  = 32767
)

// FreePort returns an unused TCP port of the loopback interface, for a program that
// cannot report its port. The port is not reserved.
func FreePort() (string, error) { return freePort(firstPort, lastPort) }

func freePort(first, last int) (string, error) {
	var err error
	for range 100 {
		port := strconv.Itoa(first + rand.IntN(last-first+1))
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, listener.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}
