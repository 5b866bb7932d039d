// Package options parses devcluster's command line.
//
// It takes arguments and returns validated Options, or an error for the user. It owns the
// flags' names, defaults and help. It never touches files and never starts anything.
package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/devcluster/internal/shape"
)

// Options describes one cluster.
type Options struct {
	// DataDir holds all files of the cluster. If empty, a temporary folder is used, and a
	// clean stop removes it.
	DataDir string
	// Nodes is the number of nodes to create at the start.
	Nodes int
	// Fleet is the mix of node sizes.
	Fleet shape.Fleet
	// Kwok enables the agent that keeps nodes Ready and simulates bound pods.
	Kwok bool
	// Controllers enables kube-controller-manager.
	Controllers bool
	// FeatureGates is passed verbatim to every Kubernetes component.
	FeatureGates string
	// RuntimeConfig is passed verbatim to kube-apiserver; it enables and disables API
	// versions.
	RuntimeConfig string
	// AuditPolicy is a file that selects the requests in kube-apiserver's audit log.
	// Without it nothing is logged.
	AuditPolicy string
	// KubeconfigOut receives a copy of the admin kubeconfig, if set.
	KubeconfigOut string
	// ReadyFile receives a copy of the ready line, if set.
	ReadyFile string
}

// NodeLifecycle reports whether the node lifecycle controller runs. It is part of the
// controllers, and it needs the agent: without renewed leases it would taint all nodes.
func (o Options) NodeLifecycle() bool {
	return o.Kwok && o.Controllers
}

const usage = `Usage: devcluster [flags]

Runs etcd, kube-apiserver and kube-controller-manager on loopback, without a scheduler, and
creates simulated nodes. When all is ready, prints one line of JSON on standard output.
SIGINT or SIGTERM stop everything; SIGUSR1 kills kube-apiserver and starts it again.

`

// Parse parses args, without the program's name. Help and flag errors are written to out;
// flag.ErrHelp means that help was requested and written.
func Parse(args []string, out io.Writer) (Options, error) {
	var o Options
	var fleet string
	var withoutControllers bool

	flags := flag.NewFlagSet("devcluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.DataDir, "data-dir", "", "`folder` for all data, keys, kubeconfigs and logs; kept after the stop, and a later start goes on from it (default: a temporary folder, removed after a clean stop)")
	flags.IntVar(&o.Nodes, "nodes", 10, "`number` of nodes to create")
	flags.StringVar(&fleet, "node-shape", shape.Realistic.String(), "`fleet` of nodes: realistic (several pools and sizes) or uniform (32 CPU, 128Gi each)")
	flags.BoolVar(&o.Kwok, "with-kwok", true, "keep nodes Ready and play the life of bound pods")
	flags.BoolVar(&withoutControllers, "without-controllers", false, "do not run kube-controller-manager")
	flags.StringVar(&o.FeatureGates, "feature-gates", "", "`k=v,...` passed to kube-apiserver, kube-controller-manager and the simulated kubelets")
	flags.StringVar(&o.RuntimeConfig, "runtime-config", "", "`k=v,...` passed to kube-apiserver, to serve further API versions")
	flags.StringVar(&o.AuditPolicy, "audit-policy", "", "`file` with an audit.k8s.io/v1 Policy; kube-apiserver logs the requests that it selects in logs/audit.log in the data folder")
	flags.StringVar(&o.KubeconfigOut, "kubeconfig-out", "", "`file` for a copy of the admin kubeconfig")
	flags.StringVar(&o.ReadyFile, "ready-file", "", "`file` for a copy of the ready line")

	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(out, usage)
			flags.SetOutput(out)
			flags.PrintDefaults()
		}
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q: devcluster takes flags only", flags.Arg(0))
	}

	o.Controllers = !withoutControllers
	var err error
	if o.Fleet, err = shape.ParseFleet(fleet); err != nil {
		return Options{}, fmt.Errorf("--node-shape: %w", err)
	}
	return o, o.check()
}

func (o Options) check() error {
	if o.Nodes < 0 || o.Nodes > shape.MaxNodes {
		return fmt.Errorf("--nodes: %d is not between 0 and %d", o.Nodes, shape.MaxNodes)
	}
	if err := checkGates(o.FeatureGates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	if err := checkPairs(o.RuntimeConfig); err != nil {
		return fmt.Errorf("--runtime-config: %w", err)
	}
	return nil
}

// checkGates checks only the syntax of feature gates. The components check their names.
func checkGates(gates string) error {
	for pair := range pairs(gates) {
		name, value, _ := strings.Cut(pair, "=")
		if name == "" {
			return fmt.Errorf("%q has no name", pair)
		}
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%q is not NAME=true or NAME=false", pair)
		}
	}
	return nil
}

func checkPairs(config string) error {
	for pair := range pairs(config) {
		if name, _, _ := strings.Cut(pair, "="); name == "" {
			return fmt.Errorf("%q has no name", pair)
		}
	}
	return nil
}

// pairs yields the elements of a comma-separated list; an empty list has none.
func pairs(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if list != "" {
			strings.SplitSeq(list, ",")(yield)
		}
	}
}
