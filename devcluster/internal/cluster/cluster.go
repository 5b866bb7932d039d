// Package cluster starts, watches and stops one control plane with its nodes.
//
// It takes options and returns a Report when the cluster is ready. While Run runs, it
// owns the data folder, the ports and the children. After Run, nothing is left running.
// It never places a pod.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/devcluster/internal/children"
	"github.com/berth-scheduler/berth/devcluster/internal/options"
	"github.com/berth-scheduler/berth/devcluster/internal/supervise"
)

// errStop is the cause of a context that ends because the cluster was asked to stop.
var errStop = errors.New("asked to stop")

// cluster is one run. Only Run's goroutine uses it.
type cluster struct {
	options  options.Options
	layout   *layout
	ports    ports
	children *supervise.Supervisor
	client   kubernetes.Interface
	out      io.Writer
	log      *log.Logger
}

// Run starts a cluster and prints its Report on out. The cluster runs until ctx ends, a
// clean stop, or until a component ends, an error. Each value from restart kills the API
// server and starts it again. Progress goes to logger.
func Run(ctx context.Context, o options.Options, restart <-chan os.Signal, out io.Writer, logger *log.Logger) (err error) {
	l, err := openLayout(o.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(err != nil)) }()

	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	children := supervise.New(executable, l.logs())
	defer children.Stop()

	c := &cluster{options: o, layout: l, children: children, out: out, log: logger}
	err = c.live(untilDeath(ctx, children.Deaths()), restart)
	if errors.Is(err, errStop) {
		logger.Print("stopping")
		return nil
	}
	return err
}

// untilDeath returns a context that ends with ctx, with the cause errStop, or with a
// child's death as its cause.
func untilDeath(ctx context.Context, deaths <-chan *supervise.Death) context.Context {
	alive, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-ctx.Done():
			cancel(errStop)
		case death := <-deaths:
			cancel(death)
		}
	}()
	return alive
}

// live starts everything and then serves. It always returns an error, errStop for a clean
// stop.
func (c *cluster) live(ctx context.Context, restart <-chan os.Signal) error {
	began := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startComponents(ctx); err != nil {
		return err
	}
	if err := c.populate(ctx); err != nil {
		return err
	}
	if err := c.announce(ctx); err != nil {
		return err
	}
	c.log.Printf("ready after %s; data, logs and kubeconfigs are in %s", since(began), c.layout.dir)
	return c.serve(ctx, restart)
}

// prepare makes ports, keys and a client, which need no running component.
func (c *cluster) prepare() error {
	var err error
	if c.ports, err = choosePorts(); err != nil {
		return err
	}
	if err := writeKeys(c.layout, c.ports); err != nil {
		return err
	}
	c.client, err = newClient(c.layout.kubeconfig(admin))
	return err
}

// startComponents starts each component after its dependencies respond.
func (c *cluster) startComponents(ctx context.Context) error {
	if err := c.start(ctx, etcdCommand(c.layout, c.ports), etcdProbe(c.layout, c.ports)); err != nil {
		return err
	}
	if err := c.start(ctx, apiServerCommand(c.layout, c.ports, c.options), c.apiServerReady); err != nil {
		return err
	}
	if c.options.Kwok {
		if err := c.children.Start(kwokCommand(c.layout, c.options)); err != nil {
			return err
		}
	}
	if c.options.Controllers {
		return c.children.Start(controllerManagerCommand(c.layout, c.ports, c.options))
	}
	return nil
}

func (c *cluster) start(ctx context.Context, command supervise.Command, ready probe) error {
	began := time.Now()
	if err := c.children.Start(command); err != nil {
		return err
	}
	if err := wait(ctx, command.Name, ready); err != nil {
		return fmt.Errorf("%w%s", err, c.tailUnlessDead(ctx, command.Name))
	}
	c.log.Printf("%s is ready after %s", command.Name, since(began))
	return nil
}

// tailUnlessDead quotes the log of a running component that does not become ready. The
// error of a death has its own quote.
func (c *cluster) tailUnlessDead(ctx context.Context, name string) string {
	if ctx.Err() != nil {
		return ""
	}
	return c.children.Tail(name)
}

// populate creates the nodes and waits until the cluster can take pods.
func (c *cluster) populate(ctx context.Context) error {
	began := time.Now()
	if err := createNodes(ctx, c.client, c.options.Fleet, c.options.Nodes); err != nil {
		return err
	}
	c.log.Printf("%d nodes (%s) created after %s", c.options.Nodes, c.options.Fleet, since(began))

	if c.options.NodeLifecycle() {
		if err := wait(ctx, "nodes", c.nodesReady); err != nil {
			return fmt.Errorf("%w%s", err, c.tailUnlessDead(ctx, children.Kwok))
		}
	}
	if err := wait(ctx, "default namespace", c.namespaceReady); err != nil {
		return fmt.Errorf("%w%s", err, c.tailUnlessDead(ctx, children.APIServer))
	}
	if c.options.Controllers {
		err := wait(ctx, children.ControllerManager, both(controllersProbe(c.layout, c.ports), c.serviceAccountReady))
		if err != nil {
			return fmt.Errorf("%w%s", err, c.tailUnlessDead(ctx, children.ControllerManager))
		}
	}
	return nil
}

// serve restarts the API server for each value from restart, until ctx ends.
func (c *cluster) serve(ctx context.Context, restart <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-restart:
			if err := c.restartAPIServer(ctx); err != nil {
				return err
			}
		}
	}
}

func (c *cluster) restartAPIServer(ctx context.Context) error {
	began := time.Now()
	c.log.Printf("killing %s", children.APIServer)
	if err := c.children.Restart(children.APIServer); err != nil {
		return err
	}
	if err := wait(ctx, children.APIServer, c.apiServerReady); err != nil {
		return fmt.Errorf("%w%s", err, c.tailUnlessDead(ctx, children.APIServer))
	}
	c.log.Printf("%s is back after %s", children.APIServer, since(began))
	_, err := c.record(ctx)
	return err
}

// newClient returns a client without a rate limit.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config = rest.AddUserAgent(config, "devcluster")
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

func since(t time.Time) time.Duration {
	return time.Since(t).Round(100 * time.Millisecond)
}
