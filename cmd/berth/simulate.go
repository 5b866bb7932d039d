package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

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
	// pending prints only pods without a node.
	pending bool
}

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
	s.input = newInput(flags, "filename", "f", prints{
		outputs: wideOutputs, bare: true, jsonpath: "{.pods[*].node}", columns: "POD:.pod,NODE:.node", of: "pods", byField: true, sorts: sortKeys("turn", placementOrders)})
	s.makePods(flags, false)
	s.complete(cmd)
	flags.StringToStringVar(&s.generate, "generate", nil, "Create a cluster instead of reading one, such as nodes=5000,pods=50000. Keys: "+strings.Join(simulate.SizeKeys(), ", ")+".")
	_ = cmd.RegisterFlagCompletionFunc("generate", completeSize) // the flag exists
	flags.BoolVar(&s.pending, "pending", false, "Print only pods that are not placed.")
	exclude(flags, "generate", "filename", "scale", "run-cronjob", "pod-template", "selector", "field-selector")
	flags.Uint64Var(&s.seed, "seed", 0, "Seed for the choice among equally good nodes. The same seed gives the same choice.")
	return cmd
}

// run reads the input, simulates and prints.
func (s *simulation) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
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
	order := placementOrders[s.sortBy]
	slices.SortStableFunc(result.Pods, func(a, b simulate.Placement) int { return order(&a, &b) })
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

// placementOrders are the values of --sort-by. The default is the order of the turns.
var placementOrders = map[string]func(a, b *simulate.Placement) int{
	"turn":      func(_, _ *simulate.Placement) int { return 0 },
	"name":      func(a, b *simulate.Placement) int { return cmp.Compare(a.Pod, b.Pod) },
	"namespace": func(a, b *simulate.Placement) int { return cmp.Compare(a.Namespace, b.Namespace) },
	"node":      func(a, b *simulate.Placement) int { return cmp.Compare(a.Node, b.Node) },
	"status":    func(a, b *simulate.Placement) int { return cmp.Compare(a.Status, b.Status) },
}

// print prints the result. pods are the pods of the cluster.
func (s *simulation) print(w io.Writer, result *simulate.Result, pods []*v1.Pod) error {
	done, err := s.printing.print(w, listing{
		object: result, rows: rowsOf(result.Pods), table: func() *table { return widePods(result.Pods) },
		names: func() []string { return podNames(len(result.Pods), func(i int) string { return result.Pods[i].Pod }) },
	})
	if done {
		return err
	}
	b := s.blocks(w)
	if len(s.generate) == 0 {
		switch {
		case len(result.Pods) > 0:
			b.table(s.podTable(result.Pods, pods))
		case !s.noHeaders:
			pending := result.Summary.Placed + result.Summary.Waiting
			if s.choosesAll() {
				pending = 0 // --pending left out the placed ones
			}
			b.line("%s", noneListed(pending))
		}
	}
	if !s.noHeaders {
		b.table(groupTable(result.Groups))
		b.table(evictionTable(result.Evictions))
		printSummary(b, &result.Summary)
	}
	return b.end()
}

func groupTable(groups []simulate.GroupResult) *table {
	t := newTable("NAMESPACE", "POD GROUP", "MIN>", "PLACED>", "STATUS", "MESSAGE~")
	for i := range groups {
		g := &groups[i]
		t.add(g.Namespace, g.PodGroup, g.MinCount, fmt.Sprintf("%d of %d", g.Placed, g.Members), g.Status, g.Message)
	}
	return t
}

func evictionTable(evictions []simulate.Eviction) *table {
	t := newTable("EVICTED", "PRIORITY>", "FROM", "FOR", "PRIORITY>")
	for i := range evictions {
		e := &evictions[i]
		t.add(e.Namespace+"/"+e.Pod, e.Priority, e.Node, e.For, e.ForPriority)
	}
	return t
}

func printSummary(b *blocks, s *simulate.Summary) {
	unschedulable := more(", %d of them unschedulable", s.Unschedulable)
	b.line("Pods: %d of %d pending were placed, beside %d that had a node%s. Nodes: %d%s.", s.Placed,
		s.Placed+s.Waiting, s.PodsBefore, more("; evicted: %d", s.Evicted), s.Nodes, unschedulable)
	t := newTable("RESOURCE", "ALLOCATABLE>", "REQUESTED BEFORE>", "AFTER>")
	for i := range s.Resources {
		u := &s.Resources[i]
		t.add(u.Resource, amount(u.Resource, u.Allocatable),
			fmt.Sprintf("%s (%g%%)", amount(u.Resource, u.Before), u.BeforePercent),
			fmt.Sprintf("%s (%g%%)", amount(u.Resource, u.After), u.AfterPercent))
	}
	b.table(t)
	b.table(zoneTable(s.Zones))
	if most, least := s.MostLoaded, s.LeastLoaded; most != nil && least != nil {
		b.line("Most loaded: %s (%s %g%%). Least loaded: %s (%s %g%%).",
			most.Node, most.Resource, most.Percent, least.Node, least.Resource, least.Percent)
	}
}

// zoneTable has the utilization of the zones before and after.
func zoneTable(zones []simulate.Zone) *table {
	t := newTable("ZONE", "NODES>", "CPU>", "MEMORY>", "PODS>")
	for _, zone := range zones {
		cells := []any{zone.Name, zone.Nodes}
		for i := range zone.Resources {
			u := &zone.Resources[i]
			cells = append(cells, fmt.Sprintf("%g%% -> %g%%", u.BeforePercent, u.AfterPercent))
		}
		t.add(cells...)
	}
	return t
}
