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
	"k8s.io/apimachinery/pkg/api/resource"
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
	flag.Parse()
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
	logs                *os.File
}

const namespace = "bench"

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
	contenders := []*contender{
		{name: "round-robin binder", start: func() (*rig.Process, error) { return cluster.StartHelper(b.logs, self, binderCommand) }},
		{name: "berth", start: func() (*rig.Process, error) { return cluster.StartBerth(b.logs) }},
	}
	for round := range b.rounds {
		for _, c := range contenders {
			step("round %d of %d: %s", round+1, b.rounds, c.name)
			r, err := b.round(ctx, cluster, client, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			step("  %.0f pods/s, %.2f ms of CPU per pod", r.podsPerSecond, milliseconds(r.cpuPerPod))
			c.results = append(c.results, r)
		}
	}
	b.print(contenders)
	return nil
}

// round creates pods, lets a contender bind them, and removes them again.
func (b *bench) round(ctx context.Context, cluster *rig.Cluster, client kubernetes.Interface, c *contender) (result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 15*time.Minute, errors.New("the round took longer than 15 minutes"))
	defer cancel()
	if err := b.fill(ctx, client); err != nil {
		return result{}, err
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

// fill creates the pending pods: the plainest kind, which leaves the least to think about.
func (b *bench) fill(ctx context.Context, client kubernetes.Interface) error {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); err != nil {
		if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace: %w", err)
		}
	}
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("500Mi")}
	err := rig.CreatePods(ctx, client, namespace, b.pods, func(i int) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("plain-%05d", i), Labels: map[string]string{"app": "plain"}},
			Spec: v1.PodSpec{Containers: []v1.Container{{
				Name: "main", Image: "registry.example/plain:1", Resources: v1.ResourceRequirements{Requests: requests},
			}}},
		}
	})
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	return nil
}

// clear deletes pods and events, so that each round starts from the same cluster.
func (b *bench) clear(ctx context.Context, client kubernetes.Interface) error {
	now := int64(0)
	if err := client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete pods: %w", err)
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
func (b *bench) print(contenders []*contender) {
	fmt.Printf("%d nodes, %d plain pods pending, %d rounds each, alternating; medians\n\n", b.nodes, b.pods, b.rounds)
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
