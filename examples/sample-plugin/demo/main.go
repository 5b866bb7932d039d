// Demo runs the sample scheduler from its manifests on a development cluster. It creates
// a few pods, and prints their nodes and the plugin's annotations.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/berth-scheduler/berth/examples/trial"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/sample-plugin/sample"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func step(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func run(ctx context.Context) (err error) {
	bin, ok := trial.Bin()
	if !ok {
		return fmt.Errorf("there is no %s: run `make bin/devcluster` at the top", filepath.Join(bin, "devcluster"))
	}
	folder, err := os.MkdirTemp("", "sample-scheduler-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, "sample-scheduler")
	step("building the scheduler")
	if err := trial.Build(ctx, ".", binary); err != nil {
		return err
	}
	step("starting a cluster of 5 nodes, and applying deploy/")
	cluster, err := trial.Start(ctx, bin, 5, nil)
	if err != nil {
		return err
	}
	defer func() {
		if stop := cluster.Stop(); stop != nil && err == nil {
			err = stop
		}
	}()
	deployed, err := cluster.Apply(ctx, "deploy")
	if err != nil {
		return err
	}
	replica, err := deployed.Run(binary)
	if err != nil {
		return err
	}
	defer replica.End()
	if err := replica.AwaitReady(ctx); err != nil {
		return err
	}
	if err := show(ctx, cluster); err != nil {
		return fmt.Errorf("%w\nthe end of the scheduler's log:\n%s", err, replica.Log())
	}
	return nil
}

func show(ctx context.Context, cluster *trial.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	nodes, err := cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	labels := map[string]map[string]string{}
	for i, color := range []string{"blue", "blue", "green", "green", "red"} {
		name := nodes.Items[i].Name
		labels[name] = map[string]string{sample.ColorLabel: color, sample.NumberLabel: []string{"42", "900", "42", "900", "42"}[i]}
		if err := cluster.Label(ctx, name, labels[name]); err != nil {
			return err
		}
	}
	if err := cluster.Namespace(ctx, "shop"); err != nil {
		return err
	}
	pods := []*v1.Pod{
		trial.Pod("plain-0", "sample-scheduler", 1, nil, nil),
		trial.Pod("plain-1", "sample-scheduler", 1, nil, nil),
		trial.Pod("green", "sample-scheduler", 1, nil, map[string]string{sample.ColorAnnotation: "green"}),
		trial.Pod("filter-only", "sample-filter", 1, nil, nil),
		trial.Pod("wants-thanks", "sample-scheduler", 1, nil, map[string]string{sample.WantsThanksAnnotation: ""}),
		trial.Pod("purple", "sample-scheduler", 1, nil, map[string]string{sample.ColorAnnotation: "purple"}),
	}
	for _, pod := range pods {
		if _, err := cluster.Client.CoreV1().Pods("shop").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	step("pod wants-thanks waits at Permit; it is thanked in 2 s")
	time.Sleep(2 * time.Second)
	if err := cluster.Annotate(ctx, "shop", "wants-thanks", sample.ThanksAnnotation, "Ada"); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tSCHEDULER\tNODE\tCOLOR\tNUMBER\tSEAT\tMESSAGE")
	for _, pod := range pods {
		settled := func(pod *v1.Pod) bool { return trial.Runs(pod) || strings.Contains(trial.Message(pod), "color") }
		is, err := cluster.AwaitPod(ctx, "shop", pod.Name, "settled", settled)
		if err != nil {
			return err
		}
		node := labels[is.Spec.NodeName]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", is.Name, is.Spec.SchedulerName, is.Spec.NodeName, node[sample.ColorLabel], node[sample.NumberLabel],
			is.Annotations[sample.SeatAnnotation], trial.Message(is))
	}
	return table.Flush()
}
