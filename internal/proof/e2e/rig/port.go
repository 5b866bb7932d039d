package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below the range from which Linux takes the local ports of connections and of servers that ask for any port: none of these takes a port before the program for which it was
// chosen. The development cluster chooses its own below firstPort.
const (
	firstPort = 30000
	lastPort  = 32767
)

// FreePort returns a TCP port of the loopback interface at which nothing listens, for a program that does not say which port it has taken. It is free, not reserved.
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
