package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// simulation holds the flags of simulate.
type simulation struct {
	*input
	seed uint64
	// generate is the size of a cluster to generate; empty if the cluster is read.
	generate map[string]string
	made     *simulate.Size // the same; nil if the cluster is read
	// selector and pending choose the printed pods.
	selector  labels.Selector
	selects   string
	pending   bool
	noHeaders bool
}

// simulationOutputs are the formats of a simulation.
var simulationOutputs = []string{"table", "wide", "json", "yaml", "name"}

func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:     "simulate [-f FILE]",
		Short:   "Show where the pending pods of a cluster would go",
		Long:    simulateLong,
		Example: simulateExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: name every file with -f", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	s.input = newInput(flags, "filename", "f", simulationOutputs)
	s.makePods(flags, false)
	s.complete(cmd)
	flags.StringToStringVar(&s.generate, "generate", nil, "Create a cluster instead of reading one, such as nodes=5000,pods=50000. Keys: "+strings.Join(simulate.SizeKeys(), ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("generate", completeSize) // the flag exists
	flags.StringVarP(&s.selects, "selector", "l", "", "Print only pods with these labels, such as app=web. All pods are scheduled.")
	flags.BoolVar(&s.pending, "pending", false, "Print only pods that are not placed.")
	flags.BoolVar(&s.noHeaders, "no-headers", false, "Print only the rows of pods, without headers.")
	flags.Uint64Var(&s.seed, "seed", 0, "Seed for the choice among equally good nodes. The same seed gives the same choice.")
	return cmd
}

// run reads the input, simulates and prints.
func (s *simulation) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	var err error
	if s.selector, err = labels.Parse(s.selects); err != nil {
		return wrong{fmt.Errorf("--selector %q: %w", s.selects, err)}
	}
	scheduler, cluster, asked, err := s.readOrGenerate(ctx, stdin, bar)
	if err != nil {
		return err
	}
	began := time.Now()
	result, err := simulate.Run(simulate.Config{Scheduler: scheduler, Seed: s.seed, Pods: s.made}, cluster, func(decided, pending int) {
		bar.show("Scheduling", int64(decided), int64(pending))
	})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	took := time.Since(began)
	bar.clear()
	s.noteAssumed(stderr)
	notes(stderr, scheduler, cluster)
	if s.made != nil && !scheduler.Groups {
		note(stderr, oneByOne(s.made.Pending()-s.made.Pods))
	}
	if of := *s.connection.flags.Namespace; of != "" && len(s.files)+len(s.generate) == 0 {
		asked = map[string]bool{}
		for i := range result.Pods {
			if result.Pods[i].Namespace == of {
				asked[of+"/"+result.Pods[i].Pod] = true
			}
		}
	}
	if asked != nil {
		others := len(result.Pods)
		result.Pods = slices.DeleteFunc(result.Pods, func(p simulate.Placement) bool { return !asked[p.Namespace+"/"+p.Pod] })
		if others -= len(result.Pods); others > 0 {
			fmt.Fprintf(stderr, "Note: other pending pods of the cluster were scheduled too and are not listed: %d\n", others)
		}
	}
	s.choose(result, cluster.Pods)
	if err := s.print(stdout, result, cluster.Pods); err != nil || len(s.generate) == 0 {
		return err
	}
	// The duration goes to stderr, because stdout is equal in each run.
	_, err = fmt.Fprintf(stderr, "Note: %s\n", pace(result.Summary.Placed+result.Summary.Waiting, took))
	return err
}

// pace describes the real time of the decisions, and the pods per second.
func pace(pods int, took time.Duration) string {
	took = max(took.Round(time.Millisecond), time.Millisecond)
	return fmt.Sprintf("%d pods in %s, %.0f pods/s", pods, took, float64(pods)/took.Seconds())
}

