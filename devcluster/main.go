// Devcluster runs a Kubernetes control plane without a scheduler, and a fleet of
// simulated nodes, as one command.
//
// It takes flags for the number and sizes of the nodes, the data directory, and the agent
// that keeps the nodes alive. Once everything answers, it prints one line of JSON on
// standard output: kubeconfigs for a person and for a scheduler, and the process ids. It
// owns its child processes and its data directory, and leaves no process behind. It never
// starts a scheduler: the caller does.
//
// Every component (etcd, kube-apiserver, kube-controller-manager, kwok) is a child
// process that executes this same binary. One process for all of them would be simpler.
// But the Kubernetes components cannot share their global state: feature gates, metrics
// registries, signal handlers. A test must also be able to kill only the API server and
// observe its clients. The kernel kills the children when their parent dies, even by
// SIGKILL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-scheduler/berth/devcluster/internal/children"
	"github.com/berth-scheduler/berth/devcluster/internal/cluster"
	"github.com/berth-scheduler/berth/devcluster/internal/component"
	"github.com/berth-scheduler/berth/devcluster/internal/options"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if args := os.Args[1:]; len(args) > 0 && args[0] == children.Command {
		os.Exit(component.Main(args[1:]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole life of one cluster. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	opts, err := options.Parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "devcluster: %v\n", err)
		return exitUsage
	}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	restart := make(chan os.Signal, 1)
	signal.Notify(restart, syscall.SIGUSR1)

	logger := log.New(stderr, "devcluster: ", log.Ltime)
	if err := cluster.Run(ctx, opts, restart, stdout, logger); err != nil {
		logger.Printf("failed: %v", err)
		return exitFailed
	}
	return 0
}
