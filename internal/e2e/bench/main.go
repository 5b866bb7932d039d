// Bench compares Berth with a binder that does not think, end to end, on one API server.
//
// It takes the folder of built binaries; it gives a table of pods/s, CPU and memory on standard output, progress on standard error.
// Both contenders get the same nodes and the same pending pods in turn, several rounds of each, alternating. It owns the
// cluster and the contenders it starts. The binder (in binder.go) is this same program, started as a process of its own so that its
// cost can be told apart: it lists pods and nodes once and binds round-robin, and writes the same events as Berth.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/e2e/rig"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == binderCommand {
		if err := bindRoundRobin(os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "binder: %v\n", err)
			os.Exit(1)
		}
		return
	}
	var b bench
	flag.StringVar(&b.bin, "bin", "bin", "`folder` with the binaries berth and devcluster")
	flag.IntVar(&b.nodes, "nodes", 5000, "`number` of nodes")
	flag.IntVar(&b.pods, "pods", 10000, "`number` of pods to bind in each round")
	flag.IntVar(&b.rounds, "rounds", 3, "`number` of rounds for each contender")
	flag.IntVar(&b.running, "running", 0, "`number` of pods of the same shape that run already")
	names := flag.String("shapes", "plain", "what the pods ask for, separated by commas: plain, spread, preferred-affinity, anti-affinity")
	flag.Parse()
	var err error
	if b.shapes, err = shapesNamed(*names); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := b.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

type bench struct {
	bin                 string
	nodes, pods, rounds int
	running             int
	shapes              []shape
	logs                *os.File
}

// Pods wait in one namespace and run already in another.
const (
	namespace        = "bench"
	runningNamespace = "running"
)

// result is one contender's round.
type result struct {
	podsPerSecond float64       // from the first binding to the last
	withEvents    float64       // pods/s from the first binding until every event is written too
	firstBind     time.Duration // from the start of the process
	cpuPerPod     time.Duration
	peakBytes     int64
}

// contender is somebody who binds all pending pods.
type contender struct {
	name    string
	start   func() (*rig.Process, error)
	results []result
}

func (b *bench) run(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if b.logs, err = os.Create(filepath.Join(folder, "bench.log")); err != nil {
		return err
	}
	defer b.logs.Close()
	step("starting an API server with %d nodes", b.nodes)
	cluster, err := rig.StartCluster(ctx, b.bin, b.logs, "--nodes", fmt.Sprint(b.nodes), "--node-shape", "uniform",
		"--with-kwok=false", "--without-controllers", "--data-dir", filepath.Join(folder, "cluster"))
	if err != nil {
		return err
	}
	err = b.compare(ctx, cluster)
	return errors.Join(err, cluster.Stop())
}

func (b *bench) compare(ctx context.Context, cluster *rig.Cluster) error {
	client, err := cluster.Client()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, ns := range []string{namespace, runningNamespace} {
		object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace: %w", err)
		}
	}
	fmt.Printf("%d nodes, %d pods pending, %d running, %d rounds each, alternating; medians\n", b.nodes, b.pods, b.running, b.rounds)
	for _, s := range b.shapes {
		contenders := []*contender{
			{name: "round-robin binder", start: func() (*rig.Process, error) { return cluster.StartHelper(b.logs, self, binderCommand) }},
			{name: "berth", start: func() (*rig.Process, error) { return cluster.StartBerth(b.logs) }},
		}
		if err := b.compareShape(ctx, cluster, client, s, contenders); err != nil {
			return fmt.Errorf("shape %s: %w", s.name, err)
		}
		b.print(s, contenders)
	}
	return nil
}

