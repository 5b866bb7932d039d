package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// drainFlags are the flags of drain.
type drainFlags struct {
	*input
	podSelector   string
	seed          uint64
	failOnIgnored bool
	drain         simulate.Drain
}

func newDrainCommand() *cobra.Command {
	var d drainFlags
	cmd := &cobra.Command{
		Use:   "drain NODE... | -l SELECTOR",
		Short: "Show where the pods of nodes would go if the nodes were drained",
		Long: `Show where the pods of nodes would go if the nodes were drained.

The command reads the cluster of the kubeconfig with your own permissions. With -f it reads the cluster from files and
needs no running one. It writes nothing to the cluster: the scheduler runs on a copy, with a virtual clock. In the
copy it cordons the nodes and evicts their pods as "kubectl drain" does: node by node, the pods of a node by
namespace and name. The flags have kubectl's names and defaults. A node with pods that kubectl would refuse to evict
keeps all its pods.

Static pods stay. A pod protected by a PodDisruptionBudget waits until the pods evicted before it run on other
nodes; its message names the budget. If waiting does not help, its node is Blocked.

Each pod with a controller is recreated with its own spec: a StatefulSet pod under its old name once the old pod is
gone, other pods at once. A pod counts as healthy as soon as it has a node. Pods of schedulers without a profile in
the configuration are Ignored, because their placement is unknown.

Exit codes:
  0  All nodes can be drained, and every recreated pod can be placed.
  1  The command failed.
  2  The input is wrong.
  3  Some node cannot be drained, or some pod would stay pending. The result is printed as well.`,
		Example: `  # Where would the pods of this node go?
  kubectl berth drain node-7 --ignore-daemonsets

  # Can this pool be emptied, including pods with emptyDir volumes?
  kubectl berth drain -l node.kubernetes.io/pool=old --ignore-daemonsets --delete-emptydir-data

  # The same from a file, without a connection to the cluster
  berth drain node-7 --ignore-daemonsets -f cluster.yaml`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			names := d.nodeNames(cmd.Context(), typed)
			return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd.Context(), nodeNames(args), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	d.input = newInput(flags, "filename", "f", prints{outputs: nameOutputs, bare: true, jsonpath: "{.pods[*].to}", columns: "POD:.pod,TO:.to", of: "nodes to drain"})
	_ = flags.MarkHidden("namespace") // has no effect, or is an error
	flags.StringVar(&d.podSelector, "pod-selector", "", "Evict only the pods with these labels.")
	flags.Uint64Var(&d.seed, "seed", 0, "Seed for the choice among equally good nodes. The same seed gives the same choice.")
	flags.BoolVar(&d.drain.IgnoreDaemonSets, "ignore-daemonsets", false, "Leave DaemonSet pods on their nodes.")
	flags.BoolVar(&d.drain.DeleteEmptyDirData, "delete-emptydir-data", false, "Evict pods with emptyDir volumes too.")
	flags.BoolVar(&d.drain.Force, "force", false, "Evict pods without a controller too.")
	flags.BoolVar(&d.drain.DisableEviction, "disable-eviction", false, "Delete pods without checking PodDisruptionBudgets.")
	flags.BoolVar(&d.failOnIgnored, "fail-on-ignored", false, "Exit 3 if pods of other schedulers would be evicted.")
	d.complete(cmd)
	return cmd
}

// run reads the cluster, drains the nodes of a copy, and prints the result for each pod.
func (d *drainFlags) run(ctx context.Context, names []string, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	selector, err := d.selectors(names)
	if err != nil {
		return wrong{err}
	}
	scheduler, cluster, err := d.read(ctx, stdin, bar)
	if err != nil {
		return err
	}
	if d.drain.Nodes, err = nodesToDrain(cluster, names, selector, d.selects); err != nil {
		return wrong{err}
	}
	d.drain.Prepare = d.setAside
	result, err := simulate.RunDrain(simulate.Config{Scheduler: scheduler, Seed: d.seed}, cluster, d.drain, func(done, total int) {
		bar.show("Draining", int64(done), int64(total))
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	bar.clear()
	d.noteAssumed(stderr)
	notes(stderr, scheduler, cluster)
	if result.Others > 0 {
		fmt.Fprintf(stderr, "Note: other pending pods of the cluster were scheduled before and are not listed: %d\n", result.Others)
	}
	if err := d.print(stdout, result); err != nil {
		return err
	}
	return verdictOf(result, d.failOnIgnored)
}

// selectors checks the arguments and parses the selectors. Without --selector it returns
// nil.
func (d *drainFlags) selectors(names []string) (labels.Selector, error) {
	var nodes labels.Selector
	switch {
	case d.selects != "" && len(names) > 0:
		return nil, fmt.Errorf("nodes %q and --selector %q are both given: give one of the two", names, d.selects)
	case d.selects == "" && len(names) == 0:
		return nil, errors.New("no node is given: name nodes, or select them with -l, such as -l pool=old")
	case *d.connection.flags.Namespace != "":
		return nil, fmt.Errorf("--namespace %q: not supported, because a drain evicts the pods of all namespaces; omit the flag", *d.connection.flags.Namespace)
	}
	if d.podSelector != "" {
		pods, err := labels.Parse(d.podSelector)
		if err != nil {
			return nil, fmt.Errorf("--pod-selector %q: must be a selector of labels, such as app=web,tier!=db: %w", d.podSelector, err)
		}
		d.drain.PodSelector = pods
	}
	if d.selects != "" {
		nodes = d.selector
	}
	return nodes, nil
}

// nodesToDrain returns the names of the nodes, in the given order, or sorted for a
// selector.
func nodesToDrain(cluster *manifest.Cluster, names []string, selector labels.Selector, text string) ([]string, error) {
	var all, selected []string
	for _, node := range cluster.Nodes {
		all = append(all, node.Name)
		if selector != nil && selector.Matches(labels.Set(node.Labels)) {
			selected = append(selected, node.Name)
		}
	}
	if selector != nil {
		if len(selected) == 0 {
			return nil, fmt.Errorf("--selector %q: selects none of the %d nodes", text, len(all))
		}
		slices.Sort(selected)
		return selected, nil
	}
	for i, name := range names {
		// kubectl accepts these prefixes, too.
		name = strings.TrimPrefix(strings.TrimPrefix(name, "nodes/"), "node/")
		switch {
		case !slices.Contains(all, name):
			return nil, fmt.Errorf("node %q not found%s", name, hintOf(all, name, "node"))
		case !slices.Contains(selected, name):
			selected = append(selected, name)
		default:
			return nil, fmt.Errorf("node %q is given twice: %q", name, names[:i+1])
		}
	}
	return selected, nil
}

// verdictOf returns an error with exit code 3 if the drain would not end, or a pod would
// find no node. With failOnIgnored, pods of schedulers without a profile count as well.
func verdictOf(result *simulate.DrainResult, failOnIgnored bool) error {
	undrained, homeless, ignored := 0, 0, 0
	for i := range result.Nodes {
		if result.Nodes[i].Status != simulate.Drained {
			undrained++
		}
	}
	evicted := 0
	for i := range result.Pods {
		p := &result.Pods[i]
		if p.Wave > 0 && p.Status != simulate.Gone {
			evicted++
			switch p.Status {
			case simulate.Scheduled:
			case simulate.Ignored:
				ignored++
			default:
				homeless++
			}
		}
	}
	var texts []string
	if undrained > 0 {
		texts = append(texts, fmt.Sprintf("%d of %d nodes would not be drained", undrained, len(result.Nodes)))
	}
	if homeless > 0 {
		texts = append(texts, fmt.Sprintf("%d of %d evicted pods would stay pending", homeless, evicted))
	}
	if failOnIgnored && ignored > 0 {
		texts = append(texts, fmt.Sprintf("%d of %d evicted pods belong to schedulers without a profile", ignored, evicted))
	}
	if texts == nil {
		return nil
	}
	return negative{errors.New(strings.Join(texts, "; "))}
}

// negative is a result that means "no".
type negative struct{ error }

// ExitCode returns 3.
func (negative) ExitCode() int { return 3 }

func (d *drainFlags) print(w io.Writer, result *simulate.DrainResult) error {
	done, err := d.printing.print(w, listing{
		object: result, rows: rowsOf(result.Pods), table: func() *table { return drainedPods(result.Pods) },
		names: func() []string { return podNames(len(result.Pods), func(i int) string { return result.Pods[i].Pod }) },
	})
	if done {
		return err
	}
	b := d.blocks(w)
	if len(result.Pods) == 0 && !d.noHeaders {
		b.line("There is no pod to evict.")
	}
	b.table(drainedPods(result.Pods))
	if !d.noHeaders {
		nodes := newTable("NODE", "STATUS", "EVICTED>", "LEFT>", "MESSAGE~")
		for i := range result.Nodes {
			n := &result.Nodes[i]
			nodes.add(n.Node, n.Status, n.Evicted, n.Left, n.Message)
		}
		b.table(nodes)
		b.table(evictionTable(result.Evictions))
		printDrainSummary(b, result)
	}
	return b.end()
}

func drainedPods(pods []simulate.DrainedPod) *table {
	t := newTable("NAMESPACE", "POD", "OWNER", "FROM", "TO", "STATUS", "MESSAGE~")
	for i := range pods {
		p := &pods[i]
		t.add(p.Namespace, p.Pod, orNone(p.Owner), p.From, orNone(p.To), p.Status, p.Message)
	}
	return t
}

func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

// printDrainSummary prints where the pods go by zone, and the utilization of the zones.
func printDrainSummary(b *blocks, result *simulate.DrainResult) {
	s := &result.Summary
	ignored := 0
	for i := range result.Pods {
		if p := &result.Pods[i]; p.Wave > 0 && p.Status == simulate.Ignored {
			ignored++
		}
	}
	others := ""
	if ignored > 0 {
		others = fmt.Sprintf("; pods of schedulers without a profile: %d", ignored)
	}
	b.line("Recreated pods: %d, %d of them placed%s. Nodes: %d, %d of them unschedulable.", s.Placed+s.Waiting, s.Placed, others, s.Nodes, s.Unschedulable)
	b.table(zoneTable(s.Zones))
}
