package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
}

// simulationOutputs are the formats of a simulation.
var simulationOutputs = []string{"table", "wide", "json", "yaml"}

func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate [-f FILE]",
		Short: "Show where the pending pods of a cluster would go",
		Long: `Show where the pending pods of a cluster would go.

Without files, the command reads the cluster of the kubeconfig with your own rights. If the files have no Node,
their objects are added to that cluster; the pods of the files are then created last, and only these are printed.
Nothing is written to the cluster.

If the files have a Node, they are the cluster, and the command needs no running one. It reads the output of
"kubectl get -o yaml" and "kubectl cluster-info dump". Include namespaces, services and controllers, because
spreading and pod affinity use them. Include priority classes and PodDisruptionBudgets, because preemption uses
them.

For Deployments, StatefulSets, DaemonSets, Jobs and other workloads in the files, the command creates the pods that
their controllers would create, minus the existing ones. --scale sets the replicas, --run-cronjob runs a CronJob
once, and --pod-template gives the path of the pod template in a custom resource.

The scheduler runs on the cluster with a virtual clock until no further pod can be placed. It schedules pods by
priority and then by age. An unschedulable pod is printed with the reason. The same files, configuration and seed
give the same result.

Preempted pods are printed with the pod that preempted them. They end after their grace period and are not
recreated. The status of PodDisruptionBudgets is updated as pods come and go; a pod on a node counts as healthy
unless the files report it as not ready.

--generate creates a cluster instead of reading one. Its keys are numbers:
  nodes, zones    nodes, and the zones that they are in
  pods, running   pending pods, and pods on nodes
  apps            applications of these pods; some are spread over zones or nodes
  groups          PodGroups, each a gang of 8 more pods; needs --feature-gates GenericWorkload=true
  volumes         pods with a claim: half are provisioned in a zone, half are bound to a local volume
  devices         pods with a ResourceClaim of one device; each node has four devices
different=true gives each pod requests of its own. --seed also changes the objects of the last four keys. The same
keys and seed give the same output. Only the summary is printed, unless the output is json or yaml. The duration of
the simulation is printed on stderr.

With --feature-gates GenericWorkload=true the members of a pod group are scheduled together, and a gang needs its
minCount to start. Include the PodGroups in the files. A second table shows how many members of each group have a
node, and why a group waits.`,
		Example: `  # Would these pods fit, and where?
  kubectl berth simulate -f replicas.yaml

  # Where would the pending pods go, from a snapshot?
  ` + takeSnapshot + `
  berth simulate -f cluster.json

  # Where would they go if these ten replicas were created too?
  berth simulate -f cluster.yaml -f replicas.yaml --config scheduler.yaml -o wide

  # Where would fifty replicas of a Deployment go?
  kubectl berth simulate -f web.yaml --scale shop/web=50

  # How long would it take to schedule a million pods?
  berth simulate --generate nodes=50000,pods=1000000

  # Do two builds decide the same about gangs, volumes and devices? Compare the output of both.
  berth simulate --generate nodes=1000,pods=10000,groups=100,volumes=1000,devices=1000 \
    --feature-gates GenericWorkload=true --seed 1 -o json`,
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
	if err := s.print(stdout, result); err != nil || len(s.generate) == 0 {
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

func (s *simulation) print(w io.Writer, result *simulate.Result) error {
	if s.output == "json" || s.output == "yaml" {
		return printObject(w, s.output, result)
	}
	t := printers.GetNewTabWriter(w)
	if len(s.generate) == 0 {
		printPlacements(t, result.Pods, s.output == "wide")
	}
	printGroups(t, result.Groups)
	printEvictions(t, result.Evictions)
	printSummary(t, &result.Summary)
	return t.Flush()
}

func printPlacements(w io.Writer, pods []simulate.Placement, wide bool) {
	if len(pods) == 0 {
		fmt.Fprintln(w, "No pod is pending.")
		return
	}
	header, row := "NAMESPACE\tPOD\tNODE\tSTATUS\tMESSAGE\n", "%s\t%s\t%s\t%s\t%s\n"
	if wide {
		header = "NAMESPACE\tPOD\tNODE\tSTATUS\tFEASIBLE\tSCORE\tMESSAGE\n"
	}
	fmt.Fprint(w, header)
	for i := range pods {
		p := &pods[i]
		node := p.Node
		if node == "" {
			node = "<none>"
		}
		if wide {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", p.Namespace, p.Pod, node, p.Status, p.FeasibleNodes, p.Score, p.Message)
			continue
		}
		fmt.Fprintf(w, row, p.Namespace, p.Pod, node, p.Status, p.Message)
	}
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
