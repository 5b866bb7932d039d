// Package component runs one component of the control plane in a child process of
// devcluster, for the process's whole life.
//
// It takes a component's name and flags and returns an exit code. It owns its process. It
// never depends on the other components: their addresses are in the flags. The Kubernetes
// components are black boxes behind their own binaries' flags.
package component

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	_ "time/tzdata" // CronJobs may name time zones

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics of the components' clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric, as in the original binaries
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/berth-scheduler/berth/devcluster/internal/children"
)

// Main runs the component args[0] with the following flags until it ends or the process
// receives a signal, and returns the exit code.
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "devcluster component: which one?")
		return 2
	}
	name, flags := args[0], args[1:]
	switch name {
	case children.Etcd:
		return serve(name, flags, runEtcd)
	case children.Kwok:
		return serve(name, flags, runKwok)
	case children.APIServer:
		command := apiserver.NewAPIServerCommand()
		command.SetArgs(flags)
		return cli.Run(command)
	case children.ControllerManager:
		command := controllers.NewControllerManagerCommand()
		command.SetArgs(flags)
		return cli.Run(command)
	default:
		fmt.Fprintf(os.Stderr, "devcluster component: there is no %q\n", name)
		return 2
	}
}

// serve runs a component that stops when its context ends.
func serve(name string, args []string, run func(context.Context, []string) error) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