// compareShape lets the contenders bind pods of one shape, beside others of the shape that run.
func (b *bench) compareShape(ctx context.Context, cluster *rig.Cluster, client kubernetes.Interface, s shape, contenders []*contender) error {
	if err := b.settle(ctx, client, s); err != nil {
		return err
	}
	for round := range b.rounds {
		for _, c := range contenders {
			step("%s, round %d of %d: %s", s.name, round+1, b.rounds, c.name)
			r, err := b.round(ctx, cluster, client, s, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			step("  %.0f pods/s, %.2f ms of CPU per pod", r.podsPerSecond, milliseconds(r.cpuPerPod))
			c.results = append(c.results, r)
		}
	}
	return rig.DeletePods(ctx, client, runningNamespace)
}

// settle creates the pods that run already, evenly over the nodes.
func (b *bench) settle(ctx context.Context, client kubernetes.Interface, s shape) error {
	if b.running == 0 {
		return nil
	}
	step("%s: creating %d running pods", s.name, b.running)
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	err = rig.CreatePods(ctx, client, runningNamespace, b.running, func(i int) *v1.Pod {
		pod := s.pod("running", i)
		pod.Spec.NodeName = nodes.Items[i%len(nodes.Items)].Name
		return pod
	})
	if err != nil {
		return fmt.Errorf("create running pods: %w", err)
	}
	return nil
}

// round creates pods, lets a contender bind them, and removes them again.
func (b *bench) round(ctx context.Context, cluster *rig.Cluster, client kubernetes.Interface, s shape, c *contender) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Minute, errors.New("the round took longer than 15 minutes"))
	defer cancel()
	err := rig.CreatePods(ctx, client, namespace, b.pods, func(i int) *v1.Pod { return s.pod("pending", i) })
	if err != nil {
		return result{}, fmt.Errorf("create pods: %w", err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	bindings, err := cluster.WatchBindings(watching, namespace)
	if err != nil {
		return result{}, err
	}
	began := time.Now()
	process, err := c.start()
	if err != nil {
		return result{}, err
	}
	if err := bindings.Await(ctx, b.pods, process); err != nil {
		process.Kill()
		return result{}, fmt.Errorf("%w\n%s", err, process.Log())
	}
	if err := awaitEvents(ctx, client, b.pods); err != nil {
		return result{}, err
	}
	told := time.Now()
	usage, err := process.Usage()
	if err != nil {
		return result{}, err
	}
	if err := process.Stop(); err != nil {
		return result{}, err
	}
	n, first, last := bindings.Count()
	return result{
		podsPerSecond: float64(n-1) / last.Sub(first).Seconds(),
		withEvents:    float64(n-1) / told.Sub(first).Seconds(),
		firstBind:     first.Sub(began),
		cpuPerPod:     usage.CPU / time.Duration(n),
		peakBytes:     usage.PeakBytes,
	}, b.clear(ctx, client)
}

// clear deletes pods and events, so that each round starts from the same cluster.
func (b *bench) clear(ctx context.Context, client kubernetes.Interface) error {
	if err := rig.DeletePods(ctx, client, namespace); err != nil {
		return err
	}
	if err := client.EventsV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete events: %w", err)
	}
	return nil
}

// awaitEvents waits until every pod has its event: they are part of the work, and of its cost.
func awaitEvents(ctx context.Context, client kubernetes.Interface, pods int) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("count events: %w", err)
		}
		have := len(page.Items)
		if page.RemainingItemCount != nil {
			have += int(*page.RemainingItemCount)
		}
		if have >= pods {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %d events: there are %d: %w", pods, have, context.Cause(ctx))
		}
	}
}

// print shows each contender's median round.
func (b *bench) print(s shape, contenders []*contender) {
	fmt.Printf("\n%s\n", s.name)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "CONTENDER\tPODS/S\tRATE\tWITH EVENTS\tCPU/POD\tFIRST BIND\tPEAK MEMORY\t")
	base := median(contenders[0].results, func(r result) float64 { return r.podsPerSecond })
	for _, c := range contenders {
		rate := median(c.results, func(r result) float64 { return r.podsPerSecond })
		fmt.Fprintf(table, "%s\t%.0f\t%.0f %%\t%.0f\t%.2f ms\t%.1f s\t%.0f MiB\t\n", c.name, rate, 100*rate/base,
			median(c.results, func(r result) float64 { return r.withEvents }),
			median(c.results, func(r result) float64 { return milliseconds(r.cpuPerPod) }),
			median(c.results, func(r result) float64 { return r.firstBind.Seconds() }),
			median(c.results, func(r result) float64 { return float64(r.peakBytes >> 20) }))
	}
	table.Flush()
}

func median(results []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func step(format string, args ...any) { fmt.Fprintf(os.Stderr, "==> "+format+"\n", args...) }
