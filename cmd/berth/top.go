package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/capacity"
	"github.com/berth-scheduler/berth/internal/offline/live"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// topFlags are the flags of top.
type topFlags struct {
	*input
	kind      string // an element of topOf
	poolLabel string
}

// topOf are the arguments of top.
var topOf = []string{"nodes", "pools", "zones"}

// poolLabels are the labels by which providers name the pool of a node.
var poolLabels = []string{
	"karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup",
	"kubernetes.azure.com/agentpool", v1.LabelInstanceTypeStable,
}

func newTopCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top nodes|pools|zones",
		Short: "Show the free capacity of nodes, pools or zones, and the largest pod that fits",
		Long: `Show the free capacity of nodes, pools or zones, and the largest pod that fits.

The command reads the pods and nodes of the cluster with your own permissions, or of the snapshot of -f. It counts
requests, as the scheduler does, not usage. For each row it shows the free and the allocatable amounts:
  PODS       Places for pods.
  MAX POD    The most cpu, and the most memory, that one more pod can request on one of the nodes.
  FRAG       The share of the free cpu, and of the free memory, on fragmented nodes: nodes with less than a quarter
             of their cpu or of their memory free.
  DEVICES    Extended resources, and devices of DRA drivers on one node.
Cordoned nodes have nothing free. Taints, affinity and volumes are not considered: "berth fit" counts how many pods
of one kind fit.`,
		Example: `  # Which nodes have room?
  kubectl berth top nodes --sort-by cpu

  # How full are the pools?
  kubectl berth top pools

  # How full are the zones of the GPU nodes, from a snapshot?
  berth top zones -f cluster.yaml -l accelerator=a100`,
		ValidArgs: topOf,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || topKind(args[0]) == "" {
				return wrong{fmt.Errorf("%q takes one of nodes, pools or zones, got %q", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.kind = topKind(args[0])
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.input = newInputOf(flags, "filename", "f",
		prints{outputs: nameOutputs, bare: true, jsonpath: "{.rows[*].name}", columns: "NAME:.name", of: "nodes", sorts: sortKeys("name", topOrders)})
	_ = flags.MarkHidden("namespace") // has no effect, or is an error
	f.complete(cmd)
	flags.StringVar(&f.poolLabel, "pool-label", "",
		"Label that names the pool of a node (default: the first of "+strings.Join(poolLabels, ", ")+
			" that a node has).")
	return cmd
}

// topKind returns the value of topOf for an argument, which kubectl's users also give in
// the singular; empty without one.
func topKind(arg string) string {
	for _, kind := range topOf {
		if arg == kind || arg == strings.TrimSuffix(kind, "s") || resourceWords[arg]+"s" == kind {
			return kind
		}
	}
	return ""
}

// topOrders are the values of --sort-by.
var topOrders = map[string]func(a, b *capacity.Group) int{
	"name":   func(_, _ *capacity.Group) int { return 0 },
	"nodes":  func(a, b *capacity.Group) int { return cmp.Compare(b.Nodes, a.Nodes) },
	"pods":   func(a, b *capacity.Group) int { return b.Pods.Free.Cmp(a.Pods.Free) },
	"cpu":    func(a, b *capacity.Group) int { return b.CPU.Free.Cmp(a.CPU.Free) },
	"memory": func(a, b *capacity.Group) int { return b.Memory.Free.Cmp(a.Memory.Free) },
}

// topAnswer is the output of top as an object.
type topAnswer struct {
	Of string `json:"of"`
	// Label is the label by which nodes are put together; empty for nodes.
	Label string           `json:"label,omitempty"`
	Rows  []capacity.Group `json:"rows"`
}

// run reads the cluster, counts and prints.
func (f *topFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := f.checkFlags(); err != nil {
		return err
	}
	bar := newProgress(stderr)
	defer bar.clear()
	cluster, err := f.readTop(ctx, stdin, stderr, bar)
	if err != nil {
		return err
	}
	bar.clear()
	nodes := slices.DeleteFunc(slices.Clone(cluster.Nodes),
		func(n *v1.Node) bool { return !f.selector.Matches(labels.Set(n.Labels)) })
	if len(nodes) == 0 {
		fmt.Fprintf(stderr, "No node%s was found.\n", with(" with the labels ", f.selects))
	}
	answer := topAnswer{Of: f.kind, Label: f.label(nodes)}
	answer.Rows = capacity.Count(cluster, nodes, func(n *v1.Node) string {
		if answer.Label == "" {
			return n.Name
		}
		return n.Labels[answer.Label]
	})
	order := topOrders[f.sortBy]
	slices.SortStableFunc(answer.Rows, func(a, b capacity.Group) int { return order(&a, &b) })
	return f.print(stdout, &answer)
}

// with returns a text after its beginning, or "" without a text.
func with(begin, text string) string {
	if text == "" {
		return ""
	}
	return begin + text
}

// checkFlags checks the flags of top alone.
func (f *topFlags) checkFlags() error {
	if f.poolLabel != "" {
		if f.kind != "pools" {
			return wrong{fmt.Errorf("--pool-label %q: is for pools, not for %s", f.poolLabel, f.kind)}
		}
		if err := checkLabelOf("--pool-label", f.poolLabel); err != nil {
			return wrong{err}
		}
	}
	if of := *f.connection.flags.Namespace; of != "" {
		return wrong{fmt.Errorf("--namespace %q: not supported, because the pods of all namespaces count: "+
			"omit the flag", of)}
	}
	return nil
}

// readTop reads pods, nodes and devices.
func (f *topFlags) readTop(
	ctx context.Context, stdin io.Reader, stderr io.Writer, bar *progress,
) (*manifest.Cluster, error) {
	if len(f.files) > 0 {
		return f.readFiles(manifest.Options{Progress: bar.reading}, stdin)
	}
	access, err := f.connection.access()
	if err != nil {
		return nil, wrong{fmt.Errorf("%w; or name the cluster's files with %s", err, f.filesFlag)}
	}
	kinds := []model.Kind{model.PodKind, model.NodeKind, model.ResourceSliceKind, model.ResourceClaimKind}
	found, err := live.List(ctx, live.Request{Access: access, Kinds: kinds, Progress: bar.reading})
	if err != nil {
		return nil, fmt.Errorf("read the cluster: %w", err)
	}
	bar.clear()
	var missing live.MissingRights
	for _, name := range found.Forbidden {
		switch name {
		case "pods", "nodes":
			missing.Resources = append(missing.Resources, name)
		case "resourceslices":
			fmt.Fprintln(stderr, "Note: you may not list resourceslices: devices of DRA drivers are missing")
		case "resourceclaims":
			fmt.Fprintln(stderr, "Note: you may not list resourceclaims: devices of DRA drivers are missing")
			found.Cluster.ResourceSlices = nil
		}
	}
	if len(missing.Resources) > 0 {
		return nil, fmt.Errorf("read the cluster: %w", &missing)
	}
	return found.Cluster, nil
}

// label returns the label by which nodes are put together; "" for nodes.
func (f *topFlags) label(nodes []*v1.Node) string {
	switch {
	case f.kind == "nodes":
		return ""
	case f.kind == "zones":
		return v1.LabelTopologyZone
	case f.poolLabel != "":
		return f.poolLabel
	}
	for _, label := range poolLabels {
		if slices.ContainsFunc(nodes, func(n *v1.Node) bool { return n.Labels[label] != "" }) {
			return label
		}
	}
	return v1.LabelInstanceTypeStable
}

// print prints the rows.
func (f *topFlags) print(w io.Writer, a *topAnswer) error {
	done, err := f.printing.print(w, listing{
		object: a, rows: rowsOf(a.Rows), table: func() *table { return topTable(a) },
		names: func() (names []string) {
			for i := range a.Rows {
				names = append(names, cmp.Or(map[bool]string{true: "node/"}[a.Label == ""]+a.Rows[i].Name, "<none>"))
			}
			return names
		},
	})
	if done {
		return err
	}
	if len(a.Rows) == 0 {
		return nil
	}
	t := topTable(a)
	if err := t.print(w, widthOf(w), !f.noHeaders); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if a.Of == "pools" && !f.noHeaders {
		fmt.Fprintf(w, "\nA pool has the nodes of one value of the label %s.\n", a.Label)
	}
	return nil
}

// topTable returns the table of the rows.
func topTable(a *topAnswer) *table {
	t := &table{columns: []column{{name: strings.ToUpper(strings.TrimSuffix(a.Of, "s"))}}}
	if a.Label != "" {
		t.columns = append(t.columns, column{name: "NODES", number: true})
	}
	for _, name := range []string{"PODS", "CPU", "MEMORY", "MAX POD", "FRAG"} {
		t.columns = append(t.columns, column{name: name, number: true})
	}
	t.columns = append(t.columns, column{name: "DEVICES", text: true})
	for i := range a.Rows {
		g := &a.Rows[i]
		row := []string{cmp.Or(g.Name, "<none>")}
		if a.Label != "" {
			row = append(row, fmt.Sprint(g.Nodes))
		}
		largest := "-"
		if g.LargestCPU != nil {
			largest = amount("cpu", g.LargestCPU.CPU) + "/" + amount("memory", g.LargestMemory.Memory)
		}
		row = append(row, freeOf("pods", &g.Pods), freeOf("cpu", &g.CPU), freeOf("memory", &g.Memory), largest,
			fmt.Sprintf("%d/%d%%", g.CPU.FragmentedPercent, g.Memory.FragmentedPercent), notesOf(g))
		t.rows = append(t.rows, row)
	}
	return t
}

// freeOf formats the free and the allocatable amount.
func freeOf(name string, a *capacity.Amount) string {
	return amount(name, a.Free) + "/" + amount(name, a.Allocatable)
}

// notesOf lists the devices, and the cordoned nodes.
func notesOf(g *capacity.Group) string {
	var all []string
	for _, d := range g.Devices {
		all = append(all, fmt.Sprintf("%s %d/%d", d.Name, d.Free, d.Allocatable))
	}
	switch {
	case g.Unschedulable == 0:
	case g.Nodes == 1:
		all = append(all, "cordoned")
	default:
		all = append(all, fmt.Sprintf("%d cordoned", g.Unschedulable))
	}
	return strings.Join(all, ", ")
}