// completeSize completes the last key in the value of --generate. Keys that the value has
// already are left out.
func completeSize(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	pairs := strings.Split(typed, ",")
	before := pairs[:len(pairs)-1]
	var values []string
	for _, key := range simulate.SizeKeys() {
		if !slices.ContainsFunc(before, func(pair string) bool { return strings.HasPrefix(pair, key+"=") }) {
			values = append(values, strings.Join(append(slices.Clone(before), key+"="), ","))
		}
	}
	return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// readOrGenerate returns the configuration and the cluster, and the names of the pods
// that files add to a live cluster.
func (s *simulation) readOrGenerate(ctx context.Context, stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, map[string]bool, error) {
	if len(s.generate) == 0 {
		return s.readWithFiles(ctx, stdin, bar)
	}
	if len(s.files) > 0 {
		return nil, nil, nil, wrong{fmt.Errorf("--generate makes the cluster, and -f reads it: give one of the two")}
	}
	size, err := simulate.SizeOf(s.generate)
	if err != nil {
		return nil, nil, nil, wrong{fmt.Errorf("--generate: %w", err)}
	}
	scheduler, err := s.readConfig()
	if err != nil {
		return nil, nil, nil, err
	}
	size.Seed = s.seed
	s.made = &size
	return scheduler, size.WithoutPods(), nil, nil
}

// print prints the result. pods are the pods of the cluster.
func (s *simulation) print(w io.Writer, result *simulate.Result, pods []*v1.Pod) error {
	if s.output == "json" || s.output == "yaml" {
		return printObject(w, s.output, result)
	}
	if s.output == "name" {
		for i := range result.Pods {
			fmt.Fprintf(w, "pod/%s\n", result.Pods[i].Pod)
		}
		return nil
	}
	t := printers.GetNewTabWriter(w)
	if len(s.generate) == 0 {
		s.printPods(t, result.Pods, pods)
	}
	if s.noHeaders {
		return t.Flush()
	}
	printGroups(t, result.Groups)
	printEvictions(t, result.Evictions)
	printSummary(t, &result.Summary)
	return t.Flush()
}

func printGroups(w io.Writer, groups []simulate.GroupResult) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprint(w, "\nNAMESPACE\tPOD GROUP\tMIN\tPLACED\tSTATUS\tMESSAGE\n")
	for i := range groups {
		g := &groups[i]
		fmt.Fprintf(w, "%s\t%s\t%d\t%d of %d\t%s\t%s\n", g.Namespace, g.PodGroup, g.MinCount, g.Placed, g.Members, g.Status, g.Message)
	}
}

func printEvictions(w io.Writer, evictions []simulate.Eviction) {
	if len(evictions) == 0 {
		return
	}
	fmt.Fprint(w, "\nEVICTED\tPRIORITY\tFROM\tFOR\tPRIORITY\n")
	for i := range evictions {
		e := &evictions[i]
		fmt.Fprintf(w, "%s/%s\t%d\t%s\t%s\t%d\n", e.Namespace, e.Pod, e.Priority, e.Node, e.For, e.ForPriority)
	}
}

func printSummary(w io.Writer, s *simulate.Summary) {
	fmt.Fprintf(w, "\nPods: %d of %d pending were placed, beside %d that had a node%s. Nodes: %d", s.Placed, s.Placed+s.Waiting, s.PodsBefore, more("; evicted: %d", s.Evicted), s.Nodes)
	if s.Unschedulable > 0 {
		fmt.Fprintf(w, ", %d of them unschedulable", s.Unschedulable)
	}
	fmt.Fprint(w, ".\n\nRESOURCE\tALLOCATABLE\tREQUESTED BEFORE\tAFTER\n")
	for i := range s.Resources {
		u := &s.Resources[i]
		fmt.Fprintf(w, "%s\t%s\t%s (%g%%)\t%s (%g%%)\n", u.Resource,
			amount(u.Resource, u.Allocatable), amount(u.Resource, u.Before), u.BeforePercent, amount(u.Resource, u.After), u.AfterPercent)
	}
	printZones(w, s.Zones)
	if most, least := s.MostLoaded, s.LeastLoaded; most != nil && least != nil {
		fmt.Fprintf(w, "\nMost loaded: %s (%s %g%%). Least loaded: %s (%s %g%%).\n",
			most.Node, most.Resource, most.Percent, least.Node, least.Resource, least.Percent)
	}
}

// printZones prints the utilization of the zones before and after.
func printZones(w io.Writer, zones []simulate.Zone) {
	if len(zones) > 0 {
		fmt.Fprint(w, "\nZONE\tNODES\tCPU\tMEMORY\tPODS\n")
	}
	for _, zone := range zones {
		fmt.Fprintf(w, "%s\t%d", zone.Name, zone.Nodes)
		for i := range zone.Resources {
			fmt.Fprintf(w, "\t%g%% -> %g%%", zone.Resources[i].BeforePercent, zone.Resources[i].AfterPercent)
		}
		fmt.Fprintln(w)
	}
}
