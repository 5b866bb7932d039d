package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if len(args) > 1 {
		if part, ok := parts()[args[0]]; ok {
			if err := part(ctx, args[1:]); err != nil {
				fmt.Fprintf(stderr, "%s: %v\n", args[0], err)
				return exitFailed
			}
			return 0
		}
	}
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "compare: %v\n", err)
	if wrong := (usageError{}); errors.As(err, &wrong) {
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake in the flags.
type usageError struct{ error }

func command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare Berth with kube-scheduler and with a binder that does not think",
		Long: `Compare Berth with kube-scheduler and with a binder that does not think, on real API servers that it starts.

Shapes: all pods are pending when a contender starts; the time of a pod until it is bound counts from that start. Running pods make the
same demands as pending ones and belong to the same apps.
Workloads: those of scheduler_perf, kube-scheduler's own benchmark. Pods are created while the contender runs; the time of a pod until it
is bound counts from the request that creates it. CPU is that of the measured part. In PreemptionAsync, PreemptionBurst, Unschedulable and
those with volumes the binder takes part too: it knows beforehand where each pod goes and which pods are evicted for it, and makes the
writes that a scheduler has to make. Its rate is the pace of the API server. Besides:
  ParkedChurn      what pods that nothing can help cost those that fit, while nodes are updated all the time
  HopelessPreemptors
                   what pods of high priority that fit nowhere and can preempt nobody cost the others, while pods end all the time
  WaitingForRoom   pods wait for room on full nodes, where pods end all the time: each end makes room for one
  PreemptionBurst  pods that all preempt, each three others of lower priority
  ManyTenants      many namespaces with a small app each, all with the same labels, anti-affinity and spread constraints
  ManyApps         many small apps with a Service each, spread by default
  WaitForFirstConsumerLocal
                   a local volume on each node and pods that need one each, all pending at the start. The binder gives out volumes
                   without thinking: its rate is the pace at which the controller manager confirms claims
  OutsidePlugin    plain pods, all pending at the start, and in both schedulers the same plugin from outside that filters and scores every
                   node it is asked about
  Gangs            plain pods in gangs, each of which starts as a whole or not at all, all pending at the start, with the gate GenericWorkload
  Restart          the time from start to first binding, beside the time that client-go takes to list the running pods

Columns: PODS/S from the first binding to the last, +EVENTS until every Scheduled event was written too, each followed by how much that
is of the binder's and of kube-scheduler's rate; CPU/POD the CPU of the contender, API CPU/POD that of etcd and the API server, which
create the pods too; FIRST the time from start to first binding; P50 and P99 of the time of a pod until it is bound; MEMORY the largest
resident size. Figures are medians over the rounds.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q: compare takes flags only", args[0])}
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.quick {
				o.makeQuick(cmd.Flags().Changed)
			}
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return o.compare(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := cmd.Flags()
	f.StringVar(&o.bin, "bin", "bin", "`folder` with the binaries berth, kube-scheduler and devcluster")
	f.BoolVar(&o.quick, "quick", false, "small sizes and few shapes, for about two minutes; other flags still hold")
	f.StringSliceVar(&o.contenders, "contenders", []string{"binder", "kube-scheduler", "berth"}, "who takes part")
	f.StringSliceVar(&o.shapes, "shapes", []string{all}, "`names` of shapes: "+strings.Join(scene.ShapeNames(), ", ")+"; or all, or none")
	f.StringSliceVar(&o.workloads, "workloads", []string{none}, "`names` of workloads, such as SchedulingBasic for all of a test case; or all, or none. --list lists them")
	f.BoolVar(&o.list, "list", false, "list shapes and workloads, and do nothing else")
	f.IntVar(&o.nodes, "nodes", 5000, "`number` of nodes for shapes")
	f.IntVar(&o.largeNodes, "large-nodes", 15000, "`number` of nodes for the shapes plain and mixed once more, with nothing running; 0 for not")
	f.IntSliceVar(&o.running, "running", []int{0, 30000}, "`numbers` of pods that run already, each shape once with each")
	f.IntVar(&o.pods, "pods", 5000, "`number` of pods to place in each round of a shape")
	f.Float64Var(&o.scale, "scale", 1, "`factor` for the numbers of nodes and pods of workloads, such as 0.1")
	f.IntVar(&o.rounds, "rounds", 3, "`number` of rounds for each contender")
	f.DurationVar(&o.limit, "round-limit", 20*time.Minute, "`time` that one round may take")
	f.DurationVar(&o.calmLimit, "calm-limit", 20*time.Second, "`time` to wait at most, before a round, for the cluster to be idle")
	f.StringVarP(&o.output, "output", "o", "table", "how to print the result: table, json or yaml")
	f.StringVar(&o.csv, "csv", "", "`file` for every round as CSV; written after each round")
	f.BoolVar(&o.resume, "resume", false, "start from the rounds in the file of --csv: only those that it lacks are run, and all are reported")
	f.StringVar(&o.svg, "svg", "", "`file` for a chart of the rates")
	return cmd
}
