package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// layout holds the paths in the data folder and the folder's lock.
type layout struct {
	dir       string
	temporary bool
	lock      *os.File
}

// openLayout prepares the folder, or a temporary one if dir is empty, and locks it: two
// clusters in one folder would destroy each other.
func openLayout(dir string) (*layout, error) {
	l := &layout{dir: dir, temporary: dir == ""}
	var err error
	if l.temporary {
		l.dir, err = os.MkdirTemp("", "devcluster-")
	} else {
		l.dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find data folder: %w", err)
	}
	for _, sub := range []string{l.logs(), l.keys(), l.etcd()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("make data folder: %w", err)
		}
	}
	if l.lock, err = os.OpenFile(l.path("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(l.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		l.lock.Close()
		return nil, fmt.Errorf("lock data folder %s: another devcluster uses it: %w", l.dir, err)
	}
	return l, nil
}

// close unlocks the folder; it removes a temporary one unless keep is set.
func (l *layout) close(keep bool) error {
	defer l.lock.Close()
	if err := os.Remove(l.path(readyName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the ready file: %w", err)
	}
	if !l.temporary || keep {
		return nil
	}
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("remove temporary data folder: %w", err)
	}
	return nil
}

// readyName is the file in the data folder with the ready line, kept current while the
// cluster runs.
const readyName = "ready.json"

func (l *layout) path(name string) string       { return filepath.Join(l.dir, name) }
func (l *layout) logs() string                  { return l.path("logs") }
func (l *layout) auditLog() string              { return filepath.Join(l.logs(), "audit.log") }
func (l *layout) keys() string                  { return l.path("keys") }
func (l *layout) etcd() string                  { return l.path("etcd") }
func (l *layout) key(name string) string        { return filepath.Join(l.keys(), name) }
func (l *layout) kubeconfig(user string) string { return l.path(user + ".kubeconfig") }

// ports are the components' ports on loopback.
type ports struct {
	etcdClient  int
	etcdPeer    int
	apiServer   int
	controllers int
}

func url(port int) string {
	return "https://" + net.JoinHostPort(loopback, strconv.Itoa(port))
}

const (
	loopback = "127.0.0.1"

	// Ports are below the kernel's range for the local ports of outgoing connections.
	// Otherwise a connection could occupy the API server's port while it restarts.
	firstPort = 20000
	lastPort  = 29999
)

// choosePorts finds free ports without reserving them. If another process takes one
// first, the component's start fails with an error.
func choosePorts() (ports, error) {
	var p ports
	taken := map[int]bool{}
	for _, port := range []*int{&p.etcdClient, &p.etcdPeer, &p.apiServer, &p.controllers} {
		var err error
		if *port, err = freePort(taken); err != nil {
			return ports{}, err
		}
		taken[*port] = true
	}
	return p, nil
}

func freePort(taken map[int]bool) (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if taken[port] {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port on %s: %w", loopback, err)
}
