// Demo shows Berth at work: a cluster of simulated nodes on a real API server, an example
// with several Deployments, and a report.
//
// It takes the folder of built binaries and an example. It writes progress to standard
// error and a report to standard output. It owns the cluster and the scheduler that it
// starts. On a terminal it runs until interrupted; otherwise it ends after the report.
// The exit code is 0 only if every pod of the example runs. A pod that its node refuses
// ends the demo at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

func main() {
	bin := flag.String("bin", "bin", "`folder` with the binaries berth and devcluster")
	example := flag.String("example", "examples/demo.yaml", "`file` with what to schedule")
	nodes := flag.Int("nodes", 500, "`number` of nodes")
	wait := flag.Duration("timeout", 5*time.Minute, "`time` until every pod must run")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	d := demo{bin: *bin, example: *example, nodes: *nodes, wait: *wait}
	if err := d.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

type demo struct {
	bin, example string
	nodes        int
	wait         time.Duration
}

func (d *demo) run(ctx context.Context) (err error) {
	step("starting a cluster of %d nodes: etcd, kube-apiserver, kube-controller-manager", d.nodes)
	stage, err := rig.SetUp(ctx, "demo", d.bin, d.nodes)
	if err != nil {
		return err
	}
	defer stage.End(&err)
	step("starting Berth as its scheduler")
	berth, err := stage.StartBerth(stage.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, berth.Stop()) }()
	if err := d.show(ctx, stage.Cluster, berth); err != nil {
		return fmt.Errorf("%w\nthe end of Berth's log:\n%s", err, berth.Log())
	}
	return stayUp(ctx, stage.Cluster)
}

func (d *demo) show(ctx context.Context, cluster *rig.Cluster, berth *rig.Process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.wait, fmt.Errorf("not every pod ran within %v", d.wait))
	defer cancel()
	watch, err := watchPods(ctx, cluster)
	if err != nil {
		return err
	}
	step("applying %s", d.example)
	want, err := apply(ctx, cluster.Kubeconfig, d.example)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := watch.await(ctx, berth, want); err != nil {
		return err
	}
	client, err := cluster.Client()
	if err != nil {
		return err
	}
	report(os.Stdout, watch, cluster.Nodes, time.Since(began))
	usage, err := berth.Usage()
	if err != nil {
		return err
	}
	fmt.Printf("Berth:        %.2f ms of CPU per pod, start included; %d MiB at its peak\n",
		float64(usage.CPU.Microseconds())/1000/float64(want), usage.PeakBytes>>20)
	return tooBig(ctx, client, os.Stdout)
}

// stayUp keeps everything running for the user to try.
func stayUp(ctx context.Context, cluster *rig.Cluster) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	fmt.Printf("\nThe cluster stays up until you interrupt it (Ctrl-C). In another shell:\n\n  export KUBECONFIG=%s\n  kubectl -n shop get pods -o wide\n\n", cluster.Kubeconfig)
	select {
	case <-ctx.Done():
		return nil
	case <-cluster.Exited():
		return errors.New("the cluster ended by itself")
	}
}

func step(format string, args ...any) { fmt.Fprintf(os.Stderr, "==> "+format+"\n", args...) }

// tooBig creates a pod that fits no node and prints its condition.
func tooBig(ctx context.Context, client kubernetes.Interface, out io.Writer) error {
	pod, err := createTooBig(ctx, client)
	if err != nil {
		return err
	}
	condition, err := awaitCondition(ctx, client, pod)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nPending:      %s/%s, which asks for 100 CPUs and a GPU (%s)\n              %s\n", pod.Namespace, pod.Name, condition.Reason, condition.Message)
	if condition.Status != v1.ConditionFalse {
		return fmt.Errorf("pod %s should be pending", pod.Name)
	}
	return nil
}
